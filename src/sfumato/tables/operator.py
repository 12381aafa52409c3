"""What every operator over Arrow tables shares: config, keys, order of arrival, counters, state.

Rows come with columns of fixed names, whatever users call theirs: `row` (a struct, what comes out
again), `key0`.., `order0`.., `__tie` (which decides between simultaneous rows), and what the kind
of operator reads. Fields of `row` have fixed names too, so that no name of a user can clash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
SEVERAL = (
    "rows that are not late came behind a punctuation of theirs, so they are of several disorder "
    "controllers, as those of a union of reordered frames are (or something held them back after "
    "sf.reorder), and nobody knows what is complete: reorder the union, with a column that names "
    'each row\'s source: sf.reorder(a.union(b), ..., source="source"); or drop `late` and '
    "`punctuation`, and rows are taken to come in order of event time"
)


class OperatorConfig(ABC):
    """What makes an operator for the keys of one bucket: plain values, for workers.

    A class says its `kind`, the `version` of its state's layout, the `counters` it keeps, and its
    `gauges`: what it shows at the end of a micro-batch and does not save, name -> (type, SQL
    aggregate over the buckets that had rows).
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    counters: ClassVar[tuple[str, ...]]
    gauges: ClassVar[Mapping[str, tuple[str, str]]]

    @property
    def tasks(self) -> int:
        """How many operators share the work of a bucket: each gets all rows of it."""
        return 1

    def for_task(self, number: int) -> Self:
        """Return the config of one of these operators."""
        return self

    @abstractmethod
    def make(self) -> BatchOperator:
        """Return the operator, empty. Raises ValueError or TypeError for a wrong config."""

    @abstractmethod
    def restore(self, data: bytes) -> BatchOperator:
        """Return the operator of a `snapshot`. Raises SnapshotError for any other bytes."""


class BatchOperator(Stateful, ABC):
    """An operator over Arrow tables that takes a stream by micro-batches.

    took : whether rows of the micro-batch took part
    """

    took = True

    @abstractmethod
    def begin(self) -> None:
        """Begin a micro-batch: what `gauges` show of one is counted from here on."""

    @abstractmethod
    def set_clock(self, now: int) -> None:
        """Take the processing time of a call, in milliseconds.

        The machine's clock may have stepped back, or a restart may have moved the state to a
        machine whose clock is behind. An operator with an idle timeout then replaces each saved
        processing time that is after `now` by `now`, so that a silence lasts at most one timeout
        longer. Calls that pass no rows to the operator count too.
        """

    @abstractmethod
    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        """Return answers to the rows of a micro-batch: (side, rows) pairs; `now` in ms."""

    @abstractmethod
    def idle(self, now: int) -> list[pa.Table]:
        """Return what is emitted because no row came for so long; `now` in milliseconds."""

    @abstractmethod
    def flush(self) -> list[pa.Table]:
        """Return what is emitted at the end of a static frame."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Return counts since the beginning, by the names of the config's `counters`."""

    @abstractmethod
    def gauges(self) -> dict[str, Any]:
        """Return what the config's `gauges` show now, None where nothing is known: no part of the
        state, and answers do not depend on it."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """Return the state as versioned bytes."""


@dataclass(frozen=True, kw_only=True)
class TableConfig(OperatorConfig):
    """Settings of an operator over tables: plain values, for workers and for checkpoints.

    keys, orders : how many columns key0.., order0.. there are
    forget_after : a key whose next row comes later than this after its newest one begins anew, in
        the unit of order0; None: keys are never forgotten
    one_controller : the rows are said to be those of a disorder controller that never begins anew,
        so that rows in order which come behind others are an error, see `require_one_controller`
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
        """How rows of a side follow each other: what `arrange` of the operator sorts by."""
        return Arrival(tuple(f"order{i}" for i in range(self.orders)))

    @abstractmethod
    def make(self) -> TableOperator:
        """Return the operator, empty. Raises ValueError or TypeError for a wrong config."""

    def restore(self, data: bytes) -> TableOperator:
        _, saved = load_bytes(data, self.kind, self.version)
        with damage_in(self.kind):
            operator = self.make()
            operator.load_state(saved)
        saved.check_empty()
        return operator

    def fingerprint(self) -> str:
        """Text that differs where a checkpoint of another config cannot be continued."""
        return fingerprint(self.kind, self)


class TableOperator(BatchOperator, ABC):
    """An operator over Arrow tables, for the keys of one bucket.

    A kind of operator says what comes out (`answers`) and declares, in `state`, the attributes
    that it keeps beside those below; snapshot and restore follow.
    """

    config: TableConfig
    state = {"index": Part(), "latest": Value(tuple, none=True), "counts": Value(dict)}

    def __init__(self, config: Any) -> None:
        self.config = config
        self.index = KeyIndex(forget_after=config.forget_after)
        self.latest: tuple | None = None  # order of the newest row
        self.counts: dict[str, int] = dict.fromkeys(config.counters, 0)
        self._keys_before = 0  # those known when the micro-batch began

    def lengths(self) -> dict[str, int]:
        return {}  # the config's numbers are of columns: `keys` is not how many keys there are

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
        """Return the answers to usable rows, which are brought into order of arrival."""
        if not rows.num_rows:
            return []
        outputs = self.answers(taken(rows, self.arrange(rows)), now)
        self.forget_expired()
        return outputs

    def settled(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose place in the order is known, those that waited for it included."""
        return rows

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        """What comes out because of some rows, at least one, in order of arrival."""
        raise NotImplementedError(f"{type(self).__name__} says no answers: see its `process`")

    def usable(self, rows: pa.Table) -> np.ndarray:
        """bool[n]: rows that take part, those with an order; `invalid` gets the others."""
        return complete(rows, [f"order{i}" for i in range(self.config.orders)])

    def invalid(self, rows: pa.Table) -> list[pa.Table]:
        """What comes out for rows that cannot be used: nothing; they are counted."""
        self.counts["invalid"] += rows.num_rows
        return []

    def arrange(self, rows: pa.Table) -> np.ndarray:
        """int64[n]: places of the rows in order of arrival; notes the newest of them."""
        columns = [as_numbers(rows.column(name)) for name in self.config.arrival().columns]
        order = arrival_order(columns, [as_numbers(rows.column(TIE))])
        self.note_order([column[order] for column in columns])
        return order

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        """Count rows, given in order, that come before the newest of earlier micro-batches."""
        self.counts["out_of_order"] += count_out_of_order(columns, self.latest)
        newest = tuple(column[-1].item() for column in columns)
        self.latest = newest if self.latest is None else max(newest, self.latest)

    def require_one_controller(self, behind: int) -> None:
        """Raise ValueError for rows in order that came behind, if one controller put them in order.

        They are those of several, which a frame cannot tell: a union has the metadata of the first.
        """
        if behind and self.config.one_controller:
            raise ValueError(SEVERAL)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """int64[n]: codes of the keys of rows in order of arrival."""
        order = None
        if self.config.forget_after is not None:
            order = as_numbers(rows.column("order0"))
        return self.index.encode(rows.select([f"key{i}" for i in range(self.config.keys)]), order)

    def forget_expired(self) -> None:
        """Let go of keys that are over; after the rows that showed it have been processed."""
        codes = self.index.expired()
        if len(codes):
            self.forget(codes)
            self.index.forget(codes)

    def forget(self, codes: np.ndarray) -> None:
        """Drop what is held of these keys (int64[]): the codes will be those of other keys."""
        raise NotImplementedError(f"{type(self).__name__} does not forget keys")

    def set_clock(self, now: int) -> None:
        """Nothing of it is kept by default."""

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
