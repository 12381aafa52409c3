"""The join of incomplete streams over Arrow tables."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints
from sfumato.operators.imputation.imputer import IMPUTATION_REASONS
from sfumato.operators.joins.answers import JoinAnswers
from sfumato.operators.joins.arrivals import IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.tables.arrow import numbers_of
from sfumato.tables.imputation.repositories import RepositoryImputer, cached_imputer
from sfumato.tables.joins.table_join import JoinTableConfig, RowsOfSide, TableJoin
from sfumato.tables.joins.two_sides import Numbers, OrderedSides
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class IncompleteJoinTableConfig(JoinTableConfig):
    """Settings of a join of incomplete streams, for Arrow tables.

    imputer : `RepositoryImputer.to_bytes`; a checkpoint stores only the checksum
    units : divisors of the imputer's attributes; empty for no division
    """

    imputer: bytes
    within: float
    units: tuple[float, ...] = ()

    kind, version = "incomplete join table", 10
    counters = (
        "rows", "late", "unaligned", "complete", "imputed", "unimputable", "pairs", "out_of_order",
        "fully_imputed", "pairs_compared",
    )  # fmt: skip


class TableIncompleteJoin(TableJoin):
    """`IncompleteJoin` over Arrow tables, whose rows also have the columns value0...

    These columns are float64 in the order of the imputer's names; NULL is missing. Snapshots do not
    contain the repository.
    """

    config: IncompleteJoinTableConfig
    operator: IncompleteJoin
    compared = "refined"

    def __init__(self, config: IncompleteJoinTableConfig) -> None:
        super().__init__(config)
        self.operator = IncompleteJoin(
            cached_imputer(config.imputer, RepositoryImputer).shared,
            config.within,
            config.probability,
            config.windows,
            output=config.output,
            alternatives=config.alternatives,
            units=config.units,
        )
        self.operator.most_pairs = config.max_alternatives
        self.kept_columns = tuple(f"value{i}" for i in range(len(self.operator.imputer.names)))

    def join(self, rows: OrderedSides) -> JoinAnswers:
        numbers = [numbers_of(table, self.kept_columns) for table in rows.tables]
        values = np.concatenate(numbers)[rows.order]
        arrivals = IncompleteArrivals(rows.side, rows.code, values, self.times(rows))
        return self.operator.process(arrivals)[0]

    def rows_of_side(
        self, store: RowStore, numbers: Ints, sample: Numbers, lengths: Ints
    ) -> RowsOfSide:
        distinct, which = np.unique(numbers, return_inverse=True)
        objects = store.take(distinct)
        rows = objects.column(ROW).take(pa.array(which))
        if not self.config.alternatives:
            return rows, {}
        # The operator may have dropped the samples of these objects, so impute them again.
        imputer = self.operator.imputer
        imputed = imputer.impute(numbers_of(objects, self.kept_columns))
        places = np.repeat(imputed.offsets[which], lengths) + sample
        attributes = {
            name: pa.array(imputed.values[places, imputer.attributes.index(name)])
            for name in self.config.on
        }
        return rows, attributes

    def counters(self) -> dict[str, int]:
        done = self.operator.counters
        return super().counters() | {
            "complete": done["complete"],
            "imputed": done["imputed"],
            "fully_imputed": done["imputed"],
            "pairs_compared": done["refined"],
            "unimputable": sum(done[reason] for reason in IMPUTATION_REASONS[2:]),
        }
