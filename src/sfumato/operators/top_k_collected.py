"""The answers of several runs of several queries, as parallel arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.operators.poisson_binomial import Floats
from sfumato.operators.ranked_items import Ints
from sfumato.operators.schedule import Due
from sfumato.operators.top_k_answers import Rankings


class Answers(NamedTuple):
    """Rows of answers, by due time, then query, then rank: parallel arrays.

    query : int64, place in `names`;  k : int64;  time : int64 microseconds, the due instant
    rank : int64, from 1;  row : int64, the tuple's arrival number
    stream : int64, -1 unless streams are ranked;  score, probability : float64, as in Rankings
    rejected : int64, arrival numbers of tuples left out because they overfill their rule
    """

    names: tuple[str, ...]
    query: Ints
    k: Ints
    time: Ints
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
        self.parts: list[tuple[np.ndarray, ...]] = []
        self.rejected: list[Ints] = []

    def add(self, due: Due, ks: Ints, place: Ints, found: Rankings, rows: Ints) -> None:
        """The answers of one run to each of its queries.

        ks : each query's k;  place : where in `found`;  rows : the ranked tuples' arrival numbers
        """
        names = [self.names.setdefault(name, len(self.names)) for name in due.queries]
        sizes = np.diff(found.offsets)[place]
        before = np.cumsum(sizes) - sizes
        at = np.arange(sizes.sum()) + np.repeat(found.offsets[place] - before, sizes)
        self.parts.append(
            (
                np.repeat(np.array(names), sizes),
                np.repeat(ks, sizes),
                np.full(at.size, due.time),
                found.rank[at],
                rows[found.tuples[at]],
                found.stream[at],
                found.score[at],
                found.value[at],
            )
        )

    def answers(self) -> Answers:
        """All of them as one."""
        empty: tuple[np.ndarray, ...] = (np.empty(0, np.int64),) * 6 + (np.empty(0),) * 2
        query, k, time, rank, row, stream, score, value = (
            np.concatenate(column) for column in zip(empty, *self.parts, strict=True)
        )
        rejected = np.concatenate([empty[0], *self.rejected])
        names = tuple(self.names)
        return Answers(names, query, k, time, rank, row, stream, score, value, rejected)
