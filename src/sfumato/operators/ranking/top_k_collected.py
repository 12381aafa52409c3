"""The answers of several runs of several queries, as parallel arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.ranking.answer_rows import answer_rows
from sfumato.operators.laws.poisson_binomial import Floats
from sfumato.operators.ranking.ranked_items import Ints
from sfumato.operators.ranking.schedule import Due
from sfumato.operators.ranking.top_k_answers import Rankings


class Answers(NamedTuple):
    """Rows of answers, by due time, then query, then rank: parallel arrays.

    query : int64, place in `names`;  k : int64;  time : int64 microseconds, the due instant
    answered : int64 microseconds, the time that was known when it was answered: that of the first
        tuple (or call of `advance`) that showed the instant to be past. What lies between the two
        is the answer's latency
    rank : int64, from 1;  row : int64, the tuple's arrival number
    stream : int64, -1 unless streams are ranked;  score, probability : float64, as in Rankings
    rejected : int64, arrival numbers of tuples left out because they overfill their rule
    """

    names: tuple[str, ...]
    query: Ints
    k: Ints
    time: Ints
    answered: Ints
    rank: Ints
    row: Ints
    stream: Ints
    score: Floats
    probability: Floats
    rejected: Ints


class CollectedAnswers:
    """The answers of several runs on their way out."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.rejected: list[Ints] = []
        self._numbers: dict[tuple[str, ...], Ints] = {}
        self._parts: list[tuple[Ints, ...]] = []
        self._found: list[Rankings] = []
        self._size = 0

    def add(
        self, due: Due, answered: int, ks: Ints, place: Ints, found: Rankings, rows: Ints
    ) -> None:
        """The answers of one run to each of its queries.

        ks : each query's k;  place : where in `found`;  rows : the ranked tuples' arrival numbers
        """
        if due.queries not in self._numbers:
            numbers = [self.names.setdefault(name, len(self.names)) for name in due.queries]
            self._numbers[due.queries] = np.array(numbers)
        times = np.array([due.time, answered])
        self._parts.append((self._numbers[due.queries], ks, place, times, rows))
        self._found.append(found)
        self._size += int(np.diff(found.offsets)[place].sum())

    def answers(self) -> Answers:
        """All of them as one."""
        # Written once, into their place: there are more of them than of anything else here.
        whole, real, at = np.empty((7, self._size), np.int64), np.empty((2, self._size)), 0
        for (numbers, ks, place, times, rows), found in zip(self._parts, self._found, strict=True):
            at = answer_rows(whole, real, at, numbers, ks, place, times, *found, rows)
        rejected = np.concatenate([np.empty(0, np.int64), *self.rejected])
        return Answers._make((tuple(self.names), *whole, *real, rejected))
