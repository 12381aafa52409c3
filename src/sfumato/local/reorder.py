"""Rows in event-time order, late ones marked: `sfumato.reorder` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.duration import microseconds
from sfumato.local.model.frame import frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, passed, run
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.query import ReorderQuery, require_marked
from sfumato.tables.operator import ROW
from sfumato.tables.reading.controlled import with_roles
from sfumato.tables.reading.naming import Shown


@same_kind
def reorder(
    df: Any,
    *,
    event_time: str,
    arrival: str,
    key: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    expected_sources: int | None = None,
    drop_ratio: float | None = None,
    slack: int | None = None,
    max_delay: str | timedelta | None = None,
    estimator: str | None = None,
    max_buffer: int | None = None,
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> pa.Table:
    """Rows in event-time order per key, with columns `late` and `punctuation` added.

    df : a pandas, Polars or Arrow table: the whole stream
    The other arguments, the columns and the counters are those of `sfumato.reorder` over a static
    frame; nobody is idle in one, so `idle_timeout` changes nothing. Rows are in the order in which
    they come out.
    """
    frame = frame_of(df)
    query = ReorderQuery(frame, event_time, arrival, key, source)
    delay = None if max_delay is None else microseconds("max_delay", max_delay)
    control = DisorderControl(drop_ratio, slack, estimator, max_buffer, max_delay=delay)
    config = query.config(control, expected_sources, idle_timeout, forget_after)
    names = query.passed
    kinds = {"late": pa.bool_(), "punctuation": frame.type(query.event)}
    said = {"punctuation": query.said(config)}
    columns = [_read(query, column) for column in passed(names, frame, names, ROW)]
    for of, kind in kinds.items():
        columns.append(Shown((of,), pa.field(of, kind, metadata=said.get(of))))
    return run(Job("reorder", "reorder", name), [Input(frame, query.reading)], config, columns)


def _read(query: ReorderQuery, column: Shown) -> Shown:
    """The column, with what the controller reads of it in its metadata."""
    field = column.field
    said = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    return Shown(column.source, field.with_metadata(with_roles(said, query.roles(field.name))))


@same_kind
def split_late(df: Any) -> tuple[pa.Table, pa.Table]:
    """(on_time, late): a reordered table as two, with all columns; each row is in one of them.

    Raises ValueError for a table without a mark `late`, as `reorder` adds it.
    """
    frame = frame_of(df)
    require_marked(frame)
    late = pc.fill_null(frame.table.column("late"), False)
    return frame.table.filter(pc.invert(late)), frame.table.filter(late)
