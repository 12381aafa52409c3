"""The disorder controller over Arrow tables: columns to arrays, `Reorder`, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.state.snapshot import Snapshot, pack, unpack
from sfumato.tables.arrival_order import arrival_order
from sfumato.tables.arrow import as_numbers, as_times, complete, joined
from sfumato.tables.disorder.ordered_rows import OrderedRows, RowReorder
from sfumato.tables.keys import KeyIndex

TIE = "__tie"  # a column that decides between rows of equal arrival and event time


@dataclass(frozen=True)
class ReorderSettings:
    """What a reorder is told: plain values, so that they can go to workers and into checkpoints.

    event_time, arrival, keys : column names; the rest as for `Reorder`, times in microseconds
    columns, buckets : the schema of the rows and the number of buckets, only to recognise a
        checkpoint of another query
    """

    event_time: str
    arrival: str
    keys: tuple[str, ...]
    drop_ratio: float | None
    slack: int | None
    estimator: str | None
    max_buffer: int | None
    idle_timeout: int | None
    columns: str
    buckets: int

    counters: ClassVar[tuple[str, ...]] = (
        "rows",
        "late",
        "invalid",
        "future",
        "forced",
        "out_of_order",
    )

    def make(self) -> TableReorder:
        operator = Reorder(
            drop_ratio=self.drop_ratio,
            slack=self.slack,
            estimator=self.estimator,
            max_buffer=self.max_buffer,
        )
        return TableReorder(self, RowReorder(operator))

    def restore(self, data: bytes) -> TableReorder:
        saved = unpack(data, "reorder bucket", 2)
        operator = Reorder.restore(saved.arrays["operator"].tobytes())
        bucket = TableReorder(self, RowReorder.of(operator, saved.tables.get("held")))
        bucket.keys = KeyIndex(saved.tables.get("keys"))
        bucket.seen = saved.arrays["seen"]
        bucket.invalid = saved.values["invalid"]
        return bucket

    def fingerprint(self) -> str:
        return json.dumps({"operator": "reorder", **asdict(self)}, sort_keys=True)


class TableReorder:
    """`Reorder` over Arrow tables with any columns, for the keys of one bucket."""

    def __init__(self, settings: ReorderSettings, ordered: RowReorder) -> None:
        self.settings = settings
        self.ordered = ordered
        self.keys = KeyIndex()
        self.seen = np.empty(0, np.int64)  # processing time of each key's newest row, ms
        self.invalid = 0

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        rows = joined([table for _, table in batch])
        valid = complete(rows, [self.settings.event_time, self.settings.arrival])
        outputs = []
        if not valid.all():
            outputs.append(self._rejected(rows.filter(pa.array(~valid))))
            rows = rows.filter(pa.array(valid))
        if rows.num_rows:
            outputs.append(self._ordered(rows, now))
        return outputs

    def _ordered(self, rows: pa.Table, now: int) -> pa.Table:
        event = as_numbers(rows.column(self.settings.event_time))
        arrival = as_numbers(rows.column(self.settings.arrival))
        order = arrival_order([arrival, event], [as_numbers(rows.column(TIE))])
        rows = rows.drop_columns([TIE]).take(pa.array(order))
        event, arrival = event[order], arrival[order]
        codes = self.keys.encode(rows.select(list(self.settings.keys)))
        grown = len(self.keys) or 1
        self.seen = np.concatenate([self.seen, np.zeros(grown - len(self.seen), np.int64)])
        self.seen[codes] = now
        return self._marked(self.ordered.process(codes, event, arrival, rows))

    def _marked(self, released: OrderedRows) -> pa.Table:
        kind = released.rows.schema.field(self.settings.event_time).type
        marked = released.rows.append_column("late", pa.array(released.late))
        return marked.append_column("punctuation", as_times(released.punctuation, kind))

    def _rejected(self, rows: pa.Table) -> pa.Table:
        self.invalid += rows.num_rows
        rows = rows.drop_columns([TIE])
        kind = rows.schema.field(self.settings.event_time).type
        marked = rows.append_column("late", pa.array(np.ones(rows.num_rows, bool)))
        return marked.append_column("punctuation", pa.nulls(rows.num_rows, kind))

    def idle(self, now: int) -> list[pa.Table]:
        assert self.settings.idle_timeout is not None
        quiet = np.flatnonzero(self.seen <= now - self.settings.idle_timeout // 1000)
        released = self.ordered.idle(quiet)
        return [self._marked(released)] if released.rows.num_rows else []

    def flush(self) -> list[pa.Table]:
        released = self.ordered.flush()
        return [self._marked(released)] if released.rows.num_rows else []

    def counters(self) -> dict[str, int]:
        counted = {**self.ordered.operator.counters, "invalid": self.invalid}
        counted["rows"] += self.invalid
        return {name: counted[name] for name in self.settings.counters}

    def snapshot(self) -> bytes:
        tables = {"keys": self.keys.table, "held": self.ordered.held}
        operator = np.frombuffer(self.ordered.operator.snapshot(), np.uint8)
        return pack(
            "reorder bucket",
            2,
            Snapshot(
                values={"invalid": self.invalid},
                arrays={"operator": operator, "seen": self.seen},
                tables={name: table for name, table in tables.items() if table is not None},
            ),
        )
