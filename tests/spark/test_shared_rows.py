"""Spark's frames say whether rows may share tuples: the warning, and EXPLAIN."""

from __future__ import annotations

import pytest

import sfumato as sf

pytestmark = pytest.mark.spark
INDEPENDENT = "rows are taken as independent, but {} may share tuples"


@pytest.fixture(scope="module")
def readings(spark):
    columns = ("id", "timestamp_seconds(id) AS at", "id % 2 / 1D AS x", "0.5D AS existence")
    return spark.range(6).selectExpr(*columns)


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
