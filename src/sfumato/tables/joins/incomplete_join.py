"""The join of incomplete streams over Arrow tables: columns to `IncompleteJoin`, and back."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.imputation.imputer import REASONS
from sfumato.operators.joins.answer_set import Answers
from sfumato.operators.joins.arrivals import IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.tables.imputation.imputation import numbers_of, shared_imputer
from sfumato.tables.joins.join import Arriving, TableJoin
from sfumato.tables.row_store import RowStore

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
        imputer = shared_imputer(self.imputer)
        return TableIncompleteJoin.restored(
            self, data, lambda saved: IncompleteJoin.restore(saved, imputer)
        )

    def fingerprint(self) -> str:
        plain = asdict(replace(self, imputer=b""))
        plain["imputer"] = f"checksum {zlib.crc32(self.imputer)}"
        return json.dumps({"operator": "incomplete join", **plain}, sort_keys=True)


class TableIncompleteJoin(TableJoin[IncompleteJoin]):
    """`IncompleteJoin` over Arrow tables: rows are all columns, beside value0...

    These are float64 in the order of the imputer's names, NULL is missing. The repository is in no
    snapshot.
    """

    kind, version = "incomplete join bucket", 1
    settings: IncompleteJoinSettings

    def __init__(self, settings: IncompleteJoinSettings, operator: IncompleteJoin) -> None:
        super().__init__(settings, operator)
        self.kept = tuple(f"value{i}" for i in range(len(operator.imputer.names)))

    def _join(self, arriving: Arriving) -> Answers:
        values = np.concatenate([numbers_of(table, self.kept) for table in arriving.tables])
        answers, _ = self.operator.process(
            IncompleteArrivals(arriving.side, arriving.code, values[arriving.order])
        )
        return answers

    def _side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        distinct, which = np.unique(numbers, return_inverse=True)
        objects = store.take(distinct)
        which = which.reshape(-1)
        # The operator drops the samples of objects it forgets; they are the object's alone.
        imputer = self.operator.imputer
        imputed = imputer.impute(numbers_of(objects, self.kept))
        places = np.repeat(imputed.offsets[which], lengths) + sample
        attributes = {
            name: pa.array(imputed.values[places, imputer.attributes.index(name)])
            for name in self.settings.on
        }
        return objects.column("row").take(pa.array(which)), attributes

    def counters(self) -> dict[str, int]:
        done = self.operator.counters
        own = ("complete", "imputed", "completed", "refined")
        unimputable = sum(done[reason] for reason in UNIMPUTABLE)
        return {**self.counts, **{n: done[n] for n in own}, "unimputable": unimputable}
