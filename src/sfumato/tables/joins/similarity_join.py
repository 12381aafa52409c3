"""The similarity join over Arrow tables: columns to arrays, `SimilarityJoin`, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.joins.answer_set import Answers
from sfumato.operators.joins.arrivals import Arrivals
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.ragged import chosen, offsets_of
from sfumato.tables.joins.join import ALTERNATIVES, Arriving, TableJoin
from sfumato.tables.row_store import RowStore


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
        return TableSimilarityJoin.restored(self, data, SimilarityJoin.restore)

    def fingerprint(self) -> str:
        return json.dumps({"operator": "similarity join", **asdict(self)}, sort_keys=True)


class TableSimilarityJoin(TableJoin[SimilarityJoin]):
    """`SimilarityJoin` over Arrow tables: rows are the certain columns, beside `alternatives`."""

    kind, version = "similarity join bucket", 1
    kept = (ALTERNATIVES,)
    settings: SimilarityJoinSettings

    def _join(self, arriving: Arriving) -> Answers:
        samples = [_samples(table, self.settings.on) for table in arriving.tables]
        offsets, prob, points = _ragged(samples, arriving.order)
        return self.operator.process(Arrivals(arriving.side, arriving.code, offsets, prob, points))

    def _side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        rows = store.take(numbers)
        alternatives = rows.column(ALTERNATIVES).combine_chunks()
        starts = alternatives.offsets.to_numpy()[:-1]
        chosen = alternatives.values.take(pa.array(np.repeat(starts, lengths) + sample))
        names = [field.name for field in chosen.type if field.name != "prob"]
        return rows.column("row"), {name: chosen.field(name) for name in names}

    def counters(self) -> dict[str, int]:
        return {**self.counts, "overflow": self.operator.counters["overflow"]}


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
