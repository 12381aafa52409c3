"""A set of repeated queries on a machine that runs one at a time: work, answers, lateness."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import repeat
from typing import Protocol

from sfumato.operators.ranking.timetable import Timetable

Step = tuple[float, int, tuple[int, ...]]  # time since the previous run, k, answered queries


@dataclass(frozen=True)
class Load:
    """The outcome of a set of queries."""

    work: float
    answers: float
    lateness: float


def demand(table: Timetable, seconds: Callable[[int], float]) -> float:
    """Return the running seconds that a timetable requires per second, its unit of time."""
    if table.shared:
        return sum(seconds(table.ks[group - 1]) for _, group in table.runs) / table.cycle
    return sum(seconds(k) / f for k, f in zip(table.ks, table.bounds, strict=True))


class Machine(Protocol):
    """A machine that does one run after the other. Times are in units of the timetable."""

    def start(self, due: float) -> float:
        """Wait until the machine is free and the run is due; return the time."""

    def run(self, k: int) -> None:
        """Compute the top k."""


@dataclass
class SimulatedMachine:
    """A simulated machine: runs take the given seconds for their k, and nothing is computed."""

    seconds: Callable[[int], float]
    _free: float = 0.0

    def start(self, due: float) -> float:
        self._free = max(due, self._free)
        return self._free

    def run(self, k: int) -> None:
        self._free += self.seconds(k)


@dataclass
class RealMachine:
    """A machine that computes every run, on one of this computer's clocks."""

    compute: Callable[[int], object]
    unit: float
    wall: bool
    busy: float = field(default=0.0, init=False)  # seconds of the clock within runs
    processor: float = field(default=0.0, init=False)  # seconds of processor time within runs
    _skipped: float = field(default=0.0, init=False)  # skipped seconds of waiting
    _began: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._began = self._clock()

    def start(self, due: float) -> float:
        wait = due * self.unit - self._now()
        if wait > 0 and self.wall:
            time.sleep(wait)
        elif wait > 0:
            self._skipped += wait
        return self._now() / self.unit

    def run(self, k: int) -> None:
        begin, spent = self._now(), time.thread_time()
        self.compute(k)
        self.busy += self._now() - begin
        self.processor += time.thread_time() - spent

    @property
    def slowed(self) -> float:
        """The runs' clock time relative to their processor time."""
        return self.busy / self.processor if self.processor else 1.0

    def _clock(self) -> float:
        return time.monotonic() if self.wall else time.thread_time()

    def _now(self) -> float:
        return self._clock() - self._began + self._skipped


def carried_out(table: Timetable, seconds: Callable[[int], float], horizon: float) -> Load:
    """Simulate a timetable for `horizon` seconds, its unit of time."""
    answers, lateness = carry_out(table, SimulatedMachine(seconds), horizon)
    return Load(demand(table, seconds), answers, lateness)


def carry_out(table: Timetable, machine: Machine, horizon: float) -> tuple[float, float]:
    """Run a timetable for `horizon` units of time; return answers per unit and lateness per query.

    A run starts when it is due and the machine is free; if several are due, the earliest due
    starts. The next run of the same kind is due the planned time after this start. The lateness of
    a query is the time by which its intervals, from one start to the next, exceed its bound.
    Source: Chen et al. (2013), section 10.1, the metrics.
    """
    bounds = [every for _, every in table.queries]
    last, late = [0.0] * len(bounds), [0.0] * len(bounds)
    steps = _steps(table)
    pending = [(step[0], i, step) for i, step in enumerate(next(each) for each in steps)]
    heapify(pending)
    answers = 0
    while True:
        due, chain, (_, k, queries) = pending[0]
        start = machine.start(min(due, horizon))
        if start >= horizon:
            break
        machine.run(k)
        for query in queries:
            late[query] += max(0.0, start - last[query] - bounds[query])
            last[query] = start
        answers += len(queries)
        step = next(steps[chain])
        heapreplace(pending, (start + step[0], chain, step))
    for query, bound in enumerate(bounds):
        late[query] += max(0.0, horizon - last[query] - bound)
    return answers / horizon, sum(late) / len(late)


def _steps(table: Timetable) -> list[Iterator[Step]]:
    """Return independent sequences of runs: one for a shared timetable, otherwise one per group."""
    if table.shared:
        return [_chain(table)]
    return [
        repeat((float(bound), k, table.answers(group)))
        for group, (k, bound) in enumerate(zip(table.ks, table.bounds, strict=True), 1)
    ]


def _chain(table: Timetable) -> Iterator[Step]:
    answered = {group: table.answers(group) for group in range(1, len(table.groups) + 1)}
    before = 0
    for at, group in table.after(0):
        yield float(at - before), table.ks[group - 1], answered[group]
        before = at
