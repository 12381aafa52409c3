"""Rows in event-time order, late ones marked: the disorder controller as a DataFrame function."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql.types import BooleanType, IntegralType, StructType, TimestampNTZType, TimestampType

from sfumato.duration import microseconds
from sfumato.spark.model.columns import bucket_count, names, require, with_bucket, with_tie
from sfumato.spark.runtime import bucket_state, chunks
from sfumato.tables.disorder.reorder import TIE, ReorderSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRICS = itertools.count(1)
CONTROLLED_BY = "sfumato.controlled_by"  # metadata of `punctuation`: JSON list of the key columns


def reorder(
    df: DataFrame,
    *,
    event_time: str,
    arrival: str,
    key: str | Sequence[str] | None = None,
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
    keys = names("key", key)
    require(df, "event_time", [event_time])
    require(df, "arrival", [arrival])
    require(df, "key", keys)
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
    settings = ReorderSettings(
        event_time=event_time,
        arrival=arrival,
        keys=tuple(keys),
        drop_ratio=drop_ratio,
        slack=slack,
        estimator=estimator,
        max_buffer=max_buffer,
        idle_timeout=idle,
        columns=df.schema.simpleString(),
        buckets=bucket_count(df, keys),
    )
    settings.make()  # raises here, on the driver, what the settings have wrong
    output = StructType(list(df.schema.fields)).add("late", BooleanType(), False)
    output = output.add(
        "punctuation", df.schema[event_time].dataType, metadata={CONTROLLED_BY: json.dumps(keys)}
    )
    packed = chunks.pack(with_bucket(with_tie(df, TIE), keys, settings.buckets), side=0)
    answers = bucket_state.run(
        packed,
        settings,
        f"sfumato_reorder_{next(METRICS)}",
        None if idle is None else max(1, idle // 1000),
    )
    return chunks.unpack(answers, output)
