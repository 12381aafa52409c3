"""The disorder controller over Arrow tables: the operator and the job of `reorder`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.duration import microseconds
from sfumato.limits import MAX_TIME_US
from sfumato.operators.arguments import flag
from sfumato.operators.arrays import Ints, pad
from sfumato.operators.disorder.control import SENT, WAIT_OPTIONS, DisorderControl, ReorderConfig
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.disorder.rows import NO_CODES, NO_IDS, EmittedRows
from sfumato.operators.disorder.statistics import AWAITED, WAIT_BINS, BufferStatistics, wait_bins
from sfumato.operators.state.declared import Array, Part
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import NO_PUNCTUATION, as_numbers, as_times, punctuations_of, take_rows
from sfumato.tables.disorder.seen_ids import SeenIds
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, TableConfig, TableOperator
from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    ARRIVED,
    CONTROLLER_COLUMNS,
    DUPLICATE,
    EARLY_COLUMN,
    ORDERED,
    REMEMBERED,
    Frame,
    forget_after_of,
    order_metadata,
    with_roles,
)
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import Output, passthrough_outputs
from sfumato.tables.reading.rows import Column, ColumnReader, Reading, Ties
from sfumato.tables.reading.user_warnings import warn_user
from sfumato.tables.row_store import RowStore

EVENT = "event"
PROMISED = "promised"
# Sums per bin, in one aggregate, because Spark plans every aggregate again for each micro-batch.
# The gauge is a string, because some Spark clients do not accept a list as a metric.
ADD_LISTS_SQL = "(a, b) -> zip_with(a, b, (x, y) -> x + y)"
WAIT_SUMS = f"aggregate(collect_list(waits), array_repeat(0L, {WAIT_BINS}), {ADD_LISTS_SQL})"


@dataclass(frozen=True, kw_only=True)
class ReorderTableConfig(TableConfig):
    """Settings of a disorder controller over tables.

    control : settings of each controller    expected_sources : as for `Reorder`
    sources, unique : numbers of columns source0.. and id0..    idle_timeout : microseconds, or None
    early : whether rows are also emitted on arrival
    remember : minimum time to remember an id, in microseconds, see `SeenIds`
    """

    control: DisorderControl
    sources: int = 0
    unique: int = 0
    expected_sources: int | None = None
    idle_timeout: int | None = None
    early: bool = field(default=False, metadata={"fingerprint": "added"})
    remember: int = field(default=0, metadata={"fingerprint": "added"})

    kind, version = "reorder table", 10
    counters = (
        "rows", "late", "stale", "after_idle", "invalid", "future", "held", "forced",
        "out_of_order", "duplicates",
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
        ReorderConfig(self.control, self.sources > 0, self.expected_sources)
        if self.forget_after is not None and self.control.max_buffer_total is not None:
            raise ValueError(
                "`max_buffer_total` cannot be combined with `forget_after`: keys are forgotten at "
                "the end of a micro-batch, so the size of the micro-batch would decide which rows "
                "of other keys fit into the buffer. Leave one of the two out"
            )
        if self.forget_after is not None and self.remember > self.forget_after:
            raise ValueError(
                "`remember` must be at most `forget_after`, because a key that is forgotten loses "
                "its ids: give a longer `forget_after`, or a shorter `remember`"
            )
        if self.forget_after is not None and self.sources:
            raise ValueError(
                "`forget_after` cannot be combined with `source`: whether a key has ended would "
                "depend on how fast its sources are read. Leave `forget_after` out, or reorder "
                "each source by `key`"
            )

    @property
    def remembered_us(self) -> int:
        return max(self.remember, int(self.forget_after or 0))

    def arrival(self) -> Arrival:
        times = ("order0", EVENT)
        return Arrival(times, needed=times, within=MAX_TIME_US)

    def check(self) -> None:
        """Do nothing: `control` and this class validate themselves."""


class TableReorder(TableOperator):
    """`Reorder` over Arrow tables, for the keys of one bucket.

    Rows also have the columns `event` (event time), source0.., id0.. and, if punctuations are sent,
    `promised` (the sent punctuation); order0 is their arrival.
    Answers have `row`, `late`, `punctuation` (with the event time's type), `duplicate` and `early`.

    seen : int64[sources], processing time of each source's (or key's) newest row, in ms
    since : int64[keys], processing time of each key's first row, in ms
    """

    config: ReorderTableConfig
    state: ClassVar[dict[str, Any]] = {
        "source_index": Part(),
        "operator": Part(),
        "rows": Part(),
        "ids": Part(),
        "seen": Array(int, None),
        "since": Array(int, None),
    }

    def __init__(self, config: ReorderTableConfig) -> None:
        super().__init__(config)
        self.operator = Reorder(
            by_source=config.sources > 0,
            expected_sources=config.expected_sources,
            **asdict(config.control),
        )
        self.operator.sources.ranks = self._ranks
        self.rows = RowStore(lambda: self.operator.waiting.number)  # the held rows
        self.ids = SeenIds(config.unique, config.remembered_us)
        self.source_index = KeyIndex()
        self.seen = self.since = NO_CODES
        self._present = self._forgotten = NO_CODES  # keys of the last call; expired keys
        self.held = BufferStatistics(self.operator)
        self.waits = np.zeros(WAIT_BINS, np.int64)  # on-time rows per bin of waiting time

    def begin(self) -> None:
        super().begin()
        self.waits[:] = 0

    def is_usable(self, rows: pa.Table) -> np.ndarray:
        usable = np.ones(rows.num_rows, bool)
        for name in (EVENT, "order0"):
            times = punctuations_of(rows, name)
            usable &= (times > -MAX_TIME_US) & (times < MAX_TIME_US)
        return usable

    def process_invalid(self, rows: pa.Table) -> list[pa.Table]:
        self.counts["invalid"] += rows.num_rows
        unknown = np.full(rows.num_rows, NO_PUNCTUATION)
        late = np.ones(rows.num_rows, bool)
        return [_flag_rows(rows, late, unknown, ~late)]

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        """Do nothing: the controllers measure the disorder."""

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        keys = sources = self.codes(rows)
        self._present, self._forgotten = np.unique(keys), NO_CODES
        self.since = pad(self.since, self.index.size or 1, now)
        if self.config.sources:
            sent_by = [f"source{i}" for i in range(self.config.sources)]
            names = [*self.config.key_columns, *sent_by]
            sources = self.source_index.encode(rows.select(names))
        known = len(self.source_index if self.config.sources else self.since)
        self.seen = pad(self.seen, known, now)
        self.seen[sources] = now
        event, arrival = as_numbers(rows.column(EVENT)), as_numbers(rows.column("order0"))
        fresh, ids = self.ids.read(rows, sources) if self.config.unique else (None, NO_IDS)
        by_source = sources if self.config.sources else None
        first = self.operator.arrived
        sent = NO_CODES  # if punctuations are estimated
        if self.config.control.estimator == SENT:
            sent = np.minimum(punctuations_of(rows, PROMISED), MAX_TIME_US)
        out = self.operator.process(keys, event, arrival, by_source, ids, sent)
        if fresh is not None:
            self.ids.add(fresh, ids, first, self.operator.controllers)
        staying, duplicates = self.operator.newly_held, self.operator.duplicates
        self._forgotten = over = self.index.take_expired()
        if len(over):  # rows of an expired code precede rows of the same key's new code
            out = EmittedRows.concat([out, self.operator.forget(over)])
            turn = np.full(self.index.size, len(over))
            turn[over] = np.arange(len(over))
            self.index.forget(over)
            self.ids.forget(over)
            out = out.take(np.argsort(turn[out.key], kind="stable"))
        fresh_rows = rows.select([ROW, EVENT])
        shown = self._early_rows(fresh_rows, first, duplicates) if self.config.early else []
        return self._emit(out, fresh_rows, staying, duplicates) + shown  # the order of release

    def _early_rows(self, rows: pa.Table, first: int, duplicates: Ints) -> list[pa.Table]:
        """Return the rows to emit on arrival, flagged late because they are not in order."""
        before = self.operator.punctuation_before
        if duplicates.size:
            fresh = np.ones(rows.num_rows, bool)
            fresh[duplicates - first] = False
            rows, before = rows.filter(pa.array(fresh)), before[fresh]
        late = np.ones(rows.num_rows, bool)
        return [_flag_rows(rows, late, before, ~late, early=True)]

    def _emit(
        self,
        out: EmittedRows,
        fresh: pa.Table | None = None,
        staying: Ints = NO_CODES,
        duplicates: Ints = NO_CODES,
    ) -> list[pa.Table]:
        """Return the released rows, and store the `fresh` rows whose numbers are in `staying`."""
        self.waits += np.bincount(wait_bins(out.wait[~out.late]), minlength=WAIT_BINS)
        rows = self.rows.take(out.number, fresh) if len(out.number) else None
        if fresh is not None:
            first = self.rows.next
            self.rows.append(take_rows(fresh, staying - first), staying)
            self.rows.next = first + fresh.num_rows
        self.rows.drop_unneeded(self.operator.held_count)
        if rows is None:
            return []
        return [_flag_rows(rows, out.late, out.punctuation, np.isin(out.number, duplicates))]

    def _ranks(self, sources: np.ndarray) -> np.ndarray:
        if not len(sources):
            return NO_CODES  # no values are known before the first row
        names = [(f"source{i}", "ascending") for i in range(self.config.sources)]
        order = pc.sort_indices(self.source_index.values(sources), names).to_numpy()
        return np.argsort(order)

    def set_clock(self, now: int) -> None:
        if self.config.idle_timeout is not None:
            np.minimum(self.seen, now, out=self.seen)
            np.minimum(self.since, now, out=self.since)

    def resume(self, now: int) -> None:
        self.seen[:] = self.since[:] = now

    def idle(self, now: int) -> list[pa.Table]:
        assert self.config.idle_timeout is not None
        self.set_clock(now)
        before = now - max(1, self.config.idle_timeout // 1000)
        self.held.reset()
        silent, keys = (np.flatnonzero(times <= before) for times in (self.seen, self.since))
        return self._emit(self.operator.idle(silent, keys))

    def flush(self) -> list[pa.Table]:
        self.held.reset()
        return self._emit(self.operator.flush())

    def counters(self) -> dict[str, int]:
        counted = self.operator.counters
        own = {name: self.counts[name] for name in ("rows", "invalid")}
        own["late"] = counted["late"] + own["invalid"]  # all rows flagged late
        return {name: {**counted, **own}[name] for name in self.config.counters}

    def gauges(self) -> dict[str, Any]:
        found = self.held.update(self._present, self._forgotten)
        waits = self.waits.tolist() if self.waits.any() else None
        slowest = self._source_name(found.slowest)
        return {**super().gauges(), **found._asdict(), "slowest": slowest, "waits": waits}

    def _source_name(self, source: int | None) -> str | None:
        if source is None:
            return None
        if source == AWAITED:
            return "an expected source that has sent no rows"
        columns = self.source_index.values(np.array([source])).columns[self.config.keys :]
        return ", ".join(str(column[0].as_py()) for column in columns)

    def before_saving(self) -> None:
        self.ids.drop_forgotten(self.operator.controllers)

    def after_loading(self) -> None:
        super().after_loading()
        sources = len(self.operator.controllers)
        if len(self.seen) != sources or len(self.source_index) not in (0, sources):
            raise ValueError("the numbers of its sources and controllers must be equal")
        if self.ids.seen.source.max(initial=-1) >= sources:
            raise ValueError("its ids must belong to known sources")
        if len(self.since) > (self.index.size or 1):
            raise ValueError("its start times must belong to known keys")
        held = np.array_equal(self.rows.numbers, self.operator.waiting.number)
        if not held or self.rows.next != self.operator.arrived:
            raise ValueError("its rows must be the held rows")


def _flag_rows(
    rows: pa.Table,
    late: np.ndarray,
    punctuation: np.ndarray,
    duplicate: np.ndarray,
    early: bool = False,
) -> pa.Table:
    times = as_times(punctuation, rows.schema.field(EVENT).type)
    marks = {"late": pa.array(late), "punctuation": times, "duplicate": pa.array(duplicate)}
    marks[EARLY_COLUMN] = pa.array(np.full(rows.num_rows, early))
    return pa.table({ROW: rows.column(ROW), **marks})


def reorder_job(
    frame: Frame,
    event_time: str,
    arrival: str,
    key: str | Sequence[str] | None,
    source: str | Sequence[str] | None,
    unique: str | Sequence[str] | None,
    remember: str | timedelta | None,
    waits: Mapping[str, Any],
    expected_sources: int | None,
    idle_timeout: str | timedelta | None,
    forget_after: str | timedelta | float | None,
    name: str | None,
    early: bool,
    punctuation: str | None,
) -> Job:
    """Return the job of `reorder`. waits : arguments of `DisorderControl`, as users give them"""
    keys, sources = frame.keys("key", key), frame.group_columns("source", source)
    for name in (name for name in sources if frame.type_name(name).startswith(("list", "array"))):
        raise TypeError(
            f"`source` names column `{name}`, but rows cannot be sorted by "
            f"{frame.type_name(name)}: convert the column to text"
        )
    ids = frame.group_columns("unique", unique)
    event = frame.single_column("event_time", event_time)
    arrived = frame.single_column("arrival", arrival)
    if flag("early", early) and forget_after is not None:
        raise ValueError("`early` and `forget_after` cannot be combined: leave one of them out")
    if remember is not None and not ids:
        raise ValueError("`remember` needs `unique`, the columns that identify a row")
    flags = [DUPLICATE] * bool(ids) + [EARLY_COLUMN] * early
    _require_unordered(frame, flags)
    frame.require_time("event_time", event)
    frame.require_time("arrival", arrived)
    if {frame.kind(event), frame.kind(arrived)} == {"timestamp", "timestamp_ntz"}:
        zoned, local = sorted((event, arrived), key=frame.kind)
        warn_user(
            f"reorder: `{zoned}` has a time zone and `{local}` has none, so `{local}` is read as "
            f"UTC. If it is local time, all delays are wrong: convert `{local}` to the type of "
            f"`{zoned}` first"
        )
    sent_punctuation = _sent_punctuation(frame, punctuation, waits)
    if sent_punctuation is not None:
        waits = {**waits, "estimator": SENT}
    durations = {
        name: microseconds(name, waits[name])
        for name in ("max_delay", "max_ahead", "max_behind")
        if waits[name] is not None
    }
    config = ReorderTableConfig(
        control=DisorderControl(**{**waits, **durations}),
        sources=len(sources),
        unique=len(ids),
        expected_sources=expected_sources,
        idle_timeout=None if idle_timeout is None else microseconds("idle_timeout", idle_timeout),
        early=early,
        remember=0 if remember is None else microseconds("remember", remember),
        keys=len(keys),
        forget_after=forget_after_of(frame, arrived, keys, forget_after),
    )
    kept = tuple(name for name in frame.columns if name not in CONTROLLER_COLUMNS)
    values: list[tuple[str, ColumnReader]] = [(EVENT, Column(event))]
    values += [(f"source{i}", Column(column)) for i, column in enumerate(sources)]
    values += [(f"id{i}", Column(column)) for i, column in enumerate(ids)]
    values += [(PROMISED, Column(sent_punctuation))] if sent_punctuation is not None else []
    reading = Reading(kept, (arrived,), tuple(keys), tuple(values), tie=Ties(frame.tie_columns))
    outputs = []
    for column in passthrough_outputs(frame, kept, ROW):
        roles = [of for of, read in ((ORDERED, event), (ARRIVED, arrived)) if read == column.name]
        outputs.append(replace(column, metadata=with_roles(column.metadata or {}, roles)))
    order = order_metadata(keys, event, config.forget_after is not None, bool(sources))
    outputs.append(Output("late", ("late",), pa.bool_(), default=False))
    outputs.append(Output("punctuation", ("punctuation",), frame.type(event), order))
    for added in flags:
        remembered = {REMEMBERED: str(config.remembered_us)} if added == DUPLICATE else {}
        about = with_roles({ADDED_COLUMN: "true", **remembered}, [added])
        outputs.append(Output(added, (added,), pa.bool_(), about, default=False))
    shares_buffer = waits["max_buffer_total"] is not None
    described = {"event_time": event, "source": sources, "unique": ids}
    return Job(
        "reorder",
        "reorder",
        name,
        [Input(frame, reading, described, bucket=() if shares_buffer else None)],
        config,
        outputs,
        idle_timeout=config.idle_timeout,
        order=[event],
        has_late_rows=True,
    )


def _require_unordered(frame: Frame, flags: Sequence[str]) -> None:
    """Raise ValueError if rows were reordered before, or a column has the name of an added one."""
    if frame.has_controller_metadata:
        raise ValueError(
            f"the {frame.noun} is already in order, from an earlier sf.reorder, whose rows arrive "
            "in a different order in a stream than in a static frame: reorder the original rows "
            "once, by the `key` and `source` of all later operators"
        )
    if frame.duplicate_column is not None:
        raise ValueError(
            f"the {frame.noun} has a column `{frame.duplicate_column}` from an earlier reorder "
            "with `unique`: filter out the duplicates and drop the column before sf.reorder"
        )
    for added in (*CONTROLLER_COLUMNS, *flags):
        found = frame.find_column(added)
        if found is not None:
            as_added = "" if found == added else f", which has the same name as `{added}`"
            raise ValueError(
                f"the {frame.noun} already has a column `{found}`{as_added}: rename it before "
                "sf.reorder"
            )


def _sent_punctuation(
    frame: Frame, punctuation: str | None, waits: Mapping[str, Any]
) -> str | None:
    """Return the column of the punctuations that sources send, or None if they are estimated."""
    if punctuation is None:
        if waits["estimator"] == SENT:
            raise ValueError(
                "estimator='sent' needs `punctuation`: name the column of the sent punctuations"
            )
        return None
    column = frame.single_column("punctuation", punctuation)
    frame.require_time("punctuation", column)
    for option in (*WAIT_OPTIONS, "estimator"):
        if waits[option] is not None:
            raise ValueError(
                f"`punctuation` and `{option}` cannot be combined: the punctuation is either "
                "sent or estimated. Leave one of the two out"
            )
    return column


def require_late_flags(frame: Frame) -> None:
    if "late" not in frame.columns or frame.kind("late") != "truth":
        raise ValueError(
            f"sf.split_late needs a {frame.noun} with a boolean column `late`; it has "
            f"{', '.join(frame.columns)}. Reorder the rows first"
        )
