"""The guard against event times from the future: what delay is still credible."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import ALWAYS, RECENT

WARM_UP = 16  # rows before anything is judged; for a start the bound is renewed as often
RENEWAL = 32  # rows from one bound to the next
WIDEST = 1 << 55  # microseconds: saturation, far above any real spread


@compiled
def observe(tau, t, key):
    """Remember the delay of a row among the last RECENT and renew the bound every RENEWAL rows.

    The bound is q - 16 (m - q) - T / 2 with q and m the lower quartile and the median of the
    last RECENT delays and T the time in which these rows arrived. Being quantiles of *all* rows,
    set aside or not, they follow a lasting change (an offset of the clocks, say) once it makes up
    a quarter of the last RECENT rows, and no fewer rows, however wrong, move the bound.

    tau, t : event time and arrival, int64 microseconds     key : the controller
    Cost: O(1), and a sort of RECENT numbers every RENEWAL rows.
    Error: none; integer arithmetic that saturates.   Source: ours.
    """
    count = key.count  # this row is already counted
    place = (count - 1) % RECENT
    key.delays[place] = t - tau
    key.arrivals[place] = t
    if count % RENEWAL == 0 or (count < RECENT and count % WARM_UP == 0):
        known = min(count, RECENT)
        delays = np.sort(key.delays[:known])
        span = t - key.arrivals[0 if count <= RECENT else count % RECENT]
        quartile = delays[known // 4]
        spread = min(delays[known // 2] - quartile, WIDEST)
        key.bound = quartile - 16 * spread - span // 2
        key.guarded = 1


@compiled
def horizon(t, key):
    """The largest credible event time of a row that arrives at `t`; the int64 maximum before one
    is known.  int64 microseconds.  Cost: O(1).  Error: none.  Source: ours."""
    if key.guarded == 0:
        return ALWAYS
    return t - key.bound
