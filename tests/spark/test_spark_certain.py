"""On Spark, thresholds of 1 keep what is certain, and places out of range are invalid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
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


def test_places_out_of_range_are_invalid_in_joins_as_in_memory(spark):
    rows = [(0, 181.0, 91.0), (1, 181.0, 91.0), (2, 21.3, -157.9), (3, 10.0, 20.0), (4, 10.0, 20.0)]
    plain = spark.createDataFrame(rows, "t long, lon double, lat double")
    several = plain.selectExpr(
        "t", "array(named_struct('prob', 1.0D, 'lon', lon, 'lat', lat)) AS alternatives"
    )
    how = {"metric": "haversine", "within": 500.0, "probability": 1.0, "order": "t"}
    for df in (plain, several):
        found = sf.self_join(df, on=["lon", "lat"], window=sf.Rows(9), **how).collect()
        assert [(row.left.t, row.right.t) for row in found] == [(4, 3)]
        wrong = sf.split_invalid(df, ["lon", "lat"], metric="haversine")[1].orderBy("t")
        table = pa.Table.from_batches(df.toArrow().to_batches())
        mine = sf.split_invalid(table, ["lon", "lat"], metric="haversine")[1].sort_by("t")
        assert [row.reason for row in wrong.collect()] == mine["reason"].to_pylist()
        assert [row.t for row in wrong.collect()] == [0, 1, 2]
        assert sf.split_invalid(df, ["lon", "lat"], metric="haversine")[0].count() == 2


def test_rules_above_one_are_rejected_or_rescaled_as_in_memory(spark):
    rows = [(0, "a", 3.0, 0.9), (1, "a", 9.0, 0.9), (2, "b", 5.0, 0.5), (3, "a", 4.0, 0.1)]
    df = spark.createDataFrame(rows, "t long, berg string, days double, existence double")
    wrong = sf.split_invalid(df, exclusive="berg", order="t")[1].collect()
    assert [(row.t, row.reason) for row in wrong] == [
        (1, "with it the probabilities of its rule sum to 1.8")
    ]
    table = pa.Table.from_batches(df.toArrow().to_batches())
    assert sf.split_invalid(table, exclusive="berg", order="t")[1].to_pylist() == [
        r.asDict() for r in wrong
    ]
    assert sf.split_invalid(df, exclusive="berg", order="t")[0].count() == 3
    how = {"by": "days", "window": sf.Range("1 hour"), "order": "t", "exclusive": "berg"}
    found = sf.top_k(df, 4, rescale=True, **how).collect()
    mine = sf.top_k(table, 4, rescale=True, **how).to_pylist()
    assert [(r.row.t, r.probability) for r in found] == [
        (r["row"]["t"], r["probability"]) for r in mine
    ]
    df.withColumn("event_time", F.timestamp_micros("t")).createOrReplaceTempView("bergs_s")
    text = "SELECT TOP 4 t FROM bergs_s [RANGE 1 HOUR] RANK BY days RULES berg RESCALE"
    assert [r.t for r in sf.sql(spark, text).collect()] == [r.row.t for r in found]
    assert "berg; scaled where they sum to more than 1" in sf.explain(spark, text)
    with pytest.raises(ValueError, match="`exclusive` needs `order`"):
        sf.split_invalid(df, exclusive="berg")
    streaming = spark.readStream.format("rate").load().selectExpr("value AS t", "'a' AS berg")
    with pytest.raises(ValueError, match="`exclusive` needs a static frame"):
        sf.split_invalid(streaming, exclusive="berg", order="t")


def test_a_join_that_imputes_takes_a_distance_for_each_attribute_as_in_memory(spark):
    rng = np.random.default_rng(3)
    known = [(float(h), float(np.round(0.3 * h + e, 1))) for h, e in rng.normal(50, 9, (200, 2))]
    rows = [(i, *((h, c), (None, c), (h, None))[i % 3]) for i, (h, c) in enumerate(known[:30])]
    repository = spark.createDataFrame(known, "h double, c double")
    df = spark.createDataFrame(rows, "t long, h double, c double")
    table = pa.Table.from_batches(df.toArrow().to_batches())
    how = {"dependencies": "h -> c : 0.2 -> 0.2", "attributes": ["h", "c"]}
    asked = {
        "on": ["h", "c"], "within": {"h": 4.0, "c": 2.0}, "probability": 0.3,
        "window": sf.Rows(9), "order": "t",
    }  # fmt: skip
    found = sf.similarity_join(df, df, impute=how | {"repository": repository}, **asked).collect()
    kept = pa.Table.from_batches(repository.toArrow().to_batches())
    mine = sf.similarity_join(table, table, impute=how | {"repository": kept}, **asked).to_pylist()
    expected = {(row["left"]["t"], row["right"]["t"]): row["probability"] for row in mine}
    assert len(expected) > 10
    assert {(r.left.t, r.right.t): r.probability for r in found} == pytest.approx(expected)
    for name, frame in (("incomplete_s", df), ("known_s", repository)):
        frame.createOrReplaceTempView(name)
    bracket = "[ROWS 9 ORDER t] {} IMPUTE (h, c) FROM known_s BY 'h -> c : 0.2 -> 0.2'"
    text = (
        f"SELECT a.t, b.t AS other FROM incomplete_s {bracket.format('a')} "
        f"SIMILARITY JOIN incomplete_s {bracket.format('b')} "
        "ON (h, c) WITHIN (4, 2) PROBABILITY 0.3"
    )
    assert {(r.t, r.other) for r in sf.sql(spark, text).collect()} == set(expected)
