"""Earlier values over Arrow tables: the operator, and the job of `earlier_values`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.state.declared import Part
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import SECOND_US, as_numbers, has_no_null, numbers_of
from sfumato.tables.disorder.released import (
    ARRIVAL,
    RELEASED,
    ReleasedOperator,
    ReleasedTableConfig,
)
from sfumato.tables.operator import ROW
from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    DUPLICATE,
    EXISTENCE,
    NUMBER_KINDS,
    Frame,
    forget_after_of,
)
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import Output, passthrough_outputs
from sfumato.tables.reading.rows import (
    BooleanColumn,
    Column,
    ColumnReader,
    Doubles,
    Reading,
    Ties,
    controller_readers,
)
from sfumato.tables.scope import scope_of


@dataclass(frozen=True, kw_only=True)
class EarlierValuesTableConfig(ReleasedTableConfig):
    """Settings of earlier values over tables.

    attributes : number of columns value0..
    duplicates : whether the boolean column `duplicate` flags copies of other rows
    """

    attributes: int
    duplicates: bool = field(default=False, metadata={"fingerprint": "added"})

    kind, version = "earlier values", 3

    @property
    def value_columns(self) -> list[str]:
        return [f"value{i}" for i in range(self.attributes)]

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the columns without which values cannot be known."""
        known = ("order0", *self.key_columns)
        return known if self.scope is None else (*known, ARRIVAL)

    def arrival(self) -> Arrival:
        if self.scope is None:
            return Arrival(("order0",), needed=self.needed)
        *first, order = RELEASED
        return Arrival((*first, ARRIVAL, order), of_late=(ARRIVAL,), needed=self.needed)


class TableEarlierValues(ReleasedOperator):
    """`EarlierValues` over Arrow tables, for the keys of one bucket.

    Answers have `row` and, per attribute, earlier0.. and age0.. (in seconds if the order is a
    timestamp). Rows without order, key or arrival, and duplicates, are emitted without earlier
    values, and are not remembered.
    With a scope, rows also have a controller's columns late, punctuation and arrival.
    """

    config: EarlierValuesTableConfig
    state = {"operator": Part()}

    def __init__(self, config: EarlierValuesTableConfig) -> None:
        super().__init__(config)
        self.operator = EarlierValues(config.attributes)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        values = numbers_of(rows, self.config.value_columns)
        order = as_numbers(rows.column("order0"))
        earlier, age = self.operator.process(self.codes(rows), order, values)
        timed = pa.types.is_timestamp(rows.schema.field("order0").type)
        return [_answers_table(rows, earlier, age / SECOND_US if timed else age)]

    def is_usable(self, rows: pa.Table) -> np.ndarray:
        usable = super().is_usable(rows) & has_no_null(rows, self.config.needed[1:])
        return usable & ~self._are_duplicates(rows)

    def _are_duplicates(self, rows: pa.Table) -> np.ndarray:
        if not self.config.duplicates:
            return np.zeros(rows.num_rows, bool)
        flags: np.ndarray = as_numbers(rows.column(DUPLICATE)) != 0
        return flags

    def process_invalid(self, rows: pa.Table) -> list[pa.Table]:
        self._count_invalid(rows)
        nothing = np.full((rows.num_rows, self.config.attributes), np.nan)
        return [_answers_table(rows, nothing, nothing)]

    def _count_invalid(self, rows: pa.Table) -> None:
        self.counts["invalid"] += int((~self._are_duplicates(rows)).sum())


def _answers_table(rows: pa.Table, earlier: Floats, age: Floats) -> pa.Table:
    columns = {ROW: rows.column(ROW)}
    for name, numbers in (("earlier", earlier), ("age", age)):
        for i, column in enumerate(numbers.T):
            columns[f"{name}{i}"] = pa.array(column, mask=np.isnan(column))
    return pa.table(columns)


def earlier_values_job(
    frame: Frame,
    attributes: str | Sequence[str],
    order: str,
    key: str | Sequence[str] | None,
    forget_after: str | timedelta | float | None,
    name: str | None,
) -> Job:
    wanted = frame.resolve("attributes", attributes)
    if not wanted:
        raise ValueError("`attributes` must name at least one numeric column; got none")
    frame.require_numbers("attributes", wanted)
    if EXISTENCE in frame.columns:
        raise ValueError(
            f"earlier_values treats the values of earlier rows as known, but these rows may be "
            f"absent: the {frame.noun} has a column `{EXISTENCE}`. Draw possible worlds first, "
            "sf.draw_worlds(df, 1000, source=..., id=...), or rename the column to treat every row "
            "as present"
        )
    added: dict[str, str] = {}
    for i, attribute in enumerate(wanted):
        added |= {f"earlier{i}": f"earlier_{attribute}", f"age{i}": f"age_{attribute}"}
    frame.require_free([*added.values()])
    reading, settings = released_values(frame, wanted, order, key, forget_after)
    config = EarlierValuesTableConfig(**settings)
    outputs = passthrough_outputs(frame, frame.columns, ROW)
    outputs += [
        Output(title, (fixed,), pa.float64(), {ADDED_COLUMN: "true"})
        for fixed, title in added.items()
    ]
    given = [Input(frame, reading, {"attributes": wanted})]
    by = [*reading.order]
    return Job("earlier_values", "earlier_values", name, given, config, outputs, order=by)


def released_values(
    frame: Frame,
    wanted: Sequence[str],
    order: str,
    key: str | Sequence[str] | None,
    forget_after: str | timedelta | float | None,
) -> tuple[Reading, dict[str, Any]]:
    """Return how rows are read, and the config's arguments. Raises ValueError or TypeError."""
    order, keys = frame.single_column("order", order), frame.keys("key", key)
    require_ages(frame, order)
    frame.require_late()
    frame.require_event_time("order", [order])
    values: list[tuple[str, ColumnReader]] = []
    values += [(f"value{i}", Doubles(column)) for i, column in enumerate(wanted)]
    scope = None
    if frame.marks_late([order]):
        scope = scope_of(keys, frame.ordered_by_keys("punctuation") or [], "values cannot be known")
        arrival = frame.arrival_column
        if arrival is None:
            raise ValueError(
                f"the rows were reordered, but the {frame.noun} no longer has their arrival "
                "column, which gives the order in which late rows become known. Keep this column, "
                "or remove the late rows and drop `late` and `punctuation`"
            )
        values += [*controller_readers(), (ARRIVAL, Column(arrival))]
        if frame.duplicate_column is not None:
            values += [(DUPLICATE, BooleanColumn(frame.duplicate_column))]
    settings = {
        "attributes": len(wanted),
        "keys": len(keys),
        "scope": scope,
        "by_source": scope is not None and frame.by_source,
        "duplicates": scope is not None and frame.duplicate_column is not None,
        "forget_after": forget_after_of(frame, order, keys, forget_after),
    }
    columns, tie = tuple(frame.columns), Ties(frame.tie_columns)
    return Reading(columns, (order,), tuple(keys), tuple(values), tie=tie), settings


def require_ages(frame: Frame, order: str) -> None:
    if not frame.is_time(order) and frame.kind(order) not in NUMBER_KINDS:
        raise TypeError(
            f"`order` must be a timestamp or a number; `{order}` is {frame.type_name(order)}"
        )
