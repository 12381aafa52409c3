"""Calls with Column objects, and with the names of these columns, for Spark and Spark Connect."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf

SCHEMA = "id long, sensor string, ts timestamp, us long, x double, y double, p double"
SCHEMA += ", s struct<f: long>"
START = datetime(2024, 1, 1, tzinfo=UTC)
WITHIN = {"within": 1.0, "probability": 0.5, "window": sf.Rows(4)}


def readings(spark):
    """Return 8 rows with distinct times."""
    return spark.createDataFrame(
        [
            (i, "ab"[i % 2], START + timedelta(seconds=i), i * 10, i % 3 + 0.5, 1.0 + i, 0.5, (i,))
            for i in range(8)
        ],
        SCHEMA,
    )


def uncertain(df):
    return df.select("id", "sensor", sf.samples("x", 0.1, 4, attributes="x"))


# A call with Column objects, and the same call with names.
CASES = {
    "plain references": (
        lambda df: sf.reorder(
            df, event_time=F.col("ts"), arrival=df["us"], key=[F.col("SENSOR")], slack=1
        ),
        lambda df: sf.reorder(df, event_time="ts", arrival="us", key="sensor", slack=1),
    ),
    "a column of radii": (
        lambda df: sf.self_join(
            df, on="x", within=F.col("p"), probability=0.5, window=sf.Rows(4), order="id"
        ).select("probability", "left.id"),
        lambda df: sf.self_join(
            df, on="x", within="p", probability=0.5, window=sf.Rows(4), order="id"
        ).select("probability", "left.id"),
    ),
    "an expression with an alias": (
        lambda df: sf.reorder(
            df, event_time=(F.col("us") + 1).alias("at"), arrival=F.col("us") + 1, slack=1
        ),
        lambda df: sf.reorder(
            df.withColumn("at", F.col("us") + 1), event_time="at", arrival="us", slack=1
        ),
    ),
    "expressions without alias": (
        lambda df: sf.window_aggregate(
            df,
            {"m": "avg(y)"},
            window=sf.Rows(2),
            order=F.col("s.f"),
            key=[F.col("sensor"), F.col("x") > 1],
            existence=F.col("p") / 2,
        ),
        lambda df: sf.window_aggregate(
            df.withColumns({"o": F.col("s.f"), "k": F.col("x") > 1, "e": F.col("p") / 2}),
            {"m": "avg(y)"},
            window=sf.Rows(2),
            order="o",
            key=["sensor", "k"],
            existence="e",
        ).drop("o", "k", "e"),
    ),
    "keys of extents": (
        lambda df: sf.window_aggregate(
            df, {"n": "count(*)"}, window="4 seconds", order=df.ts, key=F.upper("sensor").alias("K")
        ),
        lambda df: sf.window_aggregate(
            df.withColumn("K", F.upper("sensor")),
            {"n": "count(*)"},
            window="4 seconds",
            order="ts",
            key="K",
        ),
    ),
    "the attribute of a delta window": (
        lambda df: sf.window_aggregate(
            df, {"n": "count(*)"}, window=sf.Delta(1.0, on=-F.col("x")), order="id"
        ),
        lambda df: sf.window_aggregate(
            df, {"n": "count(*)"}, window=sf.Delta(1.0, on="x"), order="id"
        ),
    ),
    "columns of a ranking": (
        lambda df: sf.top_k(
            df,
            2,
            by="y",
            window="4 seconds",
            order=F.col("ts"),
            exclusive=F.col("id") % 4,
            existence=F.col("p") / 2,
        ),
        lambda df: sf.top_k(
            df.withColumns({"e": F.col("id") % 4, "q": F.col("p") / 2}),
            2,
            by="y",
            window="4 seconds",
            order="ts",
            exclusive="e",
            existence="q",
        ).withColumn("row", F.col("row").dropFields("e", "q")),
    ),
    "attributes that are columns": (
        lambda df: sf.earlier_values(
            df, [F.col("x"), F.log("y").alias("log_y")], order=df.ts, key=F.lower("sensor")
        ),
        lambda df: sf.earlier_values(
            df.withColumn("log_y", F.log("y")), ["x", "log_y"], order="ts", key="sensor"
        ),
    ),
    "columns that are resampled": (
        lambda df: sf.resample(
            df,
            every="2 s",
            order=df.ts,
            key=F.col("sensor"),
            fill="mean",
            columns=[F.col("x"), F.log("y").alias("log_y")],
        ),
        lambda df: sf.resample(
            df.withColumn("log_y", F.log("y")),
            every="2 s",
            order="ts",
            key="sensor",
            fill="mean",
            columns=["x", "log_y"],
        ),
    ),
    "attributes of alternatives, and a key of both frames": (
        lambda df: sf.similarity_join(
            uncertain(df), uncertain(df), on=F.col("x"), key=F.upper("sensor"), order="id", **WITHIN
        ),
        lambda df: sf.similarity_join(
            uncertain(df), uncertain(df), on="x", key="sensor", order="id", **WITHIN
        ),
    ),
    "options of several streams": (
        lambda df: sf.join_streams(
            {"a": df, "b": df}, on=(2 * F.col("x")).alias("d"), order=F.col("id"), **WITHIN
        ),
        lambda df: sf.join_streams(
            {of: df.withColumn("d", 2 * F.col("x")) for of in "ab"}, on="d", order="id", **WITHIN
        ),
    ),
    "keys of rows that are split": (
        lambda df: sf.split_invalid(df, F.col("x"), key=F.nullif("sensor", F.lit("a")))[1],
        lambda df: sf.split_invalid(
            df.withColumn("k", F.nullif("sensor", F.lit("a"))), "x", key="k"
        )[1].drop("k"),
    ),
    "attributes to impute": (
        lambda df: sf.impute(
            df, repository=df, dependencies="x -> y : 1 -> 1", attributes=F.col("y"), method="plain"
        ),
        lambda df: sf.impute(
            df, repository=df, dependencies="x -> y : 1 -> 1", attributes="y", method="plain"
        ),
    ),
}


def differing(df):
    """Return the cases in which objects and names give different columns or rows."""
    return [name for name, (one, other) in CASES.items() if shown(one(df)) != shown(other(df))]


def shown(frame):
    return frame.columns, frame.dtypes, sorted(map(str, frame.collect()))
