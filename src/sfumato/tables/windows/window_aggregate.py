"""Aggregates over windows, over Arrow tables: what all windows share, and those of rows."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import longer
from sfumato.operators.laws.aggregate import Aggregate, Measured
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import as_numbers, fields_of, joined
from sfumato.tables.disorder.released import PUNCTUATION, punctuations_of
from sfumato.tables.operator import ROW, TIE, TableConfig, TableOperator
from sfumato.tables.window_sizes import SIZES, sizes
from sfumato.tables.windows.columns import alternatives_of
from sfumato.tables.windows.results import ResultForm
from sfumato.windows import Delta, Rows

BEGINNING = np.iinfo(np.int64).min  # of a key without a row


@dataclass(frozen=True, kw_only=True)
class WindowTableConfig(TableConfig, ABC):
    """Settings of all windows over tables.

    results : name, function, attribute number (None: count(*)) and argument of each aggregate
    kinds : of the values of certain results, see `ResultForm`
    quantiles, distribution, seed, samples : see `LawOptions`
    attributes : how many columns value0.. there are
    """

    results: tuple[tuple[str, str, int | None, float | None], ...]
    kinds: tuple[str, ...] = ()
    quantiles: tuple[float, ...] = ()
    distribution: int | None = None
    seed: int = 0
    samples: int = 1000
    attributes: int

    counters: ClassVar[tuple[str, ...]] = (
        "rows", "invalid", "late", "outside", "out_of_order", "overflow",
    )  # fmt: skip

    @property
    def aggregates(self) -> list[Aggregate]:
        return [Aggregate(*result[1:]) for result in self.results]

    @property
    def options(self) -> dict[str, Any]:
        """Those of `LawOptions`."""
        names = ("quantiles", "distribution", "seed", "samples")
        return {name: getattr(self, name) for name in names}

    @property
    def form(self) -> ResultForm:
        return ResultForm(tuple(result[0] for result in self.results), self.kinds, self.quantiles)


@dataclass(frozen=True, kw_only=True)
class RowWindowTableConfig(WindowTableConfig):
    """Settings of a window of the newest rows over tables.

    window : Rows or Delta; on_attribute : the number of a Delta's attribute
    controlled : rows have the columns `late` and `punctuation` of a controller; late rows are not
        in order, and are left out. Rows of one event time follow each other by their punctuations,
        as the controller releases them.
    """

    window: Rows | Delta
    on_attribute: int = 0
    controlled: bool = False

    members: ClassVar[bool] = False
    kind, version = "window aggregate", 5
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {**TableConfig.gauges, **SIZES}

    def arrival(self, side: int = 0) -> Arrival:
        first, *others = super().arrival(side).columns
        return Arrival((first, *([PUNCTUATION] if self.controlled else []), *others))

    def make(self) -> TableRowWindow:
        return TableRowWindow(self)

    def operator(self) -> CountWindowAggregate | DeltaWindowAggregate:
        window = self.window
        if isinstance(window, Rows):
            return CountWindowAggregate(
                window.rows, window.confidence, self.aggregates, max_tuples=window.max_tuples,
                **self.options,
            )  # fmt: skip
        return DeltaWindowAggregate(
            window.delta, self.on_attribute, self.aggregates, threshold=window.threshold,
            max_tuples=window.max_tuples, attributes=self.attributes, **self.options,
        )  # fmt: skip


class TableRowWindow(TableOperator):
    """A window of the newest rows, for the keys of one bucket.

    Tables have the columns row (a struct: what comes out again), prob, value0.. (lists of one
    length a row), order0.., key0.., __tie and, if controlled, late and punctuation. Answers have
    the fields of `row`, held and results.
    """

    config: RowWindowTableConfig
    state = {"operator": Part(), "newest": Array(int, None)}

    def __init__(self, config: RowWindowTableConfig) -> None:
        super().__init__(config)
        self.operator: Any = config.operator()
        self.newest = np.empty(0, np.int64)  # if controlled, each key's order, by its code
        self._largest = 0  # window of the micro-batch

    def begin(self) -> None:
        super().begin()
        self._largest = 0

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        if not self.config.controlled:
            return super().process(batch, now)
        rows = joined([table for _, table in batch])
        late = rows.column("late")
        on_time = rows.filter(pc.invert(late))
        self.counts["rows"] += rows.num_rows - on_time.num_rows
        self.counts["late"] += rows.num_rows - on_time.num_rows
        return super().process([(0, on_time)], now)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        batch, codes = alternatives_of(rows, self.config.attributes), self.codes(rows)
        if self.config.controlled:
            self._note_keys(codes, as_numbers(rows.column("order0")))
        found = self.operator.process(codes, *batch)
        self._largest = max(self._largest, int(found.held.max(initial=0)))
        results: list[Measured] = found.results
        columns = fields_of(rows.column(ROW)) | {"held": pa.array(found.held)}
        return [pa.table(columns | self.config.form.columns(results))]

    def arrange(self, rows: pa.Table) -> np.ndarray:
        if not self.config.controlled:
            return super().arrange(rows)
        columns = [
            punctuations_of(rows) if name == PUNCTUATION else as_numbers(rows.column(name))
            for name in self.config.arrival().columns
        ]
        return arrival_order(columns, [as_numbers(rows.column(TIE))])

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        """A controller has put rows in order within each key, so that keys are noted apart."""
        if not self.config.controlled:
            super().note_order(columns)

    def _note_keys(self, codes: np.ndarray, order: np.ndarray) -> None:
        self.newest = longer(self.newest, self.index.size or 1, BEGINNING)
        behind = int((order < self.newest[codes]).sum())
        self.require_one_controller(behind)
        self.counts["out_of_order"] += behind
        np.maximum.at(self.newest, codes, order)

    def counters(self) -> dict[str, int]:
        return super().counters() | {"overflow": self.operator.overflow}

    def gauges(self) -> dict[str, Any]:
        return super().gauges() | sizes(self._largest, [self.config.window])

    def after_loading(self) -> None:
        super().after_loading()
        if len(self.newest) > (self.index.size or 1):
            raise ValueError("it cannot know the newest rows of keys that it does not know")

    def forget(self, codes: np.ndarray) -> None:
        """Drop what is held of these keys (int64[])."""
        self.operator.forget(codes)
        if self.config.controlled:
            self.newest[codes] = BEGINNING
