"""Chains of operators over tables, run as one operator; a single operator is a chain of one step.

Each step reads frames or answers of earlier steps. Rows remain Arrow tables between steps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sfumato.operators.state.snapshot import OTHER_LAYOUT, SavedState, SnapshotError
from sfumato.operators.state.stateful import Stateful, load_bytes, restore_state, saved_bytes
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import concat_tables
from sfumato.tables.operator import ROW, TableConfig, TableOperator
from sfumato.tables.reading.expressions import COMPARISONS
from sfumato.tables.reading.layout import InputLayout, Layout, LayoutChange
from sfumato.tables.reading.results import at_path, cast_renamed
from sfumato.tables.reading.rows import Reading, ReadRows
from sfumato.tables.reading.validity import generalize_reason

READ_COUNTERS = ("rows", "invalid")  # counters of sides that may have invalid rows
REASONS_NAME = "reasons"  # gauge of such sides: JSON with the number of rows per reason

Path = tuple[str, ...]  # a column, or a field of `row`, followed by nested fields


@dataclass(frozen=True)
class Place:
    """The position of a column in a table.

    cast : the type to cast to, or ""
    kind : a type of the same shape with the user's field names, or None to keep the column's type
    """

    path: Path
    cast: str = ""
    kind: pa.DataType | None = None

    def read(self, table: pa.Table) -> pa.Array:
        cells = _column_at(table, self.path)
        if self.cast:
            return cells.cast(self.cast, safe=False)
        return cells if self.kind is None else cast_renamed(cells, self.kind)


@dataclass(frozen=True)
class Condition:
    """A filter that compares a numeric column of answers with a constant; NULL fails."""

    path: Path
    sign: str
    number: float

    def holds(self, answers: pa.Table) -> pa.Array:
        return COMPARISONS[self.sign](_column_at(answers, self.path), self.number)


@dataclass(frozen=True)
class Feed:
    """The input of one side of a step: the rows of a frame, or the answers of an earlier step.

    source : the number of the frame, or of the step if `of_step`
    reading : how rows are read, or None if they already have the operator's fixed names
    columns : (name in the frame, place) of each column
    where : conditions that the rows must meet    layout : the columns' places in state
    """

    source: int
    reading: Reading | None = None
    columns: tuple[tuple[str, Place], ...] = ()
    of_step: bool = False
    where: tuple[Condition, ...] = ()
    layout: InputLayout = field(default_factory=InputLayout)

    @property
    def checks(self) -> bool:
        return self.reading is not None and self.reading.rule.checks

    def table(self, given: pa.Table) -> pa.Table:
        """Return the rows under the names of the frame."""
        for condition in self.where:
            given = given.filter(condition.holds(given))
        cells = [place.read(given) for _, place in self.columns]
        return pa.Table.from_arrays(cells, [name for name, _ in self.columns])


@dataclass(frozen=True)
class ChainStep:
    """An operator of a chain.

    feeds : the input of each side    idles : whether it emits rows after an idle timeout
    function : name of the public function in messages
    """

    config: TableConfig
    feeds: tuple[Feed, ...]
    idles: bool = False
    function: str = ""


@dataclass(frozen=True)
class ChainConfig:
    """Config of operators that run as one, with the interface of `TableConfig` except for settings.

    A step follows its input steps, and the last step returns the answers. Counters and gauges are
    named step{i}_NAME for step i, and step{i}_side{j}_NAME for its side j. The SQL aggregates of
    gauges use names without prefixes.

    counts : whether to count the rows that are read; only the first task counts them
    """

    steps: tuple[ChainStep, ...]
    counts: bool = True

    kind = "chain"
    version = 14

    @property
    def checked(self) -> list[str]:
        """Return the name prefixes of sides whose rows may be invalid."""
        return [
            prefix(number, side)
            for number, step in enumerate(self.steps)
            for side, feed in enumerate(step.feeds)
            if feed.checks
        ]

    @property
    def counters(self) -> tuple[str, ...]:
        steps = enumerate(self.steps)
        own = [f"{prefix(i)}{name}" for i, step in steps for name in step.config.counters]
        return (*own, *(f"{side}{name}" for side in self.checked for name in READ_COUNTERS))

    @property
    def gauges(self) -> Mapping[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        for number, step in enumerate(self.steps):
            found |= _add_prefix(prefix(number), step.config.gauges)
        return found | {f"{side}{REASONS_NAME}": ("string", "") for side in self.checked}

    @property
    def tasks(self) -> int:
        return self.steps[0].config.tasks if len(self.steps) == 1 else 1

    @property
    def first_side(self) -> int:
        return max(step.config.first_side for step in self.steps)

    def for_task(self, number: int) -> ChainConfig:
        if self.tasks == 1:
            return self
        step = self.steps[0]
        return ChainConfig((replace(step, config=step.config.for_task(number)),), number == 0)

    def function_of(self, gauge: str) -> str:
        """Return the public function of the step that has a counter or gauge."""
        return self.steps[int(gauge.removeprefix("step").partition("_")[0])].function

    def layouts(self) -> list[list[Any]]:
        """Return [kind, version] of each step's state."""
        return [[step.config.kind, step.config.version] for step in self.steps]

    def reads(self, frame: int) -> tuple[Feed, Arrival]:
        """Return how a frame is read, and the order in which its rows are processed."""
        step, side = self._reader(frame)
        return self.steps[step].feeds[side], self.steps[step].config.arrival()

    def _reader(self, frame: int) -> tuple[int, int]:
        return next(
            (number, side)
            for number, step in enumerate(self.steps)
            for side, feed in enumerate(step.feeds)
            if feed.source == frame and not feed.of_step
        )

    def layout(self) -> Layout:
        return [[feed.layout.as_json() for feed in step.feeds] for step in self.steps]

    def change_from(self, before: Layout) -> LayoutChange:
        """Return the conversion from an earlier layout. Raises ValueError if it is impossible."""
        return LayoutChange(before, [[feed.layout for feed in step.feeds] for step in self.steps])

    def convert_rows(self, rows: pa.Table, frame: int, change: LayoutChange) -> pa.Table:
        """Convert rows of a frame that were stored before a change."""
        step, side = self._reader(frame)
        return change.steps[step][side].chunk(rows)

    def make(self) -> Chain:
        return Chain(self)

    def restore(self, data: bytes, change: LayoutChange | None = None) -> Chain:
        """Return the chain of a `snapshot`. change : the conversion of its layout, if any"""
        values, saved = load_bytes(data, self.kind, self.version)
        if values.get("layouts") != self.layouts():
            raise SnapshotError(
                f"expected a snapshot of {self.layouts()}; got {values.get('layouts')!r:.200}. "
                f"{OTHER_LAYOUT}"
            )
        saved.convert = None if change is None else change.saved
        return restore_state(self.kind, self.make, saved)


class Chain(Stateful):
    """The operators of a chain, for the keys of one bucket."""

    config: ChainConfig
    has_processed_rows = True

    def __init__(self, config: ChainConfig) -> None:
        self.config = config
        self.steps: list[TableOperator] = [step.config.make() for step in config.steps]
        self.counts = {f"{side}{name}": 0 for side in config.checked for name in READ_COUNTERS}
        self.reasons: dict[str, Counter[str]] = {side: Counter() for side in config.checked}

    def begin(self) -> None:
        self.has_processed_rows = False
        for of in self.reasons.values():
            of.clear()
        for operator in self.steps:
            operator.begin()

    def set_clock(self, now: int) -> None:
        for operator in self.steps:
            operator.set_clock(now)

    def resume(self, now: int) -> None:
        for operator in self.steps:
            operator.resume(now)

    def idle(self, now: int) -> list[pa.Table]:
        return self.process([], now, idle=True)

    def next_timeout(self) -> int | None:
        steps = zip(self.config.steps, self.steps, strict=True)
        times = [operator.next_timeout() for step, operator in steps if step.idles]
        return min((time for time in times if time is not None), default=None)

    def flush(self) -> list[pa.Table]:
        return self.process([], 0, end=True)

    def process(
        self, batch: Sequence[tuple[int, pa.Table]], now: int, idle: bool = False, end: bool = False
    ) -> list[pa.Table]:
        """Return the last step's answers to (frame, rows) pairs."""
        answers: list[list[pa.Table]] = []
        for number, (step, operator) in enumerate(zip(self.config.steps, self.steps, strict=True)):
            rows, out = [], []
            for side, feed in enumerate(step.feeds):
                of_frame = (table for frame, table in batch if frame == feed.source)
                given = answers[feed.source] if feed.of_step else list(of_frame)
                read = self._read(prefix(number, side), feed, given) if given else None
                if read is not None and read.rows.num_rows:
                    rows.append((side, read.rows))
                    self.has_processed_rows |= not feed.of_step
                if read is not None and read.dropped is not None:
                    out += operator.process_dropped(read.dropped)
            out = [*out, *operator.process(rows, now)] if rows else out
            out = [*out, *operator.idle(now)] if idle and step.idles else out
            out = [*out, *operator.flush()] if end else out
            answers.append([table for table in out if table.num_rows])
        return answers[-1]

    def _read(self, side: str, feed: Feed, given: Sequence[pa.Table]) -> ReadRows:
        rows = concat_tables(given).combine_chunks()
        if feed.reading is None:
            return ReadRows(rows, rows.num_rows, {})
        read = feed.reading.read(feed.table(rows))
        if feed.checks and self.config.counts:
            self.counts[f"{side}rows"] += read.row_count
            self.counts[f"{side}invalid"] += sum(read.invalid.values())
            for reason, count in read.invalid.items():
                self.reasons[side][generalize_reason(reason)] += count
        return read

    def counters(self) -> dict[str, int]:
        found = dict(self.counts)
        for number, operator in enumerate(self.steps):
            found |= _add_prefix(prefix(number), operator.counters())
        return found

    def gauges(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            f"{side}{REASONS_NAME}": json.dumps(of) if of else None
            for side, of in self.reasons.items()
        }
        for number, operator in enumerate(self.steps):
            found |= _add_prefix(prefix(number), operator.gauges())
        return found

    def snapshot(self) -> bytes:
        return saved_bytes(
            self.config.kind, self.config.version, self, {"layouts": self.config.layouts()}
        )

    def save_state(self, saved: SavedState, prefix: str = "") -> None:
        saved.values[f"{prefix}counts"] = dict(self.counts)
        for number, operator in enumerate(self.steps):
            operator.save_state(saved, f"{prefix}step{number}.")

    def load_state(self, saved: SavedState, prefix: str = "") -> None:
        counts = saved.value(f"{prefix}counts")
        known = isinstance(counts, dict) and counts.keys() == self.counts.keys()
        if not known or not all(type(count) is int for count in counts.values()):
            raise ValueError(f"its counters must be {list(self.counts)}; got {counts!r:.200}")
        self.counts = counts
        for number, operator in enumerate(self.steps):
            operator.load_state(saved, f"{prefix}step{number}.")


def prefix(step: int, side: int | None = None) -> str:
    """Return the name prefix of the counters and gauges of a step, or of one of its sides."""
    return f"step{step}_" if side is None else f"step{step}_side{side}_"


def _add_prefix(before: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{before}{name}": value for name, value in given.items()}


def _column_at(table: pa.Table, path: Path) -> pa.Array:
    return at_path(table, path if path[0] in table.column_names else (ROW, *path))
