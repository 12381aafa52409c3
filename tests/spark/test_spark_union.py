"""`sf.union` on Spark: static and streaming frames, SQL, and rows that share readings."""

import pytest

import sfumato as sf
from sfumato.language import sql

pytestmark = pytest.mark.spark
SUM = {"aggregates": {"s": "sum(x)"}, "window": sf.Range("100 us"), "order": "at"}


@pytest.fixture(scope="module")
def rows(spark):
    ids = spark.range(4).selectExpr("id", "id AS at")
    return ids.withColumn("alternatives", sf.samples("id", 1.0, 2, attributes="x"))


def test_parts_of_the_same_rows_are_refused_whichever_comes_first(rows):
    plain = rows.selectExpr("id + 10 AS id", "at + 10 AS at", "alternatives")
    low, high = sf.where(rows, "x < 1"), sf.where(rows, "x >= 1")
    for parts in ((rows, rows), (low, high), (low, rows), (rows, low)):
        with pytest.raises(ValueError, match="parts contain the same readings"):
            sf.window_aggregate(sf.union(*parts), **SUM)
    best = sf.top_k(rows, 1, by="x", window=sf.Range("9 us", slide="1 us"), order="at")
    best = best.selectExpr("time AS at", "probability AS existence")
    scored = rows.selectExpr("at + 10 AS at", "0.5D AS existence")
    for parts in ((scored, best), (best, scored)):
        with pytest.raises(ValueError, match="ranking"):
            sf.window_aggregate(
                sf.union(*parts), {"n": "count(*)"}, window=sf.Range("100 us"), order="at"
            )
    assert sf.window_aggregate(sf.union(rows, plain), **SUM).first().s.mean == 12.0


def test_a_union_of_the_same_rows_is_refused_in_sql(spark, rows):
    with pytest.raises(ValueError, match="parts contain the same readings"):
        sql(spark, "SELECT SUM(x) AS s FROM union(r, r) [RANGE 100 us WATTR at]", r=rows)


def test_columns_of_a_union_have_no_order(rows):
    answers = sf.window_aggregate(rows, **{**SUM, "window": sf.Range("2 us")})
    found = sf.union(answers, answers)
    kept = {name: found.schema[name].metadata for name in found.columns}
    assert not any(
        "sfumato.controlled_by" in of or "sfumato.grouped_by" in of for of in kept.values()
    )
    ordered = sf.reorder(rows, event_time="at", arrival="at", slack=1)
    with pytest.raises(ValueError, match=r"apply sf\.reorder to the union"):
        sf.union(ordered, ordered)
