"""The guard against clocks that are wrong: which delays are credible.

A row is **ahead** if its delay (arrival less event time) is incredibly small: it waits, and comes
out in its turn, but neither feeds the estimator nor lets event time run after it. Ahead or behind
by so much more that not even the heaviest tail explains it, a row is **far**: future or stale. It
comes out at once, as late. A lasting change is believed: of rows ahead once they make up a quarter
of the last RECENT rows, of rows that are far after LASTING of them with none between.
"""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import ALWAYS, FIXED, RECENT

WARM_UP = 16  # rows before anything is judged; for a start the bounds are renewed as often
RENEWAL = 32  # rows from one renewal to the next
WIDEST = 1 << 55  # microseconds: saturation, far above any real spread
FARTHEST = 1 << 59  # likewise, for the far bounds
CLOSE = 600_000_000  # microseconds: no row is far that is closer than ten minutes
LASTING = 1024  # consecutive far rows after which they are believed
NEAR, FUTURE, STALE = 0, -1, 1


@compiled
def observe(tau, t, control, key):
    """Remember the delay of a row among the last RECENT and renew the bounds every RENEWAL rows.

    With q, m, r the quartiles of the last RECENT delays and T the time in which these rows arrived,
    a row is ahead below q - 16 (m - q) - T / 2, and far beyond m -+ max(k u, CLOSE), where u =
    min(m - q, r - m) + T / RECENT and k = 100 / drop ratio (10,000 without one): of delays with a
    tail like 1 / x some hundredth of the drop ratio lies beyond. Being quantiles, the bounds do not
    move for fewer than a quarter of the rows, however wrong these are.
    O(1), and a sort of RECENT numbers every RENEWAL rows.
    """
    key.observed += 1
    count = key.observed
    place = (count - 1) % RECENT
    key.delays[place] = t - tau
    key.arrivals[place] = t
    if count % RENEWAL == 0 or (count < RECENT and count % WARM_UP == 0):
        known = min(count, RECENT)
        delays = np.sort(key.delays[:known])
        span = t - key.arrivals[0 if count <= RECENT else count % RECENT]
        low, middle, high = delays[known // 4], delays[known // 2], delays[3 * known // 4]
        key.bound = low - 16 * min(middle - low, WIDEST) - span // 2
        unit = float(min(middle - low, high - middle) + span // known)
        reach = max(int(min(100.0 / control.drop_ratio * unit, float(FARTHEST))), CLOSE)
        key.far_behind = middle + reach
        key.far_ahead = middle - reach
        if control.estimator == FIXED:  # it knows itself what is too late
            key.bound -= control.max_delay
            key.far_behind = ALWAYS
        # Of few rows a quarter may be wrong, and q with them; m is not.
        key.bound = max(key.bound, key.far_ahead)
        key.guarded = 1


@compiled
def far_side(tau, t, key):
    """STALE or FUTURE for a row whose delay is far from credible, else NEAR; counts how many in a
    row."""
    if key.guarded == 0:
        return NEAR
    delay = t - tau
    side = STALE if delay > key.far_behind else (FUTURE if delay < key.far_ahead else NEAR)
    key.far_rows = key.far_rows + 1 if side == key.far_side else 1
    key.far_side = side
    return side


@compiled
def horizon(t, key):
    """The largest credible event time of a row that arrives at `t`; ALWAYS before one is known."""
    if key.guarded == 0:
        return ALWAYS
    return t - key.bound
