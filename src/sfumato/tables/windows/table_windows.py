"""Windows over Arrow tables: the common config, result columns, and count and delta windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import pad
from sfumato.operators.distributions.aggregate import Aggregate, AggregateResult
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.state.declared import Array, Part
from sfumato.tables.arrow import as_numbers, fields_of
from sfumato.tables.operator import ROW, SIZE_GAUGES, TableConfig, TableOperator, window_gauges
from sfumato.tables.reading.exact import ExactNumber
from sfumato.tables.reading.types import as_doubles, floats_of
from sfumato.tables.scope import BEGINNING
from sfumato.windows import Delta, Rows

PICKED_RESULT = "picked"  # kind of a plain result that is a value of one of the window's rows

if TYPE_CHECKING:
    from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
    from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate

ARROW_TIMES = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "long": pa.int64(),
}


def alternatives_of(
    rows: pa.Table, attributes: int, unused: Collection[int | None] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return offsets int64[n + 1], prob float64[m], values float64[m, a] (0 if `unused`)."""
    column = rows.column("prob").combine_chunks()
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = np.zeros((len(column.flatten()), attributes))
    for i in set(range(attributes)).difference(unused):
        values[:, i] = floats_of(as_doubles(_flat(rows, i), "a value"))
    return offsets - offsets[0], column.flatten().to_numpy(zero_copy_only=False), values


def _flat(rows: pa.Table, attribute: int) -> pa.Array:
    return rows.column(f"value{attribute}").combine_chunks().flatten()


@dataclass(frozen=True, kw_only=True)
class WindowTableConfig(TableConfig):
    """Settings of all windows over tables.

    results : per aggregate, (name, function, attribute number, argument); count(*) has no number
    kinds : "whole", "number", "timestamp", "timestamp_ntz", PICKED_RESULT or the exact form per
        result; empty if results are structs
    bounded : further columns (name, number of a result, most), which repeat a struct with at most
        `most` values in its distribution
    attributes : number of columns value0.., which precede the parts of exact values
    """

    results: tuple[tuple[str, str, int | None, float | None], ...]
    kinds: tuple[str | ExactNumber, ...] = ()
    options: DistributionOptions = field(default_factory=DistributionOptions)
    bounded: tuple[tuple[str, int, int], ...] = ()
    attributes: int

    counters: ClassVar[tuple[str, ...]] = (
        "rows", "invalid", "late", "outside", "out_of_order", "overflow",
    )  # fmt: skip

    @cached_property
    def _parts(self) -> dict[tuple[int, int, bool], range]:
        """Map (attribute, bits, ordered) of exact values to the numbers of their parts."""
        found, end = dict[tuple[int, int, bool], range](), self.attributes
        for _, _, attribute, _, of in self._results:
            exact = isinstance(of, ExactNumber)
            if exact and (attribute, of.bits, of.ordered) not in found:
                found[attribute, of.bits, of.ordered] = range(end, end + of.parts)
                end += of.parts
        return found

    @cached_property
    def _results(self) -> list[tuple[str, str, Any, Any, Any]]:
        """Return `results` with their kinds, "" for structs."""
        kinds = self.kinds or ("",) * len(self.results)
        return [(*of, kind) for of, kind in zip(self.results, kinds, strict=True)]

    @property
    def picked(self) -> dict[str, tuple[str, str]]:
        """Return the results that are values of rows: name -> (function, column of the values)."""
        picked = (of for *of, kind in self._results if kind == PICKED_RESULT)
        return {name: (function, f"value{attribute}") for name, function, attribute, _ in picked}

    @property
    def distances(self) -> set[int]:
        """Return the attributes that decide which tuples are in a window."""
        return set()

    @property
    def all_attributes(self) -> int:
        """Return the number of attributes of the operator's tuples, including exact parts."""
        return max([self.attributes, *(numbers.stop for numbers in self._parts.values())])

    @cached_property
    def aggregates(self) -> list[Aggregate]:
        """Return the operator's aggregates: one per result, or per part of an exact result."""
        found = []
        for _, function, attribute, argument, kind in self._results:
            numbers: Any = [] if kind == PICKED_RESULT else [attribute]
            if isinstance(kind, ExactNumber):
                numbers = self._parts[attribute, kind.bits, kind.ordered]
            found += [Aggregate(function, number, argument) for number in numbers]
        return found or [Aggregate("count")]

    @property
    def value_columns(self) -> list[str]:
        return [f"value{i}" for i in range(self.attributes)]

    def tuples(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows' tuples as `alternatives_of` does, with the parts of exact values."""
        used = {of.attribute for of in self.aggregates} | self.distances
        unused = set(range(self.attributes)) - used
        offsets, prob, values = alternatives_of(rows, self.attributes, unused)
        parts = list[np.ndarray]()
        for attribute, bits, ordered in self._parts:
            parts += ExactNumber(bits, ordered).split(_flat(rows, attribute))
        return offsets, prob, np.column_stack([values, *parts]) if parts else values

    def result_columns(self, results: Sequence[AggregateResult]) -> dict[str, pa.Array]:
        """Convert the results of aggregates to one column per result, except picked results."""
        if not self.kinds:
            named = {of[0]: found for of, found in zip(self.results, results, strict=True)}
            for name, number, most in self.bounded:
                named[name] = replace(self.options, distribution=most).bounded(results[number])
            shares = self.options.quantiles
            return {name: _distribution_column(found, shares) for name, found in named.items()}
        found, columns = iter(results), dict[str, pa.Array]()
        for name, function, _, _, kind in self._results:
            if isinstance(kind, ExactNumber):
                columns[name] = kind.join(function, [next(found).mean for _ in range(kind.parts)])
            elif kind != PICKED_RESULT:
                columns[name] = _value_column(next(found), kind)
        return columns


def quantile_name(q: float) -> str:
    """Return the name of a quantile's field, such as q05, q50 or q99_9."""
    text = f"{q * 100:.10g}"
    whole, _, part = text.partition(".")
    return f"q{whole:0>2}" + (f"_{part}" if part else "")


def _value_column(measured: AggregateResult, kind: str) -> pa.Array:
    """Return the values of certain results, NaN as NULL; 2^63 becomes the largest int64."""
    values = measured.mean
    if kind == "number":
        return pa.array(values, from_pandas=True)
    missing = np.isnan(values)
    scaled = np.where(missing, 0.0, values) * (1 if kind == "whole" else 1e6)
    rounded = np.rint(scaled)
    largest = rounded >= 2.0**63
    whole = np.where(largest, 0.0, rounded).astype(np.int64)
    whole[largest] = np.iinfo(np.int64).max
    array = pa.array(whole, mask=missing)
    return array if kind == "whole" else array.cast(ARROW_TIMES[kind])


def distribution_names(quantiles: Sequence[float], has_distribution: bool) -> list[str]:
    """Return the names of the fields of a result that is not a plain value."""
    names = ["mean", "stddev", "existence", *map(quantile_name, quantiles)]
    names += ["distribution", "moved"] if has_distribution else []
    return names + (["error"] if has_distribution or len(quantiles) else [])


def _distribution_column(measured: AggregateResult, quantiles: Sequence[float]) -> pa.StructArray:
    numbers = {quantile_name(q): measured.quantiles[:, i] for i, q in enumerate(quantiles)}
    names = distribution_names(quantiles, measured.value is not None)
    columns = [
        list_of_pairs(measured)
        if name == "distribution"
        else pa.array(numbers.get(name, getattr(measured, name, None)), from_pandas=True)
        for name in names
    ]
    return pa.StructArray.from_arrays(columns, names)


def list_of_pairs(found: Any) -> pa.ListArray:
    """Return the lists of (prob, value) with the given `offsets`, `prob` and `value`."""
    columns = [pa.array(found.prob), pa.array(found.value)]
    pairs = pa.StructArray.from_arrays(columns, ["prob", "value"])
    return pa.ListArray.from_arrays(pa.array(found.offsets, pa.int32()), pairs)


@dataclass(frozen=True, kw_only=True)
class RowWindowTableConfig(WindowTableConfig):
    """Settings of a count or delta window over tables.

    on_attribute : number of a delta window's attribute
    controlled : whether rows have a controller's columns `late` and `punctuation`. Late rows are
        left out, and rows with equal event times are ordered by punctuation.
    """

    window: Rows | Delta
    on_attribute: int = 0
    controlled: bool = False

    members: ClassVar[bool] = False
    kind, version = "window aggregate", 9
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {**TableConfig.gauges, **SIZE_GAUGES}

    @property
    def by_punctuation(self) -> bool:
        return self.controlled

    @property
    def distances(self) -> set[int]:
        return {self.on_attribute} if isinstance(self.window, Delta) else set()

    def operator(self) -> CountWindowAggregate | DeltaWindowAggregate:
        window = self.window
        # Only the kernels of this window are imported, for a faster first answer.
        if isinstance(window, Rows):
            from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate

            return CountWindowAggregate(
                window.rows, window.confidence, self.aggregates, max_tuples=window.max_tuples,
                certain=bool(self.kinds), **vars(self.options),
            )  # fmt: skip
        from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate

        return DeltaWindowAggregate(
            window.delta, self.on_attribute, self.aggregates, threshold=window.threshold,
            max_tuples=window.max_tuples, attributes=self.all_attributes, **vars(self.options),
        )  # fmt: skip


class TableRowWindow(TableOperator):
    """A count or delta window, for the keys of one bucket.

    Tables have the columns row (a struct that is emitted again), prob, value0.. (lists of equal
    length within a row), order0.., key0.., __tie and, if controlled, late and punctuation. Answers
    have the fields of `row`, held and the results.
    """

    config: RowWindowTableConfig
    state = {"operator": Part(), "newest": Array(int, None)}

    def __init__(self, config: RowWindowTableConfig) -> None:
        super().__init__(config)
        self.operator = config.operator()
        self.newest = np.empty(0, np.int64)  # order of each key's newest row, if controlled
        self._largest = 0  # size of the largest window in the micro-batch

    def begin(self) -> None:
        super().begin()
        self._largest = 0

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        return super().process(self.drop_late(batch) if self.config.controlled else batch, now)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        batch, codes = self.config.tuples(rows), self.codes(rows)
        if self.config.controlled:
            self._record_keys(codes, as_numbers(rows.column("order0")))
        found = self.operator.process(codes, *batch)
        self._largest = max(self._largest, int(found.held.max(initial=0)))
        row, held, results, window = rows.column(ROW), found.held, found.results, self.config.window
        if isinstance(window, Rows) and window.slide is not None:
            kept = np.flatnonzero(found.numbers % window.slide == 0)
            row, held = row.take(pa.array(kept)), held[kept]
            results = [measured.take(kept) for measured in results]
        columns = fields_of(row) | {"held": pa.array(held)}
        return [pa.table(columns | self.config.result_columns(results))]

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        """Ignore rows from a controller, which are ordered only per key, see `_record_keys`."""
        if not self.config.controlled:
            super().note_order(columns)

    def _record_keys(self, codes: np.ndarray, order: np.ndarray) -> None:
        self.newest = pad(self.newest, self.index.size or 1, BEGINNING)
        behind = int((order < self.newest[codes]).sum())
        self.require_one_controller(behind)
        self.counts["out_of_order"] += behind
        np.maximum.at(self.newest, codes, order)

    def counters(self) -> dict[str, int]:
        return super().counters() | {"overflow": self.operator.overflow}

    def gauges(self) -> dict[str, Any]:
        return super().gauges() | window_gauges(self._largest, [self.config.window])

    def after_loading(self) -> None:
        super().after_loading()
        if len(self.newest) > (self.index.size or 1):
            raise ValueError("its newest rows must belong to known keys")

    def forget(self, codes: np.ndarray) -> None:
        super().forget(codes)
        if self.config.controlled:
            self.newest[codes] = BEGINNING
