"""Fewer alternatives of a calibrated attribute: its values at evenly spaced levels of probability.

The ranges that were calibrated shall stay as they are. Means of near values would move their ends,
so values are kept as they stand: those at even levels from 5% to 95%, each with the probability
from halfway to the level before to halfway to the next. The range of probability 90% is the same
then, and what lies beyond it is taken to its ends. Of 24 and more values two stand beyond at each
end, so that the range of probability 99% is the same, too. Fewer than ten stand for equal shares.
"""

from sfumato.kernels.compile import lean, lean_inline

LOWEST = 0.05  # level kept of ten or more
MANY = 24  # values of which two at each end stand for the levels below
FIRST, SECOND = 0.005, 0.025
ROUNDING = 1e-12  # a level is reached that roundings keep off by less


@lean_inline
def level_of(i, most):
    """The level of probability of value i of `most`, before rounding: in (0, 1), ascending."""
    if most >= MANY and i < 2:
        return FIRST if i == 0 else SECOND
    if most >= MANY and i >= most - 2:
        return 1.0 - (FIRST if i == most - 1 else SECOND)
    ends = 2 if most >= MANY else 0
    lowest = max(LOWEST, 0.5 / most)
    return lowest + (i - ends) * (1.0 - 2.0 * lowest) / max(most - 1 - 2 * ends, 1)


@lean
def keep_levels(law, weight, k, total, most):
    """At most `most` of k values, ascending, in place: (how many, the farthest one was moved).

    weight : of sum `total`; of what is kept of sum 1, if there were more than `most`.  O(k + most)
    """
    if k <= most:
        return k, 0.0
    kept, farthest, j, cumulated, start, least = 0, 0.0, 0, weight[0] / total, 0.0, law[0]
    for i in range(most):
        level = level_of(i, most)
        end = 0.5 * (level + level_of(i + 1, most)) if i < most - 1 else 1.0
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
