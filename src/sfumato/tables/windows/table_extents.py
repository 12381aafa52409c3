"""Aggregates over extents and sessions of event time, for Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.limits import MAX_TIME_US
from sfumato.operators.arrays import pad
from sfumato.operators.distributions.independent_distribution import checked_aggregates
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.windows.calendar import FIRST_US, LAST_US, Calendar
from sfumato.operators.windows.extent_aggregate import ExtentAggregate, Extents
from sfumato.tables.arrow import NO_PUNCTUATION, as_array, as_numbers, as_times, fields_of
from sfumato.tables.disorder.released import (
    ReleasedOperator,
    ReleasedTableConfig,
    lateness_of,
    punctuations_of,
)
from sfumato.tables.keys import MIN_FORGOTTEN, KeyIndex
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore
from sfumato.tables.windows.table_windows import ARROW_TIMES, WindowTableConfig
from sfumato.windows import Range, Session

if TYPE_CHECKING:
    from sfumato.operators.windows.session_aggregate import SessionAggregate

# For each verdict, the reason why rows are in no extent.
VERDICT_REASONS = np.array(["", "", "late", "outside", "absent", "outdated", "unequal"])
ROW_VERSION = "version"  # fixed name of the version column
FIRST_MONDAY = 4  # days after 1970-01-01


@dataclass(frozen=True, kw_only=True)
class ExtentTableConfig(ReleasedTableConfig, WindowTableConfig):
    """Settings of extents over tables.

    members : whether each extent's rows are emitted with its results
    missed : whether rows that are in no extent are emitted, as the struct `missed`
    time : type of the order: "timestamp", "timestamp_ntz" or "long"
    """

    window: Range | Session
    members: bool = False
    missed: bool = False
    time: str = "long"

    kind, version = "extents", 11
    counters = (*WindowTableConfig.counters, "skipped")

    @property
    def stores_rows(self) -> bool:
        return self.members or bool(self.picked)

    def __post_init__(self) -> None:
        if self.shared:  # keys are always forgotten, see `forget_expired`
            object.__setattr__(self, "forget_after", None)

    def check(self) -> None:
        of_extents = isinstance(self.window, Range)
        checked_aggregates(self.aggregates, self.all_attributes, over_time=of_extents)


class TableExtents(ReleasedOperator):
    """Extents or sessions of event time, for the keys of one bucket.

    Tables have the columns row (a struct, emitted if `members` or `missed`), prob, value0.. (lists
    of equal length within a row), order0 (the event time), key0.., __tie and, with a scope, late
    and punctuation. Answers have the keys (or the fields of `row`), window, held, punctuation,
    late, the results and, if requested, missed.
    """

    config: ExtentTableConfig
    extent_aggregate: ClassVar[type[ExtentAggregate]] = ExtentAggregate
    state = {
        "scopes": Part(),
        "seen": Array(int, "scopes", low=0),
        "operator": Part(),
        "rows": Part(),
    }

    def __init__(self, config: ExtentTableConfig) -> None:
        super().__init__(config)
        self.scopes = KeyIndex()
        self._forget_at = MIN_FORGOTTEN  # number of keys at which idle keys are forgotten
        self.seen = np.empty(0, np.int64)  # processing time of each scope's newest row, ms
        self.calendar: Calendar | None = None
        self.offset = 0  # of extents without a calendar, in microseconds
        window, common = config.window, dict[str, Any](vars(config.options))
        common |= {"members": config.stores_rows, "attributes": config.all_attributes}
        self.operator: ExtentAggregate | SessionAggregate
        if isinstance(window, Session):
            from sfumato.operators.windows.session_aggregate import SessionAggregate

            bounds = window.gap_us, window.max_length_us
            self.operator = SessionAggregate(*bounds, config.aggregates, **common)
        else:
            self.calendar, lengths = _grid_of(window)
            self.offset = window.offset_us if self.calendar is None else 0
            common |= {"empty": bool(window.empty), "certain": bool(config.kinds)}
            common |= {"clock": self._times}
            if not isinstance(window.empty, bool):
                stamped = config.time != "long" or self.calendar is not None
                earliest = self._positions(np.array([FIRST_US if stamped else -MAX_TIME_US]))[0]
                common |= {"most_empty": window.empty, "earliest": int(earliest)}
            self.operator = self.extent_aggregate(*lengths, config.aggregates, **common)
        # Members under the operator's numbers; only their schema if answers need no members
        self.rows = RowStore(lambda: self.operator.numbers)

    def is_usable(self, rows: pa.Table) -> np.ndarray:
        time = punctuations_of(rows, "order0")
        fine = (time >= self.offset - MAX_TIME_US) & (time <= MAX_TIME_US)
        if self.calendar is not None:
            fine &= (time >= FIRST_US) & (time <= LAST_US)
        if self.config.time != "long" or self.calendar is not None:
            begin, end = self._bounds(self._positions(time[fine]))
            first, last = self._positions(np.array([FIRST_US, LAST_US]))
            fine[fine] = (begin >= first) & (end <= last)
        return fine

    def _bounds(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, per row, the first start and the last end of the extents that contain the row."""
        if isinstance(self.config.window, Session):
            return positions, positions + self.config.window.gap_us
        length, slide = self.operator.length, self.operator.slide  # type: ignore[union-attr]
        begin = (positions // slide + 1) * slide - length
        return begin, (positions + length) // slide * slide

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        group, scope, time, punctuation, late, batch = self._read(rows, now)
        before = self.operator.counters["out_of_order"]
        extents = self.process_rows(rows, group, time, punctuation, late, *batch, scope=scope)
        self.require_one_controller(self.operator.counters["out_of_order"] - before)
        if self.config.stores_rows:
            self.rows.append(self._stored(rows))
        tables = []
        if self.config.missed:
            tables = self._missed_rows(rows, VERDICT_REASONS[self.operator.verdicts])
        tables += self._tables(extents)
        over = self.index.take_expired()
        if len(over):
            tables += self._tables(self.operator.close(over))
            self.index.forget(over)
        if self.config.stores_rows:
            self.rows.drop_unneeded(len(self.operator.numbers))
        return tables

    def _read(self, rows: pa.Table, now: int) -> tuple[Any, ...]:
        """Return keys, scopes, times, punctuations and lateness (None without scope), tuples."""
        group = scope = self.codes(rows)
        punctuation, late = None, None
        if self.config.scope is not None:
            punctuation, late = self._positions(punctuations_of(rows)), lateness_of(rows)
        if self.config.shared:
            scope = self.scopes.encode(rows.select(self.config.scope_columns))
        self.seen = pad(self.seen, int(scope.max(initial=-1)) + 1)
        self.seen[scope] = now
        time = self._positions(as_numbers(rows.column("order0")))
        return group, scope, time, punctuation, late, self.config.tuples(rows)

    def process_rows(self, rows: pa.Table, *given: Any, scope: np.ndarray) -> Extents:
        return self.operator.process(*given, scope=scope)

    def process_invalid(self, rows: pa.Table) -> list[pa.Table]:
        super().process_invalid(rows)
        reasons = np.full(rows.num_rows, "invalid")
        return self._missed_rows(rows, reasons) if self.config.missed else []

    def process_dropped(self, rows: pa.Table) -> list[pa.Table]:
        return self._missed_rows(rows, rows.column("reason").to_numpy(zero_copy_only=False))

    def forget_expired(self) -> None:
        """Forget keys whose extents have all been emitted. This changes no answer.

        If a key alone is a punctuation scope, it is kept until it expires, because its completed
        extents must stay known.
        """
        if not self.config.shared or len(self.index) < self._forget_at:
            return
        codes = self._idle_keys()
        self.forget(codes)
        self.index.forget(codes)
        self._forget_at = 2 * len(self.index) + MIN_FORGOTTEN

    def _idle_keys(self) -> np.ndarray:
        return self.operator.idle_groups()

    def set_clock(self, now: int) -> None:
        if self.config.window.idle_timeout_us is not None:
            np.minimum(self.seen, max(now, 0), out=self.seen)

    def resume(self, now: int) -> None:
        self.seen[:] = now

    def idle(self, now: int) -> list[pa.Table]:
        timeout = self.config.window.idle_timeout_us
        assert timeout is not None
        self.set_clock(now)
        quiet = self.seen <= now - timeout // 1000
        answers = self._take_late_rows(quiet, now)
        return [*answers, *self._tables(self.operator.idle(np.flatnonzero(quiet)))]

    def _take_late_rows(self, quiet: np.ndarray, now: int) -> list[pa.Table]:
        """Process late rows that wait for rows before their place, in quiet or new scopes."""
        waiting = None if self.late_rows is None else self.late_rows.take_waiting()
        if self.late_rows is None or waiting is None:
            return []
        index, names = self.index, self.config.key_columns
        if self.config.shared:
            index, names = self.scopes, self.config.scope_columns
        scope = index.encode(waiting.select(names))
        ready = pad(quiet, int(scope.max()) + 1, True)[scope]
        if not ready.all():
            self.late_rows.waiting = waiting.filter(pa.array(~ready))
        return self.process_usable(waiting.filter(pa.array(ready)), now)

    def flush(self) -> list[pa.Table]:
        return [*super().flush(), *self._tables(self.operator.flush())]

    def counters(self) -> dict[str, int]:
        own, counts = self.operator.counters, super().counters()
        own["out_of_order"] += counts["out_of_order"]
        return counts | {name: n for name, n in own.items() if name in counts and name != "rows"}

    def after_loading(self) -> None:
        super().after_loading()
        if self.config.stores_rows and not np.isin(self.operator.numbers, self.rows.numbers).all():
            raise ValueError("every tuple must have its row")
        if self.config.stores_rows and self.operator.next != self.rows.next:
            raise ValueError("its rows and tuples must have the same next number")

    def _tables(self, extents: Extents) -> list[pa.Table]:
        if not len(extents):
            return []
        answers = self._answers(extents)
        if not self.config.members:
            keys = self.index.columns(extents.group)
            if self.config.missed:
                assert self.rows.empty is not None
                missed = pa.struct([*self.rows.empty.schema, pa.field("reason", pa.string())])
                keys |= {"missed": pa.nulls(len(extents), missed)}
            return [pa.table(keys | answers)]
        assert extents.members is not None
        assert extents.offsets is not None
        rows = self.rows.take(extents.members)
        found = dict(zip(rows.column_names, rows.columns, strict=True))
        found = fields_of(rows.column(ROW)) if ROW in found else found
        of = pa.array(np.repeat(np.arange(len(extents)), np.diff(extents.offsets)))
        return [pa.table(found | {name: column.take(of) for name, column in answers.items()})]

    def _stored(self, rows: pa.Table) -> pa.Table:
        values = {column for _, column in self.config.picked.values()}
        if not values:
            return pa.table(fields_of(rows.column(ROW)))
        columns = {ROW: rows.column(ROW)} if self.config.members else {}
        columns["order0"] = rows.column("order0")
        columns |= {name: as_array(rows.column(name)).flatten() for name in sorted(values)}
        return pa.table(columns)

    def _picked(self, extents: Extents) -> dict[str, pa.Array]:
        """Return the smallest, largest, oldest or newest known value of each extent's rows."""
        if not (picked := self.config.picked) or not len(extents):
            return {name: pa.nulls(0) for name in picked}
        assert extents.members is not None
        assert extents.offsets is not None
        rows, found = self.rows.take(extents.members), {}
        of = np.repeat(np.arange(len(extents)), np.diff(extents.offsets))
        for name, (function, column) in picked.items():
            values = as_array(rows.column(column))
            by = values if function in ("min", "max") else as_array(rows.column("order0"))
            given = {"of": of, "by": by, "number": extents.members, "place": np.arange(of.size)}
            known = pa.table(given).filter(values.is_valid())
            known = known.sort_by([(key, "ascending") for key in ("of", "by", "number")])
            groups, side = known.column("of").to_numpy(), function in ("max", "last")
            ends = np.searchsorted(groups, np.arange(len(extents)), "right" if side else "left")
            missing = np.bincount(groups, minlength=len(extents)) == 0
            places = np.where(missing, 0, ends - side)
            found[name] = values.take(known.column("place").take(pa.array(places, mask=missing)))
        return found

    def _answers(self, extents: Extents) -> dict[str, Any]:
        return {
            **self._times_of(extents),
            "late": pa.array(extents.late),
            **self.config.result_columns(extents.results),
            **self._picked(extents),
        }

    def _times_of(self, of: Any) -> dict[str, Any]:
        """Return the first columns of answers: the times and sizes of `Extents` or `Revisions`."""
        kind, given = ARROW_TIMES[self.config.time], (of.start, of.end, of.punctuation)
        start, end, punctuation = (as_times(self._times(times), kind) for times in given)
        window = pa.StructArray.from_arrays([start, end], ["start", "end"])
        return {"window": window, "held": pa.array(of.held), "punctuation": punctuation}

    def _positions(self, times: np.ndarray) -> np.ndarray:
        """Convert times to the operator's unit: calendar positions, or times before the offset."""
        if self.calendar is None and not self.offset:
            return times
        known, positions = times != NO_PUNCTUATION, times.copy()
        if self.calendar is None:
            positions[known] -= self.offset
            return positions
        positions[known] = self.calendar.positions(np.clip(times[known], FIRST_US, LAST_US))
        return positions

    def _times(self, positions: np.ndarray) -> np.ndarray:
        if self.calendar is not None:
            return self.calendar.times(positions)
        if not self.offset:
            return positions
        return np.where(positions == NO_PUNCTUATION, positions, positions + self.offset)

    def _missed_rows(self, rows: pa.Table, reasons: np.ndarray) -> list[pa.Table]:
        self.rows.append(pa.table(fields_of(rows.column(ROW))).slice(0, 0))
        rows, reasons = rows.filter(pa.array(reasons != "")), reasons[reasons != ""]
        if not rows.num_rows:
            return []
        cells = fields_of(rows.column(ROW)) | {"reason": pa.array(reasons, pa.string())}
        columns: dict[str, Any] = {name: rows.column(name) for name in self.config.key_columns}
        columns["missed"] = pa.StructArray.from_arrays([*cells.values()], [*cells])
        nothing = self._answers(self.operator.idle(np.empty(0, np.int64)))
        nulls = {name: pa.nulls(rows.num_rows, column.type) for name, column in nothing.items()}
        return [pa.table(columns | nulls)]


def _grid_of(window: Range) -> tuple[Calendar | None, tuple[int, int]]:
    """Return a window's calendar, or None, and its length and slide in the operator's unit."""
    if window.calendar_unit is None:
        return None, (window.length_us, window.slide_us)
    origin = FIRST_MONDAY if window.in_weeks else 0
    calendar = Calendar(window.calendar_unit, window.zone or "UTC", origin, window.offset_us)
    length, slide = window.grid
    return calendar, (length * calendar.span, slide * calendar.span)
