"""Frames with declared columns, for pipeline tables whose schemas Spark cannot return yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from sfumato.api.calls import public_function
from sfumato.spark.model.columns import column
from sfumato.spark.model.declared_frame import DeclaredFrame, is_connected, maybe_in_thread


@public_function('sf.ops.declared(spark.read.table("readings"), "id long, t timestamp")', "df")
def declared(df: DataFrame, schema: StructType | str, *, streaming: bool = False) -> DataFrame:
    """Return a frame with declared columns, so that no function has to request them from Spark.

    Parameters
    ----------
    df
        A table, spark.read.table("readings") or spark.readStream.table("readings"), or any other
        frame.
    schema
        The columns, as Spark DDL or as a StructType; they are selected by name and converted.
    streaming
        Whether `df` is a stream (spark.readStream). Only needed with Spark Connect.

    Returns
    -------
    A frame that can be used while a declarative pipeline is being defined, when Spark has no
    schemas yet and requests for a schema fail. All functions of the package accept such frames,
    and `sf.sql` accepts them by name. With Spark Connect the frame has the methods of a DataFrame,
    and their results, like the results of the package's functions, are declared frames too. No job
    is started.

    Raises
    ------
    TypeError
        For a schema that is neither DDL nor a StructType. Invalid DDL raises Spark's
        ParseException.

    Notes
    -----
    Cost: none; no schema is requested from Spark.

    Examples
    --------
    >>> sf.ops.declared(readings, "id long, celsius double").columns
    ['id', 'celsius']
    """
    spark = df.sparkSession
    kind = maybe_in_thread(spark, lambda: _parse(spark, schema))

    def columns(value: Callable[[StructField], Column]) -> list[Column]:
        cast_ = [(value(of).cast(of.dataType), of) for of in kind.fields]
        return [of.alias(field.name, metadata=field.metadata or {}) for of, field in cast_]

    frame = df.select(*columns(lambda of: column(of.name)))
    if not is_connected(df):
        return frame
    rows = spark.readStream.format("rate").load() if streaming else spark.range(0)
    empty = rows.select(*columns(lambda of: F.lit(None)))
    return cast(DataFrame, DeclaredFrame(frame, empty))


def _parse(spark: Any, schema: Any) -> StructType:
    if isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    if not isinstance(schema, StructType) or not schema.fields:
        raise TypeError(
            '`schema` must be a string with columns and types, like "id long, t timestamp", or a '
            f"StructType; got {schema!r}"
        )
    return schema
