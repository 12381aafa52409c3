"""The guard against event times from the future: what delay is still credible."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import (
    BOUND,
    COUNT,
    GUARDED,
    NEVER,
    RECENT,
    WINDOW,
)

WARM_UP = 16  # rows before anything is judged; for a start the bound is renewed as often
RENEWAL = 32  # rows from one bound to the next
WIDEST = 1 << 55  # microseconds: saturation, far above any real spread


@compiled
def observe(tau, t, ints):
    """Remember the delay of a row among the last RECENT and renew the bound every RENEWAL rows.

    The bound is q - 16 (m - q) - T / 2 with q and m the lower quartile and the median of the
    last RECENT delays and T the time in which these rows arrived. Being quantiles of *all* rows,
    set aside or not, they follow a lasting change (an offset of the clocks, say) once it makes up
    a quarter of the last RECENT rows, and no fewer rows, however wrong, move the bound.

    tau, t : event time and arrival, int64 microseconds     ints : int64[INTS], changed in place
    Cost: O(1), and a sort of RECENT numbers every RENEWAL rows.
    Error: none; integer arithmetic that saturates.   Source: ours.
    """
    count = ints[COUNT]  # this row is already counted
    place = (count - 1) % RECENT
    ints[WINDOW + place] = t - tau
    ints[WINDOW + RECENT + place] = t
    if count % RENEWAL == 0 or (count < RECENT and count % WARM_UP == 0):
        known = min(count, RECENT)
        delays = np.sort(ints[WINDOW : WINDOW + known])
        oldest = 0 if count <= RECENT else count % RECENT
        span = t - ints[WINDOW + RECENT + oldest]
        quartile = delays[known // 4]
        spread = min(delays[known // 2] - quartile, WIDEST)
        ints[BOUND] = quartile - 16 * spread - span // 2
        ints[GUARDED] = 1


@compiled
def horizon(t, ints):
    """The largest credible event time of a row that arrives at `t`; the int64 maximum before one
    is known.  int64 microseconds.  Cost: O(1).  Error: none.  Source: ours."""
    if ints[GUARDED] == 0:
        return -(NEVER + 1)
    return t - ints[BOUND]
