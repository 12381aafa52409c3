"""The law of each item's rank, and what is read off it: U-kRanks, and ranking functions (PRF)."""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.existence import CERTAIN
from sfumato.kernels.laws.poisson_binomial import LANES, MARGIN, convolve_four
from sfumato.kernels.ranking.rank_tree import LEVELS, enter, plant

LEAF = 4  # at most three factors hold on a part of such a leaf only: one fused pass


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
    tree = plant(0, end, most, LEAF)
    result, active = np.empty(most + 2 * MARGIN + 3 * (MARGIN + LANES)), np.empty(LEAF)
    waiting = np.empty((LEVELS, 3), dtype=np.int64)
    waiting[0] = (0, end, 1)
    top = 1
    while top:
        top -= 1
        a, b, depth = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        enter(tree, depth, a, b, factors, most)
        if b - a > LEAF:
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
