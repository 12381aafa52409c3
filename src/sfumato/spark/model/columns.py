"""Spark columns by name, and their Arrow types.

A process next to the driver imports this module, so the module must not import kernels.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

from sfumato.sql_tokens import quote_name

ZONE = "spark.sql.session.timeZone"
LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


def column(name: str) -> Column:
    return F.col(quote_name(name))


def with_alias(column: Column, name: str, metadata: Mapping[str, Any] | None = None) -> Column:
    return column.alias(name, metadata=dict(metadata)) if metadata else column.alias(name)


def without_constraints(df: DataFrame) -> DataFrame:
    """Return the same rows and columns without the constraints that Spark has inferred.

    Spark infers constraints such as `tie = xxhash64(c0, ..., c99)` and repeats them for every
    renamed column. The number of constraints doubles with each column, here to 2**100. The Expand
    operator of an unpivot does not pass on constraints; with one value column, an unpivot leaves
    the rows unchanged.

    df : column names must not contain dots, and must not be `__value` or `__name`
    """
    valued = df.select("*", F.lit(0).alias("__value"))
    return valued.unpivot([*df.columns], ["__value"], "__name", "__value").select(*df.columns)


def computed(function: Callable[[pa.Array], pa.Array], kind: DataType, *read: Column) -> Column:
    """Return a column that workers compute. function : takes structs of `read`, returns values"""
    return F.arrow_udf(function, kind)(F.struct(*read))  # type: ignore[call-overload]


def table_of(structs: pa.Array) -> pa.Table:
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])


def arrow_schema(columns: StructType, spark: SparkSession | None = None) -> pa.Schema:
    """Return the Arrow schema that PySpark uses for the columns."""
    known = inspect.signature(to_arrow_schema).parameters  # older PySpark versions support only UTC
    asked: dict[str, Any] = {"timezone": "UTC"}
    if spark is not None:
        large = spark.conf.get(LARGE, "false") == "true"
        asked = {"timezone": spark.conf.get(ZONE), "prefers_large_types": large}
    return to_arrow_schema(columns, **{name: of for name, of in asked.items() if name in known})
