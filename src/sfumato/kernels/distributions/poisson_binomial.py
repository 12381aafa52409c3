"""The distribution of a sum of independent Bernoulli variables, stored only where it has mass."""

import numpy as np

from sfumato.kernels.compile import compiled, lean, lean_fused

# Buffers hold the probability of count k at index k + MARGIN, so that the taps k-4 ... k-1 of a
# fused factor stay inside the buffer and the loop needs no test.
MARGIN = 4

# Loops run over a multiple of LANES cells, with zeros after the band. The SIMD width of any machine
# divides LANES, so the slow scalar remainder loops are never entered.
LANES = 32


@compiled
def padded(width):
    return ((width + LANES - 1) // LANES) * LANES


@compiled
def clear(distribution, begin, width):
    cells = distribution[begin:]
    for k in range(width):
        cells[k] = 0.0


@compiled
def copy(source, begin, target, place, width):
    """Copy `width` entries from source[begin] to target[place]; compiles faster than a slice."""
    for k in range(width):
        target[place + k] = source[begin + k]


@compiled
def trim(distribution, low, high, negligible):
    """Return the band [low, high) of counts without entries below `negligible` at its ends."""
    while high - low > 1 and distribution[low + MARGIN] < negligible:
        low += 1
    while high - low > 1 and distribution[high - 1 + MARGIN] < negligible:
        high -= 1
    return low, high


# Fused multiply-add only reduces rounding errors here; no comparison depends on it.
@lean_fused
def mix_next(cells, count, stay, come):
    """Set cells[x] = stay * cells[x] + come * cells[x + 1] for x < count, in place.

    This adds one tuple to a distribution that stores count k at w - k, or to a tail that stores
    Pr(x + N >= w) at x. The loop runs forward and can use SIMD.
    """
    for x in range(count):
        cells[x] = stay * cells[x] + come * cells[x + 1]


@lean
def count_one(distribution, low, high, stay, come, w, negligible):
    """Add one tuple in place: set distribution[c] = stay * distribution[c] + come *
    distribution[c - 1] for counts c below w.

    The mass 1 - stay - come is removed from the distribution. Returns the new band, without entries
    below `negligible` at its ends; an empty band stays empty.
    """
    if low == high:
        return low, high
    if high < w:
        distribution[high] = 0.0
        high += 1
    for c in range(high - 1, low, -1):
        distribution[c] = stay * distribution[c] + come * distribution[c - 1]
    distribution[low] *= stay
    while low < high and distribution[low] < negligible:
        low += 1
    while low < high and distribution[high - 1] < negligible:
        high -= 1
    return low, high


@lean_fused
def convolve_four(source, low, high, p, begin, target):
    """Compute the distribution after up to four more tuples p[begin:begin+4], in one pass.

    source, target : float64 buffers with MARGIN and at least high + 2 * (MARGIN + LANES) cells; the
        cells next to the band of `source` are set to zero; counts low ... high + 3 of `target` are
        valid
    Cost: five multiplications per count, instead of eight.  Error: a factor (1 +- u)**7 per entry.
    Source: direct convolution with RF1's factors (Dallachiesa et al. (2015), 5.1).
    """
    # The product of four factors (1 - p + p z), a polynomial of degree 4 with taps c0 ... c4.
    c0, c1, c2, c3, c4 = 1.0, 0.0, 0.0, 0.0, 0.0
    for i in range(begin, min(begin + 4, p.size)):
        x = p[i]
        y = 1.0 - x
        c4 = y * c4 + x * c3
        c3 = y * c3 + x * c2
        c2 = y * c2 + x * c1
        c1 = y * c1 + x * c0
        c0 = y * c0
    clear(source, low, MARGIN)
    clear(source, high + MARGIN, MARGIN + LANES)
    # Slices from 0: the loop then has no sign test on its index and can use SIMD.
    s0, s1, s2 = source[low + 4 :], source[low + 3 :], source[low + 2 :]
    s3, s4, out = source[low + 1 :], source[low:], target[low + MARGIN :]
    for k in range(padded(high + MARGIN - low)):
        out[k] = c0 * s0[k] + c1 * s1[k] + c2 * s2[k] + c3 * s3[k] + c4 * s4[k]


@compiled
def distribution_of_sum(p, negligible):
    """Return the distribution of the sum of independent Bernoulli(p[i]): float64[n + 1].

    negligible : float64 > 0; smaller entries at the band's ends are dropped
    Cost: O(n * band); the band is about 2 sqrt(-2 ln negligible) standard deviations wide.
    Error: relative, at most (1 + u)**(2 n) - 1 per entry, and absolute n * negligible in total.
    Source: RF1 of Dallachiesa et al. (2015), section 5.1; direct convolution as in Biscarri, Zhao &
    Brunner (2018).
    """
    n = p.size
    size = n + 4 * (MARGIN + LANES)
    one, other = np.empty(size), np.empty(size)
    one[MARGIN] = 1.0
    low, high = np.int64(0), np.int64(1)
    for begin in range(0, n, 4):
        convolve_four(one, low, high, p, begin, other)
        low, high = trim(other, low, high + 4, negligible)
        one, other = other, one
    distribution = np.zeros(n + 1)
    high = min(high, n + 1)
    copy(one, low + MARGIN, distribution, low, high - low)
    return distribution
