"""Readings as tables of a session, and comparisons of queries with frames."""

from datetime import UTC, datetime, timedelta

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


START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


CARS = [(i % 3, 60.0 + 15 * (i % 3) + i % 7, at(10 * i)) for i in range(90)]


def traffic(spark):
    """Return Sensors(vehID, speed, ts) as in Kim et al. (2006), in order and not, and `u`."""
    disordered = [*CARS[:40], *CARS[45:50], *CARS[40:45], *CARS[50:80], CARS[5], *CARS[80:]]
    columns = "vehID int, speed double, ts timestamp"
    arrived = [(*car, at(10 * i)) for i, car in enumerate(disordered)]
    uncertain = [
        (i, "ab"[i % 2], at(i), [(0.5, float(i)), (0.25, float(i + 2))]) for i in range(12)
    ]
    kind = (
        "id int, sensor string, ts timestamp, alternatives array<struct<prob: double, x: double>>"
    )
    return {
        "Sensors": spark.createDataFrame(CARS, columns),
        "Disordered": spark.createDataFrame(arrived, f"{columns}, arrival timestamp"),
        "u": spark.createDataFrame(uncertain, kind),
    }


def differing(spark, cases):
    """Return the texts without rows, or with other columns or rows than their frames.

    cases : {text: frame}; all of them are computed in one Spark query
    """
    queries = {text: sql(spark, text) for text in cases}
    pairs = {(text, of): frame for of, frames in (("sql", queries), ("functions", cases))
             for text, frame in frames.items()}  # fmt: skip
    rows = {place: rows_of(table) for place, table in tables_of(pairs).items()}
    return [
        text for text in cases
        if not rows[text, "sql"] or rows[text, "sql"] != rows[text, "functions"]
        or queries[text].dtypes != cases[text].dtypes
    ]  # fmt: skip


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
