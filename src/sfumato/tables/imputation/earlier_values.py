"""Earlier values over Arrow tables: columns to arrays, `EarlierValues`, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.state.declared import Optional, Part
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import as_numbers
from sfumato.tables.disorder.released import ARRIVAL, RELEASED, LateRowBuffer, release_order
from sfumato.tables.imputation.imputation import numbers_of
from sfumato.tables.operator import ROW, TableConfig, TableOperator

MICROSECONDS = 1e6  # in a second


@dataclass(frozen=True, kw_only=True)
class EarlierValuesTableConfig(TableConfig):
    """attributes : how many columns value0.. there are
    scope : numbers of the keys of the disorder controller before; None: there is none
    by_source : late rows have the punctuation of a source, see `LateRowBuffer`
    """

    attributes: int
    scope: tuple[int, ...] | None = None
    by_source: bool = False

    kind, version = "earlier values", 3

    def arrival(self, side: int = 0) -> Arrival:
        needed = ("order0", *(f"key{i}" for i in range(self.keys)))
        if self.scope is None:
            return Arrival(("order0",), needed=needed)
        *first, order = RELEASED
        return Arrival((*first, ARRIVAL, order), of_late=(ARRIVAL,), needed=needed)

    def make(self) -> TableEarlierValues:
        return TableEarlierValues(self)


class TableEarlierValues(TableOperator):
    """`EarlierValues` over Arrow tables, for the keys of one bucket.

    Answers have `row` and, of each attribute, earlier0.. and age0.., in seconds where the order is
    a timestamp. Rows without order or key come out with nothing known, and are not remembered.
    With a scope rows have the columns late, punctuation and arrival of a controller as well, and
    come in the order of their release: what was released before a late row did not know it.
    """

    config: EarlierValuesTableConfig
    state = {"operator": Part(), "late_rows": Optional(Part("_new_buffer"))}

    def __init__(self, config: EarlierValuesTableConfig) -> None:
        super().__init__(config)
        self.operator = EarlierValues(config.attributes)
        buffered = config.scope is not None and config.by_source
        self.late_rows = self._new_buffer() if buffered else None

    def _new_buffer(self) -> LateRowBuffer:
        return LateRowBuffer(self.config.scope or ())

    def settled(self, rows: pa.Table) -> pa.Table:
        return rows if self.late_rows is None else self.late_rows.settled(rows)

    def arrange(self, rows: pa.Table) -> np.ndarray:
        return super().arrange(rows) if self.config.scope is None else release_order(rows)

    def flush(self) -> list[pa.Table]:
        rest = None if self.late_rows is None else self.late_rows.rest()
        return [] if rest is None else self.arranged(rest, 0)

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
