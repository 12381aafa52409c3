"""The disorder controller over Arrow tables: `Reorder` for the times, and the rows it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import longer
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.reorder import NO_CODES, Reorder
from sfumato.operators.disorder.rows import Released
from sfumato.operators.disorder.statistics import AWAITED, BINS, BufferStatistics, Waits
from sfumato.operators.state.declared import Array, Declaration, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import as_numbers, as_times, taken
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, TIE, TableConfig, TableOperator
from sfumato.tables.row_store import RowStore

EVENT = "event"
# The sum of each bin, as text, since some clients of Spark take no list as a metric; in one
# aggregate, since Spark plans each aggregate again for every micro-batch.
ADD = "(a, b) -> zip_with(a, b, (x, y) -> x + y)"
WAIT_SUMS = f"aggregate(collect_list(waits), array_repeat(0L, {BINS}), {ADD})"
FARTHEST = 1 << 60  # microseconds from 1970: event times and arrivals beyond it are invalid


@dataclass(frozen=True)
class OrderedRows(Released):
    """Emitted rows, in order of output, with the columns of `Released`."""

    rows: pa.Table

    def then(self, other: OrderedRows) -> OrderedRows:
        """Return these rows followed by others."""
        rows = pa.concat_tables([self.rows, other.rows])
        return self._with(
            rows, lambda name: np.concatenate([getattr(self, name), getattr(other, name)])
        )

    def take(self, places: np.ndarray) -> OrderedRows:
        """Return the rows at some places."""
        return self._with(taken(self.rows, places), lambda name: getattr(self, name)[places])

    def _with(self, rows: pa.Table, column: Callable[[str], np.ndarray]) -> OrderedRows:
        return OrderedRows(**{of.name: column(of.name) for of in fields(Released)}, rows=rows)


class RowReorder(Stateful):
    """`Reorder` with the rows: what goes in by number is emitted by number."""

    state: ClassVar[Mapping[str, Declaration]] = {"operator": Part(), "held": Part()}

    def __init__(self, operator: Reorder) -> None:
        self.operator = operator
        self.held = RowStore()

    def process(
        self,
        keys: np.ndarray,
        event_time: np.ndarray,
        arrival: np.ndarray,
        rows: pa.Table,
        sources: np.ndarray | None = None,
    ) -> OrderedRows:
        """Return what is emitted at the next n arrivals, as `Reorder.process` does.

        rows : n rows; the schema stays that of the first call
        Raises what `Reorder.process` raises, and ValueError for other rows.
        Cost: one Arrow take of the rows emitted, and one of the rows that stay.
        """
        if rows.num_rows != len(keys):
            raise ValueError(f"`rows` must have {len(keys)} rows, as `keys`; got {rows.num_rows}")
        known = self.held.empty
        if known is not None and not rows.schema.equals(known.schema):
            raise ValueError(
                f"`rows` must keep its schema; got {rows.schema} after {known.schema}: "
                "start a new operator, or cast the columns"
            )
        first = self.operator.arrived
        released = self.operator.process(keys, event_time, arrival, sources)
        return self._emit(released, rows, first)

    def idle(self, sources: np.ndarray | None = None, keys: np.ndarray = NO_CODES) -> OrderedRows:
        """Return `Reorder.idle`, with the rows."""
        return self._emit_held(self.operator.idle(sources, keys))

    def flush(self) -> OrderedRows:
        """Return `Reorder.flush`, with the rows."""
        return self._emit_held(self.operator.flush())

    def forget(self, keys: np.ndarray) -> OrderedRows:
        """Return `Reorder.forget`, with the rows."""
        return self._emit_held(self.operator.forget(keys))

    def _emit_held(self, released: Released) -> OrderedRows:
        none = pa.table({}) if self.held.empty is None else self.held.empty
        return self._emit(released, none, self.operator.arrived)

    def _emit(self, released: Released, rows: pa.Table, first: int) -> OrderedRows:
        """Return the released rows, and store those of `rows`, numbered from `first`, that stay."""
        table = self._rows(released.number, rows, first)
        staying = self.operator.stayed
        if rows.num_columns:
            self.held.append(taken(rows, staying - first), staying)
        if self.held.crowded(self.operator.holds):
            self.held.keep(self.operator.waiting.number)
        return OrderedRows(**vars(released), rows=table)

    def _rows(self, numbers: np.ndarray, rows: pa.Table, first: int) -> pa.Table:
        """Return the rows of these numbers: below `first` from the store, else from `rows`."""
        held, places = self.held.parts(numbers), numbers - first
        before = 0
        for place, part in held:
            places[place] = before + np.arange(part.num_rows)
            before += part.num_rows
        if not held:
            return taken(rows, places)
        places[numbers >= first] += before
        return taken(pa.concat_tables([*(part for _, part in held), rows]).combine_chunks(), places)

    def before_saving(self) -> None:
        self.held.keep(self.operator.waiting.number)

    def after_loading(self) -> None:
        if not np.array_equal(self.held.numbers, self.operator.waiting.number):
            raise ValueError("its rows are not those held")


@dataclass(frozen=True, kw_only=True)
class ReorderTableConfig(TableConfig):
    """control : of each controller    sources : the number of columns source0..
    expected_sources : as for `Reorder`    idle_timeout : milliseconds, or None
    """

    control: DisorderControl
    sources: int = 0
    expected_sources: int | None = None
    idle_timeout: int | None = None

    kind, version = "reorder table", 6
    counters = (
        "rows", "late", "stale", "after_idle", "invalid", "future", "held", "forced",
        "out_of_order",
    )  # fmt: skip
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        **TableConfig.gauges,
        "oldest": ("long", "min(oldest)"),
        "punctuation": ("long", "min(punctuation)"),
        "lag": ("long", "max(lag)"),
        "slowest": ("string", "min_by(slowest, oldest)"),
        "waited": ("long", "max(waited)"),
        "waits": ("array<long>", f"array_join(CAST({WAIT_SUMS} AS ARRAY<STRING>), ',')"),
    }

    def __post_init__(self) -> None:
        if self.forget_after is not None and self.sources:
            raise ValueError(
                "`forget_after` is not for `source`: whether a key is over would depend "
                "on how fast its sources are read; leave it out, or reorder each source by `key`"
            )

    def arrival(self, side: int = 0) -> Arrival:
        times = ("order0", EVENT)
        return Arrival(times, needed=times, within=FARTHEST)

    def check(self) -> None:
        """Do nothing: `control` and this class have checked themselves."""

    def make(self) -> TableReorder:
        return TableReorder(self)


class TableReorder(TableOperator):
    """`Reorder` over Arrow tables, for the keys of one bucket.

    Rows also have the columns `event` (event time) and source0..; order0 is their arrival. Answers
    have `row`, `late` and `punctuation` (of the event time's type).
    """

    config: ReorderTableConfig
    state: ClassVar[dict[str, Any]] = {
        "source_index": Part(),
        "ordered": Part(),
        "seen": Array(int, None),
        "since": Array(int, None),
    }

    def __init__(self, config: ReorderTableConfig) -> None:
        super().__init__(config)
        operator = Reorder(
            by_source=config.sources > 0,
            expected_sources=config.expected_sources,
            **asdict(config.control),
        )
        self.ordered = RowReorder(operator)
        operator.sources.ranks = self._ranks
        self.source_index = KeyIndex()
        self.seen = NO_CODES  # processing time of each source's newest row, ms
        self.since = NO_CODES  # and of each key's first row
        self._present = NO_CODES  # keys of the newest rows
        self._forgotten = NO_CODES  # keys that have expired since
        self.held, self.waits = BufferStatistics(operator), Waits()

    @property
    def operator(self) -> Reorder:
        """The operator over numbers."""
        return self.ordered.operator

    def begin(self) -> None:
        super().begin()
        self.waits.begin()

    def usable(self, rows: pa.Table) -> np.ndarray:
        """Return bool[n]: rows whose event time and arrival are known and within range."""
        usable = np.ones(rows.num_rows, bool)
        for name in (EVENT, "order0"):
            times = pc.fill_null(rows.column(name).cast(pa.int64()), FARTHEST).to_numpy()
            usable &= (times > -FARTHEST) & (times < FARTHEST)
        return usable

    def invalid(self, rows: pa.Table) -> list[pa.Table]:
        self.counts["invalid"] += rows.num_rows
        unknown = pa.nulls(rows.num_rows, rows.schema.field(EVENT).type)
        late = pa.array(np.ones(rows.num_rows, bool))
        return [pa.table({ROW: rows.column(ROW), "late": late, "punctuation": unknown})]

    def arrange(self, rows: pa.Table) -> np.ndarray:
        """Return the rows' places by arrival, then event time; controllers count the disorder."""
        columns = [as_numbers(rows.column(name)) for name in self.config.arrival().columns]
        return arrival_order(columns, [as_numbers(rows.column(TIE))])

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        keys = self.codes(rows)
        self._present, self._forgotten = np.unique(keys), NO_CODES
        sources = self._sources(rows) if self.config.sources else None
        self.since = longer(self.since, self.index.size or 1, now)
        self.seen = longer(
            self.seen, len(self.source_index if self.config.sources else self.since), now
        )
        self.seen[keys if sources is None else sources] = now
        event, arrival = as_numbers(rows.column(EVENT)), as_numbers(rows.column("order0"))
        self.waits.arrive(self.operator.arrived, arrival)
        passed = rows.select([ROW, EVENT])
        out = self.ordered.process(keys, event, arrival, passed, sources)
        return self._marked(self._without_expired(out))

    def _without_expired(self, out: OrderedRows) -> OrderedRows:
        """Forget expired keys. Rows that they hold are emitted before rows of the same key that has
        begun again."""
        self._forgotten = over = self.index.expired()
        if not len(over):
            return out
        both = out.then(self.ordered.forget(over))
        turn = np.full(self.index.size, len(over))
        turn[over] = np.arange(len(over))
        self.index.forget(over)
        return both.take(np.argsort(turn[both.key], kind="stable"))

    def _sources(self, rows: pa.Table) -> np.ndarray:
        """Return int64[n]: codes of the rows' sources, which differ between keys."""
        names = [f"key{i}" for i in range(self.config.keys)]
        names += [f"source{i}" for i in range(self.config.sources)]
        return self.source_index.encode(rows.select(names))

    def _ranks(self, sources: np.ndarray) -> np.ndarray:
        """Return int64[n]: the places of sources sorted by their values."""
        if not len(sources):
            return NO_CODES  # before the first row nobody knows what values there will be
        names = [(f"source{i}", "ascending") for i in range(self.config.sources)]
        order = pc.sort_indices(self.source_index.values(sources), names).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks

    def _marked(self, out: OrderedRows) -> list[pa.Table]:
        self.waits.leave(out.number, out.by, out.late)
        if not out.rows.num_rows:
            return []
        punctuation = as_times(out.punctuation, out.rows.schema.field(EVENT).type)
        late = pa.array(out.late)
        return [pa.table({ROW: out.rows.column(ROW), "late": late, "punctuation": punctuation})]

    def set_clock(self, now: int) -> None:
        if self.config.idle_timeout is not None:
            np.minimum(self.seen, now, out=self.seen)
            np.minimum(self.since, now, out=self.since)

    def idle(self, now: int) -> list[pa.Table]:
        assert self.config.idle_timeout is not None
        self.set_clock(now)
        before = now - self.config.idle_timeout
        silent = np.flatnonzero(self.seen <= before)
        self.held.anew()
        return self._marked(self.ordered.idle(silent, np.flatnonzero(self.since <= before)))

    def flush(self) -> list[pa.Table]:
        self.held.anew()
        return self._marked(self.ordered.flush())

    def counters(self) -> dict[str, int]:
        counted = self.operator.counters
        own = {name: self.counts[name] for name in ("rows", "invalid")}
        own["late"] = counted["late"] + own["invalid"]  # all rows that are marked late
        return {name: {**counted, **own}[name] for name in self.config.counters}

    def gauges(self) -> dict[str, Any]:
        found = self.held.now(self._present, self._forgotten)
        waits = self.waits.counts.tolist() if self.waits.counts.any() else None
        own = {"slowest": self._source_name(found.slowest), "waited": self.waits.longest}
        return {**super().gauges(), **found._asdict(), **own, "waits": waits}

    def _source_name(self, source: int | None) -> str | None:
        """Return a source as people see it: its values."""
        if source is None:
            return None
        if source == AWAITED:
            return "a source that is expected and has not spoken"
        columns = range(self.config.keys, self.config.keys + self.config.sources)
        codes = np.array([source])
        return ", ".join(str(self.source_index.take(codes, i)[0].as_py()) for i in columns)

    def after_loading(self) -> None:
        super().after_loading()
        sources = len(self.operator.controllers)
        if len(self.seen) != sources or len(self.source_index) not in (0, sources):
            raise ValueError("the numbers of its sources and controllers differ")
        if len(self.since) > (self.index.size or 1):
            raise ValueError("it cannot know when keys began that it does not know")
