"""Read a pipeline's sources as frames, and encode rows for its sinks."""

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

import sfumato as sf
from sfumato.cli.pipeline.model import REPLAY, PipelineError, PipelineSource, Sink
from sfumato.near_misses import did_you_mean
from sfumato.spark.crossing.chunks import MetricsName

RAW, READ, UNDECODABLE = "__raw", "__read", "__undecodable"
MAX_VALUE = 200  # maximum number of characters of a value in a reason
DEFAULT_METADATA = ("partition",)
CONFLUENT, SCHEMA_ID_BYTES = "confluent-avro", 5  # bytes before the value: 0 and the schema id
DEAD_LETTER_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")  # from Kafka

SourceFrames = tuple[DataFrame, DataFrame | None]  # decoded rows, undecodable rows


def read_source(spark: SparkSession, source: PipelineSource) -> SourceFrames:
    """Return a source's frames; read only the data that Spark needs to infer the columns."""
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
    return decode(frame, source, options if of_lines else {}) if decodes else (frame, None)


def decode(frame: DataFrame, source: PipelineSource, options: dict[str, str]) -> SourceFrames:
    """Decode the column `value`; return the decoded rows, and undecodable rows with a reason."""
    seen, schema, text = (
        _read_avro(frame, source) if source.is_avro else _read_json(frame, source, options)
    )
    seen = _add_missing_reasons(seen, source, schema.names)
    kept = list(source.metadata or DEFAULT_METADATA) if source.format.lower() == "kafka" else []
    if double := [name for name in kept if name.lower() in map(str.lower, schema.names)]:
        why = (
            f"has {double[0]!r}, which is also a column of the schema: choose different columns, "
            "or rename one"
        )
        raise PipelineError.at(f"sources.{source.name}.metadata", why)
    metrics = MetricsName("decode", source.name)
    counted = seen.observe(
        metrics,
        *metrics.identity(),
        F.count(F.lit(1)).alias("rows"),
        F.count(UNDECODABLE).alias("undecodable"),
    )
    rows = counted.where(F.col(UNDECODABLE).isNull()).select(
        *(F.col(READ)[name].alias(name) for name in schema.names),
        *(_metadata(name) for name in kept),
    )
    if source.dead_letters is None:
        return rows, None
    names = [name for name in DEAD_LETTER_COLUMNS if name in frame.columns]
    undecodable = seen.where(F.col(UNDECODABLE).isNotNull()).select(
        F.col(UNDECODABLE).alias("reason"), text.alias("value"), *(_metadata(n) for n in names)
    )
    return rows, undecodable


def _read_json(
    frame: DataFrame, source: PipelineSource, options: dict[str, str]
) -> tuple[DataFrame, StructType, Column]:
    """Decode JSON; return (frame with values and reasons, schema, raw value as a string)."""
    assert source.schema is not None
    schema = StructType.fromDDL(source.schema)
    assert isinstance(schema, StructType)
    how = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNDECODABLE}
    whole = StructType([*schema.fields]).add(UNDECODABLE, "string")
    seen = frame.withColumn(RAW, F.col("value").cast("string"))
    seen = seen.withColumn(READ, F.from_json(RAW, whole, how))
    return seen.withColumn(UNDECODABLE, _reason(schema)), schema, F.col(RAW)


def _read_avro(frame: DataFrame, source: PipelineSource) -> tuple[DataFrame, StructType, Column]:
    """Decode Avro like `_read_json`; the raw value is encoded in base64."""
    from pyspark.sql.avro.functions import from_avro

    assert source.avro_schema is not None
    raw = F.col("value").cast("binary")
    numbered = source.value == CONFLUENT
    record = F.expr(f"substring(`{RAW}`, {SCHEMA_ID_BYTES + 1})") if numbered else F.col(RAW)
    seen = frame.withColumn(RAW, raw)
    seen = seen.withColumn(READ, from_avro(record, source.avro_schema, {"mode": "PERMISSIVE"}))
    schema = seen.schema[READ].dataType
    assert isinstance(schema, StructType)
    read = F.col(READ)
    # A value that cannot be decoded becomes a record of NULLs.
    empty = ~reduce(lambda a, b: a | b, [read[name].isNotNull() for name in schema.names])
    why = F.when(F.col(RAW).isNull() | (F.length(RAW) == 0), F.lit("there is no value"))
    if numbered:
        begins = F.expr(
            f"hex(substring(`{RAW}`, 1, 1)) = '00' AND length(`{RAW}`) > {SCHEMA_ID_BYTES}"
        )
        why = why.when(~begins, F.lit("the value does not start with a schema number"))
    why = why.when(read.isNull() | empty, F.lit("the value does not fit the Avro schema"))
    return seen.withColumn(UNDECODABLE, why), schema, F.base64(RAW)


def _reason(schema: StructType) -> Column:
    """Return the reason why a string is not a row of the schema; NULL if it is a row."""
    text, read = F.col(RAW), F.col(READ)
    reasons = [F.when(text.isNull() | (F.trim(text) == ""), F.lit("there is no value"))]
    for field in schema.fields:
        path = "$['" + field.name.replace("'", "\\'") + "']"
        given = F.get_json_object(text, path)
        why = F.concat(
            F.lit(f"`{field.name}` is not of type {field.dataType.simpleString()}: "),
            F.substring(given, 1, MAX_VALUE),
        )
        undecodable = read[UNDECODABLE].isNotNull() & read[field.name].isNull() & given.isNotNull()
        reasons.append(F.when(undecodable, why))
    unread = read.isNull() | read[UNDECODABLE].isNotNull()
    not_object = F.lit("the value is not a JSON object with the columns of the schema")
    return F.coalesce(*reasons, F.when(unread, not_object))


def _add_missing_reasons(seen: DataFrame, source: PipelineSource, known: list[str]) -> DataFrame:
    """Add a reason to rows in which a required column is NULL."""
    if unknown := [name for name in source.required if name not in known]:
        likely = did_you_mean(unknown[0], known)
        why = f"must name columns of the schema, {', '.join(known)}; got {unknown[0]!r}{likely}"
        raise PipelineError.at(f"sources.{source.name}.required", why)
    missing = [
        F.when(
            F.col(READ)[name].isNull(), F.lit(f"`{name}` is required, but it is missing or NULL")
        )
        for name in source.required
    ]
    return seen.withColumn(UNDECODABLE, F.coalesce(UNDECODABLE, *missing))


def _metadata(name: str) -> Column:
    if name == "key":
        return F.col(name).cast("string").alias(name)
    if name == "headers":
        return F.expr(
            "transform(headers, h -> named_struct('key', h.key, 'value', cast(h.value AS string)))"
        ).alias(name)
    return F.col(name)


def encode(frame: DataFrame, sink: Sink) -> DataFrame:
    """Encode rows for a sink: unchanged, or as one JSON string per row, with the sink's key."""
    if sink.value is None:
        return frame
    value = F.to_json(F.struct("*")).alias("value")
    if sink.key is None:
        return frame.select(value)
    if sink.key not in frame.columns:
        known = ", ".join(frame.columns)
        raise ValueError(
            f"`key` must be a column of {sink.query}, one of {known}; got {sink.key!r}"
        )
    return frame.select(F.col(sink.key).cast("string").alias("key"), value)
