"""On Spark, thresholds of 1 keep what is certain, and places out of range are invalid."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.local as sl

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
        wrong = sf.rejected(df, ["lon", "lat"], metric="haversine").orderBy("t")
        table = pa.Table.from_batches(df.toArrow().to_batches())
        mine = sl.rejected(table, ["lon", "lat"], metric="haversine").sort_by("t")
        assert [row.reason for row in wrong.collect()] == mine["reason"].to_pylist()
        assert [row.t for row in wrong.collect()] == [0, 1, 2]
        assert sf.checked(df, ["lon", "lat"], metric="haversine").count() == 2
