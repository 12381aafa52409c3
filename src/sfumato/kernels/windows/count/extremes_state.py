"""What is kept for the extremes of a count window: candidates, and counts without them.

The largest value of a window is one of few: those reached before the probability that nothing
larger is inside falls below 1e-17. The candidates are the held tuples with a value of at least
`floor`, chosen so that there are half as many again as needed; they are kept sorted. All other
tuples only count, and that is kept in two parts, as in `count_window`:

    held:    head ................. mid ................. tail
             older part             newer part, at most w tuples: all of them inside

For each candidate a of the older part, the law S_a of the number of others between it and mid; of
the newer part the functions  F[x] = Pr(x + B >= w)  and  G[x] = Pr(x + B < w), B its count of
others. Candidates are added to these where they are needed, and never divided out.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, reals
from sfumato.kernels.compile import lean, lean_fused

NEGLIGIBLE = 1e-20  # probabilities at a law's ends below this are dropped
LAST = 1e-17  # a distribution function is 0 from here on
SURE = 2.0**-50  # a smaller share of a tuple is nothing left of it
CERTAIN = 1.0 - 2.0**-53
SPARE = 64
UNLIKELY = 42.0  # exp(-42) = 6e-19 is no probability

# Candidates first ... end - 1, their `outcomes` sorted, at most `limit`; `want` of them wanted.
MARKS = integers("mid built low high first end outcomes limit want saved_needed")
REALS = reals("floor mu pq")
PLACES = integers("index place low high")
FACTS = reals("existence over mu pq left killed outside")
OUTCOME = reals("value prob left_before killed_before")


class ExtremesState(NamedTuple):
    """State of one window, attribute and sign; the operator makes arrays larger when asked.

    sign : 1.0 for the largest, -1.0 for the smallest value
    front : float64[2, w + 2], F and G: 0 and 1 below `low`, 1 and 0 from `high` on
    saved : float64[...], the laws S_a, packed
    places : PLACES[room], of candidates in order of arrival: stream index; where S_a is, its
        least count and the one after its last
    facts : FACTS[room], of candidates: existence; Pr(S_a's count >= w), mean and variance of the
        count of all tuples between it and mid; then, at each arrival, `left` and `killed`, what of
        its existence has not been passed, or has, while values are passed, and Pr(it is not among
        the w newest existing ones)
    outcomes : OUTCOME[room], descending values, sign * value; owner : int64[room], row of the
        candidate
    marks : MARKS[1]; reals : REALS[1], `mu` and `pq` those of the newer part's count
    """

    sign: float
    front: np.ndarray
    saved: np.ndarray
    places: np.ndarray
    facts: np.ndarray
    outcomes: np.ndarray
    owner: np.ndarray
    marks: np.ndarray
    reals: np.ndarray


@lean
def unlikely(away, variance):
    """Whether a count is that far from its mean, to one side, with no probability (Bernstein)."""
    third = UNLIKELY / 3.0
    return away > third + np.sqrt(third * third + 2.0 * UNLIKELY * variance)


@lean_fused
def mix(front, low, high, p, negligible):
    """F and G with one more tuple of existence p counted; the new (low, high).  O(band)."""
    q = 1.0 - p
    if low > 0:
        low -= 1
        front[0, low], front[1, low] = 0.0, 1.0
    reach, stay = front[0, low : high + 1], front[1, low : high + 1]
    for x in range(high - low):
        reach[x] = q * reach[x] + p * reach[x + 1]
        stay[x] = q * stay[x] + p * stay[x + 1]
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low and front[1, high - 1] < negligible:
        high -= 1
        front[0, high], front[1, high] = 1.0, 0.0
    return low, high


@lean_fused
def mix_reach(front, low, high, p, negligible):
    """`mix` for F alone."""
    q = 1.0 - p
    if low > 0:
        low -= 1
        front[0, low] = 0.0
    reach = front[0, low : high + 1]
    for x in range(high - low):
        reach[x] = q * reach[x] + p * reach[x + 1]
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low and front[0, high - 1] >= CERTAIN:
        high -= 1
        front[0, high] = 1.0
    return low, high
