"""DRATIO with the normal measure: Poisson generation, normal delays."""

from __future__ import annotations

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import (
    BASE,
    FED,
    HEAD,
    LIMIT,
    NEVER,
    SIZE,
    SQUARES,
    SQUARES_LOW,
    SUM,
    TURN,
)

SHORTEST = 30  # of VSeq
LONGEST = 16_384  # of VSeq, where theta is so small that the measure would ask for more


@compiled
def add_exactly(value, low, reals, place):
    """Add value + low to the double-double at reals[place], reals[place + 1].

    float64s.  Cost: O(1).  Error: 2**-104 relative to the largest partial sum, so that a huge
    delay leaves no trace once it is subtracted.  Source: Knuth's two-sum.
    """
    high = reals[place]
    total = high + value
    part = total - high
    error = (high - (total - part)) + (value - part) + reals[place + 1] + low
    reals[place] = total + error
    reals[place + 1] = error - (reals[place] - total)


@compiled
def add_delay(delay, sign, reals):
    """Add (or with sign -1 remove) a delay in the sums of VSeq; error as `add_exactly`."""
    value = float(delay)
    add_exactly(sign * value, 0.0, reals, SUM)
    square = value * value
    big = 134217729.0 * value  # Dekker's splitting: the square and its rounding error
    high = big - (big - value)
    low = value - high
    error = ((high * high - square) + 2.0 * high * low) + low * low
    add_exactly(sign * square, sign * error, reals, SQUARES)


@compiled
def refresh(ints, reals, area):
    """Sum VSeq afresh, relative to its mean: once a turn, so O(1) a row. Keeps the sums small."""
    capacity = area.size // 2
    size = ints[SIZE]
    ints[BASE] += int(reals[SUM] / size)
    ints[TURN] = 0
    reals[SUM : SQUARES_LOW + 1] = 0.0
    for i in range(size):
        at = (ints[HEAD] + i) % capacity
        add_delay(area[at] - area[capacity + at] - ints[BASE], 1.0, reals)


@compiled
def drop_oldest(ints, reals, area):
    """Remove the oldest pair of VSeq. O(1)."""
    capacity = area.size // 2
    at = ints[HEAD]
    add_delay(area[at] - area[capacity + at] - ints[BASE], -1.0, reals)
    ints[HEAD] = (at + 1) % capacity
    ints[SIZE] -= 1


@compiled
def wanted_length(theta, sigma, c):
    """(5.7) as an equation: the real n with n**2 - c n = 2 c sigma**2 / theta**2.  O(1)."""
    return 0.5 * (c + math.sqrt(c * c + 8.0 * c * (sigma / theta) ** 2))


@compiled
def normal_step(tau, t, c, floor, ints, reals, area):
    """Punctuation after a row by C's measure, or NEVER while VSeq is filling.

    VSeq, the newest pairs (t, tau), is a ring in area: arrivals, then event times. When it is
    full: theta = mean gap, mu, sigma = mean and standard deviation of the delays, n_p by (5.7),
    punctuation t - mu - n_p theta (5.8), and VSeq is to have max(30, n_p) pairs from now on.

    tau, t : int64 microseconds     c : z**2, z the drop ratio's normal quantile
    floor : n_p rounded down as in C, else up (the conservative choice)
    ints, reals, area : the key's state; the ring has room for one more
    theta = 0 (a burst with one arrival stamp) is the limit n_p theta = sqrt(2 c) sigma, VSeq as
    long as it is. VSeq never grows beyond LONGEST.
    Cost: O(1) amortised.  Error: sums 2**-104 relative; mu, sigma, theta float64.
    Source: C section 5, equations (5.4), (5.7), (5.8); theta divides by n - 1, not n.
    """
    capacity = area.size // 2
    if ints[FED] == 1:
        ints[BASE] = t - tau
        ints[LIMIT] = SHORTEST
    if ints[SIZE] == ints[LIMIT]:
        drop_oldest(ints, reals, area)
    at = (ints[HEAD] + ints[SIZE]) % capacity
    area[at] = t
    area[capacity + at] = tau
    ints[SIZE] += 1
    add_delay(t - tau - ints[BASE], 1.0, reals)
    ints[TURN] += 1
    n = ints[SIZE]
    if n < ints[LIMIT]:
        return NEVER
    if ints[TURN] >= n:
        refresh(ints, reals, area)
    theta = (t - area[ints[HEAD]]) / (n - 1)
    mu = reals[SUM] / n
    sigma = math.sqrt(max(reals[SQUARES] / n - mu * mu, 0.0))
    if theta > 0.0:
        length = wanted_length(theta, sigma, c)
        length = math.floor(length) if floor else math.ceil(length)
        reach = length * theta
        ints[LIMIT] = int(min(max(length, SHORTEST), LONGEST))
        while ints[SIZE] > ints[LIMIT]:
            drop_oldest(ints, reals, area)
    else:
        reach = math.sqrt(2.0 * c) * sigma
    return t - ints[BASE] - math.ceil(mu + reach)
