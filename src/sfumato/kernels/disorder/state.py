"""The state of the disorder controllers: one structured array with an entry per controller.

Everything of fixed size is a field of `CONTROLLER`, so that compiled code can change it in place
and a snapshot is a copy. Parts of variable size share one int64 array, `memory`.
Times are int64 microseconds.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, reals

NO_TIME = np.iinfo(np.int64).min  # no punctuation is known
END_OF_TIME = np.iinfo(np.int64).max
SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL, FIXED, FULL, CARRIED = range(8)  # estimators
RECENT = 64  # delays remembered by the guard
MEASURES = 4  # measures of lateness in the conformal estimator
UNBOUNDED = 1 << 60  # microseconds, beyond any difference of times


class Control(NamedTuple):
    """Settings of the estimation of punctuations, shared by all controllers.

    estimator : SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL, FIXED, FULL: the punctuation moves only
        when the buffer is full, or CARRIED: the rows carry it
    drop_ratio : float64 in (0, 0.5], wanted share of late rows (NORMAL, CONFORMAL; others: 0.01)
    slack : int64, rows of the sort buffer (SLACK)
    deviations : float64, the square of the drop ratio's normal quantile (NORMAL)
    floor : bool, n_p is rounded down (NORMAL)
    max_delay : int64 microseconds (FIXED)
    guard : bool, incredible event times are set aside
    max_buffer : int64, most rows buffered by each controller; 0: no bound
    max_buffer_total : int64, most rows buffered by all of them together; 0: no bound
    max_ahead, max_behind : int64 microseconds; rows whose event time is further after or before
    their arrival are late at once
    """

    estimator: int
    drop_ratio: float
    slack: int
    deviations: float
    floor: bool
    max_delay: int
    guard: bool
    max_buffer: int
    max_buffer_total: int
    max_ahead: int
    max_behind: int


class RowIds(NamedTuple):
    """The ids of rows, by which duplicates are recognised.

    slot : int64[n], the code of the row's controller and id, -1 for a row without id; empty: none
    kept : int64[3, slots]: the place of the newest row that was not a duplicate, UNSEEN (none) or
        EARLIER_CALL (of an earlier call); its event time; the arrival until which it is remembered
        at least
    remember : int64 microseconds that an id is remembered at least
    """

    slot: np.ndarray
    kept: np.ndarray
    remember: int


UNSEEN, EARLIER_CALL = -1, -2  # places of RowIds.kept
NO_IDS = RowIds(np.empty(0, np.int64), np.empty((3, 0), np.int64), 0)

# Totals over controllers: rows below the punctuation on arrival or beyond `max_ahead`; rows too far
# behind to wait for; rows set aside by the guard or beyond `max_ahead`; arrivals at which a full
# buffer forced the punctuation; rows that arrived below the clock; rows late only because they are
# below the floor; duplicates.
COUNTS = integers("late stale future forced out_of_order after_idle duplicates")

# Far rows on one side of the credible delays, as evidence of a lasting mode: their count, groups of
# them separated by other rows, the number and arrival of the first, the farthest delay.
MODE = integers("rows runs since begin delay")

_COMMON = integers(
    "place room length "  # of its part of the memory: begin, entries per lane, length
    "count clock "  # rows that arrived, and the latest arrival of any of them
    "punctuation floor "  # estimated or forced; the time up to which rows left without it
    "held aside "  # rows in the bounded buffer, and how many of them were set aside
    "fed last_arrival "  # rows fed to the estimator, and the arrival of the latest
)
_GUARD = integers(
    "observed guarded "  # rows observed by the guard; 1 once the bounds are known:
    "bound far_behind far_ahead "  # the least credible delay; delays beyond which a row is far
    "far_side far_rows "  # side of the latest row, and consecutive rows on that side
    "earliest latest "  # least credible event time of the first rows, greatest event time fed
    "credible_number credible_time "  # of the latest credible row
    # rows far ahead not yet contradicted: their count, number of the first, greatest event time,
    # and how many are ahead of the arrival clock as well
    "pending pending_first pending_top pending_early "
    "slow_bound fast_bound "  # greatest and least delay for which a mode has been learned
    "forgiven forgiven_until "  # rows below are late due to a mode learned later; end of this
)
_ESTIMATORS = integers(
    "size turn newest "  # entries used in the lane, rows since a refresh, largest event time fed
    "head limit base largest_delay"  # oldest pair of VSeq, its wanted length, origin of delays
)
# Sums of the delays of VSeq and of their squares, double-double; block maxima (averaged).
_SUMS = reals("total total_low squares squares_low blocks block_sum")

_CONFORMAL = integers(
    "counted late_fed late_steered "  # rows counted, late ones among them, late at last steering
    "thinning first_time largest_lateness "  # the sample holds one in `thinning` event times
    "clumps last_late chosen "  # groups of late rows, number of the latest one, measure followed
    "newest_before"  # the largest event time of earlier arrival times
)
_WEIGHTS = reals(
    "mean variance "  # of the delays
    "weight rows recent_rows "  # of the present row, of all remembered rows, in the comparison
    "followed typical "  # the threshold in force; the lateness exceeded by a share d of the rows
    "waited_then"  # cost of the followed measure when it was chosen
)


def _fields(*records: np.dtype, repeat: tuple[int, ...] = ()) -> list[tuple]:
    return [(name, record[name], repeat) for record in records for name in record.names or ()]


CONTROLLER = np.dtype(
    [
        *_fields(_COMMON, _GUARD, _ESTIMATORS, _SUMS, _CONFORMAL, _WEIGHTS),
        ("slow", MODE),  # rows far behind that may become a mode of the delays,
        ("fast", MODE),  # and rows far ahead
        ("delays", np.int64, (RECENT,)),  # rings: the latest delays,
        ("arrivals", np.int64, (RECENT,)),  # and the arrivals of these rows
        # Per measure: its punctuation, the rows late for it, its last bucket in use; its threshold,
        # the log slope of its tail; rows held times time, and late rows, both discounted.
        *_fields(integers("punctuation_of late_of top_of"), repeat=(MEASURES,)),
        *_fields(reals("threshold_of slope_of waited_of recent_late_of"), repeat=(MEASURES,)),
    ],
    align=True,
)


def new_controllers(count: int) -> np.ndarray:
    """Return CONTROLLER[count]: controllers that have not seen any row."""
    fresh = np.zeros(count, CONTROLLER)
    unknown = "punctuation floor last_arrival clock latest forgiven slow_bound forgiven_until"
    for name in unknown.split():
        fresh[name] = NO_TIME
    fresh["fast_bound"] = END_OF_TIME
    return fresh
