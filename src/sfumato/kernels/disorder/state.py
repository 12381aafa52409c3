"""The state of the disorder controllers: one structured array with an entry per controller.

Everything of fixed size is a field of `CONTROLLER`: compiled code changes it in place, and a
snapshot is a copy. Parts of variable size share one int64 array, `memory`.
Times are int64 microseconds.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, reals

NO_TIME = np.iinfo(np.int64).min  # no punctuation yet
END_OF_TIME = np.iinfo(np.int64).max
SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL, FIXED, FULL, CARRIED = range(8)  # estimators
RECENT = 64  # delays remembered by the guard
MEASURES = 4  # measures of lateness in the conformal estimator
UNBOUNDED = 1 << 60  # microseconds, above any difference of times


class Control(NamedTuple):
    """The settings shared by all controllers.

    estimator : SLACK, NORMAL, LARGEST, AVERAGED, CONFORMAL, FIXED, FULL (the punctuation advances
        only when the buffer is full) or CARRIED (rows carry the punctuation)
    drop_ratio : float64 in (0, 0.5], target share of late rows (NORMAL, CONFORMAL; others: 0.01)
    slack : int64, rows of the sort buffer (SLACK)
    deviations : float64, the square of the drop ratio's normal quantile (NORMAL)
    floor : bool, whether n_p (see `normal_step`) is rounded down (NORMAL)
    max_delay : int64 microseconds (FIXED)
    guard : bool, whether rows with incredible event times are set aside
    max_buffer : int64, maximum number of buffered rows per controller; 0: no bound
    max_buffer_total : int64, maximum number of buffered rows of all controllers; 0: no bound
    max_ahead, max_behind : int64 microseconds; a row is late immediately if its event time is more
        than `max_ahead` after its arrival, or more than `max_behind` before
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

    slot : int64[n], code of the row's controller and id, -1 for a row without an id; or empty
    kept : int64[3, slots], about the newest row that was not a duplicate: its place, EARLIER_CALL
        if it arrived in an earlier call, or UNSEEN; the punctuation and the arrival time until
        which it must be remembered
    remember : int64 microseconds, added to the row's event time and to its arrival
    """

    slot: np.ndarray
    kept: np.ndarray
    remember: int


UNSEEN, EARLIER_CALL = -1, -2  # places of RowIds.kept
NO_IDS = RowIds(np.empty(0, np.int64), np.empty((3, 0), np.int64), 0)

# Totals over controllers: rows below the punctuation on arrival or beyond `max_ahead`; stale rows
# and rows beyond `max_behind`; rows set aside by the guard or beyond `max_ahead`; arrivals at
# which a full buffer advanced the punctuation; rows whose arrival is below the clock; rows late
# only because they are below the floor; duplicates.
COUNTS = integers("late stale future forced out_of_order after_idle duplicates")

# Far rows on one side of the credible delays, as evidence of a lasting mode: the number of rows and
# of groups separated by other rows, the first row's number and arrival, the farthest delay.
MODE = integers("rows runs since begin delay")

_COMMON = integers(
    "place room length "  # the controller's part of the memory: start, entries per lane, length
    "count clock "  # arrived rows, and the latest arrival
    "punctuation floor "  # estimated or forced; rows up to `floor` were released without one
    "held aside "  # rows in the bounded buffer, and how many of them were set aside
    "fed last_arrival "  # rows fed to the estimator, and the latest arrival among them
)
_GUARD = integers(
    "observed guarded "  # rows observed by the guard; 1 once `bound` to `far_ahead` are known
    "bound far_behind far_ahead "  # the smallest credible delay; delays beyond which a row is far
    "far_side far_rows "  # side of the latest row, and number of consecutive rows on that side
    "earliest latest "  # smallest credible event time of the first rows; largest event time fed
    "credible_number credible_time "  # number and event time of the latest credible row
    # rows far ahead not yet contradicted: their count, the first row's number, the largest event
    # time, and how many are also far ahead of their arrival
    "pending pending_first pending_top pending_early "
    "slow_bound fast_bound "  # largest and smallest delay of the learned modes
    # The estimator does not count late rows below `forgiven`, nor any rows until `forgiven_until`,
    # because the mode that made rows late was unknown.
    "forgiven forgiven_until "
)
_ESTIMATORS = integers(
    "size turn newest "  # entries used in the lane, rows since a refresh, largest event time fed
    "head limit base largest_delay"  # oldest pair of VSeq, its full length, origin of delays
)
# Sums of VSeq's delays and of their squares, as double-doubles; number and sum of the block maxima
# (AVERAGED).
_SUMS = reals("total total_low squares squares_low blocks block_sum")

_CONFORMAL = integers(
    "counted late_fed late_steered "  # counted rows; late rows, now and at the last steering
    "thinning first_time largest_lateness "  # the sample holds one in `thinning` event times
    "bursts last_late measure "  # bursts of late rows; number of the last one; followed measure
    "newest_before"  # the largest event time before the latest arrival time
)
_WEIGHTS = reals(
    "mean variance "  # of the delays
    "weight rows recent_rows "  # weight of the current row, of all rows, of the compared rows
    "followed typical "  # the current threshold; the lateness exceeded by a share d of the rows
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
        # the log slope of its tail; held rows summed over time, and late rows, both discounted.
        *_fields(integers("punctuation_of late_of top_of"), repeat=(MEASURES,)),
        *_fields(reals("threshold_of slope_of waited_of recent_late_of"), repeat=(MEASURES,)),
    ],
    align=True,
)


def new_controllers(count: int) -> np.ndarray:
    """Return CONTROLLER[count], the state before the first row."""
    fresh = np.zeros(count, CONTROLLER)
    unknown = "punctuation floor last_arrival clock latest forgiven slow_bound forgiven_until"
    for name in unknown.split():
        fresh[name] = NO_TIME
    fresh["fast_bound"] = END_OF_TIME
    return fresh
