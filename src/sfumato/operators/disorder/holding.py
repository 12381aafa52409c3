"""What a reorder holds back, and since when: figures for whoever watches it."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.disorder.state import ALWAYS, NEVER
from sfumato.operators.arrays import Ints, longer
from sfumato.operators.disorder.reorder import NONE, Reorder

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
    """The least of some numbers, of which a few change at a time. Numbers not put are ALWAYS."""

    def __init__(self) -> None:
        self._values = np.full(1, ALWAYS)
        self._at = 0

    def put(self, places: Ints, values: Ints) -> None:
        """Let numbers at distinct places be others. Cost: theirs; O(n) where the least grew."""
        if not len(places):
            return
        if places.max() >= len(self._values):
            self._values = longer(
                self._values, max(int(places.max()) + 1, 2 * len(self._values)), ALWAYS
            )
        least = self._values[self._at]
        self._values[places] = values
        if self._values[self._at] > least:
            self._at = int(self._values.argmin())
        elif values.min() < self._values[self._at]:
            self._at = int(places[values.argmin()])

    @property
    def value(self) -> int | None:
        """The least number; None where all are ALWAYS."""
        least = int(self._values[self._at])
        return None if least == ALWAYS else least

    @property
    def place(self) -> int:
        """A place that has it."""
        return self._at


class Held:
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

    def now(self, present: Ints, forgotten: Ints = NONE) -> Holding:
        """What is held. present : keys that just had rows    forgotten : those just forgotten

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
        oldest = np.full(len(keys), ALWAYS)
        np.minimum.at(oldest, of, rows.event_time)
        punctuation = reorder.punctuations_of(keys)
        known = (punctuation != NEVER) & ((oldest != ALWAYS) | np.isin(keys, present))
        newest = punctuation.copy()
        credible = rows.event_time <= reorder.controllers.horizon_of(rows.source)
        np.maximum.at(newest, of[credible], rows.event_time[credible])
        self._oldest.put(keys, oldest)
        self._punctuation.put(keys, np.where(known, punctuation, ALWAYS))
        self._ahead.put(keys, np.where(known, punctuation - newest, ALWAYS))


def _slowest(reorder: Reorder, key: int) -> int | None:
    """The source of a key with the least punctuation of those that count."""
    if reorder.sources.awaited[key]:
        return AWAITED
    members, _ = reorder.sources.members(np.array([key]))
    if not len(members):
        return None
    return int(members[reorder.controllers.punctuation_of(members).argmin()])
