"""The join of incomplete streams over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sfumato.operators.imputation.imputer import IMPUTATION_REASONS
from sfumato.operators.joins.answers import Answers
from sfumato.operators.joins.arrivals import IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.operators.state.config import ADDED_FIELD
from sfumato.tables.imputation.table_imputation import numbers_of, shared_imputer
from sfumato.tables.joins.table_join import ArrivalBatch, JoinTableConfig, RowsOfSide, TableJoin
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class IncompleteJoinTableConfig(JoinTableConfig):
    """imputer : `Imputer.to_bytes`, of which a checkpoint keeps only the checksum
    units : for each of its attributes, the number that values are divided by; none: 1
    """

    imputer: bytes
    units: tuple[float, ...] = field(default=(), metadata=ADDED_FIELD)

    kind, version = "incomplete join table", 7
    counters = (
        "rows", "late", "unaligned", "complete", "imputed", "unimputable", "pairs", "out_of_order",
        "fully_imputed", "pairs_compared",
    )  # fmt: skip

    def make(self) -> TableIncompleteJoin:
        return TableIncompleteJoin(self)


class TableIncompleteJoin(TableJoin):
    """`IncompleteJoin` over Arrow tables: rows have all columns, and value0...

    These are float64 in the order of the imputer's names; NULL is missing. Snapshots do not contain
    the repository.
    """

    config: IncompleteJoinTableConfig
    operator: IncompleteJoin
    compared = "refined"

    def __init__(self, config: IncompleteJoinTableConfig) -> None:
        super().__init__(config)
        self.operator = IncompleteJoin(
            shared_imputer(config.imputer),
            config.within,
            config.probability,
            config.windows,
            output=config.output,
            alternatives=config.alternatives,
            units=config.units,
        )
        self.operator.most_pairs = config.max_alternatives
        self.kept = tuple(f"value{i}" for i in range(len(self.operator.imputer.names)))

    def join(self, batch: ArrivalBatch) -> Answers:
        values = np.concatenate([numbers_of(table, self.kept) for table in batch.tables])
        answers, _ = self.operator.process(
            IncompleteArrivals(batch.side, batch.code, values[batch.order], batch.time)
        )
        return answers

    def rows_of_side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> RowsOfSide:
        distinct, which = np.unique(numbers, return_inverse=True)
        objects = store.take(distinct)
        which = which.reshape(-1)
        rows = objects.column(ROW).take(pa.array(which))
        if not self.config.alternatives:
            return rows, {}
        # The operator drops the samples of objects that it forgets; impute these again.
        imputer = self.operator.imputer
        imputed = imputer.impute(numbers_of(objects, self.kept))
        places = np.repeat(imputed.offsets[which], lengths) + sample
        attributes = {
            name: pa.array(imputed.values[places, imputer.attributes.index(name)])
            for name in self.config.on
        }
        return rows, attributes

    def operator_counters(self) -> dict[str, int]:
        done = self.operator.counters
        return {
            "complete": done["complete"],
            "imputed": done["imputed"],
            "fully_imputed": done["completed"],
            "pairs_compared": done["refined"],
            "unimputable": sum(done[reason] for reason in IMPUTATION_REASONS[2:]),
        }
