"""Several operators over tables as one: what comes out of one step are the rows of a later one.

What a later step reads of the rows that come in is computed before the first one, and rides through
the steps between in the struct `row`; what only a step knows (`late`, a punctuation, a result) is
taken from its answers. So rows stay Arrow tables from the first step to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.operators.state.declared import Saved
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.operators.state.stateful import Stateful, damage_in, load_bytes, saved_bytes
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.link import COUNTED, INVALID, Link
from sfumato.tables.operator import TableConfig, TableOperator


@dataclass(frozen=True)
class ChainStep:
    """An operator of a chain.

    feeds : for each of its sides the number of a frame that is read, or the link to a step before
    idles : whether rows come out of it when none came in for a while
    """

    config: TableConfig
    feeds: tuple[int | Link, ...]
    idles: bool = False

    @property
    def links(self) -> list[tuple[int, Link]]:
        """(side, link) of the sides that other steps feed."""
        return [(side, feed) for side, feed in enumerate(self.feeds) if isinstance(feed, Link)]


@dataclass(frozen=True)
class ChainConfig:
    """Operators that run as one; a step comes after those that feed it, and the last one answers.

    Has what a `TableConfig` has. Counters and gauges of step i are named step{i}_NAME, those of the
    link to its side j step{i}_side{j}_NAME; the aggregates of gauges name those of one operator.
    """

    steps: tuple[ChainStep, ...]

    kind = "chain"
    version = 2

    @property
    def linked(self) -> tuple[str, ...]:
        """The counters of all links."""
        return tuple(
            f"{prefix(number, side)}{name}"
            for number, step in enumerate(self.steps)
            for side, link in step.links
            if link.validated
            for name in COUNTED
        )

    @property
    def counters(self) -> tuple[str, ...]:
        steps = enumerate(self.steps)
        own = [f"{prefix(i)}{name}" for i, step in steps for name in step.config.counters]
        return (*own, *self.linked)

    @property
    def gauges(self) -> Mapping[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        for number, step in enumerate(self.steps):
            found |= _of(prefix(number), step.config.gauges)
        return found

    @property
    def tasks(self) -> int:
        return 1  # what several tasks share is no step of a chain

    def for_task(self, number: int) -> ChainConfig:
        return self

    def layouts(self) -> list[list[Any]]:
        """[kind, version] of each step's state."""
        return [[step.config.kind, step.config.version] for step in self.steps]

    def arrival(self, side: int = 0) -> Arrival:
        """How the rows of a frame follow each other: as the step that reads them takes them."""
        feeds = (
            (step.config, of, feed) for step in self.steps for of, feed in enumerate(step.feeds)
        )
        return next(config.arrival(of) for config, of, feed in feeds if feed == side)

    def make(self) -> Chain:
        """The operators, empty. Raises ValueError or TypeError for what a config has wrong."""
        return Chain(self)

    def restore(self, data: bytes) -> Chain:
        """The chain whose `snapshot` this is. Raises SnapshotError for any other bytes."""
        values, saved = load_bytes(data, self.kind, self.version)
        if values.get("layouts") != self.layouts():
            raise SnapshotError(
                f"expected a snapshot of {self.layouts()}; got {values.get('layouts')!r:.200}: "
                "start from an empty checkpoint, or use the release that wrote it"
            )
        with damage_in(self.kind):
            chain = self.make()
            chain.load_state(saved)
        saved.check_empty()
        return chain


class Chain(Stateful):
    """The operators of a chain, for the keys of one bucket; used as a `TableOperator` is."""

    def __init__(self, config: ChainConfig) -> None:
        self.config = config
        self.steps: list[TableOperator] = [step.config.make() for step in config.steps]
        self.counts = dict.fromkeys(config.linked, 0)

    def begin(self) -> None:
        """A micro-batch begins, see `TableOperator.begin`."""
        for operator in self.steps:
            operator.begin()

    def set_clock(self, now: int) -> None:
        """Take the processing time of a call, see `TableOperator.set_clock`."""
        for operator in self.steps:
            operator.set_clock(now)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        """Answers of the last step to the rows of a micro-batch: (frame, rows) pairs."""
        return self._run(batch, now)

    def idle(self, now: int) -> list[pa.Table]:
        """What comes out because no row came for so long: of the step that has a timeout."""
        return self._run([], now, idle=True)

    def flush(self) -> list[pa.Table]:
        """What comes out at the end of the frames."""
        return self._run([], 0, flush=True)

    def _run(
        self,
        batch: Sequence[tuple[int, pa.Table]],
        now: int,
        *,
        idle: bool = False,
        flush: bool = False,
    ) -> list[pa.Table]:
        answers: list[list[pa.Table]] = []
        for number, (step, operator) in enumerate(zip(self.config.steps, self.steps, strict=True)):
            rows = list(self._rows(number, step, batch, answers))
            out = operator.process(rows, now) if rows else []
            if idle and step.idles:
                out = [*out, *operator.idle(now)]
            if flush:
                out = [*out, *operator.flush()]
            answers.append([table for table in out if table.num_rows])
        return answers[-1]

    def _rows(
        self,
        number: int,
        step: ChainStep,
        batch: Sequence[tuple[int, pa.Table]],
        answers: Sequence[Sequence[pa.Table]],
    ) -> Iterator[tuple[int, pa.Table]]:
        """(side, rows) that a step reads."""
        for side, feed in enumerate(step.feeds):
            if isinstance(feed, Link):
                for table in answers[feed.step]:
                    rows = self._taking_part(number, side, feed, feed.rows(table))
                    if rows.num_rows:
                        yield side, rows
            else:
                yield from ((side, table) for frame, table in batch if frame == feed)

    def _taking_part(self, number: int, side: int, link: Link, rows: pa.Table) -> pa.Table:
        if not link.validated:
            return rows
        valid, invalid = link.valid(rows)
        for name, count in zip(COUNTED, (len(valid), invalid), strict=True):
            self.counts[prefix(number, side) + name] += count
        rows = rows.drop_columns([INVALID])
        return rows if valid.all() else rows.filter(pa.array(valid))

    def counters(self) -> dict[str, int]:
        """Counts since the beginning, by the names of the config's `counters`."""
        found = dict(self.counts)
        for number, operator in enumerate(self.steps):
            found |= _of(prefix(number), operator.counters())
        return found

    def gauges(self) -> dict[str, Any]:
        """What the config's `gauges` show now, None where nothing is known."""
        found: dict[str, Any] = {}
        for number, operator in enumerate(self.steps):
            found |= _of(prefix(number), operator.gauges())
        return found

    def snapshot(self) -> bytes:
        """The state of all steps as versioned bytes."""
        return saved_bytes(
            self.config.kind, self.config.version, self, {"layouts": self.config.layouts()}
        )

    def save_state(self, saved: Saved, prefix: str = "") -> None:
        saved.values[f"{prefix}counts"] = dict(self.counts)
        for number, operator in enumerate(self.steps):
            operator.save_state(saved, f"{prefix}step{number}.")

    def load_state(self, saved: Saved, prefix: str = "") -> None:
        counts = saved.value(f"{prefix}counts")
        known = isinstance(counts, dict) and counts.keys() == self.counts.keys()
        if not known or not all(type(count) is int for count in counts.values()):
            raise ValueError(f"its counts are not those of {list(self.counts)}: {counts!r:.200}")
        self.counts = counts
        for number, operator in enumerate(self.steps):
            operator.load_state(saved, f"{prefix}step{number}.")


def prefix(step: int, side: int | None = None) -> str:
    """What the names of figures of a step, or of the link to one of its sides, begin with."""
    return f"step{step}_" if side is None else f"step{step}_side{side}_"


def _of(before: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{before}{name}": value for name, value in figures.items()}
