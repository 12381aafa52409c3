"""Frames whose columns are stated, because Spark cannot be asked: tables of a pipeline to be."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.api.calls import public
from sfumato.spark.model.declared_frame import DeclaredFrame, apart, is_connected
from sfumato.spark.model.names import column


@public('sf.ops.declared(spark.read.table("readings"), "id long, t timestamp")', "df")
def declared(df: DataFrame, schema: StructType | str, *, streaming: bool = False) -> DataFrame:
    """The frame with columns that are stated, so that no function need ask Spark for them.

    df : a table that is read, spark.read.table("readings") or spark.readStream.table("readings"),
        or any other frame
    schema : its columns, as Spark's DDL or as a StructType; they are taken by name and converted
    streaming : whether it is a stream, spark.readStream; not needed without Spark Connect

    For tables of a declarative pipeline, of which Spark knows nothing while the pipeline is
    defined, and for the functions that define its tables, in which it may not be asked: all
    functions of the package take such frames, `sf.sql` as frames by name. Under Spark Connect the
    result has the methods of Spark's frames, names of columns mean the columns, and what the
    methods and the functions make of it is declared as well. Nothing is started.

    >>> sf.ops.declared(readings, "id long, celsius double").columns
    ['id', 'celsius']

    Raises TypeError for what is no schema; Spark's ParseException for DDL that is none.
    """
    spark = df.sparkSession
    kind = apart(spark, lambda: _parsed(spark, schema))
    frame = df.select(
        *(
            column(of.name).cast(of.dataType).alias(of.name, metadata=of.metadata or {})
            for of in kind.fields
        )
    )
    if not is_connected(df):
        return frame
    rows = spark.readStream.format("rate").load() if streaming else spark.range(0)
    empty = rows.select(
        *(
            F.lit(None).cast(of.dataType).alias(of.name, metadata=of.metadata or {})
            for of in kind.fields
        )
    )
    return cast(DataFrame, DeclaredFrame(frame, empty))


def _parsed(spark: Any, schema: Any) -> StructType:
    if isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    if not isinstance(schema, StructType) or not schema.fields:
        raise TypeError(
            '`schema` must be columns and their types, "id long, t timestamp" or a StructType; '
            f"got {schema!r}"
        )
    return schema
