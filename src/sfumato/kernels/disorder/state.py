"""What the disorder controllers keep: one structured array, an entry for each controller.

Everything of fixed size is a field of `CONTROLLER`, so that compiled code can change it in place
and a snapshot is a copy. What grows lies in one int64 array `area` for all controllers, where
`place` and `room` say which part is whose: what the estimator remembers (its layout is the
estimator's), and at `heap_place`, only with a bound on the buffer, the rows held (see
`estimators`). Times are int64 microseconds.
"""

from typing import NamedTuple

import numpy as np

NO_TIME = np.iinfo(np.int64).min  # no punctuation is known
END_OF_TIME = np.iinfo(np.int64).max

SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL, FIXED, FULL = range(7)  # estimators

RECENT = 64  # delays that the guard remembers
EXPERTS = 12  # of the conformal estimator


class Control(NamedTuple):
    """How punctuations are estimated: the settings that all controllers share.

    estimator : SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL, FIXED, or FULL: the punctuation moves
        only when the buffer is full
    drop_ratio : float64 in (0, 0.5], wanted share of late rows (NORMAL, CONFORMAL; others: 0.01)
    slack : int64, rows of the sort buffer (SLACK)
    deviations : float64, the square of the drop ratio's normal quantile (NORMAL)
    floor : bool, n_p is rounded down (NORMAL)
    max_delay : int64 microseconds (FIXED)
    guard : bool, incredible event times are set aside
    max_buffer : int64, rows held at most; 0: no bound
    """

    estimator: int
    drop_ratio: float
    slack: int
    deviations: float
    floor: bool
    max_delay: int
    guard: bool
    max_buffer: int


# Far rows on one side of the credible delays, as evidence of a lasting mode of the delays.
MODE = np.dtype(
    [
        ("rows", np.int64),  # rows counted; 0: none yet
        ("runs", np.int64),  # groups of them with other rows in between
        ("since", np.int64),  # number of the first one,
        ("begin", np.int64),  # and its arrival
        ("delay", np.int64),  # the delay farthest from the credible ones
    ],
    align=True,
)

_COMMON = [
    ("place", np.int64),  # of the estimator's part of `area`,
    ("room", np.int64),  # and its length
    ("heap_place", np.int64),  # of the heap of rows held,
    ("heap_room", np.int64),  # and how many rows it has room for
    ("count", np.int64),  # rows that arrived
    ("late", np.int64),  # of them below the punctuation on arrival
    ("stale", np.int64),  # of them too far behind to wait for: out at once, late
    ("future", np.int64),  # of them set aside by the guard: held at first
    ("forced", np.int64),  # arrivals at which a full buffer pushed the punctuation
    ("out_of_order", np.int64),  # rows that arrived before the clock
    ("clock", np.int64),  # the latest arrival of any row
    ("punctuation", np.int64),  # the estimator's, or forced by a full buffer
    ("floor", np.int64),  # rows up to it came out without waiting for the estimator
    ("after_idle", np.int64),  # rows late only because they are below the floor
    ("held", np.int64),  # rows in the heap,
    ("aside", np.int64),  # and those of them that were set aside
    ("fed", np.int64),  # rows fed to the estimator
    ("last_arrival", np.int64),  # of a row fed
]
_GUARD = [
    ("observed", np.int64),  # rows that it remembered
    ("guarded", np.int64),  # 1 once the bounds are known:
    ("bound", np.int64),  # the smallest credible delay,
    ("far_behind", np.int64),  # beyond these a row comes out at once
    ("far_ahead", np.int64),
    ("far_side", np.int64),  # of the latest row,
    ("far_rows", np.int64),  # and how many in a row were on that side
    ("earliest", np.int64),  # least credible event time of the first rows
    ("latest", np.int64),  # greatest event time fed
    ("credible_number", np.int64),  # of the latest credible row, the number
    ("credible_time", np.int64),  # and the event time
    ("pending", np.int64),  # rows far ahead that no later row has contradicted:
    ("pending_first", np.int64),  # the number of the first one,
    ("pending_top", np.int64),  # their greatest event time,
    ("pending_early", np.int64),  # and how many are ahead of the arrival clock as well
    ("slow", MODE),  # rows far behind that may become a mode of the delays
    ("fast", MODE),  # rows far ahead that may
    ("slow_bound", np.int64),  # delays up to it have been learned as a mode
    ("fast_bound", np.int64),  # delays down to it have been learned as a mode
    ("forgiven", np.int64),  # rows below it are late because a mode was learned after them
    ("forgiven_until", np.int64),  # newest event time up to which such rows come
    ("delays", np.int64, (RECENT,)),  # rings: the latest delays,
    ("arrivals", np.int64, (RECENT,)),  # and when these rows arrived
]
_ESTIMATORS = [
    ("size", np.int64),  # entries of the main sequence in `area`
    ("turn", np.int64),  # rows since sums were refreshed, or rows of the present block
    ("newest", np.int64),  # largest event time fed (conformal, fixed)
    # normal
    ("head", np.int64),  # place of the oldest pair of VSeq in its ring
    ("limit", np.int64),  # wanted length of VSeq
    ("base", np.int64),  # delays are summed relative to it
    ("total", np.float64),  # sum of the delays of VSeq, double-double
    ("total_low", np.float64),
    ("squares", np.float64),  # sum of their squares
    ("squares_low", np.float64),
    # largest and averaged
    ("largest_delay", np.int64),
    ("blocks", np.float64),
    ("block_sum", np.float64),
]
_CONFORMAL = [
    ("counted", np.int64),  # rows fed that may be late for an estimate, see `forgiven`
    ("late_fed", np.int64),  # rows late among those counted
    ("newest_before", np.int64),  # the same, of arrivals before the present stamp
    ("level", np.int64),  # rows for which `area` has room
    ("thinning", np.int64),  # one event time in so many is in the sample
    ("stride", np.int64),  # one row in so many is listed by the experts that forget nothing
    ("clumps", np.int64),  # groups of late rows
    ("clump", np.int64),  # late rows of the present one,
    ("largest_clump", np.int64),  # and of the largest
    ("last_late", np.int64),  # the latest late row, as a number among those fed
    ("late_before", np.int64),  # late rows when the estimator last looked
    ("late_steered", np.int64),  # late rows at the last steering
    ("first_time", np.int64),  # event time of the first row
    ("newest_at", np.int64),  # the row that was the newest, as a number among those fed
    ("largest_lateness", np.int64),  # behind the newest event time
    ("late_by", np.int64, (3,)),  # the same of the latest three late rows
    ("steady", np.int64),  # 1: the lateness shows a lasting mode
    ("chosen", np.int64),  # the expert followed
    ("followed", np.float64),  # the threshold in force
    ("recent_rows", np.float64),  # discounted number of rows
    ("waited_then", np.float64),  # what the expert followed had waited when it was chosen
    # of each expert:
    ("punctuation_of", np.int64, (EXPERTS,)),
    ("listed", np.int64, (EXPERTS,)),  # length of its tail list
    ("late_of", np.int64, (EXPERTS,)),  # rows that would have been late for it
    ("held_of", np.int64, (EXPERTS,)),  # sampled event times beyond its punctuation
    ("threshold_of", np.float64, (EXPERTS,)),
    ("recent_late_of", np.float64, (EXPERTS,)),  # discounted rows late for it
    ("waited_of", np.float64, (EXPERTS,)),  # discounted sum of rows held times microseconds
    ("slope_of", np.float64, (EXPERTS,)),  # log of its list's slope, smoothed
]
CONTROLLER = np.dtype([*_COMMON, *_GUARD, *_ESTIMATORS, *_CONFORMAL], align=True)


def new_controllers(count: int) -> np.ndarray:
    """CONTROLLER[count]: controllers that have seen nothing."""
    fresh = np.zeros(count, CONTROLLER)
    for name in ("punctuation", "floor", "last_arrival", "clock", "latest", "forgiven"):
        fresh[name] = NO_TIME
    fresh["slow_bound"], fresh["fast_bound"], fresh["forgiven_until"] = (
        NO_TIME,
        END_OF_TIME,
        NO_TIME,
    )
    return fresh
