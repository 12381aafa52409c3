"""The sources that keys are made of: which of them count, and how far they let rows out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.kernels.disorder.release import least_punctuations, least_steps
from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME
from sfumato.operators.arrays import Ints, longer, offsets_of
from sfumato.operators.disorder.rows import ByKey, Keyed
from sfumato.operators.state.declared import Array, Declaration, Offsets
from sfumato.operators.state.stateful import Stateful

NO_CODES = np.empty(0, np.int64)


@dataclass
class Member(Keyed):
    """Sources that count, of their keys."""

    key: np.ndarray
    source: np.ndarray

    layout: ClassVar[Mapping[str, Declaration]] = {
        "key": Array(int, "members"),
        "source": Array(int, "members"),
    }


@dataclass
class SourceStep(Keyed):
    """Punctuations beyond the levels of their keys, ascending for each source (here the key)."""

    key: np.ndarray
    time: np.ndarray

    layout: ClassVar[Mapping[str, Declaration]] = {
        "key": Array(int, "steps"),
        "time": Array(int, "steps"),
    }


class Sources(Stateful):
    """Sources with codes 0, 1, 2, ..., each of one key. A key's rows come out up to the least
    punctuation of its sources that count: those that have spoken and did not fall silent.

    expected : sources of a key that must have spoken before anything of it comes out

    Cost of a call: of the keys in it, their sources and the punctuations of these.
    Memory: a few numbers a source, and those of its punctuations that are ahead of its key's.
    """

    state: ClassVar[Mapping[str, Declaration]] = {
        "level": Array(int, "keys"),
        "awaited": Array(bool, "keys"),
        "key_of": Array(int, "sources", low=0, high="keys"),
        "counts": Array(bool, "sources"),
        "offsets": Offsets("sources", "steps"),
        "steps": Array(int, "steps"),
    }

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.level = NO_CODES  # of each key: its rows up to there have come out
        self.awaited = np.empty(0, bool)  # of each key: not all expected sources have spoken
        self.spoken = NO_CODES  # of each key: how many sources count
        self.key_of = NO_CODES
        self.counts = np.empty(0, bool)
        self.ranks: Callable[[Ints], Ints] = lambda sources: sources  # how sources sort
        self._members, self._ahead = ByKey(Member), ByKey(SourceStep)
        self.offsets, self.steps = np.zeros(1, np.int64), NO_CODES  # `_ahead`, as it is saved

    def speak(self, source: Ints, key: Ints) -> Ints:
        """Rows of these sources (distinct, with their keys) have come: they count.

        Returns those that did not count before: the level of their keys is their floor.
        """
        self._grow(int(key.max(initial=-1)) + 1, int(source.max(initial=-1)) + 1)
        self.key_of[source] = key
        fresh = source[~self.counts[source]]
        self._count(fresh)
        keys = self.key_of[fresh]
        self.awaited[keys[self.spoken[keys] >= self.expected]] = False
        return fresh

    def _grow(self, keys: int, sources: int) -> None:
        self.level = longer(self.level, keys, NO_TIME)
        self.awaited = longer(self.awaited, keys, True)
        self.spoken = longer(self.spoken, keys)
        self.key_of = longer(self.key_of, sources)
        self.counts = longer(self.counts, sources)

    def _count(self, fresh: Ints) -> None:
        """From now on these count."""
        self.counts[fresh] = True
        np.add.at(self.spoken, self.key_of[fresh], 1)
        self._members.add(Member(self.key_of[fresh], fresh))

    def members(self, keys: Ints) -> tuple[Ints, Ints]:
        """(sources, offsets): the sources that count, of each of these keys (ascending)."""
        found = self._members.of(keys).rows
        order = np.lexsort((found.source, found.key))
        ends = np.searchsorted(found.key[order], keys, "right")
        return found.source[order], np.append(0, ends)

    def least(
        self, keys: Ints, rows: tuple[Ints, Ints, Ints], counting: tuple[Ints, Ints, Ints]
    ) -> Ints:
        """int64[n]: each key's punctuation after each of its rows; see `least_punctuations`.

        keys : those that have rows, ascending
        rows : where those of each key begin; their sources; punctuations of these, after each row
        counting : `members` of the keys, and the punctuations of these before the rows
        """
        (starts, source, punctuation), (members, offsets, before) = rows, counting
        place = _places(source, members)
        least = least_punctuations(place, punctuation, starts, offsets, before.copy())
        return np.where(np.repeat(self.awaited[keys], np.diff(starts)), NO_TIME, least)

    def step(self, source: Ints, punctuation: Ints) -> None:
        """Sources have reached these punctuations, ascending for each of them."""
        ahead = punctuation > self.level[self.key_of[source]]
        self._ahead.add(SourceStep(source[ahead], punctuation[ahead]))

    def punctuations(self, time: Ints, key: Ints) -> Ints:
        """int64[m]: with which punctuation rows come out; see `least_steps`."""
        keys, group = np.unique(key, return_inverse=True)
        members, offsets = self.members(keys)
        ahead = self._ahead.of(np.sort(members)).rows
        place = _places(ahead.key, members)
        places = offsets_of(np.bincount(place, minlength=len(members)))
        steps = ahead.time[np.argsort(place, kind="stable")]
        return least_steps(time, group.reshape(-1), offsets, steps, places)

    def raise_level(self, keys: Ints, levels: Ints) -> None:
        """All rows of these keys (ascending) up to these event times have come out."""
        self.level[keys] = np.maximum(self.level[keys], levels)
        found = self._ahead.of(np.sort(self.members(keys)[0]))
        passed = found.rows.time <= self.level[self.key_of[found.rows.key]]
        self._ahead.remove(found, passed)

    def silence(self, source: Ints) -> Ints:
        """These sources do not count until they speak again. Returns their keys, ascending."""
        over = source[self.counts[source]]
        self.counts[over] = False
        np.subtract.at(self.spoken, self.key_of[over], 1)
        found = self._members.of(np.unique(self.key_of[over]))
        self._members.remove(found, ~self.counts[found.rows.source])
        return np.unique(self.key_of[source])

    def targets(self, keys: Ints, punctuation_of: Callable[[Ints], Ints]) -> Ints:
        """int64[keys]: the event times up to which rows of these keys (ascending) may come out now;
        the int64 maximum where no source counts, the minimum where sources are awaited."""
        members, offsets = self.members(keys)
        out = np.full(len(keys), END_OF_TIME)
        group = np.repeat(np.arange(len(keys)), np.diff(offsets))
        np.minimum.at(out, group, punctuation_of(members))
        return np.where(self.awaited[keys] & (out != END_OF_TIME), NO_TIME, out)

    # ---- saved

    def before_saving(self) -> None:
        ahead = self._ahead.rows
        ahead = ahead.take(ahead.time > self.level[self.key_of[ahead.key]])
        ahead = ahead.take(np.argsort(ahead.key, kind="stable"))
        self._ahead, self.steps = ByKey(SourceStep, ahead), ahead.time
        self.offsets = offsets_of(np.bincount(ahead.key, minlength=len(self.key_of)))

    def after_loading(self) -> None:
        source = np.repeat(np.arange(len(self.key_of)), np.diff(self.offsets))
        self._ahead, self._members = (
            ByKey(SourceStep, SourceStep(source, self.steps)),
            ByKey(Member),
        )
        self.spoken = np.zeros(len(self.level), np.int64)
        self._count(np.flatnonzero(self.counts))


def _places(sources: Ints, members: Ints) -> Ints:
    """int64[n]: where these sources are among `members` (distinct), which has them all."""
    order = np.argsort(members)
    return order[np.searchsorted(members, sources, sorter=order)]
