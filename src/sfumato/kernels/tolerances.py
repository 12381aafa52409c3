"""Tolerances for probabilities and rounding errors, with their reasons.

Dropped probabilities are far below the rounding errors of the results; a float64 near 1 is exact to
1e-16. Tolerances for ties are well above the rounding errors of the compared sums.
"""

# Rounding error of one operation: the distance from 1 to the next float64, and half of it.
EPSILON = 2.0**-52
UNIT_ROUNDOFF = 2.0**-53
BELOW_ONE = 1.0 - UNIT_ROUNDOFF  # the largest float64 below 1; larger values are 1

# A computed probability within this distance of 1 counts as 1; the errors of all are smaller.
CERTAIN = 1e-12

# A probability, or the sum of a tuple's alternatives, may exceed 1 by this much through rounding.
SUM_TOLERANCE = 1e-9

# Probabilities dropped at the ends of a distribution, or together with their worlds: ten thousand
# of them are less than one rounding error of the total.
NEGLIGIBLE = 1e-20
NEGLIGIBLE_STATE = 1e-19  # states of a sum; fewer states than counts are dropped
NEGLIGIBLE_POSITION = 1e-22  # positions of a tuple; each of thousands of tuples drops some
NEGLIGIBLE_COUNT = 1e-25  # a count shared by all tuples; at most 1e-14 of tails above 1e-11
NEGLIGIBLE_DEEP = 1e-19  # contributions of candidates that may lie outside a window
NEGLIGIBLE_REACH = 1e-30  # probability of reaching a value below which an extreme is cut off
UNLIKELY_EXPONENT = 42.0  # exp(-42) = 6e-19 is treated as probability 0
UNDERFLOW = 1e-300  # where even the farthest tails must be precise

# A smaller outcome is a difference of numbers near 1, not a probability.
LEAST_OUTCOME = 1e-17
# A smaller share of the value it was subtracted from is rounding error, not an outcome.
OUTCOME_ROUNDING = 1e-15
# A smaller remainder of a tuple, or of terms that cancel, is rounding error.
REMAINDER = 2.0**-50

# A share or level missed by at most this much counts as reached: sums of shares have such errors.
SHARE_TIE = 1e-12
# Vectors with log probabilities this close are equally probable: sums of dozens of logarithms.
LOG_TIE = 1e-10
# A bound for sifting samples may exceed the probability by this much plus rounding errors.
SIFT_SLACK = 1e-9
