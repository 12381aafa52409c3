"""Texts that only choose, name and compare columns, and those that do more."""

from __future__ import annotations

import pytest

from sfumato.spark.runtime.lineage import Selection
from sfumato.sql.planner.plain_selection import plain_selection
from sfumato.tables.reading.chain import Condition, Place


def test_columns_fields_counts_and_comparisons_are_plain():
    text = (
        "SELECT highway, s.window.end AS done, `aggregate0`.mean speed, "
        "CAST(aggregate1.mean AS BIGINT) AS n FROM {d0} AS `s` WHERE `aggregate0`.mean < 40 "
        "AND s.aggregate1.mean >= -2.5"
    )
    assert plain_selection(text) == Selection(
        {
            "highway": (("highway",), ""),
            "done": (("window", "end"), ""),
            "speed": (("aggregate0", "mean"), ""),
            "n": (("aggregate1", "mean"), "int64"),
        },
        (
            Condition(("aggregate0", "mean"), "<", 40.0),
            Condition(("aggregate1", "mean"), ">=", -2.5),
        ),
    )
    assert plain_selection("SELECT * FROM {d0} ") == Selection(None)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a + 1 AS b FROM {d0}",
        "SELECT a, a FROM {d0}",
        "SELECT upper(a) AS a FROM {d0}",
        "SELECT *, a AS b FROM {d0}",
        "SELECT CAST(a AS BIGINT) FROM {d0}",
        "SELECT CAST(a AS STRING) AS b FROM {d0}",
        "SELECT a FROM {d0} WHERE a < b",
        "SELECT a FROM {d0} WHERE a.mean < 4 OR b.mean > 2",
        "SELECT a FROM {d0} WHERE NOT a.mean < 4",
        "SELECT a FROM {d0} LIMIT 3",
        "SELECT a FROM {d0} ORDER BY a",
        "SELECT a FROM {d0} JOIN {d1}",
        "SELECT a FROM {d0} -- all of them",
    ],
)
def test_anything_else_is_not(text):
    assert plain_selection(text) is None


def test_words_before_columns_are_no_columns(spark):
    """`DISTINCT a` reads as a column called DISTINCT; there is none."""
    from sfumato.spark.runtime.lineage import Made, selected

    how = Made([], None, "m", columns={"a": Place(("key0",))}, order=())
    frame = spark.range(1).selectExpr("id AS a")
    chosen = plain_selection("SELECT DISTINCT a FROM {d0}")
    assert chosen is not None
    assert selected(how, frame, chosen) is None
    plain = plain_selection("SELECT a AS b FROM {d0}")
    assert plain is not None
    found = selected(how, frame, plain)
    assert found is not None
    assert found.columns == {"b": Place(("key0",))}
