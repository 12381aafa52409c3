"""The answers of several top-k windows together, each with the number of its tuple's row."""

from __future__ import annotations

import numpy as np

from sfumato.operators.ranking.window_answers import TopKAnswers, answers_and_latency
from sfumato.tables.arrow import UNKNOWN
from sfumato.tables.ranking.key_windows import Held


class NumberedAnswers:
    """The answers of several groups, as parallel arrays."""

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.parts: list[tuple[np.ndarray, ...]] = []

    def add(
        self,
        group: int,
        answers: TopKAnswers,
        held: Held,
        only: set[str] | None = None,
        clock: np.ndarray | None = None,
    ) -> None:
        """Those of one group, before it forgets any row.

        only : of these queries;  clock : int64[], ascending, the times that were known one after
        the other, where these are not the group's own; answers beyond are UNKNOWN: no row called
        for them
        """
        if not answers.rank.size:
            return
        query = np.array([self.places[name] for name in answers.names])[answers.query]
        number = held.number[np.searchsorted(held.arrival, answers.row)]
        answered = answers.answered
        if clock is not None:
            answered = np.append(clock, UNKNOWN)[np.searchsorted(clock, answers.time)]
        part: tuple[np.ndarray, ...] = (
            np.full(query.size, group),
            query,
            answers.k,
            answers.time,
            answered,
            answers.rank,
            number,
            answers.stream,
            answers.score,
            answers.probability,
        )
        if only is not None:
            wanted = np.isin(query, [self.places[name] for name in only])
            part = tuple(column[wanted] for column in part)
        self.parts.append(part)

    def sorted(self) -> list[np.ndarray]:
        """All columns, by time, then group, query and rank."""
        columns = [np.concatenate(column) for column in zip(*self.parts, strict=True)]
        group, query, _, time, _, rank, *_ = columns
        order = np.lexsort((rank, query, group, time))
        return [column[order] for column in columns]


def counted(
    group: np.ndarray,
    query: np.ndarray,
    time: np.ndarray,
    answered: np.ndarray,
    every: np.ndarray,
) -> tuple[int, int, int]:
    """Answers among sorted rows, how many are later than their query's `every`, and the sum of
    their latencies in microseconds. int64[n], but `every`: of each query."""
    changes = np.ones(group.size, np.bool_)
    changes[1:] = np.diff(group) != 0
    for column in (query, time):
        changes[1:] |= np.diff(column) != 0
    return answers_and_latency(changes, time, answered, every[query], UNKNOWN)
