"""A set of repeated queries on one machine that runs one at a time: work, answers, lateness."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import repeat

from sfumato.operators.ranking.timetable import Timetable

Step = tuple[float, int, tuple[int, ...]]  # time since the run before, k, queries answered


@dataclass(frozen=True)
class Load:
    """What became of a set of queries.

    work : seconds of running that the timetable asks for in a second, beyond 1 if it is too much
    answers : answers to queries in a second    lateness : seconds that a query's answers came later
    than its bound, in all, the mean over queries
    """

    work: float
    answers: float
    lateness: float


def demand(table: Timetable, seconds: Callable[[int], float]) -> float:
    """Seconds of running that a timetable asks for in a second, its unit of time.

    seconds : of a run for a greatest k
    """
    if table.shared:
        return sum(seconds(table.ks[group - 1]) for _, group in table.runs) / table.cycle
    return sum(seconds(k) / f for k, f in zip(table.ks, table.bounds, strict=True))


def carried_out(table: Timetable, seconds: Callable[[int], float], horizon: float) -> Load:
    """Run a timetable for `horizon` seconds, its unit of time.

    A run starts when it is due and the machine is free, of several the one due first; the next of
    its kind is due the planned time after this start. The lateness of a query is the time by which
    its intervals, from one start to the next, exceed its bound.
    Source: D, section 10.1, the metrics.
    """
    bounds = [every for _, every in table.queries]
    last, late = [0.0] * len(bounds), [0.0] * len(bounds)
    steps = _steps(table)
    pending = [(step[0], i, step) for i, step in enumerate(next(each) for each in steps)]
    heapify(pending)
    free, answers = 0.0, 0
    while True:
        due, chain, (_, k, queries) = pending[0]
        start = max(due, free)
        if start >= horizon:
            break
        free = start + seconds(k)
        for query in queries:
            late[query] += max(0.0, start - last[query] - bounds[query])
            last[query] = start
        answers += len(queries)
        step = next(steps[chain])
        heapreplace(pending, (start + step[0], chain, step))
    for query, bound in enumerate(bounds):
        late[query] += max(0.0, horizon - last[query] - bound)
    return Load(demand(table, seconds), answers / horizon, sum(late) / len(late))


def _steps(table: Timetable) -> list[Iterator[Step]]:
    """Runs that depend on each other: all of a shared timetable, else each group by itself."""
    if table.shared:
        return [_chain(table)]
    return [
        repeat((float(bound), k, table.answers(group)))
        for group, (k, bound) in enumerate(zip(table.ks, table.bounds, strict=True), 1)
    ]


def _chain(table: Timetable) -> Iterator[Step]:
    answered = {group: table.answers(group) for group in range(1, len(table.groups) + 1)}
    before = 0
    for time, group in table.after(0):
        yield float(time - before), table.ks[group - 1], answered[group]
        before = time
