"""The sources that keys are made of: which of them count, and how far they let rows out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from sfumato.kernels.disorder.sources import least_punctuations, least_steps
from sfumato.kernels.disorder.state import ALWAYS, NEVER
from sfumato.operators.arrays import Ints, chosen, longer, offsets_of
from sfumato.operators.state.declared import Array, Declaration, Offsets
from sfumato.operators.state.stateful import Stateful


class Sources(Stateful):
    """Sources with codes 0, 1, 2, ..., each of one key. A key's rows come out up to the least
    punctuation of its sources that count: those that have spoken and did not fall silent.

    expected : sources of a key that must have spoken before anything of it comes out

    Memory: a few numbers a source, and those of its punctuations that are ahead of its key's.
    """

    state: ClassVar[Mapping[str, Declaration]] = {
        "level": Array(int, "keys"),
        "awaited": Array(bool, "keys"),
        "key_of": Array(int, "sources", low=0, high="keys"),
        "rank": Array(int, "sources"),
        "counts": Array(bool, "sources"),
        "offsets": Offsets("sources", "steps"),
        "steps": Array(int, "steps"),
    }

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.level = np.empty(0, np.int64)  # of each key: its rows up to there have come out
        self.awaited = np.empty(0, bool)  # of each key: not all expected sources have spoken
        self.key_of = np.empty(0, np.int64)
        self.rank = np.empty(0, np.int64)  # how sources sort
        self.counts = np.empty(0, bool)
        self.offsets = np.zeros(1, np.int64)
        self.steps = np.empty(0, np.int64)  # punctuations beyond the key's level, by source
        self._by_key: Ints | None = None  # sources sorted by key

    def speak(self, source: Ints, key: Ints, rank: Ints) -> Ints:
        """Rows of these sources (distinct, with their keys and ranks) have come: they count.

        rank : int64[sources], of all sources known by now
        Returns those that did not count before: the level of their keys is their floor.
        """
        keys, sources = int(key.max(initial=-1)) + 1, int(source.max(initial=-1)) + 1
        self._grow(keys, sources)
        self.key_of[source] = key
        self.rank = np.asarray(rank, np.int64)
        fresh = source[~self.counts[source]]
        if len(fresh):
            self._by_key = None
            self.counts[fresh] = True
            spoken = np.bincount(self.key_of[self.counts], minlength=len(self.level))
            self.awaited &= spoken < self.expected
        return fresh

    def _grow(self, keys: int, sources: int) -> None:
        self.level = longer(self.level, keys, NEVER)
        self.awaited = longer(self.awaited, keys, True)
        self.key_of = longer(self.key_of, sources)
        self.counts = longer(self.counts, sources)
        self.offsets = longer(self.offsets, sources + 1, self.offsets[-1])

    def members(self, keys: Ints) -> tuple[Ints, Ints]:
        """(sources, offsets): the sources that count, of each of these keys."""
        if self._by_key is None:
            order = np.argsort(self.key_of, kind="stable")
            self._by_key = order[self.counts[order]]
        sorted_keys = self.key_of[self._by_key]
        ends = np.searchsorted(sorted_keys, np.arange(len(self.level) + 1))
        offsets, places = chosen(ends, keys)
        return self._by_key[places], offsets

    def least(
        self, keys: Ints, starts: Ints, source: Ints, punctuation: Ints, current: Ints
    ) -> Ints:
        """int64[n]: each key's punctuation after each of its rows; see `least_punctuations`.

        keys, starts : the keys that have rows, and where these begin     current : int64[sources]
        """
        members, offsets = self.members(keys)
        before = np.where(self.counts, current, ALWAYS)
        least = least_punctuations(source, punctuation, starts, members, offsets, before)
        return np.where(np.repeat(self.awaited[keys], np.diff(starts)), NEVER, least)

    def step(self, source: Ints, punctuation: Ints) -> None:
        """Sources have reached these punctuations, ascending for each of them."""
        known = np.repeat(np.arange(len(self.key_of)), np.diff(self.offsets))
        self._keep(
            np.concatenate([known, source]), np.concatenate([self.steps, punctuation]), sort=True
        )

    def _keep(self, source: Ints, steps: Ints, sort: bool) -> None:
        ahead = steps > self.level[self.key_of[source]]
        source, steps = source[ahead], steps[ahead]
        if sort:
            order = np.lexsort((steps, source))
            source, steps = source[order], steps[order]
        self.steps = steps
        self.offsets = offsets_of(np.bincount(source, minlength=len(self.key_of)))

    def punctuations(self, time: Ints, key: Ints) -> Ints:
        """int64[m]: with which punctuation rows come out; see `least_steps`."""
        keys, group = np.unique(key, return_inverse=True)
        members, offsets = self.members(keys)
        return least_steps(time, group.reshape(-1), members, offsets, self.steps, self.offsets)

    def raise_level(self, keys: Ints, levels: Ints) -> None:
        """All rows of these keys up to these event times have come out."""
        self.level[keys] = np.maximum(self.level[keys], levels)
        known = np.repeat(np.arange(len(self.key_of)), np.diff(self.offsets))
        self._keep(known, self.steps, sort=False)

    def silence(self, source: Ints) -> Ints:
        """These sources do not count until they speak again. Returns their keys."""
        self.counts[source] = False
        self._by_key = None
        return np.unique(self.key_of[source])

    def targets(self, keys: Ints, current: Ints) -> Ints:
        """int64[keys]: the event times up to which rows may come out now; the int64 maximum where
        no source counts, the minimum where sources are awaited."""
        members, offsets = self.members(keys)
        out = np.full(len(keys), ALWAYS)
        np.minimum.at(out, np.repeat(np.arange(len(keys)), np.diff(offsets)), current[members])
        return np.where(self.awaited[keys] & (out != ALWAYS), NEVER, out)

    def after_loading(self) -> None:
        self._by_key = None
