"""A join's window by time over times beyond 2**60 microseconds: invalid rows, not its end."""

from __future__ import annotations

import pytest

import sfumato as sf

pytestmark = pytest.mark.spark
TIMES = {
    "whole microseconds": ("t", "4611686018427387904"),
    "timestamps": ("timestamp_micros(t)", "timestamp_micros(4611686018427387904)"),
    "without a time zone": (
        "cast(timestamp_micros(t) AS timestamp_ntz)",
        "timestamp_ntz'+39000-01-01 00:00:00'",
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_a_time_beyond_the_range_is_an_invalid_row(spark, kind):
    near, far = TIMES[kind]
    rows = spark.sql("SELECT id, 10 + id AS t, 1.0D AS x FROM range(3)")
    df = rows.selectExpr("id", f"CASE WHEN id = 2 THEN {far} ELSE {near} END AS at", "x")
    join = {"on": "x", "within": 0.5, "probability": 0.5, "window": sf.Range("5 us")}
    pairs = sf.similarity_join(df, df, order="at", **join).selectExpr("left.id", "right.id AS of")
    assert sorted(map(tuple, pairs.collect())) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    alone = sf.self_join(df, order="at", **join)
    assert [(row.left.id, row.right.id) for row in alone.collect()] == [(1, 0)]
