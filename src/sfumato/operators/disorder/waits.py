"""How long a reorder holds its rows: a histogram of those that came out, for whoever watches."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.disorder.state import NEVER
from sfumato.operators.arrays import Ints
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
        self.numbers, self.arrivals = NONE, NONE  # of the rows held, ascending by number
        self.newest = int(NEVER)  # the latest arrival
        self.begin()

    def begin(self) -> None:
        """Count from here on."""
        self.counts = np.zeros(BINS, np.int64)

    def arrive(self, first: int, arrival: Ints) -> None:
        """Rows numbered from `first` on arrived: int64[n] microseconds."""
        self.newest = max(self.newest, int(arrival.max(initial=NEVER)))
        self.numbers = np.concatenate([self.numbers, first + np.arange(len(arrival))])
        self.arrivals = np.concatenate([self.arrivals, arrival])

    def leave(self, numbers: Ints, by: Ints, held: Ints) -> None:
        """Rows came out in order: int64[n]. by : int64[n], the rows that let them out, which were
        the last to arrive; -1: none    held : those that wait now, ascending: int64[m]"""
        left, known = self._known(numbers)
        if len(left):
            until = np.full(len(left), self.newest)
            let_out, of = self._known(by[known])
            until[of] = self.arrivals[let_out]
            self.counts += np.bincount(bins(until - self.arrivals[left]), minlength=BINS)
        staying, _ = self._known(held)
        self.numbers, self.arrivals = self.numbers[staying], self.arrivals[staying]

    @property
    def longest(self) -> int | None:
        """Microseconds that the oldest row has waited that is held; None without one."""
        return max(0, self.newest - int(self.arrivals.min())) if len(self.arrivals) else None

    def _known(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Places here of those among `numbers` whose arrival is known, and their places there."""
        if not len(self.numbers) or not len(numbers):
            return NONE, NONE
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        found = np.flatnonzero(self.numbers[places] == numbers)
        return places[found], found


def bins(wait: Ints) -> Ints:
    """int64[n]: the bin of each wait, int64[n] microseconds."""
    _, exponent = np.frexp(np.maximum(wait, 0) // SHORT)
    return np.minimum(exponent, BINS - 1).astype(np.int64)
