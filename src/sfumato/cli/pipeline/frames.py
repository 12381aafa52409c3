"""Frames of a pipeline's sources, and rows as its sinks write them."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

import sfumato as sf
from sfumato.cli.pipeline.keys import REPLAY
from sfumato.cli.pipeline.model import Sink, Source
from sfumato.spark.crossing.figures import MetricsName

RAW, READ, SPOILED = "__raw", "__read", "__spoiled"
LONGEST = 200  # characters of a field in a reason
DEFAULT_METADATA = ("partition",)
CONFLUENT, NUMBER = "confluent-avro", 5  # bytes before the value: 0, and the number of its schema
LETTER = ("key", "topic", "partition", "offset", "timestamp")  # of Kafka, in a dead letter


@dataclass(frozen=True)
class SourceFrames:
    """A source's rows, and those that its decoder could not read, where it has one with a name."""

    rows: DataFrame
    dead_letters: DataFrame | None = None


def read(spark: SparkSession, source: Source) -> SourceFrames:
    """The frames of a source. Nothing is read yet, but what Spark reads to know the columns."""
    if source.format == REPLAY:
        spark.dataSource.register(sf.ops.ReplaySource)
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
    seen, schema, text = (
        _read_avro(frame, source) if source.is_avro else _read_json(frame, source, options)
    )
    beside = list(source.metadata or DEFAULT_METADATA) if source.format.lower() == "kafka" else []
    metrics = MetricsName("decode", source.name)
    counted = seen.observe(
        metrics,
        *metrics.identity(),
        F.count(F.lit(1)).alias("rows"),
        F.count(SPOILED).alias("undecodable"),
    )
    rows = counted.where(F.col(SPOILED).isNull()).select(
        *(F.col(READ)[name].alias(name) for name in schema.names),
        *(_metadata(name) for name in beside),
    )
    if source.dead_letters is None:
        return SourceFrames(rows)
    names = [name for name in LETTER if name in frame.columns]
    spoiled = seen.where(F.col(SPOILED).isNotNull()).select(
        F.col(SPOILED).alias("reason"), text.alias("value"), *(_metadata(n) for n in names)
    )
    return SourceFrames(rows, spoiled)


def _read_json(
    frame: DataFrame, source: Source, options: dict[str, str]
) -> tuple[DataFrame, StructType, Column]:
    """With what was read and why not, the columns, and the raw value as text."""
    assert source.schema is not None
    schema = StructType.fromDDL(source.schema)
    assert isinstance(schema, StructType)
    how = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": SPOILED}
    whole = StructType([*schema.fields]).add(SPOILED, "string")
    seen = frame.withColumn(RAW, F.col("value").cast("string"))
    seen = seen.withColumn(READ, F.from_json(RAW, whole, how))
    return seen.withColumn(SPOILED, _reason(schema)), schema, F.col(RAW)


def _read_avro(frame: DataFrame, source: Source) -> tuple[DataFrame, StructType, Column]:
    """The same of values in Avro; as text they are in base 64."""
    from pyspark.sql.avro.functions import from_avro

    assert source.avro_schema is not None
    raw = F.col("value").cast("binary")
    numbered = source.value == CONFLUENT
    record = F.expr(f"substring(`{RAW}`, {NUMBER + 1})") if numbered else F.col(RAW)
    seen = frame.withColumn(RAW, raw)
    seen = seen.withColumn(READ, from_avro(record, source.avro_schema, {"mode": "PERMISSIVE"}))
    schema = seen.schema[READ].dataType
    assert isinstance(schema, StructType)
    read = F.col(READ)
    # What cannot be decoded comes as a record of nothing.
    empty = ~reduce(lambda a, b: a | b, [read[name].isNotNull() for name in schema.names])
    why = F.when(F.col(RAW).isNull() | (F.length(RAW) == 0), F.lit("there is no value"))
    if numbered:
        begins = F.expr(f"hex(substring(`{RAW}`, 1, 1)) = '00' AND length(`{RAW}`) > {NUMBER}")
        why = why.when(~begins, F.lit("it does not begin with the number of a schema"))
    why = why.when(read.isNull() | empty, F.lit("it is no Avro value of this schema"))
    return seen.withColumn(SPOILED, why), schema, F.base64(RAW)


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
