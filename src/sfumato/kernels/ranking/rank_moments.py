"""Rankings that need no law: expected ranks, and exponential ranking functions (PRFe)."""

import numpy as np

from sfumato.kernels.compile import compiled


@compiled
def expected_rank_sums(prob, rule, rules, item_tuple, tuples):
    """Expected rank of every tuple, float64[tuples], best 0; where it is absent the world's size.

    prob : float64[m], all items in rank order;  rule : int64[m] in [-1, rules), -1 for no rule
    item_tuple : int64[m] in [0, tuples); the items of a tuple of several share its rule
    O(m).  Error: relative, about 2 m u.  Source: expected ranks of Cormode, Li and Yi (2009), as
    named in D, section 2, for rules of any shape.
    """
    everything = 0.0
    total, own = np.zeros(rules), np.zeros(tuples)
    for i in range(prob.size):
        everything += prob[i]
        own[item_tuple[i]] += prob[i]
        if rule[i] >= 0:
            total[rule[i]] += prob[i]
    out, seen = np.zeros(tuples), np.zeros(tuples, dtype=np.bool_)
    above, above_rule = 0.0, np.zeros(rules)
    for i in range(prob.size):
        t, r = item_tuple[i], rule[i]
        mass = total[r] if r >= 0 else own[t]
        if not seen[t]:
            # Absent: all of the other rules, and what of its own rule is not the tuple itself.
            out[t] += (1.0 - min(own[t], 1.0)) * (everything - mass) + (mass - own[t])
            seen[t] = True
        out[t] += prob[i] * (above - (above_rule[r] if r >= 0 else 0.0))
        above += prob[i]
        if r >= 0:
            above_rule[r] += prob[i]
    return out


@compiled
def exponential_ranks(prob, rule, rules, alpha):
    """Sum over j >= 1 of alpha**j Pr(rank(x) = j), for each item x: float64[m].

    prob : float64[m] in (0, 1], all items in rank order;  rule : int64[m] in [-1, rules)
    alpha : float64 in (0, 1]
    O(m): the generating function of the count above, at alpha. A scalar, so one's own rule may be
    divided out: its factor is at least alpha.  Error: relative, 4 m u.
    Source: PRFe of Li, Saha and Deshpande (2009), as named in D, section 2.
    """
    out = np.empty(prob.size)
    value = 1.0
    mass = np.zeros(rules)
    for i in range(prob.size):
        r = rule[i]
        before = mass[r] if r >= 0 else 0.0
        others = value / (1.0 - before + before * alpha)
        out[i] = prob[i] * alpha * others
        now = min(before + prob[i], 1.0)
        value = others * (1.0 - now + now * alpha)
        if r >= 0:
            mass[r] = now
    return out
