"""The boundary of an uncertain count window by an approximate law, from running sums."""

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.approximate_law import approximate_tails
from sfumato.kernels.windows.count.count_boundary import append, evict, oldest


@compiled
def _add(sums, place, x):
    """sums[place] + sums[place + 1] += x, the second cell holding what the first rounds away."""
    high = sums[place] + x
    back = high - sums[place]
    low = sums[place + 1] + ((sums[place] - (high - back)) + (x - back))
    sums[place] = high + low
    sums[place + 1] = low - (sums[place] - high)


@compiled
def _count(sums, p, sign):
    """Add (sign 1.0) or take back (-1.0) one tuple; its terms round alike both times."""
    spread = p * (1.0 - p)
    _add(sums, 0, sign * p)
    _add(sums, 2, sign * spread)
    _add(sums, 4, sign * (spread * (1.0 - 2.0 * p)))


@compiled
def _oldest_may_go(window, method, w, target):
    marks, sums = window.marks[0], window.sums
    held = marks.tail - marks.head - 1
    if held < w:
        return False
    if target <= 0.0:
        return True  # Pr > 0 is a matter of counting
    p = window.held[marks.head]
    ones = marks.ones - (p == 1.0)
    if held == ones:
        # No doubt is left; what the sums still hold of earlier tuples' roundings must not count.
        mu, variance, skew = float(ones), 0.0, 0.0
    else:
        spread = p * (1.0 - p)
        mu = (sums[0] - p) + sums[1]
        variance = (sums[2] - spread) + sums[3]
        skew = (sums[4] - spread * (1.0 - 2.0 * p)) + sums[5]
    _, above = approximate_tails(method, w - 1.0, mu, variance, skew)
    return above >= target


@compiled
def _let_go(window):
    marks = window.marks[0]
    _count(window.sums, window.held[marks.head], -1.0)
    evict(window.held, marks)


@compiled
def slide_approximately(window, method, existence, begin, w, target, max_tuples, starts):
    """Algorithms 1 and 2 with an approximate law; arguments and result as of `slide`.

    method : POISSON, NORMAL or REFINED_NORMAL
    With fewer than w tuples Pr(N >= w) is 0 under every method. A target of 1 is reached when the
    approximation rounds to 1: it guarantees nothing.
    Cost: O(1) per arrival; Poisson O(sqrt(w)).  Error: that of the approximation, unbounded here.
    Source: A, Algorithms 1 and 2 with equations (14)-(17).
    """
    marks = window.marks[0]
    for t in range(begin, existence.size):
        p = existence[t]
        if p > 0.0:
            if not append(window.held, window.at, marks, p):
                return t
            _count(window.sums, p, 1.0)
            while _oldest_may_go(window, method, w, target):
                _let_go(window)
                marks.short = 0
            while marks.tail - marks.head > max_tuples:
                _let_go(window)
                marks.overflow += 1
                marks.short = 1
        starts[t] = oldest(window.at, marks)
        marks.arrived += 1
    return existence.size
