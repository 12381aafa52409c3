"""Spark's frames say whether rows may share tuples: the warning, and EXPLAIN."""

from __future__ import annotations

import warnings

import pytest

import sfumato as sf
from handed_on import handed_on

pytestmark = pytest.mark.spark
COUNT = {"window": sf.Rows(3), "order": "at"}
INDEPENDENT = "rows are taken as independent, but {} may share tuples"


@pytest.fixture(scope="module")
def readings(spark):
    columns = ("id", "timestamp_seconds(id) AS at", "id % 2 / 1D AS x", "0.5D AS existence")
    return spark.range(6).selectExpr(*columns)


def pairs_of(readings):
    near = {"on": "x", "within": 0.5, "probability": 0.1, "window": sf.Rows(5), "order": "at"}
    return sf.similarity_join(readings, readings, **near)


def test_operators_over_pairs_and_rankings_and_overlapping_windows_warn(readings):
    pairs = pairs_of(readings)
    best = sf.top_k(readings, 1, by="x", window=sf.Range("4 s", slide="2 s"), order="at")
    sums = handed_on(
        sf.window_aggregate(
            readings, {"total": "sum(x)"}, window=sf.Rows(3), order="at", distribution=4
        ),
        "total",
    )
    for rows, said in (
        (pairs.select("alternatives", "left.at"), "pairs of a join"),
        (pairs.selectExpr("probability AS existence", "left.at"), "pairs of a join"),
        (sf.where(pairs, "left_x > 0").select("alternatives", "left.at"), "pairs of a join"),
        (best.selectExpr("probability AS existence", "time AS at"), "answers of a ranking"),
        (sums, "answers of overlapping windows"),
    ):
        with pytest.warns(sf.errors.IndependenceWarning, match=INDEPENDENT.format(said)) as caught:
            sf.window_aggregate(rows, {"n": "count(*)"}, **COUNT)
        assert caught[0].filename == __file__
    with pytest.warns(sf.errors.IndependenceWarning, match=INDEPENDENT.format("pairs of a join")):
        sf.self_join(
            pairs.select("alternatives", "left.at"), on="left_x", within=1.0, probability=0.1,
            window=sf.Rows(3), order="at",
        )  # fmt: skip


def test_other_rows_are_taken_without_a_warning(readings):
    sums = handed_on(
        sf.window_aggregate(
            readings, {"total": "sum(x)"}, window="2 s", order="at", distribution=4
        ),
        "total",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", sf.errors.IndependenceWarning)
        for rows in (readings, sums.selectExpr("alternatives", "window.end AS at")):
            sf.window_aggregate(rows, {"n": "count(*)"}, **COUNT)
        pairs_of(readings)


def test_explain_says_that_rows_are_taken_as_independent(spark, readings):
    pairs = (
        "(SELECT a.at AS at, alternatives FROM s [ROWS 5 ORDER at] a SIMILARITY JOIN s b "
        "ON (x) WITHIN 0.5 PROBABILITY 0.1) [RANGE 10 s WATTR at]"
    )
    said = INDEPENDENT.format("pairs of a join")
    with pytest.warns(sf.errors.IndependenceWarning, match=said):
        plan = sf.explain(spark, f"SELECT COUNT(*) FROM {pairs}", s=readings)
    assert said in plan
    with pytest.warns(sf.errors.IndependenceWarning, match=said):
        plan = sf.explain(
            spark, f"SELECT TOP 2 * FROM {pairs} RANK BY left_x FREQUENCY 5 s", s=readings
        )
    assert said in plan
    alone = sf.explain(spark, "SELECT COUNT(*) FROM s [RANGE 10 s WATTR at]", s=readings)
    assert "independent, but" not in alone
