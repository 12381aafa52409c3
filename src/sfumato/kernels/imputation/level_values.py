"""Fewer alternatives of a calibrated attribute: its values at evenly spaced levels of probability.

The ranges that were calibrated shall stay as they are. Means of near values would move their ends,
so values are kept as they stand: those at even levels from 5% to 95%, each with the probability
from halfway to the level before to halfway to the next. The range of probability 90% is the same
then, and what lies beyond it is taken to its ends. Fewer than ten stand for equal shares.
"""

from sfumato.kernels.compile import lean

LOWEST = 0.05  # level kept of ten or more
ROUNDING = 1e-12  # a level is reached that roundings keep off by less


@lean
def keep_levels(law, weight, k, total, most):
    """At most `most` of k values, ascending, in place: (how many, the farthest one was moved).

    weight : of sum `total`; of what is kept of sum 1, if there were more than `most`.  O(k + most)
    """
    if k <= most:
        return k, 0.0
    lowest = max(LOWEST, 0.5 / most)
    step = (1.0 - 2.0 * lowest) / max(most - 1, 1)
    kept, farthest, j, cumulated, start, least = 0, 0.0, 0, weight[0] / total, 0.0, law[0]
    for i in range(most):
        level = lowest + i * step
        end = level + 0.5 * step if i < most - 1 else 1.0
        while cumulated < level - ROUNDING and j < k - 1:
            j += 1
            cumulated += weight[j] / total
        value = law[j]
        farthest = max(farthest, value - least)
        while cumulated < end - ROUNDING and j < k - 1:
            j += 1
            cumulated += weight[j] / total
        least = law[j]
        farthest = max(farthest, least - value)
        if kept > 0 and law[kept - 1] == value:
            weight[kept - 1] += end - start
        else:  # never behind what is still read
            law[kept], weight[kept] = value, end - start
            kept += 1
        start = end
    return kept, farthest
