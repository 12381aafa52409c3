"""A new construct is words, a function and what EXPLAIN says; the rest follows."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from sfumato.sql import SqlError, explain, sql
from sfumato.sql.constructs.registered import CONSTRUCTS
from sfumato.sql.explanation.wording import per_key
from sfumato.sql.plan.bracket import FunctionBracket
from sfumato.sql.text.words import Word

pytestmark = pytest.mark.spark


def above(df, least, *, of):
    if least < 0:
        raise ValueError(f"`least` must be at least 0; got {least}")
    return df.where(F.col(of) > least)


ABOVE = FunctionBracket(
    words=(Word("ABOVE", "number", "least"), Word("OF", "names", "of", default="arrival")),
    function=above,
    title=lambda given: f"rows above {given['least']}",
    lines=lambda given: [("rows", per_key(given["of"], "all"))],
)


@pytest.fixture
def tables(spark, monkeypatch):
    spark.range(5).withColumn("arrival", F.col("id")).createOrReplaceTempView("s")
    monkeypatch.setattr(CONSTRUCTS.brackets, "listed", [*CONSTRUCTS.brackets.listed, ABOVE])
    yield spark
    spark.catalog.dropTempView("s")


def test_its_words_call_its_function(tables):
    assert [row.id for row in sql(tables, "SELECT id FROM s [ABOVE 2 OF id]").collect()] == [3, 4]
    assert sql(tables, "SELECT id FROM s [ABOVE 3] t WHERE t.id > 1").count() == 1


def test_explain_has_its_lines(tables):
    plan = explain(tables, "SELECT id FROM s [OF id ABOVE 2]")
    assert "rows above 2\n            rows  one a value of (id), in parallel" in plan


@pytest.mark.parametrize(
    ("bracket", "word", "reason", "suggestion"),
    [
        ("ABOVE -1", "-1", "ABOVE must be at least 0; got -1", None),
        ("ABOVE 1 OF idd", "idd", "s has no column idd", "id"),
        ("ABVE 1", "ABVE", "ABVE is not expected in a window", "ABOVE"),
        ("ABOVE 1 ABOVE 2", "2", "ABOVE is given twice", None),
        ("ABOVE 1 SLACK 2", "SLACK 2", "take ABOVE in a subquery first", None),
    ],
)
def test_what_is_wrong_is_told_at_its_place(tables, bracket, word, reason, suggestion):
    with pytest.raises(SqlError) as caught:
        sql(tables, f"SELECT id FROM s [{bracket}]")
    found = caught.value
    assert (found.word, found.suggestion) == (word, suggestion)
    assert reason in found.reason
