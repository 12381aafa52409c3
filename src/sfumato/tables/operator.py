"""The base of operators over Arrow tables: config, keys, arrival order, counters, state.

Input columns have fixed names: `row` (a struct that is passed through), `key0`.., `order0`..,
`__tie` (which orders simultaneous rows), and the operator's own inputs. The fields of `row` have
fixed names as well, so that they cannot clash with user names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.state.config import CHANGEABLE, fingerprint
from sfumato.operators.state.declared import Part, Value
from sfumato.operators.state.stateful import Stateful, load_bytes, restore_state, saved_bytes
from sfumato.tables.arrival_order import Arrival, arrival_order, count_out_of_order
from sfumato.tables.arrow import (
    as_numbers,
    concat_tables,
    has_all_values,
    punctuations_of,
    take_rows,
)
from sfumato.tables.keys import KeyIndex

ROW, TIE = "row", "__tie"
SIDES = ("left", "right")  # names of the two inputs, and of their state
SEVERAL_CONTROLLERS = (
    "some rows are not `late` although an earlier punctuation is beyond their event time, so it is "
    "unknown which times are complete. The rows come from several disorder controllers, for "
    "example from a union of reordered frames, or were delayed after sf.reorder. Reorder the "
    "union, with a column that names the source of each row, "
    'sf.reorder(a.union(b), ..., source="source"); or drop `late` and `punctuation`, so that rows '
    "are assumed to be in order of event time"
)

# Gauges of a micro-batch: the most tuples in a window, and the largest `rows` of a window.
SIZE_GAUGES: Mapping[str, tuple[str, str]] = {
    "window_size": ("long", "max(window_size)"),
    "window_rows": ("long", "max(window_rows)"),
}


def window_gauges(largest: int, windows: Iterable[Any]) -> dict[str, int | None]:
    rows = [of for window in windows if (of := getattr(window, "rows", None)) is not None]
    return {"window_size": largest or None, "window_rows": max(rows, default=None)}


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """Settings of an operator for the keys of one bucket, as plain values for workers.

    kind : name of the operator's state    version : version of the state's layout
    first_side : the side whose rows precede simultaneous rows of the other side
    gauges : values at the end of a micro-batch (not saved): name -> (type, SQL aggregate over the
        buckets that had rows)
    keys, orders : numbers of columns key0.. and order0..
    forget_after : see `KeyIndex`, in the unit of order0; None to never forget keys
    one_controller : whether the rows come from one disorder controller whose keys never expire, so
        that out-of-order rows are an error, see `require_one_controller`
    """

    keys: int = 0
    orders: int = 1
    forget_after: float | None = None
    one_controller: bool = field(default=False, metadata=CHANGEABLE)

    kind: ClassVar[str]
    operator_class: ClassVar[type[TableOperator]]  # the class in the same module with this `config`
    version: ClassVar[int] = 1
    first_side: ClassVar[int] = 0
    reads_shown_early: ClassVar[bool] = False  # reads rows that a controller emits early
    counters: ClassVar[tuple[str, ...]] = ("rows", "invalid", "out_of_order")
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        "keys": ("long", "sum(keys)"),
        "new_keys": ("long", "sum(new_keys)"),
    }

    @property
    def key_columns(self) -> list[str]:
        return [f"key{i}" for i in range(self.keys)]

    @property
    def order_columns(self) -> list[str]:
        return [f"order{i}" for i in range(self.orders)]

    @property
    def tasks(self) -> int:
        """Return the number of operators that share a bucket; each reads all of its rows."""
        return 1

    def for_task(self, number: int) -> Self:
        return self

    def typed(self, answers: Callable[[], pa.Schema]) -> Self:
        """Return the config for answers with the types of this schema; field names may differ."""
        return self

    def check(self) -> None:
        self.make()

    @property
    def by_punctuation(self) -> bool:
        """Return whether punctuations order rows with equal event times."""
        return False

    def arrival(self) -> Arrival:
        """Return the order of the rows of each side, used by `TableOperator.arrange`."""
        first, *others = self.order_columns
        return Arrival((first, *(["punctuation"] if self.by_punctuation else []), *others))

    def make(self) -> TableOperator:
        return self.operator_class(self)

    def restore(self, data: bytes) -> TableOperator:
        _, saved = load_bytes(data, self.kind, self.version)
        return restore_state(self.kind, self.make, saved)

    def fingerprint(self) -> str:
        """Return text that identifies the config; a checkpoint with different text is rejected."""
        return fingerprint(self.kind, self)


def arrival_columns(rows: pa.Table, arrival: Arrival) -> dict[str, np.ndarray]:
    return {
        name: punctuations_of(rows) if name == "punctuation" else as_numbers(rows.column(name))
        for name in arrival.columns
    }


class TableOperator(Stateful):
    """An operator that reads rows in order, for the keys of one bucket; processing times are in ms.

    A subclass implements `answers` and declares its own attributes in `state`, which defines
    snapshot and restore. `process` calls `is_usable`, `process_invalid`, `take_ordered`, `arrange`
    and `answers`.
    has_processed_rows : whether rows of the micro-batch were processed
    """

    config: TableConfig
    operator: Any  # of a subclass
    has_processed_rows = True
    state = {"index": Part(), "latest": Value(tuple, none=True), "counts": Value(dict)}

    def __init_subclass__(cls, **options: Any) -> None:
        """Set this class as `operator_class` of the config class that annotates `config`."""
        super().__init_subclass__(**options)
        config = cls.__annotations__.get("config")
        if isinstance(config, str):  # in a module that postpones annotations
            config = vars(sys.modules[cls.__module__]).get(config)
        if isinstance(config, type) and issubclass(config, TableConfig):
            config.operator_class = cls

    def __init__(self, config: Any) -> None:
        self.config = config
        self.index = KeyIndex(forget_after=config.forget_after)
        self.latest: tuple | None = None  # order of the newest row
        self.counts: dict[str, int] = dict.fromkeys(config.counters, 0)
        self._keys_before = 0  # known keys at the start of the micro-batch

    def lengths(self) -> dict[str, int]:
        return {}  # `keys` of the config is a number of columns, not of keys

    def begin(self) -> None:
        self._keys_before = len(self.index)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        """Return the answers to a micro-batch, given as (side, rows) pairs."""
        self.set_clock(now)
        rows = concat_tables([table for _, table in batch]).combine_chunks()
        self.counts["rows"] += rows.num_rows
        outputs = []
        valid = self.is_usable(rows)
        if not valid.all():
            outputs = self.process_invalid(rows.filter(pa.array(~valid)))
            rows = rows.filter(pa.array(valid))
        ordered = self.take_ordered(rows) if rows.num_rows else rows
        return outputs + self.process_usable(ordered, now)

    def drop_late(self, batch: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, pa.Table]]:
        """Count and leave out the rows of a micro-batch that a controller flagged as late."""
        on_time = []
        for side, table in batch:
            rows = table
            if "late" in table.column_names:
                rows = table.filter(pc.invert(table.column("late")))
            for name in ("rows", "late"):
                self.counts[name] += table.num_rows - rows.num_rows
            on_time.append((side, rows))
        return on_time

    def process_usable(self, rows: pa.Table, now: int) -> list[pa.Table]:
        """Return the answers to usable rows in any order."""
        if not rows.num_rows:
            return []
        outputs = self.answers(take_rows(rows, self.arrange(rows)), now)
        self.forget_expired()
        return outputs

    def take_ordered(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose position in the order is now known, including earlier rows."""
        return rows

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        """Return the answers to rows (at least one) in arrival order."""
        raise NotImplementedError  # in operators that override `process`

    def is_usable(self, rows: pa.Table) -> np.ndarray:
        """Return bool[n]: whether rows can be processed; others go to `process_invalid`."""
        return has_all_values(rows, self.config.order_columns)

    def process_invalid(self, rows: pa.Table) -> list[pa.Table]:
        """Count rows that are not `is_usable`; return the output for these rows."""
        self.counts["invalid"] += rows.num_rows
        return []

    def process_dropped(self, rows: pa.Table) -> list[pa.Table]:
        """Return the output for rows left out on reading, with columns `row`, keys and `reason`."""
        raise NotImplementedError(f"{type(self).__name__} does not emit dropped rows")

    def arrange(self, rows: pa.Table) -> np.ndarray:
        """Return int64[n]: the positions of the rows in arrival order; record the newest order."""
        columns = arrival_columns(rows, self.config.arrival())
        order = arrival_order([*columns.values()], [as_numbers(rows.column(TIE))])
        self.note_order([columns[name][order] for name in self.config.order_columns])
        return order

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        """Count sorted rows that precede the newest earlier row; record the newest order."""
        self.counts["out_of_order"] += count_out_of_order(columns, self.latest)
        newest = tuple(column[-1].item() for column in columns)
        self.latest = newest if self.latest is None else max(newest, self.latest)

    def require_one_controller(self, behind: int) -> None:
        """Raise ValueError for out-of-order rows that should come from one controller."""
        if behind and self.config.one_controller:
            raise ValueError(SEVERAL_CONTROLLERS)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """Return int64[n]: the key codes of rows in arrival order."""
        forgets = self.config.forget_after is not None
        order = as_numbers(rows.column("order0")) if forgets else None
        return self.index.encode(rows.select(self.config.key_columns), order)

    def forget_expired(self) -> None:
        """Forget expired keys; call it after processing the rows that made them expire."""
        codes = self.index.take_expired()
        if len(codes):
            self.forget(codes)
            self.index.forget(codes)

    def forget(self, codes: np.ndarray) -> None:
        """Drop the state of the keys `codes` (int64[]), because the codes will be reused."""
        self.operator.forget(codes)

    def set_clock(self, now: int) -> None:
        """Set the processing time of a call, with or without rows.

        The time may be earlier than in the previous call, because clocks may step back and a
        restart may move the state to a different machine. An operator with an idle timeout then
        replaces saved times after `now` with `now`, so that a timeout is delayed by at most its
        length.
        """

    def resume(self, now: int) -> None:
        """Measure silence from `now`, because a stopped query reads no rows."""

    def idle(self, now: int) -> list[pa.Table]:
        """Return the output after an idle timeout."""
        return []

    def next_timeout(self) -> int | None:
        """Return the processing time at which `idle` next has output without new rows, or None."""
        return None

    def flush(self) -> list[pa.Table]:
        return []

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    def gauges(self) -> dict[str, Any]:
        """Return the values of the config's `gauges`, with None for unknown values."""
        keys = len(self.index)
        return {"keys": keys, "new_keys": keys - self._keys_before}

    def snapshot(self) -> bytes:
        return saved_bytes(self.config.kind, self.config.version, self, {})

    def after_loading(self) -> None:
        if self.counts.keys() != set(self.config.counters) or not all(
            type(count) is int for count in self.counts.values()
        ):
            raise ValueError(f"its counters must be {self.config.counters}; got {self.counts}")
        known = self.latest is None or len(self.latest) == self.config.orders
        if not known or not all(isinstance(number, int | float) for number in self.latest or ()):
            raise ValueError(f"its latest order cannot be {self.latest}")
