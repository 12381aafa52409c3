"""What columns of Spark's are as Arrow's."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

ZONE = "spark.sql.session.timeZone"
LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


def arrow_schema(columns: StructType, spark: SparkSession | None = None) -> pa.Schema:
    """What PySpark makes of the columns for Arrow. spark : a session whose settings say the time
    zone of times, and how text is held; None: UTC, and as Spark holds text unless told"""
    known = inspect.signature(to_arrow_schema).parameters  # older PySparks know no zone but UTC
    asked: dict[str, Any] = {"timezone": "UTC"}
    if spark is not None:
        large = spark.conf.get(LARGE, "false") == "true"
        asked = {"timezone": spark.conf.get(ZONE), "prefers_large_types": large}
    return to_arrow_schema(columns, **{name: of for name, of in asked.items() if name in known})
