"""DRATIO with the normal measure: Poisson generation, normal delays."""

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import NEVER

SHORTEST = 30  # of VSeq
LONGEST = 16_384  # of VSeq, where theta is so small that the measure would ask for more


@compiled
def add_exactly(high, low, value, value_low):
    """The double-double (high, low) + (value, value_low).  Error: 2**-104 of the largest partial
    sum.  Source: Knuth."""
    total = high + value
    part = total - high
    error = (high - (total - part)) + (value - part) + low + value_low
    renewed = total + error
    return renewed, error - (renewed - total)


@compiled
def add_delay(delay, sign, key):
    """Add (or with sign -1 remove) a delay in the sums of VSeq; error as `add_exactly`."""
    value = float(delay)
    key.total, key.total_low = add_exactly(key.total, key.total_low, sign * value, 0.0)
    square = value * value
    big = 134217729.0 * value  # Dekker's splitting: the square and its rounding error
    high = big - (big - value)
    low = value - high
    error = ((high * high - square) + 2.0 * high * low) + low * low
    key.squares, key.squares_low = add_exactly(
        key.squares, key.squares_low, sign * square, sign * error
    )


@compiled
def refresh(key, area):
    """Sum VSeq afresh, relative to its mean: once a turn, so O(1) a row. Keeps the sums small."""
    capacity = area.size // 2
    key.base += int(key.total / key.size)
    key.turn = 0
    key.total = key.total_low = key.squares = key.squares_low = 0.0
    for i in range(key.size):
        at = (key.head + i) % capacity
        add_delay(area[at] - area[capacity + at] - key.base, 1.0, key)


@compiled
def drop_oldest(key, area):
    """Remove the oldest pair of VSeq. O(1)."""
    capacity = area.size // 2
    at = key.head
    add_delay(area[at] - area[capacity + at] - key.base, -1.0, key)
    key.head = (at + 1) % capacity
    key.size -= 1


@compiled
def wanted_length(theta, sigma, c):
    """(5.7) as an equation: the real n with n**2 - c n = 2 c sigma**2 / theta**2.  O(1)."""
    return 0.5 * (c + math.sqrt(c * c + 8.0 * c * (sigma / theta) ** 2))


@compiled
def normal_step(tau, t, control, key, area):
    """Punctuation after a row by the measure of normal delays, or NEVER while VSeq is filling.

    VSeq, the newest pairs (t, tau), is a ring in area: arrivals, then event times. When it is full:
    theta = mean gap, mu, sigma = mean and standard deviation of the delays, n_p by (5.7),
    punctuation t - mu - n_p theta (5.8), and VSeq is to have max(30, n_p) pairs from now on, at
    most LONGEST. n_p is rounded up (the conservative choice), with `control.floor` down as in C.
    theta = 0 (a burst with one arrival stamp) is the limit n_p theta = sqrt(2 c) sigma.
    O(1) amortised.  Error: sums 2**-104 relative; mu, sigma, theta float64.
    Source: C section 5, equations (5.4), (5.7), (5.8); theta divides by n - 1, not n.
    """
    c = control.deviations
    capacity = area.size // 2
    if key.fed == 1:
        key.size = key.head = key.turn = 0
        key.total = key.total_low = key.squares = key.squares_low = 0.0
        key.base = t - tau
        key.limit = SHORTEST
    if key.size == key.limit:
        drop_oldest(key, area)
    at = (key.head + key.size) % capacity
    area[at] = t
    area[capacity + at] = tau
    key.size += 1
    add_delay(t - tau - key.base, 1.0, key)
    key.turn += 1
    n = key.size
    if n < key.limit:
        return NEVER
    if key.turn >= n:
        refresh(key, area)
    theta = (t - area[key.head]) / (n - 1)
    mu = key.total / n
    sigma = math.sqrt(max(key.squares / n - mu * mu, 0.0))
    if theta > 0.0:
        length = wanted_length(theta, sigma, c)
        length = math.floor(length) if control.floor else math.ceil(length)
        reach = length * theta
        key.limit = int(min(max(length, SHORTEST), LONGEST))
        while key.size > key.limit:
            drop_oldest(key, area)
    else:
        reach = math.sqrt(2.0 * c) * sigma
    return t - key.base - math.ceil(mu + reach)
