"""Window aggregates on Spark: result types, invalid rows, errors, and a real trace."""

from datetime import datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.spark.runtime.fuse import describe_fusion

pytestmark = pytest.mark.spark


def test_results_of_certain_rows_have_the_types_of_sql(spark):
    columns = ("id", "CAST(id AS SMALLINT) AS small", "CAST(id AS DECIMAL(9, 2)) / 4 AS price")
    local = "TIMESTAMP_NTZ'2026-01-01 00:00:00.000001' + make_dt_interval(id) AS local"
    df = spark.range(3).selectExpr(*columns, "timestamp_seconds(id) AS ts", "id > 0 AS up", local)
    asked = {
        "n": "count(*)", "known": "count(nullif(id, 0))", "kinds": "count(DISTINCT id % 2)",
        "total": "sum(id)", "large": "sum(9007199254740993 + id)", "paid": "sum(price)",
        "twice": "sum(2 * price)", "mean": "mean(id)", "spread": "stddev(id)", "v": "var(small)",
        "least": "min(small)", "most": "max(price)", "newest": "last(ts)", "oldest": "first(id)",
        "any": "max(up)", "half": "quantile(id, 0.5)", "double": "max(2D * id)",
        "date": "max(local)", "next": "max(local + make_dt_interval(1))",
        "days": "count(DISTINCT local)",
    }  # fmt: skip
    sums = df.selectExpr("sum(price) AS paid", "sum(2 * price) AS twice")
    for window, order in ((sf.Rows(3), "id"), (sf.Range("1 minute"), "ts")):
        out = sf.window_aggregate(df, asked, window=window, order=order)
        kinds = {name: out.schema[name].dataType.simpleString() for name in asked}
        assert kinds == {
            "n": "bigint", "known": "bigint", "kinds": "bigint", "total": "bigint",
            "large": "bigint", "paid": sums.schema["paid"].dataType.simpleString(),
            "twice": sums.schema["twice"].dataType.simpleString(),
            "mean": "double", "spread": "double", "v": "double", "least": "smallint",
            "most": df.schema["price"].dataType.simpleString(), "newest": "timestamp",
            "oldest": "bigint", "any": "boolean", "half": "double", "double": "double",
            "date": "timestamp_ntz", "next": "timestamp_ntz", "days": "bigint",
        }  # fmt: skip
        row = out.collect()[-1].asDict()
        found = {name: row[name] for name in asked}
        assert found == {
            "n": 3, "known": 2, "kinds": 2, "total": 3, "large": 3 * 2**53 + 6,
            "paid": Decimal("0.75"), "twice": Decimal("1.5"), "mean": 1.0, "spread": 1.0, "v": 1.0,
            "least": 0, "most": Decimal("0.5"), "newest": df.collect()[-1].ts, "oldest": 0,
            "any": True, "half": 1.0, "double": 4.0, "date": datetime(2026, 1, 3, 0, 0, 0, 1),
            "next": datetime(2026, 1, 4, 0, 0, 0, 1), "days": 3,
        }  # fmt: skip


def test_groups_across_controllers_are_refused_with_the_way_out(spark):
    times = ("id AS k", "timestamp_seconds(id) AS ts", "timestamp_seconds(id) AS arrival")
    df = spark.range(2).selectExpr(*times)
    ordered = sf.reorder(df, event_time="ts", arrival="arrival", key="k", slack=1)
    with pytest.raises(ValueError, match="add k to `key`, or reorder without a key"):
        sf.window_aggregate(ordered, {"n": "count(*)"}, window=sf.Range("1 minute"), order="ts")


def test_extents_of_a_real_disordered_trace_equal_the_batch_answer_over_rows_in_time(
    spark, data_folder
):
    rows = (
        spark.read.parquet(str(data_folder / "ooo_dataset_d.parquet"))
        .where("session in ('d-2', 'd-3')")
        .select("session", "event_time", "arrival_time", "content_length")
    )
    ordered = sf.reorder(
        rows, event_time="event_time", arrival="arrival_time", key="session",
        drop_ratio=0.01, estimator="conformal",
    )  # fmt: skip
    out = sf.window_aggregate(
        ordered,
        {"n": "count(*)", "mean": "avg(content_length)"},
        window=sf.Range("20 seconds", slide="5 seconds"),
        order="event_time",
        key="session",
    )
    kept = ordered.where("not late")
    total, late = rows.count(), ordered.where("late").count()
    assert kept.count() + late == total
    assert 0 < late <= 0.0105 * total

    extents = ordered.select("*", F.window("event_time", "20 seconds", "5 seconds"))
    in_time = extents.where("not late or window.end > punctuation + interval 1 microsecond")
    batch = in_time.groupBy("session", "window").agg(
        F.count("*").alias("count"), F.avg("content_length").alias("average")
    )
    both = out.join(batch, ["session", "window"], "full").select(
        F.count("*").alias("extents"),
        F.count_if(~F.col("n").eqNullSafe(F.col("count"))).alias("wrong"),
        F.max(F.abs(F.col("mean") - F.col("average")) / F.col("average")).alias("error"),
        F.max("late").alias("late"),
    )
    found = both.first()
    assert found["extents"] > 100
    assert found["wrong"] == 0
    assert found["error"] < 1e-9
    assert found["late"] <= late


CONDITIONS = (
    "sum(10 / i) FILTER (WHERE i <> 0)",
    "sum(CASE WHEN i = 0 THEN 0 WHEN 4e0 / i > 1 THEN 4e0 / i END)",
    "count_if(i <> 0 AND 1e0 / i > 0.3e0)",
    "count_if(i = 0 OR 1e0 / i > 0.3e0)",
    "sum(coalesce(d, 1e0 / i)) FILTER (WHERE i <> 0)",
    "sum(if(b, NULL, i))",
    "count_if(NOT b OR s = 'a')",
    "sum(CASE s WHEN 'a' THEN 1 WHEN 'b' THEN i ELSE NULL END)",
    "max(if(s IS NULL, d, -d)) FILTER (WHERE i > -2)",
    "count(s) FILTER (WHERE b)",
    "count_if(coalesce(s, 'z') IN ('a', 'z'))",
    "count_if(i + 1 > 0 AND (s = 'a' OR d * 2 > 1))",
)


def test_conditions_select_the_rows_that_they_select_in_spark(spark):
    df = spark.range(40).selectExpr(
        "timestamp_seconds(id) AS ts", "timestamp_seconds(id) AS arrival", "id % 5 - 2 AS i",
        "if(id % 7 = 0, null, id / 3D - 2) AS d", "array('a', 'b', null)[id % 3] AS s",
        "if(id % 4 = 0, null, id % 4 = 1) AS b",
    )  # fmt: skip
    asked = {f"r{number}": text for number, text in enumerate(CONDITIONS)}
    how = {"window": "10 seconds", "order": "ts"}
    control = {"event_time": "ts", "arrival": "arrival", "slack": 2}
    found = sf.window_aggregate(sf.reorder(df, **control), asked, **how)
    assert "sfumato_reorder" in describe_fusion(found)  # Arrow computes all of them
    assert "separate" not in describe_fusion(found)
    in_memory = sf.window_aggregate(sf.reorder(df.toArrow(), **control), asked, **how)
    setting = "spark.sql.subexpressionElimination.enabled"  # computes 1 / i before its condition
    spark.conf.set(setting, "false")
    try:
        own = [
            F.expr(f"coalesce({text}, 0)" if text.startswith("sum") else text).alias(name)
            for name, text in asked.items()
        ]
        rows = df.groupBy(F.window("ts", "10 seconds")).agg(*own).orderBy("window")
        expected = [row.asDict() for row in rows.select(*asked).collect()]
    finally:
        spark.conf.unset(setting)
    assert in_memory.select(list(asked)).to_pylist() == [
        row.asDict() for row in found.select(*asked).collect()
    ]
    for ours, theirs in zip(in_memory.to_pylist(), expected, strict=True):
        assert {name: ours[name] for name in asked} == pytest.approx(theirs)
