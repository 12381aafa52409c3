"""Plans of queries over static frames of 300 columns, in a separate process.

    python tests/wide_frames.py FOLDER    # prints the name of each query that is planned

A plan that grows with every column exhausts the memory of this process, not of the tests.
"""

import contextlib
import io
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf

COLUMNS = 300


def frames(spark: SparkSession, folder: str) -> dict[str, DataFrame]:
    """Return two frames with COLUMNS columns: from a file, and with a hash of all columns."""
    numbers = [f"double(id * {i} + 1) AS c{i}" for i in range(COLUMNS - 3)]
    times = ["timestamp_seconds(id) AS made", "timestamp_seconds(id + 1) AS arrival"]
    computed = spark.range(10).selectExpr("id", *times, *numbers)
    computed.limit(0).coalesce(1).write.mode("overwrite").parquet(folder)
    file = spark.read.parquet(folder)
    return {
        "file": file,
        "hashed": file.withColumn("hash", F.xxhash64("*")).where("id > 0"),
    }


def queries(df: DataFrame, past: DataFrame) -> dict[str, DataFrame]:
    """Return a query per function that reads frames, and some with two operators."""
    hour = sf.Range("1 hour")
    certain = F.array(F.struct(F.lit(1.0).alias("prob"), F.col("c1").cast("double").alias("x")))
    uncertain = df.withColumn("alternatives", certain)
    ordered = sf.reorder(df, event_time="made", arrival="arrival", slack=1)
    wide = {f"a{i}": f"sum(c{i})" for i in range(20)}
    pairs = {"on": "c1", "within": 1.0, "probability": 0.5, "window": sf.Rows(5)}
    many = {**pairs, "on": [f"c{i}" for i in range(20)]}
    counts = [
        sf.window_aggregate(of, {"n": "count(*)"}, window=hour, order="made", key="id")
        for of in (df, ordered)
    ]
    return {
        "reorder": ordered,
        "two operators": sf.earlier_values(ordered, "c1", order="made"),
        "two operators apart": sf.earlier_values(ordered.repartition(2), "c1", order="made"),
        "earlier_values": sf.earlier_values(df, "c1", order="made", key="id"),
        "window_aggregate": sf.window_aggregate(df, wide, window=hour, order="made"),
        "rows": sf.window_aggregate(df, {"n": "avg(c1)"}, window=sf.Rows(5), order="made"),
        "extent_join": sf.extent_join(*counts, key="id"),
        "similarity_join": sf.similarity_join(df, df, order="arrival", **pairs),
        "self_join": sf.self_join(df, order="arrival", **many),
        "top_k": sf.top_k(df, 3, by="c1", window=hour, order="made"),
        "impute": sf.impute(df, repository=past, dependencies="c1 -> c2 : 1 -> 1", attributes="c2"),
        "where": sf.where(uncertain, "x > 1"),
        "valid": sf.split_invalid(uncertain)[0],
        "invalid": sf.split_invalid(df, [f"c{i}" for i in range(20)])[1],
    }


def planned(df: DataFrame) -> str:
    """Return Spark's text of a query's plan."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        df.explain()
    return said.getvalue()


def main() -> None:
    """Plan every query over every frame."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    past = spark.createDataFrame([(1.0, 2.0), (2.0, 3.0)], "c1 double, c2 double")
    for of, df in frames(spark, str(Path(sys.argv[1], "wide"))).items():
        for name, found in queries(df, past).items():
            first = next(iter(found.columns))
            text = planned(found.where(F.col(f"`{first}`").isNotNull()))
            print(f"{of}: {name}" if "Physical Plan" in text else text, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
