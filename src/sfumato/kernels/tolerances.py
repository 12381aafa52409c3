"""Tolerances for probabilities and rounding errors, with their reasons.

Dropped probabilities are far below the rounding errors of the results; a float64 near 1 is exact to
1e-16. Tolerances for ties are well above the rounding errors of the compared sums.
"""

# Rounding error of one operation: the distance from 1 to the next float64, and half of it.
EPSILON = 2.0**-52
UNIT_ROUNDOFF = 2.0**-53
BELOW_ONE = 1.0 - UNIT_ROUNDOFF  # the largest float64 below 1; larger values are 1

# A computed probability within this distance of 1 is treated as 1; rounding errors are smaller.
CERTAIN = 1e-12

# A probability, or the sum of a tuple's alternatives, may exceed 1 by this much through rounding.
SUM_TOLERANCE = 1e-9

# Probabilities below this are dropped at the ends of a distribution, or with their worlds. The sum
# of ten thousand such probabilities is below one rounding error of the total.
NEGLIGIBLE = 1e-20
NEGLIGIBLE_STATE = 1e-19  # states of a sum; higher, because few states are dropped
NEGLIGIBLE_POSITION = 1e-22  # counts of newer tuples; lower, because each tuple drops some
NEGLIGIBLE_COUNT = 1e-25  # counts of all tuples; changes tails above 1e-11 by at most 1e-14
NEGLIGIBLE_DEEP = 1e-19  # contributions of candidates that may lie outside a window
NEGLIGIBLE_REACH = 1e-30  # values reached with a lower probability cannot be an extreme
UNLIKELY_EXPONENT = 42.0  # exp(-42) = 6e-19 is treated as probability 0
UNDERFLOW = 1e-300  # used if even the farthest tails must be precise

# A smaller probability of an outcome is the rounding error of a difference of numbers near 1.
LEAST_OUTCOME = 1e-17
# A difference that is a smaller share of the minuend is rounding error, not a probability.
OUTCOME_ROUNDING = 1e-15
# A smaller remainder of a tuple's probability, or of terms that cancel, is rounding error.
REMAINDER = 2.0**-50

# A sum of shares that is below a level by at most this much reaches it, because sums are rounded.
SHARE_TIE = 1e-12
# Vectors are equally probable if their log probabilities, which are sums of dozens of logarithms,
# differ by at most this much.
LOG_TIE = 1e-10
# Relative slack of the bounds by which joins exclude samples and pairs; above rounding errors.
SIFT_SLACK = 1e-9
