"""Rows in event-time order, late ones marked: the disorder controller as a DataFrame function."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    IntegralType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.duration import microseconds
from sfumato.operators.disorder.control import DisorderControl
from sfumato.spark.model.columns import names, require
from sfumato.spark.runtime.names import Passed, column, named
from sfumato.spark.runtime.run_operator import Input, metrics_name, run_operator
from sfumato.tables.disorder.reorder import EVENT, ReorderTableConfig
from sfumato.tables.operator import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTROLLED_BY = "sfumato.controlled_by"  # metadata of `punctuation`: JSON list of the key columns


def reorder(
    df: DataFrame,
    *,
    event_time: str,
    arrival: str,
    key: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    expected_sources: int | None = None,
    drop_ratio: float | None = None,
    slack: int | None = None,
    estimator: str | None = None,
    max_buffer: int | None = None,
    idle_timeout: str | timedelta | None = None,
) -> DataFrame:
    """Rows in event-time order per key, with columns `late` and `punctuation` added.

    event_time, arrival : columns of timestamps, or of whole numbers in microseconds: when it
        happened, and when it was received. Rows are taken in order of `arrival`, simultaneous
        ones in order of event time.
    key : one disorder controller a key; none: one for the whole frame
    drop_ratio : the share of rows that may come too late to be ordered, in (0, 1); with it
        estimator "normal" (the default; C's measure, assumes normal delays) or "conformal"
        (assumes nothing)
    slack : instead of `drop_ratio`: hold back a fixed number of rows
    estimator : "max" needs neither: as late as the largest difference of delays seen
    max_buffer : hold at most so many rows a key; the oldest come out first
    idle_timeout : on a stream, rows held come out when nothing came for so long ("10 seconds")

    `punctuation` (of event_time's type): no row with an event time up to it is accepted any more,
    as known when the row came out. A row that comes after its punctuation comes out at once with
    ``late = true``; so does one without event time or arrival, with punctuation NULL. Every row
    comes out exactly once: on a stream the last ones once later rows, or the idle timeout,
    release them; on a static frame all. The observed metrics ``sfumato_reorder_N`` count rows,
    late, invalid, future (timestamps that event time must not follow), forced (by `max_buffer`)
    and out_of_order (arrivals before an earlier micro-batch's).

    Cost: one shuffle by key; state: the rows held and, for each key, what its estimator
    remembers: 2 KB (slack, max) to some 53 KB (a drop ratio).
    Raises ValueError for columns the frame lacks or has already, and for settings that exclude
    each other. Source: C, sections 3 to 5.
    """
    keys, sources = names("key", key), names("source", source)
    require(df, "event_time", [event_time])
    require(df, "arrival", [arrival])
    require(df, "key", keys)
    require(df, "source", sources)
    for added in ("late", "punctuation"):
        if added in df.columns:
            raise ValueError(
                f"the frame has a column `{added}` already: rename it before sf.reorder"
            )
    for argument, name in (("event_time", event_time), ("arrival", arrival)):
        kind = df.schema[name].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType | IntegralType):
            raise TypeError(
                f"`{argument}` must be a timestamp or whole microseconds; "
                f"`{name}` is {kind.simpleString()}"
            )
    idle = None if idle_timeout is None else microseconds("idle_timeout", idle_timeout)
    config = ReorderTableConfig(
        control=DisorderControl(drop_ratio, slack, estimator, max_buffer),
        sources=len(sources),
        expected_sources=expected_sources,
        idle_timeout=None if idle is None else max(1, idle // 1000),
        keys=len(keys),
        columns=(df.schema.simpleString(),),
    )
    passed = Passed(df, df.columns)
    values = {EVENT: column(event_time)}
    values |= {f"source{i}": column(name) for i, name in enumerate(sources)}
    answers = StructType().add(ROW, passed.type).add("late", BooleanType(), False)
    return run_operator(
        [Input(df, passed, [arrival], keys, values)],
        config,
        answers.add("punctuation", df.schema[event_time].dataType),
        [
            *passed.columns(),
            F.col("late"),
            named(F.col("punctuation"), "punctuation", {CONTROLLED_BY: json.dumps(keys)}),
        ],
        metrics=metrics_name("reorder"),
        idle_timeout=config.idle_timeout,
    )
