"""Rows in event-time order, late ones marked: `sfumato.reorder` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.duration import microseconds
from sfumato.local.model.controlled import MARKS, controlled_by, says_order
from sfumato.local.model.forgetting import forget_after_of
from sfumato.local.model.frame import Frame, frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, passed, run
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.reorder import EVENT, ReorderTableConfig
from sfumato.tables.operator import ROW
from sfumato.tables.reading.input import Cells, Column, Reading
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
    keys, sources = frame.keys("key", key), frame.keys("source", source)
    event, arrived = frame.one("event_time", event_time), frame.one("arrival", arrival)
    names = _certain_columns(frame)
    frame.require_time("event_time", event)
    frame.require_time("arrival", arrived)
    idle = None if idle_timeout is None else microseconds("idle_timeout", idle_timeout)
    delay = None if max_delay is None else microseconds("max_delay", max_delay)
    config = ReorderTableConfig(
        control=DisorderControl(drop_ratio, slack, estimator, max_buffer, max_delay=delay),
        sources=len(sources),
        expected_sources=expected_sources,
        idle_timeout=None if idle is None else max(1, idle // 1000),
        keys=len(keys),
        forget_after=forget_after_of(frame, arrived, keys, forget_after),
    )
    values: list[tuple[str, Cells]] = [(EVENT, Column(event))]
    values += [(f"source{i}", Column(of)) for i, of in enumerate(sources)]
    reading = Reading(tuple(names), (arrived,), tuple(keys), tuple(values))
    said = controlled_by(keys, event, forgets=config.forget_after is not None)
    punctuation = pa.field("punctuation", frame.type(event), metadata=said)
    columns = [
        *passed(names, frame, names, ROW),
        Shown(("late",), pa.field("late", pa.bool_())),
        Shown(("punctuation",), punctuation),
    ]
    return run(Job("reorder", "reorder", name), [Input(frame, reading)], config, columns)


def _certain_columns(frame: Frame) -> list[str]:
    """The columns that pass through: not those that an earlier `reorder` added."""
    if says_order(frame.schema, "punctuation") is not None:
        return [of for of in frame.columns if of not in MARKS]
    for added in MARKS:
        if added in frame.columns:
            raise ValueError(f"the table has a column `{added}` already: rename it before reorder")
    return frame.columns


@same_kind
def split_late(df: Any) -> tuple[pa.Table, pa.Table]:
    """(on_time, late): a reordered table as two, with all columns; each row is in one of them.

    Raises ValueError for a table without a mark `late`, as `reorder` adds it.
    """
    frame = frame_of(df)
    if "late" not in frame.columns or not pa.types.is_boolean(frame.type("late")):
        raise ValueError(
            "split_late takes a table with a column `late` of booleans: reorder it first; "
            f"it has {', '.join(frame.columns)}"
        )
    late = pc.fill_null(frame.table.column("late"), False)
    return frame.table.filter(pc.invert(late)), frame.table.filter(late)
