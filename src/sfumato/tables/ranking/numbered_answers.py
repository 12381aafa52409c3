"""The answers of several top-k windows together, each with the number of its tuple's row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.ranking.window_answers import TopKAnswers, answers_and_latency
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Declaration
from sfumato.tables.arrow import UNKNOWN, as_times


@dataclass
class Held:
    """The tuples that a key's window holds, oldest first: int64[n] each.

    arrival : number in the window    number : of the row, -1 where the row itself is not needed
    """

    arrival: Ints
    number: Ints

    layout: ClassVar[Mapping[str, Declaration]] = dict.fromkeys(
        ("arrival", "number"), Array(int, "held")
    )

    @classmethod
    def none(cls) -> Held:
        """No tuples."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class AnswerColumns(Columns):
    """Rows of answers, by time, then group, query and rank: int64[n], but score and probability.

    query : place among the queries    number : of the tuple's row    answered : or UNKNOWN
    """

    group: Ints
    query: Ints
    k: Ints
    time: Ints
    answered: Ints
    rank: Ints
    number: Ints
    stream: Ints
    score: Floats
    probability: Floats

    def shown(self, names: Iterable[str], kind: pa.DataType) -> dict[str, pa.Array]:
        """The columns that a table of answers has, times of this type."""
        return {
            "query": pa.array(list(names)).take(pa.array(self.query)),
            "k": pa.array(self.k),
            "time": as_times(self.time, kind),
            "rank": pa.array(self.rank),
            "score": pa.array(self.score),
            "probability": pa.array(self.probability),
            "answered": as_times(self.answered, kind),
        }


class NumberedAnswers:
    """The answers of several groups, as parallel arrays."""

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.parts: list[AnswerColumns] = []

    def add(
        self, group: Ints, answers: TopKAnswers, numbers: Ints, only: Bools | None = None
    ) -> None:
        """Those of some groups.

        group : int64[n], of each row;  numbers : of the tuples, `row` being a place there
        only : bool[n, queries], the queries whose answers are wanted
        """
        if not answers.row.size:
            return
        query = self.places_of(answers.names)[answers.query]
        part = AnswerColumns(
            group, query, answers.k, answers.time, answers.answered, answers.rank,
            numbers[answers.row], answers.stream, answers.score, answers.probability,
        )  # fmt: skip
        if only is not None:
            part = part.take(only[np.arange(query.size), query])
        self.parts.append(part)

    def places_of(self, names: Sequence[str]) -> Ints:
        """int64[n]: where these queries are among all."""
        return np.array([self.places[name] for name in names], np.int64)

    def sorted(self) -> AnswerColumns:
        """All of them as one."""
        of = AnswerColumns.joined(self.parts)
        return of.take(np.lexsort((of.rank, of.query, of.group, of.time)))


def counted(of: AnswerColumns, every: Ints) -> tuple[int, int, int]:
    """Answers among sorted rows, how many are later than their query's `every`, and the sum of
    their latencies in microseconds."""
    changes = np.ones(of.group.size, np.bool_)
    changes[1:] = np.diff(of.group) != 0
    for column in (of.query, of.time):
        changes[1:] |= np.diff(column) != 0
    return answers_and_latency(changes, of.time, of.answered, every[of.query], UNKNOWN)
