"""Statistics of a reorder buffer."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME
from sfumato.operators.arrays import Ints
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.disorder.rows import NO_CODES

# Bin 0 ends at 1 ms, bin i > 0 at 2**i ms; the last bin has no end.
WAIT_BINS = 32
FIRST_BIN_US = 1_000  # end of the first bin
AWAITED = -1  # in place of a source: an expected source has not sent rows


def wait_bins(wait: Ints) -> Ints:
    """Return int64[n]: the histogram bin of each wait (int64[n] microseconds)."""
    _, exponent = np.frexp(np.maximum(wait, 0) // FIRST_BIN_US)
    return np.minimum(exponent, WAIT_BINS - 1).astype(np.int64)


class BufferGauges(NamedTuple):
    """Statistics of held rows, with times in microseconds; None where unknown.

    oldest : earliest event time of held rows
    punctuation : lowest punctuation among keys that hold rows or just had rows
    lag : event time of the newest held row minus the punctuation, for the key with the largest lag
    waited : waiting time of the held row that arrived first
    slowest : code of the source that delays the oldest row, or AWAITED
    """

    oldest: int | None = None
    punctuation: int | None = None
    lag: int | None = None
    waited: int | None = None
    slowest: int | None = None


class BufferStatistics:
    """Statistics of the held rows after each micro-batch; four numbers are kept per key.

    Cost: O(keys), plus O(held rows of the keys that just had rows).
    The first call, and the first after `reset`, cost O(all held rows).
    """

    def __init__(self, reorder: Reorder) -> None:
        self.reorder = reorder
        self.reset()

    def reset(self) -> None:
        """Discard the statistics, after rows were released by a method other than `process`."""
        self._least = np.full((4, 1), END_OF_TIME)  # per key: oldest, punctuation, -lag, arrival
        self._present: Ints | None = None

    def update(self, present: Ints, forgotten: Ints = NO_CODES) -> BufferGauges:
        """Return the statistics.

        present : keys that just had rows    forgotten : keys that were just forgotten
        Rows that the guard set aside as too far ahead are held, but are never the newest row.
        """
        before = np.unique(self.reorder.waiting.key) if self._present is None else self._present
        self._update_keys(np.unique(np.concatenate([before, present, forgotten])), present)
        self._present = present
        least = self._least.min(axis=1).tolist()
        oldest, punctuation, ahead, arrival = (None if x == END_OF_TIME else x for x in least)
        waited = None if arrival is None else max(0, self.reorder.newest - arrival)
        lag = None if ahead is None else -ahead
        key = int(self._least[0].argmin())
        slowest = None if oldest is None else _slowest_source(self.reorder, key)
        return BufferGauges(oldest, punctuation, lag, waited, slowest)

    def _update_keys(self, keys: Ints, present: Ints) -> None:
        if not len(keys):
            return
        reorder, rows = self.reorder, self.reorder.held_of(keys)
        of = np.searchsorted(keys, rows.key)
        least = np.full((4, len(keys)), END_OF_TIME)
        np.minimum.at(least[0], of, rows.event_time)
        np.minimum.at(least[3], of, rows.arrival)
        punctuation = reorder.punctuations_of(keys)
        known = (punctuation != NO_TIME) & ((least[0] != END_OF_TIME) | np.isin(keys, present))
        newest = punctuation.copy()
        credible = rows.event_time <= reorder.controllers.horizon_of(rows.source)
        np.maximum.at(newest, of[credible], rows.event_time[credible])
        least[1, known] = punctuation[known]
        least[2, known] = (punctuation - newest)[known]
        if keys[-1] >= self._least.shape[1]:
            more = 2 * int(keys[-1]) + 1 - self._least.shape[1]
            self._least = np.pad(self._least, ((0, 0), (0, more)), constant_values=END_OF_TIME)
        self._least[:, keys] = least


def _slowest_source(reorder: Reorder, key: int) -> int | None:
    """Return the key's counting source with the lowest punctuation, AWAITED, or None."""
    if not reorder.config.by_source:
        return None
    if reorder.sources.pending[key]:
        return AWAITED
    members, _ = reorder.sources.members(np.array([key]))
    least = reorder.controllers.punctuation_of(members)
    return int(members[least.argmin()]) if len(members) else None
