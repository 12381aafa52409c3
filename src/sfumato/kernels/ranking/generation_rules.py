"""Factors of the distribution of the number of items above a position; undecided positions.

Items are in rank order, best first. At position x, every generation rule except the rule of x acts
as an independent tuple that exists with the mass of its members above x (Chen et al. 2013, section
3). Each such rule contributes a factor 1 - m + m z to the distribution of the number of items
above. Item i therefore adds one factor, with the mass of its rule up to i. The factor holds for the
positions strictly between i and the rule's next member.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled

NO_MEMBER = 2**62  # `after` of a rule's last member
RULE_CUT = 80.0  # twice the exponent of a negligible probability: exp(-40) = 4e-18


class Factors(NamedTuple):
    """Factors of m items, in rank order, of the distributions of numbers of items above a position.

    prob : float64[m] in (0, 1], probability of the item itself
    mass : float64[m], mass of its rule up to and including the item, at most 1
    after : int64[m], position of the rule's next member, where this factor ends; NO_MEMBER if none
    """

    prob: np.ndarray
    mass: np.ndarray
    after: np.ndarray


@compiled
def rule_factors(prob, rule, rules):
    """Return the `Factors` of items in rank order.  O(m + rules).

    prob : float64[m] in (0, 1];  rule : int64[m] in [-1, rules), -1 for no rule
    Source: Chen et al. (2013), section 3 (compressed rules).
    """
    m = prob.size
    mass = prob.copy()
    after = np.full(m, NO_MEMBER)
    last = np.full(rules, -1)
    for i in range(m):
        if rule[i] >= 0:
            before = last[rule[i]]
            if before >= 0:
                after[before] = i
                mass[i] += mass[before]
            last[rule[i]] = i
        mass[i] = min(mass[i], 1.0)
    return Factors(prob, mass, after)


@compiled
def undecided(factors, least, most):
    """Return the positions where Pr(fewer than k above) may not be 1 or 0, for least <= k <= most.

    Returns (begin, end). Before position `begin`, the probability that at least `least` items are
    above is < 4e-18. From `end` onwards, the probability that fewer than `most` items are above is
    < 4e-18; end = m if there is no such position.
    O(m).  Source: Bernstein's and Chernoff's bounds for sums of independent variables, for all
    rules above; leaving out the item's own rule changes the mean by at most 1.
    """
    prob, mass = factors.prob, factors.mass
    mean, variance, rules = 0.0, 0.0, 0
    begin, m = 0, prob.size
    for x in range(m):
        short = least - mean
        if rules < least or (short > 0 and short * short > RULE_CUT * (variance + short / 3)):
            begin = x + 1
        spare = mean - most
        sure = variance == 0.0 and spare >= 0  # all items above are certain
        if sure or (spare > 0 and spare * spare > RULE_CUT * min(variance + spare / 3, mean)):
            return min(begin, x), x
        before = mass[x] - prob[x]
        if before <= 0.0:
            before = 0.0
            rules += 1
        mean += mass[x] - before
        variance = max(variance + mass[x] * (1 - mass[x]) - before * (1 - before), 0.0)
    return begin, m
