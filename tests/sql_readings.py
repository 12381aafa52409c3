"""Uncertain readings as tables of a session, and comparisons of frames."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from engine_cases import rows_of
from sfumato.language import SqlError, sql
from spark_tables import tables_of

READINGS = (
    "id int, sensor string, ts timestamp, arrival timestamp, "
    "alternatives array<struct<prob: double, x: double, y: double>>"
)
NEAR = "ON (x) WITHIN 1 PROBABILITY 1"
JOIN = "SIMILARITY JOIN r AS b ON (x, y) WITHIN 0.5 PROBABILITY 25%"


def readings(spark, count=40):
    """Return tuples that arrive each second, every third of them five seconds late."""
    rows = [
        (
            i,
            "ab"[i % 2],
            1_000 + i - 5 * (i % 3 == 0),
            1_000 + i,
            [(0.5, i % 7 + 0.0, 1.0), (0.25, i % 5 + 1.0, 2.0)],
        )
        for i in range(count)
    ]
    schema = READINGS.replace("timestamp", "long")
    df = spark.createDataFrame(rows, schema)
    for name in ("ts", "arrival"):
        df = df.withColumn(name, F.timestamp_seconds(name))
    return df


def same(one, other):
    """Compare two frames, computed in one Spark query, and return their rows."""
    assert one.columns == other.columns
    found = tables_of({"one": one, "other": other})
    rows = rows_of(found["one"])
    assert rows == rows_of(found["other"])
    return rows


def error(spark, text):
    with pytest.raises(SqlError) as caught:
        sql(spark, text)
    return caught.value
