"""How long a reorder holds its rows: a histogram of those that came out, for whoever watches."""

import numpy as np

from sfumato.kernels.disorder.state import ALWAYS, NEVER
from sfumato.operators.arrays import Bools, Ints, longer
from sfumato.operators.disorder.reorder import NONE

BINS = 32  # below 1 ms, then from 2**(i - 1) ms to below 2**i ms; the last has all longer ones
SHORT = 1_000  # microseconds: the first bin ends here


class Waits:
    """When rows arrived that are held, and how long those waited that came out.

    A row waits from its own arrival to that of the row which let it out, wherever a micro-batch
    ends; to the newest arrival if none did. Nothing of this is saved: rows that were held before a
    restart are not in it.
    counts : int64[BINS], rows that came out in order since `begin`
    """

    def __init__(self) -> None:
        self._numbers, self._arrivals = NONE, NONE  # of rows, ascending by number; room behind
        self._held = np.empty(0, bool)  # whether each is held
        self._used, self._gone = 0, 0  # rows there, and how many of them are held no more
        self._oldest: int | None = ALWAYS  # the least arrival of a row held; None: to be found
        self.newest = int(NEVER)  # the latest arrival
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
        self.newest = max(self.newest, int(arrival.max(initial=NEVER)))
        if self._oldest is not None:
            self._oldest = min(self._oldest, int(arrival.min(initial=ALWAYS)))

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
            self._oldest = int(self._arrivals[: self._used].min(initial=ALWAYS, where=held))
        return None if self._oldest == ALWAYS else max(0, self.newest - self._oldest)

    def _known(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Places here of those among `numbers` whose arrival is known, and their places there."""
        known = self._numbers[: self._used]
        if not len(known) or not len(numbers):
            return NONE, NONE
        places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        found = np.flatnonzero(known[places] == numbers)
        return places[found], found


def bins(wait: Ints) -> Ints:
    """int64[n]: the bin of each wait, int64[n] microseconds."""
    _, exponent = np.frexp(np.maximum(wait, 0) // SHORT)
    return np.minimum(exponent, BINS - 1).astype(np.int64)
