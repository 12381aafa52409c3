"""Earlier values over Arrow tables: columns to arrays, `EarlierValues`, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.state.declared import Part
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import as_numbers
from sfumato.tables.imputation.imputation import numbers_of
from sfumato.tables.operator import ROW, TableConfig, TableOperator

MICROSECONDS = 1e6  # in a second


@dataclass(frozen=True, kw_only=True)
class EarlierValuesTableConfig(TableConfig):
    """attributes : how many columns value0.. there are."""

    attributes: int

    kind, version = "earlier values", 2

    def arrival(self, side: int = 0) -> Arrival:
        keys = [f"key{i}" for i in range(self.keys)]
        return Arrival(("order0",), needed=("order0", *keys))

    def make(self) -> TableEarlierValues:
        return TableEarlierValues(self)


class TableEarlierValues(TableOperator):
    """`EarlierValues` over Arrow tables, for the keys of one bucket.

    Answers have `row` and, of each attribute, earlier0.. and age0.., in seconds where the order is
    a timestamp. Rows without order or key come out with nothing known, and are not remembered.
    """

    config: EarlierValuesTableConfig
    state = {"operator": Part()}

    def __init__(self, config: EarlierValuesTableConfig) -> None:
        super().__init__(config)
        self.operator = EarlierValues(config.attributes)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        earlier, age = self.operator.process(
            self.codes(rows), as_numbers(rows.column("order0")), self._values(rows)
        )
        timed = pa.types.is_timestamp(rows.schema.field("order0").type)
        return [_beside(rows, earlier, age / MICROSECONDS if timed else age)]

    def usable(self, rows: pa.Table) -> np.ndarray:
        known = super().usable(rows)
        for i in range(self.config.keys):
            known &= rows.column(f"key{i}").is_valid().to_numpy()
        return known

    def invalid(self, rows: pa.Table) -> list[pa.Table]:
        self.counts["invalid"] += rows.num_rows
        nothing = np.full((rows.num_rows, self.config.attributes), np.nan)
        return [_beside(rows, nothing, nothing)]

    def forget(self, codes: np.ndarray) -> None:
        self.operator.forget(codes)

    def _values(self, rows: pa.Table) -> Floats:
        return numbers_of(rows, [f"value{i}" for i in range(self.config.attributes)])


def _beside(rows: pa.Table, earlier: Floats, age: Floats) -> pa.Table:
    columns = {ROW: rows.column(ROW)}
    for name, numbers in (("earlier", earlier), ("age", age)):
        for i, column in enumerate(numbers.T):
            columns[f"{name}{i}"] = pa.array(column, mask=np.isnan(column))
    return pa.table(columns)
