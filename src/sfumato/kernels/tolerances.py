"""Every tolerance of probabilities and roundings, each with its reason.

What is dropped is far below what roundings leave of the answers' digits: a float64 near 1 is exact
to 1e-16. What is compared for ties is well above the roundings of the sums compared.
"""

# Roundings of one operation: the distance of 1 to the next float64, and half of that.
EPSILON = 2.0**-52
UNIT_ROUNDOFF = 2.0**-53
BELOW_ONE = 1.0 - UNIT_ROUNDOFF  # the largest float64 below 1: what reaches it is 1

# A computed probability that misses 1 by at most this is 1: the error of all of them.
CERTAIN = 1e-12

# Probabilities that are dropped at the ends of a distribution, or with the worlds that have them:
# ten thousand of them are less than a rounding of the whole.
NEGLIGIBLE = 1e-20
NEGLIGIBLE_STATE = 1e-19  # states of a sum: fewer are dropped than counts
NEGLIGIBLE_POSITION = 1e-22  # a tuple's position: thousands of tuples each drop some
NEGLIGIBLE_COUNT = 1e-25  # a count that is known for all tuples at once: 1e-14 of tails to 1e-11
NEGLIGIBLE_DEEP = 1e-19  # what candidates add that may lie outside a window
NEGLIGIBLE_REACH = 1e-30  # that a value is reached: below it a distribution of extremes is cut off
UNLIKELY_EXPONENT = 42.0  # exp(-42) = 6e-19 is no probability
UNDERFLOW = 1e-300  # when the digits of the farthest tails are asked for

# An outcome of less is a difference of numbers near 1, not a probability.
LEAST_OUTCOME = 1e-17
# A smaller share of what it was taken from is no outcome but a rounding.
OUTCOME_ROUNDING = 1e-15
# Less is left of a tuple, or of terms that cancel, by roundings only.
REMAINDER = 2.0**-50

# A share, or a level, is reached that is missed by no more: sums of shares have such roundings.
SHARE_TIE = 1e-12
# Vectors whose log probabilities are this near are equally probable: sums of dozens of logarithms.
LOG_TIE = 1e-10
# A bound by which samples are sifted may exceed the probability by this much, and by roundings.
SIFT_SLACK = 1e-9
