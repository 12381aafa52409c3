"""The distribution of a tuple's rank, and its moments.

A node of the tree is a range of positions [a, b); its law is the product of the factors (see
`Factors`) that hold on all of [a, b). A factor enters at the O(log m) nodes that its range
covers and whose parent's it does not. Only multiplications of probabilities: each entry of a law
keeps its relative precision. (Dividing one's own rule out again would be shorter, and has no
digits left after some hundred ordinary pairs.) Depth first, one law and one list a level.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.poisson_binomial import LANES, MARGIN, convolve_four, copy, trim
from sfumato.kernels.tolerances import CERTAIN, NEGLIGIBLE

# Entries below this leave a law at its ends: at most one for each factor and count on the way
# from the root to a leaf, so that less than (m + k) * 1e-20 is lost in all.
LEVELS = 64


class RankTree(NamedTuple):
    """The path from the root to the node at work; level 0 stands above the root.

    laws : float64[levels + 1, size], laws[d, j + MARGIN] = Pr(j of the factors exist), j < most,
        in the band [low[d], high[d]); the last row is scratch
    items : int64[...], from at[d] on: parts[d] items whose factors hold on a part of the node
    masses : float64[m], scratch
    """

    laws: np.ndarray
    low: np.ndarray
    high: np.ndarray
    items: np.ndarray
    at: np.ndarray
    parts: np.ndarray
    masses: np.ndarray


@compiled
def plant(begin, end, most, block):
    """A tree over positions [begin, end), leaves up to `block`, laws of counts below `most`."""
    levels, length = 2, end - begin
    while length > block:
        length = (length + 1) // 2
        levels += 1
    laws = np.empty((levels + 1, most + 2 * MARGIN + 3 * (MARGIN + LANES)))
    laws[0, MARGIN] = 1.0
    low = np.zeros(levels, dtype=np.int64)
    high = np.ones(levels, dtype=np.int64)
    at = np.zeros(levels, dtype=np.int64)
    parts = np.zeros(levels, dtype=np.int64)
    # Within a node of some length, at most as many factors begin and as many end.
    room, length = end, end - begin
    for d in range(1, levels):
        at[d] = room
        room += 2 * length + 2
        length = (length + 1) // 2
    items = np.empty(room, dtype=np.int64)
    for i in range(end):
        items[i] = i
    parts[0] = end
    return RankTree(laws, low, high, items, at, parts, np.empty(end))


@compiled
def enter(tree, depth, a, b, factors, most):
    """Go down to the node [a, b) at `depth` from its parent: its law, and its list of parts."""
    mass, after = factors.mass, factors.after
    parent, own = tree.at[depth - 1], tree.at[depth]
    full, kept = 0, 0
    for j in range(parent, parent + tree.parts[depth - 1]):
        i = tree.items[j]
        end = after[i]
        if i + 1 < b and end > a and end > i + 1:
            if i < a and end >= b:
                tree.masses[full] = mass[i]
                full += 1
            else:
                tree.items[own + kept] = i
                kept += 1
    tree.parts[depth] = kept
    source, low, high = tree.laws[depth - 1], tree.low[depth - 1], tree.high[depth - 1]
    target, masses = tree.laws[depth], tree.masses[:full]
    passes = (full + 3) // 4
    if passes == 0:
        copy(source, low + MARGIN, target, low + MARGIN, high - low)
    for step in range(passes):
        # In turns, so that the last pass ends in this level's own law.
        result = target if (passes - step) % 2 == 1 else tree.laws[tree.low.size]
        convolve_four(source, low, high, masses, 4 * step, result)
        low, high = trim(result, low, min(high + min(4, full - 4 * step), most), NEGLIGIBLE)
        source = result
    tree.low[depth], tree.high[depth] = low, high


ITEMS_PER_LEAF = 4  # at most three factors hold on a part of such a leaf only: one fused pass


@compiled
def longer(array, used, needed):
    """`array`, or a longer one with the same first `used` entries and room for `needed`."""
    if needed <= array.size:
        return array
    result = np.empty(2 * needed)
    result[:used] = array[:used]
    return result


@compiled
def rank_laws(factors, end, most):
    """Pr(rank(x) = j + 1) for j < most: exists, and exactly j items of other rules are above.

    factors : `Factors` of the items in rank order;  end : int <= m
    Returns start int64[end + 1], first int64[end] and law float64[start[end]]: item x has
    Pr(rank = first[x] + 1 + i) = law[start[x] + i]; all other ranks below `most` are negligible.
    Cost: O(end log(end) band); memory O(end band), the band about 10 standard deviations.
    Error: as top_k_tails.  Source: D, (2), offline as a segment tree over the rank positions.
    """
    prob, mass, after = factors.prob, factors.mass, factors.after
    start, first = np.zeros(end + 1, dtype=np.int64), np.zeros(end, dtype=np.int64)
    law = np.empty(16 * end + 16)
    if end == 0:
        return start, first, law[:0]
    tree = plant(0, end, most, ITEMS_PER_LEAF)
    result, active = np.empty(most + 2 * MARGIN + 3 * (MARGIN + LANES)), np.empty(ITEMS_PER_LEAF)
    waiting = np.empty((LEVELS, 3), dtype=np.int64)
    waiting[0] = (0, end, 1)
    top = 1
    while top:
        top -= 1
        a, b, depth = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        enter(tree, depth, a, b, factors, most)
        if b - a > ITEMS_PER_LEAF:
            middle = (a + b + 1) // 2
            waiting[top] = (middle, b, depth + 1)
            waiting[top + 1] = (a, middle, depth + 1)
            top += 2
            continue
        own, low = tree.at[depth], tree.low[depth]
        for x in range(a, b):
            count = 0
            for j in range(own, own + tree.parts[depth]):
                i = tree.items[j]
                if i < x < after[i]:
                    active[count] = mass[i]
                    count += 1
            convolve_four(tree.laws[depth], low, tree.high[depth], active[:count], 0, result)
            width = min(tree.high[depth] + count, most) - low
            law = longer(law, start[x], start[x] + width)
            for j in range(width):
                law[start[x] + j] = prob[x] * result[low + MARGIN + j]
            first[x], start[x + 1] = low, start[x] + width
    return start, first, law[: start[end]]


@compiled
def weigh_ranks(start, first, law, weights):
    """Sum over j of weights[j] * Pr(rank(x) = j + 1), for each x.

    start, first, law : as from rank_laws with most <= weights.size;  weights : float64[most]
    Returns float64[end].  Cost: one pass over the laws.  Source: PRF(omega) of Li, Saha and
    Deshpande (2009), as named in D, section 2.
    """
    out = np.zeros(first.size)
    for x in range(first.size):
        total = 0.0
        for j in range(start[x], start[x + 1]):
            total += law[j] * weights[first[x] + j - start[x]]
        out[x] = total
    return out


@compiled
def likeliest_at_ranks(start, first, law, begins, members, most):
    """For each rank the tuple most probable there: U-kRanks.

    start, first, law : of the items, as from rank_laws
    begins, members : tuple t's items are members[begins[t] : begins[t + 1]]; tuples in the order
        in which ties, to within 1e-12, are to be decided
    Returns place int64[most] (the tuple, -1 if none can have that rank) and its float64[most].
    Cost: one pass over the laws.  Source: U-kRanks of Soliman et al. (2007), as in D, section 2.
    """
    place, best = np.full(most, -1), np.zeros(most)
    total = np.zeros(most)
    for t in range(begins.size - 1):
        low, high = most, 0
        for i in range(begins[t], begins[t + 1]):
            x = members[i]
            width = start[x + 1] - start[x]
            low, high = min(low, first[x]), max(high, first[x] + width)
            for j in range(width):
                total[first[x] + j] += law[start[x] + j]
        for j in range(low, high):
            if total[j] > best[j] + CERTAIN or (place[j] < 0 and total[j] > 0.0):
                place[j], best[j] = t, total[j]
            total[j] = 0.0
    return place, best


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
