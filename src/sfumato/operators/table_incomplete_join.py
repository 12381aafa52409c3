"""The join of incomplete streams over Arrow tables: columns to `IncompleteJoin`, and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.answer_set import Answers
from sfumato.operators.arrival_order import arrival_order, count_out_of_order
from sfumato.operators.arrow import as_numbers, joined
from sfumato.operators.imputation import REASONS
from sfumato.operators.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.keys import KeyIndex
from sfumato.operators.row_store import RowStore
from sfumato.operators.snapshot import Snapshot, pack, unpack
from sfumato.operators.table_imputation import numbers_of, shared_imputer
from sfumato.operators.table_similarity_join import ALTERNATIVES, SIDES, TIE

KIND, VERSION = "incomplete join bucket", 1
UNIMPUTABLE = REASONS[2:]


@dataclass(frozen=True)
class IncompleteJoinSettings:
    """What a join of incomplete streams is told: plain values, for workers and checkpoints.

    imputer : `Imputer.to_bytes`, of which a checkpoint keeps only the checksum
    on : the attributes, in the order in which answers name them; orders, keys : how many such
    columns there are, named order0.. and key0..; columns, buckets : the schemas of the rows and
    the number of buckets, only to recognise a checkpoint of another query; the rest as for
    `IncompleteJoin`.
    """

    imputer: bytes
    within: float
    probability: float
    rows: int
    output: str
    on: tuple[str, ...]
    orders: int
    keys: int
    columns: tuple[str, str]
    buckets: int

    counters: ClassVar[tuple[str, ...]] = (
        "rows", "complete", "imputed", "unimputable", "pairs", "out_of_order", "completed",
        "refined",
    )  # fmt: skip

    def make(self) -> TableIncompleteJoin:
        operator = IncompleteJoin(
            shared_imputer(self.imputer),
            self.within,
            self.probability,
            self.rows,
            output=self.output,
            alternatives=True,
        )
        return TableIncompleteJoin(self, operator)

    def restore(self, data: bytes) -> TableIncompleteJoin:
        saved = unpack(data, KIND, VERSION)
        operator = IncompleteJoin.restore(
            saved.arrays["operator"].tobytes(), shared_imputer(self.imputer)
        )
        bucket = TableIncompleteJoin(self, operator)
        bucket.index = KeyIndex(saved.tables.get("keys"))
        for side, store in enumerate(SIDES):
            bucket.stores[side] = RowStore(
                saved.tables.get(store), saved.arrays[store], saved.values[store]
            )
        latest = saved.values["latest"]
        bucket.latest = None if latest is None else tuple(latest)
        bucket.counts = saved.values["counts"]
        return bucket

    def fingerprint(self) -> str:
        plain = asdict(replace(self, imputer=b""))
        plain["imputer"] = f"checksum {zlib.crc32(self.imputer)}"
        return json.dumps({"operator": "incomplete join", **plain}, sort_keys=True)


class TableIncompleteJoin:
    """`IncompleteJoin` over Arrow tables, for the keys of one bucket; keeps its live objects' rows.

    Tables of a side have the columns row (a struct: all columns), value0.. (float64 in the order
    of the imputer's names, NULL is missing), order0.., key0.. and __tie (which decides between
    simultaneous rows of one side). The repository is in no snapshot.
    """

    def __init__(self, settings: IncompleteJoinSettings, operator: IncompleteJoin) -> None:
        self.settings = settings
        self.operator = operator
        self.index = KeyIndex()
        self.stores = [RowStore(), RowStore()]
        self.latest: tuple | None = None  # order of the newest row
        self.counts = {"rows": 0, "pairs": 0, "out_of_order": 0}
        self.values = [f"value{i}" for i in range(len(operator.imputer.names))]

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
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
        values = np.concatenate([numbers_of(t, self.values) for t in tables])
        self._count_order([c[order] for c in columns])
        for number, table in zip(present, tables, strict=True):
            places = within_side[order[side[order] == number]]
            self.stores[number].append(table.select(["row", *self.values]).take(pa.array(places)))
        arrivals = IncompleteArrivals(side[order], codes[order], values[order])
        answers, _ = self.operator.process(arrivals)
        self.counts["rows"] += len(order)
        self.counts["pairs"] += int((answers.change > 0).sum())
        output = [self._rows(answers)] if len(answers) else []
        for number, store in enumerate(self.stores):
            store.forget(self.operator.live(number))
        return output

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
            distinct, which = np.unique(numbers, return_inverse=True)
            objects = store.take(distinct)
            which = which.reshape(-1)
            columns[side] = objects.column("row").take(pa.array(which))
            # The operator drops the samples of objects it forgets; they are the object's alone.
            imputed = self.operator.imputer.impute(numbers_of(objects, self.values))
            places = np.repeat(imputed.offsets[which], lengths) + sample
            for name in self.settings.on:
                t = self.operator.imputer.attributes.index(name)
                pair[f"{side}_{name}"] = pa.array(imputed.values[places, t])
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

    def counters(self) -> dict[str, int]:
        done = self.operator.counters
        own = ("complete", "imputed", "completed", "refined")
        unimputable = sum(done[reason] for reason in UNIMPUTABLE)
        return {**self.counts, **{n: done[n] for n in own}, "unimputable": unimputable}

    def snapshot(self) -> bytes:
        tables: dict[str, pa.Table] = {}
        arrays = {"operator": np.frombuffer(self.operator.snapshot(), np.uint8)}
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
        return pack(KIND, VERSION, Snapshot(values, arrays, tables))
