"""Statistics of a reorder buffer."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME
from sfumato.operators.arrays import Bools, Ints, longer
from sfumato.operators.disorder.reorder import NO_CODES, Reorder

BINS = 32  # below 1 ms, then from 2**(i - 1) ms to below 2**i ms; the last has all longer ones
FIRST_BIN_US = 1_000  # microseconds: the first bin ends here


class Waits:
    """When rows arrived that are held, and how long those waited that came out.

    A row waits from its own arrival to that of the row which let it out, wherever a micro-batch
    ends; to the newest arrival if none did. Nothing of this is saved: rows that were held before a
    restart are not in it.
    counts : int64[BINS], rows that came out in order since `begin`
    """

    def __init__(self) -> None:
        self._numbers, self._arrivals = (
            NO_CODES,
            NO_CODES,
        )  # of rows, ascending by number; room behind
        self._held = np.empty(0, bool)  # whether each is held
        self._used, self._gone = 0, 0  # rows there, and how many of them are held no more
        self._oldest: int | None = END_OF_TIME  # the least arrival of a row held; None: to be found
        self.newest = int(NO_TIME)  # the latest arrival
        self.begin()

    def begin(self) -> None:
        """Count from here on."""
        self.counts = np.zeros(BINS, np.int64)

    def arrive(self, first: int, arrival: Ints) -> None:
        """Rows numbered from `first` on arrived: int64[n] microseconds."""
        begin, end = self._used, self._used + len(arrival)
        if end > len(self._numbers):
            room = max(end, 2 * begin)
            self._numbers, self._arrivals = (
                longer(self._numbers, room),
                longer(self._arrivals, room),
            )
            self._held = longer(self._held, room)
        self._numbers[begin:end] = first + np.arange(len(arrival))
        self._arrivals[begin:end] = arrival
        self._held[begin:end] = True
        self._used = end
        self.newest = max(self.newest, int(arrival.max(initial=NO_TIME)))
        if self._oldest is not None:
            self._oldest = min(self._oldest, int(arrival.min(initial=END_OF_TIME)))

    def leave(self, numbers: Ints, by: Ints, late: Bools) -> None:
        """Rows came out: int64[n]. by : int64[n], the rows that let them out, which were the last
        to arrive; -1: none    late : bool[n], those that are not counted"""
        places, known = self._known(numbers)
        in_order = ~late[known]
        left, let_out_by = places[in_order], by[known[in_order]]
        if len(left):
            until = np.full(len(left), self.newest)
            let_out, of = self._known(let_out_by)
            until[of] = self._arrivals[let_out]
            self.counts += np.bincount(bins(until - self._arrivals[left]), minlength=BINS)
        if self._oldest is not None and len(places):
            oldest = self._arrivals[places].min() <= self._oldest
            self._oldest = None if oldest else self._oldest
        self._held[places] = False
        self._gone += len(places)
        if 2 * self._gone > self._used + 64:
            kept = np.flatnonzero(self._held[: self._used])
            self._numbers, self._arrivals = self._numbers[kept], self._arrivals[kept]
            self._held, self._used, self._gone = np.ones(len(kept), bool), len(kept), 0

    @property
    def longest(self) -> int | None:
        """Microseconds that the oldest row has waited that is held; None without one."""
        if self._oldest is None:
            held = self._held[: self._used]
            self._oldest = int(self._arrivals[: self._used].min(initial=END_OF_TIME, where=held))
        return None if self._oldest == END_OF_TIME else max(0, self.newest - self._oldest)

    def _known(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Places here of those among `numbers` whose arrival is known, and their places there."""
        known = self._numbers[: self._used]
        if not len(known) or not len(numbers):
            return NO_CODES, NO_CODES
        places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        found = np.flatnonzero(known[places] == numbers)
        return places[found], found


def bins(wait: Ints) -> Ints:
    """int64[n]: the bin of each wait, int64[n] microseconds."""
    _, exponent = np.frexp(np.maximum(wait, 0) // FIRST_BIN_US)
    return np.minimum(exponent, BINS - 1).astype(np.int64)


AWAITED = -1  # as a source: one that is expected and has not spoken


class Holding(NamedTuple):
    """Microseconds, None where nothing is known.

    oldest : least event time held     punctuation : the least of the keys that hold rows or just
    had some     lag : how far it is, of the key where this is most, behind the newest row held
    slowest : code of the source that holds the oldest row back, or AWAITED
    """

    oldest: int | None = None
    punctuation: int | None = None
    lag: int | None = None
    slowest: int | None = None


class Least:
    """The least of some numbers, of which a few change at a time. Numbers not put are
    END_OF_TIME."""

    def __init__(self) -> None:
        self._values = np.full(1, END_OF_TIME)
        self._at = 0

    def put(self, places: Ints, values: Ints) -> None:
        """Let numbers at distinct places be others. Cost: theirs; O(n) where the least grew."""
        if not len(places):
            return
        if places.max() >= len(self._values):
            self._values = longer(
                self._values, max(int(places.max()) + 1, 2 * len(self._values)), END_OF_TIME
            )
        least = self._values[self._at]
        self._values[places] = values
        if self._values[self._at] > least:
            self._at = int(self._values.argmin())
        elif values.min() < self._values[self._at]:
            self._at = int(places[values.argmin()])

    @property
    def value(self) -> int | None:
        """The least number; None where all are END_OF_TIME."""
        least = int(self._values[self._at])
        return None if least == END_OF_TIME else least

    @property
    def place(self) -> int:
        """A place that has it."""
        return self._at


class BufferStatistics:
    """Figures of what a reorder holds behind each micro-batch.

    Cost: of the rows held of the keys that just had rows, but for a key whose figure was the least;
    at first and after `anew`, of all.
    """

    def __init__(self, reorder: Reorder) -> None:
        self.reorder = reorder
        self.anew()

    def anew(self) -> None:
        """Rows have come out otherwise than by `process`."""
        self._oldest, self._punctuation, self._ahead = Least(), Least(), Least()
        self._present: Ints | None = None

    def now(self, present: Ints, forgotten: Ints = NO_CODES) -> Holding:
        """Statistics of the rows held. present : keys that just had rows    forgotten : those just
        forgotten

        Rows that the guard set aside, ahead of all clocks, are held too but are no newest row.
        """
        before = self._present
        if before is None:
            self.anew()
            before = np.unique(self.reorder.waiting.key)
        self._put(np.unique(np.concatenate([before, present, forgotten])), present)
        self._present = present
        oldest, ahead = self._oldest.value, self._ahead.value
        slowest = None
        if oldest is not None and self.reorder.config.by_source:
            slowest = _slowest(self.reorder, self._oldest.place)
        return Holding(oldest, self._punctuation.value, None if ahead is None else -ahead, slowest)

    def _put(self, keys: Ints, present: Ints) -> None:
        reorder = self.reorder
        rows = reorder.held_of(keys)
        of = np.searchsorted(keys, rows.key)
        oldest = np.full(len(keys), END_OF_TIME)
        np.minimum.at(oldest, of, rows.event_time)
        punctuation = reorder.punctuations_of(keys)
        known = (punctuation != NO_TIME) & ((oldest != END_OF_TIME) | np.isin(keys, present))
        newest = punctuation.copy()
        credible = rows.event_time <= reorder.controllers.horizon_of(rows.source)
        np.maximum.at(newest, of[credible], rows.event_time[credible])
        self._oldest.put(keys, oldest)
        self._punctuation.put(keys, np.where(known, punctuation, END_OF_TIME))
        self._ahead.put(keys, np.where(known, punctuation - newest, END_OF_TIME))


def _slowest(reorder: Reorder, key: int) -> int | None:
    """The source of a key with the least punctuation of those that count."""
    if reorder.sources.awaited[key]:
        return AWAITED
    members, _ = reorder.sources.members(np.array([key]))
    if not len(members):
        return None
    return int(members[reorder.controllers.punctuation_of(members).argmin()])
