"""The base of operators over Arrow tables: config, keys, order of arrival, counters, state.

Rows have columns of fixed names: `row` (a struct that is emitted again), `key0`.., `order0`..,
`__tie` (which decides between simultaneous rows), and what the operator reads. Fields of `row` have
fixed names too, so that names of users cannot clash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.operators.state.config import CHANGEABLE, fingerprint
from sfumato.operators.state.declared import Part, Value
from sfumato.operators.state.stateful import Stateful, damage_in, load_bytes, saved_bytes
from sfumato.tables.arrival_order import Arrival, arrival_order, count_out_of_order
from sfumato.tables.arrow import as_numbers, complete, joined, taken
from sfumato.tables.keys import KeyIndex

ROW, TIE = "row", "__tie"
SEVERAL_CONTROLLERS = (
    "rows that are not late came behind a punctuation of theirs, so they are of several disorder "
    "controllers, as those of a union of reordered frames are (or something held them back after "
    "sf.reorder), and nobody knows what is complete: reorder the union, with a column that names "
    'each row\'s source: sf.reorder(a.union(b), ..., source="source"); or drop `late` and '
    "`punctuation`, and rows are taken to come in order of event time"
)


# Gauges of the largest window of a micro-batch: its tuples w', and the w that they stand for.
SIZE_GAUGES: Mapping[str, tuple[str, str]] = {
    "window_size": ("long", "max(window_size)"),
    "window_rows": ("long", "max(window_rows)"),
}


def window_gauges(largest: int, windows: Iterable[Any]) -> dict[str, int | None]:
    """Return the gauges `SIZE_GAUGES`.

    largest : 0 where no row came    windows : only those by count have `rows`
    """
    rows = [of for window in windows if (of := getattr(window, "rows", None)) is not None]
    return {"window_size": largest or None, "window_rows": max(rows, default=None)}


class OperatorConfig(ABC):
    """The settings of an operator for the keys of one bucket: plain values, for workers.

    kind : name of the operator's state    version : of the state's layout
    counters : names of the counters that it keeps
    gauges : values at the end of a micro-batch, which are not saved: name -> (type, SQL aggregate
        over the buckets that had rows)
    tasks : the number of operators that share the work of a bucket; each gets all its rows
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    counters: ClassVar[tuple[str, ...]]
    gauges: ClassVar[Mapping[str, tuple[str, str]]]

    @property
    def tasks(self) -> int:
        return 1

    def for_task(self, number: int) -> Self:
        """Return the config of one of the `tasks`."""
        return self

    def check(self) -> None:
        """Raise ValueError or TypeError for a wrong config."""
        self.make()

    @abstractmethod
    def make(self) -> BatchOperator:
        """Return the empty operator. Raises ValueError or TypeError for a wrong config."""

    @abstractmethod
    def restore(self, data: bytes) -> BatchOperator:
        """Return the operator of a `snapshot`. Raises SnapshotError for any other bytes."""


class BatchOperator(Stateful, ABC):
    """An operator over Arrow tables that takes a stream by micro-batches; times are in ms.

    took : whether rows of the micro-batch were processed
    """

    took = True

    @abstractmethod
    def begin(self) -> None:
        """Begin a micro-batch, of which `gauges` are."""

    @abstractmethod
    def set_clock(self, now: int) -> None:
        """Take the processing time of a call, with rows or without.

        It may be before that of earlier calls: a clock may step back, and a restart may move the
        state to another machine. An operator with an idle timeout then replaces each saved time
        after `now` by `now`, so that a silence lasts at most one timeout longer.
        """

    @abstractmethod
    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        """Return the answers to the rows of a micro-batch: (side, rows) pairs."""

    @abstractmethod
    def idle(self, now: int) -> list[pa.Table]:
        """Return what is emitted after an idle timeout."""

    @abstractmethod
    def flush(self) -> list[pa.Table]:
        """Return what is emitted at the end of a static frame."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Return counts since the beginning, by the names of the config's `counters`."""

    @abstractmethod
    def gauges(self) -> dict[str, Any]:
        """Return the config's `gauges`, None where unknown."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """Return the state as versioned bytes."""


@dataclass(frozen=True, kw_only=True)
class TableConfig(OperatorConfig):
    """Settings of an operator with keys and an order.

    keys, orders : the numbers of columns key0.., order0..
    forget_after : a key begins again at a row that is later than this after its newest row, in the
        unit of order0; None: keys are never forgotten
    one_controller : the rows are those of one disorder controller that never begins again, so that
        rows out of order are an error, see `require_one_controller`
    """

    keys: int = 0
    orders: int = 1
    forget_after: float | None = None
    one_controller: bool = field(default=False, metadata=CHANGEABLE)

    counters: ClassVar[tuple[str, ...]] = ("rows", "invalid", "out_of_order")
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        "keys": ("long", "sum(keys)"),
        "new_keys": ("long", "sum(new_keys)"),
    }

    def arrival(self, side: int = 0) -> Arrival:
        """Return the order of the rows of a side, by which `arrange` of the operator sorts."""
        return Arrival(tuple(f"order{i}" for i in range(self.orders)))

    @abstractmethod
    def make(self) -> TableOperator: ...

    def restore(self, data: bytes) -> TableOperator:
        _, saved = load_bytes(data, self.kind, self.version)
        with damage_in(self.kind):
            operator = self.make()
            operator.load_state(saved)
        saved.check_empty()
        return operator

    def fingerprint(self) -> str:
        """Return text that differs where a checkpoint of another config cannot be continued."""
        return fingerprint(self.kind, self)


class TableOperator(BatchOperator, ABC):
    """An operator with keys and an order, for the keys of one bucket.

    A subclass computes `answers` and declares, in `state`, its own attributes; snapshot and restore
    follow. The steps of `process`: `usable` (or `invalid`), `settled`, `arrange`, `answers`.
    """

    config: TableConfig
    state = {"index": Part(), "latest": Value(tuple, none=True), "counts": Value(dict)}

    def __init__(self, config: Any) -> None:
        self.config = config
        self.index = KeyIndex(forget_after=config.forget_after)
        self.latest: tuple | None = None  # order of the newest row
        self.counts: dict[str, int] = dict.fromkeys(config.counters, 0)
        self._keys_before = 0  # keys known at the beginning of the micro-batch

    def lengths(self) -> dict[str, int]:
        return {}  # the config's numbers are of columns: `keys` is not the number of keys

    def begin(self) -> None:
        self._keys_before = len(self.index)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        self.set_clock(now)
        rows = joined([table for _, table in batch]).combine_chunks()
        self.counts["rows"] += rows.num_rows
        outputs = []
        valid = self.usable(rows)
        if not valid.all():
            outputs = self.invalid(rows.filter(pa.array(~valid)))
            rows = rows.filter(pa.array(valid))
        return outputs + self.arranged(self.settled(rows) if rows.num_rows else rows, now)

    def arranged(self, rows: pa.Table, now: int) -> list[pa.Table]:
        """Return the answers to usable rows, taken in order of arrival."""
        if not rows.num_rows:
            return []
        outputs = self.answers(taken(rows, self.arrange(rows)), now)
        self.forget_expired()
        return outputs

    def settled(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose place in the order is known, also of earlier calls."""
        return rows

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        """Return the answers to some rows, at least one, in order of arrival."""
        raise NotImplementedError(f"{type(self).__name__} says no answers: see its `process`")

    def usable(self, rows: pa.Table) -> np.ndarray:
        """Return bool[n]: rows with an order; `invalid` gets the others."""
        return complete(rows, [f"order{i}" for i in range(self.config.orders)])

    def invalid(self, rows: pa.Table) -> list[pa.Table]:
        """Count rows that cannot be used, and return what is emitted for them."""
        self.counts["invalid"] += rows.num_rows
        return []

    def arrange(self, rows: pa.Table) -> np.ndarray:
        """Return int64[n]: places of the rows in order of arrival; notes the newest order."""
        columns = [as_numbers(rows.column(name)) for name in self.config.arrival().columns]
        order = arrival_order(columns, [as_numbers(rows.column(TIE))])
        self.note_order([column[order] for column in columns])
        return order

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        """Count rows, given in order, that precede the newest of earlier micro-batches."""
        self.counts["out_of_order"] += count_out_of_order(columns, self.latest)
        newest = tuple(column[-1].item() for column in columns)
        self.latest = newest if self.latest is None else max(newest, self.latest)

    def require_one_controller(self, behind: int) -> None:
        """Raise ValueError for rows out of order that one controller has put in order: they are
        those of several, since a union has the metadata of its first frame."""
        if behind and self.config.one_controller:
            raise ValueError(SEVERAL_CONTROLLERS)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """Return int64[n]: codes of the keys of rows in order of arrival."""
        forgets = self.config.forget_after is not None
        order = as_numbers(rows.column("order0")) if forgets else None
        return self.index.encode(rows.select([f"key{i}" for i in range(self.config.keys)]), order)

    def forget_expired(self) -> None:
        """Forget keys that are over, after the rows that showed it have been processed."""
        codes = self.index.expired()
        if len(codes):
            self.forget(codes)
            self.index.forget(codes)

    def forget(self, codes: np.ndarray) -> None:
        """Drop the state of these keys (int64[]): their codes will be given to other keys."""
        raise NotImplementedError(f"{type(self).__name__} does not forget keys")

    def set_clock(self, now: int) -> None:
        pass

    def idle(self, now: int) -> list[pa.Table]:
        return []

    def flush(self) -> list[pa.Table]:
        return []

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    def gauges(self) -> dict[str, Any]:
        keys = len(self.index)
        return {"keys": keys, "new_keys": keys - self._keys_before}

    def snapshot(self) -> bytes:
        return saved_bytes(self.config.kind, self.config.version, self, {})

    def after_loading(self) -> None:
        if self.counts.keys() != set(self.config.counters) or not all(
            type(count) is int for count in self.counts.values()
        ):
            raise ValueError(f"its counts are not those of {self.config.counters}: {self.counts}")
        known = self.latest is None or len(self.latest) == self.config.orders
        if not known or not all(isinstance(number, int | float) for number in self.latest or ()):
            raise ValueError(f"it cannot have seen the order {self.latest}")
