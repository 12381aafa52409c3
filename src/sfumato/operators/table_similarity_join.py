"""The similarity join over Arrow tables: columns to arrays, `SimilarityJoin`, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrival_order import arrival_order, count_out_of_order
from sfumato.operators.arrow import as_numbers, joined
from sfumato.operators.keys import KeyIndex
from sfumato.operators.ragged import chosen, offsets_of
from sfumato.operators.row_store import RowStore
from sfumato.operators.similarity_join import Answers, Arrivals, SimilarityJoin
from sfumato.operators.snapshot import Snapshot, pack, unpack

SIDES = ("left", "right")
ALTERNATIVES = "alternatives"
TIE = "__tie"


@dataclass(frozen=True)
class SimilarityJoinSettings:
    """What a similarity join is told: plain values, so that they can go to workers and checkpoints.

    on : the attributes that span the distance; orders, keys : how many such columns there are,
    named order0.. and key0..; columns, buckets : the schemas of the rows and the number of
    buckets, only to recognise a checkpoint of another query; the rest as for `SimilarityJoin`.
    """

    dimensions: int
    within: float
    probability: float
    rows: int
    confidence: float
    max_tuples: int | None
    strategy: str
    output: str
    on: tuple[str, ...]
    orders: int
    keys: int
    columns: tuple[str, str]
    buckets: int

    counters: ClassVar[tuple[str, ...]] = ("rows", "pairs", "out_of_order", "overflow")

    def make(self) -> TableSimilarityJoin:
        operator = SimilarityJoin(
            self.dimensions,
            self.within,
            self.probability,
            self.rows,
            self.confidence,
            strategy=self.strategy,
            output=self.output,
            max_tuples=self.max_tuples,
        )
        return TableSimilarityJoin(self, operator)

    def restore(self, data: bytes) -> TableSimilarityJoin:
        saved = unpack(data, "similarity join bucket", 1)
        bucket = TableSimilarityJoin(
            self, SimilarityJoin.restore(saved.arrays["operator"].tobytes())
        )
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
        return json.dumps({"operator": "similarity join", **asdict(self)}, sort_keys=True)


class TableSimilarityJoin:
    """`SimilarityJoin` over Arrow tables, for the keys of one bucket; keeps its live tuples' rows.

    Tables of a side have the columns row (a struct: the certain columns), alternatives, order0..,
    key0.. and __tie (which decides between simultaneous rows of one side).
    """

    def __init__(self, settings: SimilarityJoinSettings, operator: SimilarityJoin) -> None:
        self.settings = settings
        self.operator = operator
        self.index = KeyIndex()
        self.stores = [RowStore(), RowStore()]
        self.latest: tuple | None = None  # order of the newest row
        self.counts = {"rows": 0, "pairs": 0, "out_of_order": 0}

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        sides = [(side, joined([t for s, t in batch if s == side])) for side in _present(batch)]
        columns = [
            np.concatenate([as_numbers(t.column(f"order{i}")) for _, t in sides])
            for i in range(self.settings.orders)
        ]
        tie = np.concatenate([as_numbers(t.column(TIE)) for _, t in sides])
        side = np.concatenate([np.full(t.num_rows, s, np.uint8) for s, t in sides])
        order = arrival_order(columns, [side, tie])
        codes = np.concatenate(
            [
                self.index.encode(t.select([f"key{i}" for i in range(self.settings.keys)]))
                for _, t in sides
            ]
        )
        self._count_order([c[order] for c in columns])
        offsets, prob, points = _ragged([_samples(t, self.settings.on) for _, t in sides], order)
        for number, table in sides:
            places = order[side[order] == number] - (
                0 if number == sides[0][0] else sides[0][1].num_rows
            )
            self.stores[number].append(table.select(["row", ALTERNATIVES]).take(pa.array(places)))
        answers = self.operator.process(Arrivals(side[order], codes[order], offsets, prob, points))
        self.counts["rows"] += len(order)
        self.counts["pairs"] += int((answers.change > 0).sum())
        output = self._rows(answers)
        for number, store in enumerate(self.stores):
            store.forget(self.operator.live(number))
        return [output] if output.num_rows else []

    def _count_order(self, columns: list[np.ndarray]) -> None:
        self.counts["out_of_order"] += count_out_of_order(columns, self.latest)
        newest = tuple(column[-1].item() for column in columns)
        self.latest = newest if self.latest is None else max(newest, self.latest)

    def _rows(self, answers: Answers) -> pa.Table:
        counts = np.diff(answers.offsets)
        columns: dict[str, Any] = {}
        pair: dict[str, Any] = {"prob": pa.array(answers.prob)}
        if len(answers.left) == 0:
            return pa.table({"left": pa.array([], pa.null())})
        for store, side, numbers, sample in (
            (self.stores[0], "left", answers.left, answers.left_sample),
            (self.stores[1], "right", answers.right, answers.right_sample),
        ):
            rows = store.take(numbers)
            columns[side] = rows.column("row")
            alternatives = rows.column(ALTERNATIVES).combine_chunks()
            starts = alternatives.offsets.to_numpy()[:-1]
            chosen = alternatives.values.take(pa.array(np.repeat(starts, counts) + sample))
            for field in chosen.type:
                if field.name != "prob":
                    pair[f"{side}_{field.name}"] = chosen.field(field.name)
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
        return {**self.counts, "overflow": self.operator.counters["overflow"]}

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
        return pack("similarity join bucket", 1, Snapshot(values, arrays, tables))


def _present(batch: Sequence[tuple[int, pa.Table]]) -> list[int]:
    return sorted({side for side, _ in batch})


def _samples(table: pa.Table, on: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(lengths int64[n], prob float64[m], points float64[m, d]) of one side's alternatives."""
    column = table.column(ALTERNATIVES).combine_chunks()
    lengths = np.diff(column.offsets.to_numpy()).astype(np.int64)
    flat = column.flatten()
    prob = flat.field("prob").to_numpy(zero_copy_only=False)
    points = np.stack([flat.field(name).to_numpy(zero_copy_only=False) for name in on], axis=1)
    return lengths, prob, points


def _ragged(
    sides: list[tuple[np.ndarray, np.ndarray, np.ndarray]], order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """offsets, prob, points of the tuples of all sides, in the given order of tuples."""
    offsets, places = chosen(offsets_of(np.concatenate([s[0] for s in sides])), order)
    prob = np.concatenate([s[1] for s in sides])[places]
    return offsets, prob, np.ascontiguousarray(np.concatenate([s[2] for s in sides])[places])
