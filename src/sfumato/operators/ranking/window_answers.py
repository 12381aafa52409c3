"""Answers of ranking windows, and the progress of event time that they wait for."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.ranking.windows import (
    AnswerRows,
    Rankings,
    WindowRun,
    count_answers,
    judge,
    known_at,
    write_answers,
)
from sfumato.operators.arrays import Bools, Floats, Ints, offsets_of
from sfumato.operators.ranking.schedule import Due


class Steps(NamedTuple):
    """The clocks of scopes after each row of a batch.

    begin : int64[scopes + 1], scope s has clock[begin[s]] ... clock[begin[s + 1]], ascending
    """

    begin: Ints
    clock: Ints

    def known(self, scope: Ints, time: Ints, otherwise: Ints) -> Ints:
        """When some times were known, int64[n]; UNKNOWN where the batch shows none of them,
        `otherwise` where the scope had no row."""
        found: Ints = known_at(self.begin, self.clock, scope, time, otherwise)
        return found


NO_STEPS = Steps(np.zeros(1, np.int64), np.empty(0, np.int64))


def judged(
    scope: Ints, time: Ints, late: Bools, punctuation: Ints, clocks: tuple[Ints, Ints]
) -> tuple[Bools, Steps]:
    """Rows that come too late, bool[n], see `kernels.ranking.event_clocks.judge`; moves the clocks.

    clocks : of each scope, no instant up to there is open, and the greatest punctuation
    """
    behind, steps = judge(scope, time, late, punctuation, *clocks)
    begin = offsets_of(np.bincount(scope, minlength=clocks[0].size))
    return behind, Steps(begin, steps[np.argsort(scope, kind="stable")])


DTYPES = [
    np.float64 if name in ("score", "probability") else np.int64 for name in AnswerRows._fields
]


class TopKAnswers(NamedTuple):
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
        self._runs: list[tuple[WindowRun, Rankings]] = []
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
        run = WindowRun(self._numbers[due.queries], ks, place, due.time, answered, rows)
        self._runs.append((run, found))
        self._size += int(np.diff(found.offsets)[place].sum())

    def answers(self) -> TopKAnswers:
        """All of them as one."""
        # Written once, into their place: there are more of them than of anything else here.
        out, at = AnswerRows(*(np.empty(self._size, dtype) for dtype in DTYPES)), 0
        for run, found in self._runs:
            at = write_answers(out, at, run, found)
        rejected = np.concatenate([np.empty(0, np.int64), *self.rejected])
        return TopKAnswers(tuple(self.names), *out, rejected)


def answers_and_latency(
    first: Bools, time: Ints, answered: Ints, every: Ints, unknown: int
) -> tuple[int, int, int]:
    """Answers among rows, how many are later than their query's `every`, and their latency in all.

    first : bool[n], rows with which another answer begins
    time, answered, every : int64[n] microseconds; `answered` may be `unknown`, and does not count
    """
    latency = np.where(answered == unknown, -1, answered - time)
    return count_answers(first, latency, every)
