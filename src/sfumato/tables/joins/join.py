"""What joins over Arrow tables share: two sides in one arrival order, their rows, a snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.operators.joins.answer_set import Answers
from sfumato.tables.arrival_order import arrival_order, count_out_of_order
from sfumato.tables.arrow import as_numbers, joined
from sfumato.tables.keys import KeyIndex
from sfumato.tables.row_store import RowStore
from sfumato.tables.snapshot import Snapshot, pack, unpack

SIDES = ("left", "right")
ALTERNATIVES = "alternatives"
TIE = "__tie"

Ints = npt.NDArray[np.int64]


class JoinSettings(Protocol):
    """What `TableJoin` reads of a join's settings."""

    @property
    def orders(self) -> int: ...
    @property
    def keys(self) -> int: ...
    @property
    def output(self) -> str: ...


class JoinOperator(Protocol):
    """What `TableJoin` asks of the operator behind it."""

    def live(self, side: int) -> Ints: ...
    def snapshot(self) -> bytes: ...


Operator = TypeVar("Operator", bound=JoinOperator)


@dataclass(frozen=True)
class Arriving:
    """The rows of a micro-batch in arrival order.

    side : uint8[n]    code : int64[n], of the key
    tables : those of the sides present, left before right    order : int64[n], places of the rows
        in these, one behind the other
    """

    side: npt.NDArray[np.uint8]
    code: Ints
    tables: list[pa.Table]
    order: Ints


class TableJoin(ABC, Generic[Operator]):
    """A join over Arrow tables, for the keys of one bucket; keeps its live tuples' rows.

    Tables of a side have the columns row (a struct), order0.., key0.. and __tie (which decides
    between simultaneous rows of one side), and what the kind of join needs.
    A kind of join says how rows become arrivals (`_join`) and how numbers become rows (`_side`).
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    kept: tuple[str, ...] = ()  # columns of a row that answers are made of, beside `row`

    def __init__(self, settings: JoinSettings, operator: Operator) -> None:
        self.settings = settings
        self.operator = operator
        self.index = KeyIndex()
        self.stores = [RowStore(), RowStore()]
        self.latest: tuple | None = None  # order of the newest row
        self.counts = {"rows": 0, "pairs": 0, "out_of_order": 0}

    @abstractmethod
    def _join(self, arriving: Arriving) -> Answers:
        """Give the arrivals to the operator."""

    @abstractmethod
    def _side(
        self, store: RowStore, numbers: Ints, sample: npt.NDArray[np.int32], lengths: Ints
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        """(rows, attributes of the alternatives by name) of one side of answers.

        numbers : int64[k], of the tuples    lengths : int64[k], pairs of samples of each answer
        sample : int32[sum of lengths], the sample of this side in each pair
        """

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        arriving = self._arrange(batch)
        answers = self._join(arriving)
        self.counts["rows"] += len(arriving.order)
        self.counts["pairs"] += int((answers.change > 0).sum())
        output = [self._rows(answers)] if len(answers) else []
        for number, store in enumerate(self.stores):
            store.forget(self.operator.live(number))
        return output

    def _arrange(self, batch: Sequence[tuple[int, pa.Table]]) -> Arriving:
        """Order the rows of a micro-batch, and store what answers will need of them."""
        present = sorted({side for side, _ in batch})
        tables = [joined([t for s, t in batch if s == side]) for side in present]
        lengths = [t.num_rows for t in tables]
        side = np.repeat(np.array(present, np.uint8), lengths)
        within_side = np.concatenate([np.arange(n) for n in lengths])
        columns = [
            np.concatenate([as_numbers(t.column(f"order{i}")) for t in tables])
            for i in range(self.settings.orders)
        ]
        tie = np.concatenate([as_numbers(t.column(TIE)) for t in tables])
        order = arrival_order(columns, [side, tie])
        key_names = [f"key{i}" for i in range(self.settings.keys)]
        codes = np.concatenate([self.index.encode(t.select(key_names)) for t in tables])
        self._count_order([c[order] for c in columns])
        for number, table in zip(present, tables, strict=True):
            places = within_side[order[side[order] == number]]
            self.stores[number].append(table.select(["row", *self.kept]).take(pa.array(places)))
        return Arriving(side[order], codes[order], tables, order)

    def _count_order(self, columns: list[np.ndarray]) -> None:
        self.counts["out_of_order"] += count_out_of_order(columns, self.latest)
        newest = tuple(column[-1].item() for column in columns)
        self.latest = newest if self.latest is None else max(newest, self.latest)

    def _rows(self, answers: Answers) -> pa.Table:
        lengths = np.diff(answers.offsets)
        columns: dict[str, Any] = {}
        pair: dict[str, Any] = {"prob": pa.array(answers.prob)}
        for store, side, numbers, sample in (
            (self.stores[0], "left", answers.left, answers.left_sample),
            (self.stores[1], "right", answers.right, answers.right_sample),
        ):
            columns[side], attributes = self._side(store, numbers, sample, lengths)
            pair |= {f"{side}_{name}": values for name, values in attributes.items()}
        columns["probability"] = pa.array(answers.probability)
        flat = pa.StructArray.from_arrays(list(pair.values()), names=list(pair))
        columns[ALTERNATIVES] = pa.ListArray.from_arrays(
            pa.array(answers.offsets, pa.int32()), flat
        )
        if self.settings.output == "changes":
            columns["change"] = pa.array(np.where(answers.change > 0, "+", "-"), pa.string())
        return pa.table(columns)

    def idle(self, now: int) -> list[pa.Table]:
        return []

    def flush(self) -> list[pa.Table]:
        return []

    def snapshot(self) -> bytes:
        tables: dict[str, pa.Table] = {}
        arrays: dict[str, np.ndarray] = {
            "operator": np.frombuffer(self.operator.snapshot(), np.uint8)
        }
        values: dict[str, Any] = {
            "latest": None if self.latest is None else list(self.latest),
            "counts": self.counts,
        }
        if self.index.table is not None:
            tables["keys"] = self.index.table
        for number, name in enumerate(SIDES):
            store = self.stores[number]
            store.keep(self.operator.live(number))
            arrays[name], values[name] = store.numbers, store.next
            if len(store.numbers):
                tables[name] = store.rows()
        return pack(self.kind, self.version, Snapshot(values, arrays, tables))

    @classmethod
    def restored(
        cls, settings: Any, data: bytes, restore_operator: Callable[[bytes], Operator]
    ) -> Self:
        """The join that `snapshot` saved. Raises SnapshotError for bytes of something else."""
        saved = unpack(data, cls.kind, cls.version)
        bucket = cls(settings, restore_operator(saved.arrays["operator"].tobytes()))
        bucket.index = KeyIndex(saved.tables.get("keys"))
        for side, store in enumerate(SIDES):
            bucket.stores[side] = RowStore(
                saved.tables.get(store), saved.arrays[store], saved.values[store]
            )
        latest = saved.values["latest"]
        bucket.latest = None if latest is None else tuple(latest)
        bucket.counts = saved.values["counts"]
        return bucket
