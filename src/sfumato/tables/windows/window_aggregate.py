"""Window aggregates over Arrow tables: columns to arrays, the operator of the window, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.laws.aggregate import Aggregate, Measured
from sfumato.operators.state.snapshot import Snapshot, pack, unpack
from sfumato.operators.windows.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate, Extents
from sfumato.tables.arrival_order import arrival_order, count_out_of_order
from sfumato.tables.arrow import as_numbers, as_times, joined
from sfumato.tables.keys import KeyIndex
from sfumato.windows import Delta, Range, Rows

TIE = "__tie"
KIND, VERSION = "window aggregate bucket", 1
TIMES = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "long": pa.int64(),
}
OPERATORS: dict[type, Any] = {
    Rows: CountWindowAggregate,
    Delta: DeltaWindowAggregate,
    Range: ExtentAggregate,
}


@dataclass(frozen=True)
class WindowAggregateSettings:
    """What a window aggregate is told: plain values, to go to workers and into checkpoints.

    window : the configuration; of a Delta, `on_attribute` is its attribute's number
    results : name, function, attribute number (None: count(*)) and argument of each aggregate
    fields : the field of each distribution's values
    quantiles, distribution, seed, samples : as for the operators
    attributes, orders : how many columns value0.., order0.. there are; keys : names of key0..
    scope : numbers of the keys that share a punctuation; None: no punctuations, rows in order
    members : of a Range: the rows of the extents come out, with the results of each
    whole : results are structs that have everything, a distribution too
    time : what a Range's order is: "timestamp", "timestamp_ntz" or "long"
    columns, buckets : the schema of the rows and the number of buckets, only to recognise a
        checkpoint of another query
    """

    window: Rows | Range | Delta
    on_attribute: int
    results: tuple[tuple[str, str, int | None, float | None], ...]
    fields: tuple[str, ...]
    quantiles: tuple[float, ...]
    distribution: int | None
    seed: int
    samples: int
    attributes: int
    orders: int
    keys: tuple[str, ...]
    scope: tuple[int, ...] | None
    members: bool
    whole: bool
    time: str
    columns: str
    buckets: int

    counters: ClassVar[tuple[str, ...]] = (
        "rows",
        "late",
        "outside",
        "out_of_order",
        "overflow",
    )

    def make(self) -> TableWindowAggregate:
        window = self.window
        aggregates = [Aggregate(*result[1:]) for result in self.results]
        laws: dict[str, Any] = {
            "quantiles": self.quantiles,
            "distribution": self.distribution,
            "seed": self.seed,
            "samples": self.samples,
        }
        operator: Any
        if isinstance(window, Rows):
            operator = CountWindowAggregate(
                window.rows, window.confidence, aggregates, max_tuples=window.max_tuples, **laws
            )
        elif isinstance(window, Delta):
            operator = DeltaWindowAggregate(
                window.delta,
                self.on_attribute,
                aggregates,
                threshold=window.threshold,
                max_tuples=window.max_tuples,
                attributes=self.attributes,
                **laws,
            )
        else:
            operator = ExtentAggregate(
                window.span,
                window.every,
                aggregates,
                empty=window.empty,
                members=self.members,
                attributes=self.attributes,
                **laws,
            )
        return TableWindowAggregate(self, operator)

    def restore(self, data: bytes) -> TableWindowAggregate:
        saved = unpack(data, KIND, VERSION)
        operator = OPERATORS[type(self.window)].restore(saved.arrays["operator"].tobytes())
        bucket = TableWindowAggregate(self, operator)
        bucket.groups = KeyIndex(saved.tables.get("groups"))
        bucket.scopes = KeyIndex(saved.tables.get("scopes"))
        bucket.seen = saved.arrays["seen"]
        latest = saved.values["latest"]
        bucket.latest = None if latest is None else tuple(latest)
        bucket.counts = saved.values["counts"]
        return bucket

    def fingerprint(self) -> str:
        window = {"window": type(self.window).__name__, **asdict(self.window)}
        return json.dumps(
            {"operator": "window aggregate", **asdict(self), "window": window},
            sort_keys=True,
            default=str,
        )


class TableWindowAggregate:
    """The operator of a window over Arrow tables, for the keys of one bucket.

    Tables have the columns row (a struct: what comes out with a result), prob, value0.. (lists of
    one length a row), order0.., key0.., __tie and, with a scope, late and punctuation.
    """

    def __init__(self, settings: WindowAggregateSettings, operator: Any) -> None:
        self.settings = settings
        self.operator = operator
        self.groups = KeyIndex()
        self.scopes = KeyIndex()
        self.seen = np.empty(0, np.int64)  # processing time of each scope's newest row, ms
        self.latest: tuple | None = None  # order of the newest row
        self.counts = {"rows": 0, "out_of_order": 0}

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        rows = joined([table for _, table in batch]).combine_chunks()
        order = self._order(rows)
        rows = rows.take(pa.array(order))
        self.counts["rows"] += rows.num_rows
        keys = [f"key{i}" for i in range(len(self.settings.keys))]
        groups = self.groups.encode(rows.select(keys))
        offsets, prob, values = alternatives_of(rows, self.settings.attributes)
        if isinstance(self.settings.window, Range):
            return self._extents(rows, groups, offsets, prob, values, now)
        answers = self.operator.process(groups, offsets, prob, values)
        columns = _fields(rows.column("row"))
        columns["held"] = pa.array(answers.held)
        return [pa.table(columns | self._measured(answers.results))]

    def _order(self, rows: pa.Table) -> np.ndarray:
        """Rows as they arrived, or as the disorder controller let them out."""
        columns = [as_numbers(rows.column(f"order{i}")) for i in range(self.settings.orders)]
        if self.settings.scope is not None:
            # Late rows of a punctuation came after the rows that it let out.
            late = as_numbers(rows.column("late"))
            columns = [punctuations_of(rows), late, *columns]
        order = arrival_order(columns, [as_numbers(rows.column(TIE))])
        if self.settings.scope is None:
            columns = [column[order] for column in columns]
            self.counts["out_of_order"] += count_out_of_order(columns, self.latest)
            newest = tuple(column[-1].item() for column in columns)
            self.latest = newest if self.latest is None else max(newest, self.latest)
        return order

    def _extents(
        self,
        rows: pa.Table,
        groups: np.ndarray,
        offsets: np.ndarray,
        prob: np.ndarray,
        values: np.ndarray,
        now: int,
    ) -> list[pa.Table]:
        scope, punctuation, late = groups, None, None
        if self.settings.scope is not None:
            scope = self.scopes.encode(rows.select([f"key{i}" for i in self.settings.scope]))
            punctuation, late = punctuations_of(rows), as_numbers(rows.column("late")) != 0
        grown = int(scope.max(initial=0)) + 1
        grown = max(0, grown - len(self.seen))
        self.seen = np.concatenate([self.seen, np.zeros(grown, np.int64)])
        self.seen[scope] = now
        extents = self.operator.process(
            groups,
            as_numbers(rows.column("order0")),
            punctuation,
            late,
            offsets,
            prob,
            values,
            _flat(rows.column("row")) if self.settings.members else None,
            scope=scope,
        )
        return self._answers(extents)

    def _answers(self, extents: Extents) -> list[pa.Table]:
        if not len(extents):
            return []
        kind = TIMES[self.settings.time]
        columns: dict[str, Any] = {}
        if not self.settings.members:
            table = self.groups.table
            for i, name in enumerate(self.settings.keys):
                assert table is not None
                columns[name] = table.column(f"key{i}").take(pa.array(extents.group))
        answers = {
            "window": pa.StructArray.from_arrays(
                [as_times(extents.start, kind), as_times(extents.end, kind)], ["start", "end"]
            ),
            "held": pa.array(extents.held),
            "punctuation": as_times(extents.punctuation, kind),
            "late": pa.array(extents.late),
            **self._measured(extents.results),
        }
        if not self.settings.members:
            return [pa.table(columns | answers)]
        assert extents.members is not None
        assert extents.offsets is not None
        of = pa.array(np.repeat(np.arange(len(extents)), np.diff(extents.offsets)))
        repeated = {name: column.take(of) for name, column in answers.items()}
        members = {name: extents.members.column(name) for name in extents.members.column_names}
        return [pa.table(members | repeated)]

    def _measured(self, results: list[Measured]) -> dict[str, pa.Array]:
        """The result columns: structs of numbers, or distributions and how accurate they are."""
        names = [result[0] for result in self.settings.results]
        if self.settings.distribution is None or self.settings.whole:
            return {
                name: _numbers(measured, self.settings.quantiles)
                for name, measured in zip(names, results, strict=True)
            }
        columns = {
            name: _distribution(measured, field)
            for name, field, measured in zip(names, self.settings.fields, results, strict=True)
        }
        accuracies = [
            pa.StructArray.from_arrays(
                [_known(measured.moved), _known(measured.error)], ["moved", "error"]
            )
            for measured in results
        ]
        columns["accuracy"] = pa.StructArray.from_arrays(accuracies, names)
        return columns

    def idle(self, now: int) -> list[pa.Table]:
        window = self.settings.window
        assert isinstance(window, Range)
        assert window.timeout is not None
        quiet = np.flatnonzero(self.seen <= now - window.timeout // 1000)
        return self._answers(self.operator.idle(quiet))

    def flush(self) -> list[pa.Table]:
        window = self.settings.window
        return self._answers(self.operator.flush()) if isinstance(window, Range) else []

    def counters(self) -> dict[str, int]:
        counted = dict.fromkeys(self.settings.counters, 0) | self.counts
        if isinstance(self.settings.window, Range):
            own = self.operator.counters
            return counted | {"late": own["late"], "outside": own["outside"]}
        return counted | {"overflow": self.operator.overflow}

    def snapshot(self) -> bytes:
        tables = {}
        for name, index in (("groups", self.groups), ("scopes", self.scopes)):
            if index.table is not None:
                tables[name] = index.table
        return pack(
            KIND,
            VERSION,
            Snapshot(
                values={
                    "latest": None if self.latest is None else list(self.latest),
                    "counts": self.counts,
                },
                arrays={
                    "operator": np.frombuffer(self.operator.snapshot(), np.uint8),
                    "seen": self.seen,
                },
                tables=tables,
            ),
        )


def alternatives_of(rows: pa.Table, attributes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """offsets int64[n + 1], prob float64[m], values float64[m, a] (NULL as NaN)."""
    column = rows.column("prob").combine_chunks()
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = np.empty((len(column.flatten()), attributes))
    for i in range(attributes):
        of = rows.column(f"value{i}").combine_chunks().flatten()
        values[:, i] = of.to_numpy(zero_copy_only=False)
    return offsets - offsets[0], column.flatten().to_numpy(zero_copy_only=False), values


def punctuations_of(rows: pa.Table) -> np.ndarray:
    """int64[n]: the rows' punctuations; the int64 minimum where none is known yet."""
    column = rows.column("punctuation")
    unknown = pc.is_null(column).to_numpy()
    if not unknown.any():
        return as_numbers(column)
    known = np.full(len(column), np.iinfo(np.int64).min)
    known[~unknown] = as_numbers(column.drop_null())
    return known


def _flat(column: pa.ChunkedArray) -> pa.Table:
    return pa.table(_fields(column))


def _fields(column: pa.ChunkedArray) -> dict[str, pa.Array]:
    structs = column.combine_chunks()
    if isinstance(structs, pa.ChunkedArray):
        structs = structs.chunk(0) if structs.num_chunks else pa.array([], structs.type)
    parts = zip(structs.type, structs.flatten(), strict=True)
    return {field.name: values for field, values in parts}


def _known(numbers: np.ndarray | None) -> pa.Array:
    """Numbers, NaN as NULL."""
    assert numbers is not None
    return pa.array(numbers, pa.float64(), mask=np.isnan(numbers))


def _numbers(measured: Measured, quantiles: Sequence[float]) -> pa.StructArray:
    columns = {
        "mean": _known(measured.mean),
        "stddev": _known(measured.stddev),
        "existence": pa.array(measured.existence),
    }
    for i, q in enumerate(quantiles):
        columns[quantile_name(q)] = _known(measured.quantiles[:, i])
    if measured.value is not None:
        columns["alternatives"] = _distribution(measured, "value")
        columns["moved"] = _known(measured.moved)
    if len(quantiles) or measured.value is not None:
        columns["error"] = _known(measured.error)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def quantile_name(q: float) -> str:
    """The field of a quantile: q05, q50, q99_9."""
    text = f"{q * 100:.10g}"
    whole, _, part = text.partition(".")
    return f"q{whole:0>2}" + (f"_{part}" if part else "")


def _distribution(measured: Measured, field: str) -> pa.ListArray:
    pairs = pa.StructArray.from_arrays(
        [pa.array(measured.prob), pa.array(measured.value)], ["prob", field]
    )
    return pa.ListArray.from_arrays(pa.array(measured.offsets, pa.int32()), pairs)
