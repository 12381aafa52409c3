"""The sources of each key, and the event time up to which the key's rows are released."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sfumato.kernels.disorder.release import least_punctuations, least_steps
from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME
from sfumato.operators.arrays import Ints, offsets_of, pad
from sfumato.operators.disorder.rows import NO_CODES, KeyedRecords, KeyedRuns
from sfumato.operators.state.declared import Array, Record
from sfumato.operators.state.stateful import Stateful


@dataclass
class SourceValues(KeyedRecords):
    """Values by key or source: a key's sources, or a source's ascending punctuations."""

    key: Annotated[Ints, Array(int, "n")]
    value: Annotated[Ints, Array(int, "n")]


class Sources(Stateful):
    """Sources with codes 0, 1, 2, ..., each of which belongs to one key.

    A source counts if it has sent rows and is not silent. A key's rows are released up to the
    lowest punctuation of its counting sources.

    expected : number of a key's sources that must have sent rows before its rows are released
    released_up_to : int64[keys], event time up to which rows have been released
    pending : bool[keys], whether some expected sources have not sent rows yet
    ranks : function that returns the ranks of sources, which break ties

    Cost: O(given keys, their sources, and these sources' stored punctuations) per call.
    Memory: a few numbers per source, and its punctuations above `released_up_to`.
    """

    state = {
        "released_up_to": Array(int, "keys"),
        "pending": Array(bool, "keys"),
        "key_of": Array(int, "sources", low=0, high="keys"),
        "active": Array(bool, "sources"),
        "stored_punctuations": Record(SourceValues),
    }

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.released_up_to, self.key_of = NO_CODES, NO_CODES
        self.pending, self.active = np.empty(0, bool), np.empty(0, bool)
        self.ranks: Callable[[Ints], Ints] = lambda sources: sources
        self._members, self._stored = KeyedRuns(SourceValues), KeyedRuns(SourceValues)

    def activate(self, source: Ints, key: Ints) -> Ints:
        """Mark these distinct sources, which have sent rows, as counting. Returns the sources that
        did not count before; these sources start at `released_up_to` of their keys."""
        keys, sources = int(key.max(initial=-1)) + 1, int(source.max(initial=-1)) + 1
        self.released_up_to = pad(self.released_up_to, keys, NO_TIME)
        self.pending = pad(self.pending, keys, True)
        self.key_of, self.active = pad(self.key_of, sources), pad(self.active, sources)
        self.key_of[source] = key
        fresh = source[~self.active[source]]
        self.active[fresh] = True
        self._members.add(SourceValues(self.key_of[fresh], fresh))
        begun = np.unique(self.key_of[fresh])
        self.pending[begun[np.diff(self.members(begun)[1]) >= self.expected]] = False
        return fresh

    def members(self, keys: Ints) -> tuple[Ints, Ints]:
        """Return (sources, offsets): the counting sources of each of these ascending keys."""
        found, _ = self._members.rows_of(keys)
        order = np.lexsort((found.value, found.key))
        return found.value[order], np.append(0, np.searchsorted(found.key[order], keys, "right"))

    def key_punctuations(
        self, keys: Ints, starts: Ints, source: Ints, after: Ints, punctuation_of: Ints
    ) -> Ints:
        """Return int64[n]: the punctuation of each row's key after the row.

        keys : ascending keys that have rows    starts : start of each key's rows
        source, after : each row's source, and that source's punctuation after the row
        punctuation_of : punctuation of each of the keys' `members` before these rows
        """
        members, offsets = self.members(keys)
        least = least_punctuations(
            _places(source, members), after, starts, offsets, punctuation_of.copy()
        )
        return np.where(np.repeat(self.pending[keys], np.diff(starts)), NO_TIME, least)

    def record_punctuations(self, source: Ints, punctuation: Ints) -> None:
        """Record punctuations that sources have reached, ascending per source."""
        stored = punctuation > self.released_up_to[self.key_of[source]]
        self._stored.add(SourceValues(source[stored], punctuation[stored]))

    def release_punctuations(self, time: Ints, key: Ints) -> Ints:
        """Return int64[m]: the punctuation at which each row is emitted; see `least_steps`."""
        keys, group = np.unique(key, return_inverse=True)
        members, offsets = self.members(keys)
        stored, _ = self._stored.rows_of(np.sort(members))
        place = _places(stored.key, members)
        places = offsets_of(np.bincount(place, minlength=len(members)))
        steps = stored.value[np.argsort(place, kind="stable")]
        return least_steps(time, group.reshape(-1), offsets, steps, places)

    def record_released(self, keys: Ints, times: Ints) -> None:
        """Record that all rows of these ascending keys up to these event times are released."""
        self.released_up_to[keys] = np.maximum(self.released_up_to[keys], times)
        found, places = self._stored.rows_of(np.sort(self.members(keys)[0]))
        self._stored.remove(places[found.value <= self.released_up_to[self.key_of[found.key]]])

    def deactivate(self, source: Ints) -> Ints:
        """Ignore these sources until they send rows again. Returns their keys, ascending."""
        keys = np.unique(self.key_of[source])
        self.active[source] = False
        found, places = self._members.rows_of(keys)
        self._members.remove(places[~self.active[found.value]])
        return keys

    def release_limits(self, keys: Ints, punctuation_of: Callable[[Ints], Ints]) -> Ints:
        """Return int64[keys]: the event time up to which rows of these ascending keys may be
        released; int64 maximum without sources, minimum while expected sources are missing."""
        members, offsets = self.members(keys)
        out = np.full(len(keys), END_OF_TIME)
        np.minimum.at(
            out, np.repeat(np.arange(len(keys)), np.diff(offsets)), punctuation_of(members)
        )
        return np.where(self.pending[keys] & (out != END_OF_TIME), NO_TIME, out)

    @property
    def stored_punctuations(self) -> SourceValues:
        """The punctuations above `released_up_to` of their keys, by source."""
        stored = self._stored.rows
        stored = stored.take(stored.value > self.released_up_to[self.key_of[stored.key]])
        return stored.take(np.argsort(stored.key, kind="stable"))

    @stored_punctuations.setter
    def stored_punctuations(self, saved: SourceValues) -> None:
        self._stored.rows = saved

    def after_loading(self) -> None:
        stored, sources = self._stored.rows, np.flatnonzero(self.active)
        if len(stored.key) and not 0 <= stored.key.min() <= stored.key.max() < len(self.key_of):
            raise ValueError("punctuations must belong to known sources")
        self._members.rows = SourceValues(self.key_of[sources], sources)


def _places(sources: Ints, members: Ints) -> Ints:
    """Return int64[n]: positions of sources in `members`, which are distinct."""
    order = np.argsort(members)
    return order[np.searchsorted(members, sources, sorter=order)]
