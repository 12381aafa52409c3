"""Frames of a pipeline's sources, and rows as its sinks write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

import sfumato as sf
from sfumato.cli.pipeline.keys import REPLAY
from sfumato.cli.pipeline.model import Sink, Source

RAW, READ, SPOILED = "__raw", "__read", "__spoiled"
LONGEST = 200  # characters of a field in a reason
DECODED = "sfumato_decode_"  # metrics of what a decoder read
DEFAULT_METADATA = ("partition",)
LETTER = ("key", "topic", "partition", "offset", "timestamp")  # of Kafka, in a dead letter


@dataclass(frozen=True)
class SourceFrames:
    """A source's rows, and those that its decoder could not read, where it has one with a name."""

    rows: DataFrame
    dead_letters: DataFrame | None = None


def read(spark: SparkSession, source: Source) -> SourceFrames:
    """The frames of a source. Nothing is read yet, but what Spark reads to know the columns."""
    if source.format == REPLAY:
        spark.dataSource.register(sf.ReplaySource)
    reader: Any = spark.read if source.static else spark.readStream
    options = dict(source.options)
    of_lines = source.format.lower() == "json" and source.dead_letters is not None
    if source.metadata and "headers" in source.metadata:
        options["includeHeaders"] = "true"
    if source.format:
        reader = reader.format("text" if of_lines else source.format)
    reader = reader.options(**options)
    decodes = source.value is not None or of_lines
    if source.schema is not None and not decodes:
        reader = reader.schema(source.schema)
    if source.table is not None:
        frame = reader.table(source.table)
    else:
        frame = reader.load(source.path) if source.path is not None else reader.load()
    return decoded(frame, source, options if of_lines else {}) if decodes else SourceFrames(frame)


def decoded(frame: DataFrame, source: Source, options: dict[str, str]) -> SourceFrames:
    """Rows by the schema from the column `value`, and those that it does not fit, with a reason."""
    assert source.schema is not None
    schema = StructType.fromDDL(source.schema)
    assert isinstance(schema, StructType)
    text = F.col("value").cast("string")
    how = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": SPOILED}
    whole = StructType([*schema.fields]).add(SPOILED, "string")
    beside = list(source.metadata or DEFAULT_METADATA) if source.format.lower() == "kafka" else []
    seen = frame.withColumn(RAW, text).withColumn(READ, F.from_json(RAW, whole, how))
    reason = _reason(schema)
    seen = seen.withColumn(SPOILED, reason)
    counted = seen.observe(
        f"{DECODED}{source.name}",
        F.count(F.lit(1)).alias("rows"),
        F.count(SPOILED).alias("spoiled"),
    )
    rows = counted.where(F.col(SPOILED).isNull()).select(
        *(F.col(READ)[field.name].alias(field.name) for field in schema.fields),
        *(_metadata(name) for name in beside),
    )
    if source.dead_letters is None:
        return SourceFrames(rows)
    names = [name for name in LETTER if name in frame.columns]
    spoiled = seen.where(F.col(SPOILED).isNotNull()).select(
        F.col(SPOILED).alias("reason"), F.col(RAW).alias("value"), *(_metadata(n) for n in names)
    )
    return SourceFrames(rows, spoiled)


def _reason(schema: StructType) -> Column:
    """Why a text is no row of a schema; NULL where it is one."""
    text, read = F.col(RAW), F.col(READ)
    reasons = [F.when(text.isNull() | (F.trim(text) == ""), F.lit("there is no value"))]
    for field in schema.fields:
        path = "$['" + field.name.replace("'", "\\'") + "']"
        given = F.get_json_object(text, path)
        why = F.concat(
            F.lit(f"`{field.name}` is no {field.dataType.simpleString()}: "),
            F.substring(given, 1, LONGEST),
        )
        spoiled = read[SPOILED].isNotNull() & read[field.name].isNull() & given.isNotNull()
        reasons.append(F.when(spoiled, why))
    unread = read.isNull() | read[SPOILED].isNotNull()
    return F.coalesce(*reasons, F.when(unread, F.lit("it is no JSON object of these columns")))


def _metadata(name: str) -> Column:
    if name == "key":
        return F.col(name).cast("string").alias(name)
    if name == "headers":
        return F.expr(
            "transform(headers, h -> named_struct('key', h.key, 'value', cast(h.value AS string)))"
        ).alias(name)
    return F.col(name)


def encoded(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows as a sink wants them: as they are, or as texts under a key.

    Raises ValueError for a key that is no column.
    """
    if sink.value is None:
        return frame
    value = F.to_json(F.struct("*")).alias("value")
    if sink.key is None:
        return frame.select(value)
    if sink.key not in frame.columns:
        known = ", ".join(frame.columns)
        raise ValueError(f"`key` must be a column of {sink.query}, {known}; got {sink.key!r}")
    return frame.select(F.col(sink.key).cast("string").alias("key"), value)
