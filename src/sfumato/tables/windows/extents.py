"""Aggregates over time extents, over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import longer
from sfumato.operators.state.declared import Array, Optional, Part
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.extents import MAX_TIME_US, Extents
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import as_numbers, as_times, fields_of
from sfumato.tables.disorder.released import (
    RELEASED,
    LateRowBuffer,
    punctuations_of,
    release_order,
)
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, TableOperator
from sfumato.tables.row_store import RowStore
from sfumato.tables.windows.columns import EARLIEST, LATEST, TIMES, alternatives_of
from sfumato.tables.windows.window_aggregate import WindowTableConfig
from sfumato.windows import Range

FEW = 1024  # keys that are not worth forgetting


@dataclass(frozen=True, kw_only=True)
class ExtentTableConfig(WindowTableConfig):
    """Settings of extents over tables.

    scope : numbers of the keys that share a punctuation; None: no punctuations, rows in order
    by_source : late rows have the punctuation of a source, see `LateRowBuffer`
    members : the rows of the extents come out, with the results of each
    time : what the order is: "timestamp", "timestamp_ntz" or "long"
    key_names : of the columns key0.. in the answers
    """

    window: Range
    scope: tuple[int, ...] | None
    by_source: bool = False
    members: bool = False
    time: str = "long"
    key_names: tuple[str, ...] = ()

    kind, version = "extents", 6
    counters = (*WindowTableConfig.counters, "skipped")

    def __post_init__(self) -> None:
        if self.shared:  # keys go by themselves, see `forget_expired`
            object.__setattr__(self, "forget_after", None)

    @property
    def shared(self) -> bool:
        """Whether several keys share a punctuation."""
        return self.scope is not None and len(self.scope) < self.keys

    def arrival(self, side: int = 0) -> Arrival:
        if self.scope is None:
            return super().arrival(side)
        return Arrival(RELEASED)

    def make(self) -> TableExtents:
        return TableExtents(self)


class TableExtents(TableOperator):
    """Extents of event time, for the keys of one bucket.

    Tables have the columns row (a struct: what comes out with members), prob, value0.. (lists of
    one length a row), order0 (the event time), key0.., __tie and, with a scope, late and
    punctuation. Answers have the keys (or the fields of `row`), window, held, punctuation, late
    and the results.
    """

    config: ExtentTableConfig
    state = {
        "scopes": Part(),
        "seen": Array(int, "scopes", low=0),
        "operator": Part(),
        "rows": Part(),
        "late_rows": Optional(Part("_new_buffer")),
    }

    def __init__(self, config: ExtentTableConfig) -> None:
        super().__init__(config)
        self.scopes = KeyIndex()
        self._many = FEW  # keys, from which on to look for some to forget
        self.seen = np.empty(0, np.int64)  # processing time of each scope's newest row, ms
        self.operator = ExtentAggregate(
            config.window.length_us, config.window.slide_us, config.aggregates,
            empty=config.window.empty, members=config.members, attributes=config.attributes,
            **config.options,
        )  # fmt: skip
        self.rows = RowStore()  # of members, by the numbers of the operator
        buffered = config.scope is not None and config.by_source
        self.late_rows = self._new_buffer() if buffered else None

    def _new_buffer(self) -> LateRowBuffer:
        return LateRowBuffer(self.config.scope or ())

    def settled(self, rows: pa.Table) -> pa.Table:
        return rows if self.late_rows is None else self.late_rows.settled(rows)

    def usable(self, rows: pa.Table) -> np.ndarray:
        known = super().usable(rows)
        time = as_numbers(rows.column("order0").filter(pa.array(known)))
        fine = (time >= -MAX_TIME_US) & (time <= MAX_TIME_US)
        if self.config.time != "long":
            window, inside = self.config.window, time[fine]
            begin = (inside // window.slide_us + 1) * window.slide_us - window.length_us
            end = (inside + window.length_us) // window.slide_us * window.slide_us
            fine[fine] = (begin >= EARLIEST) & (end <= LATEST)
        known[known] = fine
        return known

    def arrange(self, rows: pa.Table) -> np.ndarray:
        """Rows as they arrived, or as the disorder controller let them out."""
        if self.config.scope is None:
            return super().arrange(rows)
        return release_order(rows)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        group = scope = self.codes(rows)
        punctuation, late = None, None
        if self.config.scope is not None:
            scope = self._scope(rows) if self.config.shared else group
            punctuation, late = punctuations_of(rows), as_numbers(rows.column("late")) != 0
        self.seen = longer(self.seen, int(scope.max(initial=-1)) + 1)
        self.seen[scope] = now
        batch = alternatives_of(rows, self.config.attributes)
        time = as_numbers(rows.column("order0"))
        before = self.operator.counters["out_of_order"]
        extents = self.operator.process(group, time, punctuation, late, *batch, scope=scope)
        self.require_one_controller(self.operator.counters["out_of_order"] - before)
        if self.config.members:
            self.rows.append(pa.table(fields_of(rows.column(ROW))))
        tables = self._tables(extents)
        over = self.index.expired()
        if len(over):
            tables += self._tables(self.operator.close(over))
            self.index.forget(over)
        if self.config.members:
            self.rows.forget(self.operator.numbers)
        return tables

    def forget_expired(self) -> None:
        """Let go of keys whose extents are all out; no answer changes.

        Where a key is the scope of its punctuation, what was complete must be known: it stays until
        it is over.
        """
        if not self.config.shared or len(self.index) < self._many:
            return
        codes = self.operator.idle_groups()
        self.operator.forget(codes)
        self.index.forget(codes)
        self._many = 2 * len(self.index) + FEW

    def set_clock(self, now: int) -> None:
        if self.config.window.idle_timeout_us is not None:
            np.minimum(self.seen, max(now, 0), out=self.seen)

    def idle(self, now: int) -> list[pa.Table]:
        timeout = self.config.window.idle_timeout_us
        assert timeout is not None
        self.set_clock(now)
        quiet = np.flatnonzero(self.seen <= now - timeout // 1000)
        return self._tables(self.operator.idle(quiet))

    def flush(self) -> list[pa.Table]:
        rest = None if self.late_rows is None else self.late_rows.rest()
        before = [] if rest is None else self.arranged(rest, 0)
        return [*before, *self._tables(self.operator.flush())]

    def counters(self) -> dict[str, int]:
        own, counts = self.operator.counters, super().counters()
        counts["out_of_order"] += own["out_of_order"]
        return counts | {name: own[name] for name in ("late", "outside", "skipped")}

    def before_saving(self) -> None:
        if self.config.members:
            self.rows.keep(self.operator.numbers)

    def after_loading(self) -> None:
        super().after_loading()
        if self.config.members and not np.isin(self.operator.numbers, self.rows.numbers).all():
            raise ValueError("the rows of its tuples are not all there")
        if self.config.members and self.operator.next != self.rows.next:
            raise ValueError("its rows and tuples are not numbered alike")

    def _scope(self, rows: pa.Table) -> np.ndarray:
        """int64[n]: codes of what shares punctuations; for these rows only, if that is a key."""
        index = self.scopes if self.config.shared else KeyIndex()
        return index.encode(rows.select([f"key{i}" for i in self.config.scope or ()]))

    def _tables(self, extents: Extents) -> list[pa.Table]:
        if not len(extents):
            return []
        kind = TIMES[self.config.time]
        answers: dict[str, Any] = {
            "window": pa.StructArray.from_arrays(
                [as_times(extents.start, kind), as_times(extents.end, kind)], ["start", "end"]
            ),
            "held": pa.array(extents.held),
            "punctuation": as_times(extents.punctuation, kind),
            "late": pa.array(extents.late),
            **self.config.form.columns(extents.results),
        }
        if not self.config.members:
            names = enumerate(self.config.key_names)
            keys = {name: self.index.take(extents.group, i) for i, name in names}
            return [pa.table(keys | answers)]
        assert extents.members is not None
        assert extents.offsets is not None
        found = self.rows.take(extents.members)
        of = pa.array(np.repeat(np.arange(len(extents)), np.diff(extents.offsets)))
        repeated = {name: column.take(of) for name, column in answers.items()}
        return [pa.table({name: found.column(name) for name in found.column_names} | repeated)]
