"""Thresholds of 1 keep only certain tuples, and rules above one are scaled, on Spark."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf

pytestmark = pytest.mark.spark

FEW = "array<struct<prob: double, x: double>>"


def test_prob_of_an_event_of_every_world_is_one_in_sql(spark):
    rows = [(i, [(1 / n, float(x)) for x in range(n)]) for i, n in enumerate((3, 7, 10, 49))]
    spark.createDataFrame(rows, f"t long, alternatives {FEW}").createOrReplaceTempView("certain_s")
    text = (
        "SELECT PROB(AVG(x) > -1) AS p FROM certain_s [ROWS 1 CONFIDENCE 100% ORDER t] "
        "HAVING PROB(AVG(x) > -1) >= 1"
    )
    found = sf.sql(spark, text + " AND PROB(AVG(x) > -1) = 1").collect()
    assert [row.p for row in found] == [1.0] * 4


def test_rules_above_one_are_rescaled_in_sql_and_need_an_order_and_all_rows(spark):
    rows = [(0, "a", 3.0, 0.9), (1, "a", 9.0, 0.9), (2, "b", 5.0, 0.5), (3, "a", 4.0, 0.1)]
    df = spark.createDataFrame(rows, "t long, berg string, days double, existence double")
    how = {"by": "days", "window": sf.Range("1 hour"), "order": "t", "exclusive": "berg"}
    found = sf.top_k(df, 4, rescale=True, **how).collect()
    df.withColumn("event_time", F.timestamp_micros("t")).createOrReplaceTempView("bergs_s")
    text = "SELECT TOP 4 t FROM bergs_s [RANGE 1 HOUR] RANK BY days RULES berg RESCALE"
    assert [r.t for r in sf.sql(spark, text).collect()] == [r.row.t for r in found]
    lines = [line.split() for line in sf.explain(spark, text).splitlines()]
    assert ["exclusive", "berg"] in lines
    assert ["rescale", "True"] in lines
    with pytest.raises(ValueError, match="`exclusive` needs `order`"):
        sf.split_invalid(df, exclusive="berg")
    streaming = spark.readStream.format("rate").load().selectExpr("value AS t", "'a' AS berg")
    with pytest.raises(ValueError, match="`exclusive` needs a static frame"):
        sf.split_invalid(streaming, exclusive="berg", order="t")
