"""The join of incomplete streams over Arrow tables: columns to `IncompleteJoin`, and back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sfumato.operators.imputation.imputer import REASONS
from sfumato.operators.joins.answers import Answers
from sfumato.operators.joins.arrivals import IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.operators.state.config import ADDED
from sfumato.tables.imputation.imputation import numbers_of, shared_imputer
from sfumato.tables.joins.join import Arriving, JoinTableConfig, TableJoin
from sfumato.tables.row_store import RowStore

UNIMPUTABLE = REASONS[2:]


@dataclass(frozen=True, kw_only=True)
class IncompleteJoinTableConfig(JoinTableConfig):
    """imputer : `Imputer.to_bytes`, of which a checkpoint keeps only the checksum
    units : for each of its attributes, the number that values are divided by; none: 1
    """

    imputer: bytes
    units: tuple[float, ...] = field(default=(), metadata=ADDED)

    kind, version = "incomplete join table", 7
    counters = (
        "rows", "late", "unaligned", "complete", "imputed", "unimputable", "pairs", "out_of_order",
        "fully_imputed", "pairs_compared",
    )  # fmt: skip

    def make(self) -> TableIncompleteJoin:
        return TableIncompleteJoin(self)


class TableIncompleteJoin(TableJoin):
    """`IncompleteJoin` over Arrow tables: rows are all columns, beside value0...

    These are float64 in the order of the imputer's names, NULL is missing. The repository is in no
    snapshot.
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

    def join(self, arriving: Arriving) -> Answers:
        values = np.concatenate([numbers_of(table, self.kept) for table in arriving.tables])
        answers, _ = self.operator.process(
            IncompleteArrivals(arriving.side, arriving.code, values[arriving.order], arriving.time)
        )
        return answers

    def side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        distinct, which = np.unique(numbers, return_inverse=True)
        objects = store.take(distinct)
        which = which.reshape(-1)
        rows = objects.column("row").take(pa.array(which))
        if not self.config.alternatives:
            return rows, {}
        # The operator drops the samples of objects it forgets; they are the object's alone.
        imputer = self.operator.imputer
        imputed = imputer.impute(numbers_of(objects, self.kept))
        places = np.repeat(imputed.offsets[which], lengths) + sample
        attributes = {
            name: pa.array(imputed.values[places, imputer.attributes.index(name)])
            for name in self.config.on
        }
        return rows, attributes

    def done(self) -> dict[str, int]:
        done = self.operator.counters
        return {
            "complete": done["complete"],
            "imputed": done["imputed"],
            "fully_imputed": done["completed"],
            "pairs_compared": done["refined"],
            "unimputable": sum(done[reason] for reason in UNIMPUTABLE),
        }
