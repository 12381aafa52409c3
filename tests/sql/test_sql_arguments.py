"""An error about a function's argument points at the word that gave the argument."""

from datetime import timedelta
from importlib import import_module

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.language import explain, sql
from sql_readings import differing, error

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(spark):
    """Create streams `s` and `r` with attributes x and y, and a table without `arrival`."""
    columns = "id AS k, timestamp_seconds(id) AS ts, timestamp_seconds(id) AS arrival"
    alternatives = "array(named_struct('prob', 1D, 'x', 1D, 'y', 2D)) AS alternatives"
    stream = spark.range(3).selectExpr(*columns.split(", "), alternatives)
    for name, df in {"s": stream, "r": stream, "undated": stream.drop("arrival")}.items():
        df.createOrReplaceTempView(name)
    yield spark
    for name in ("s", "r", "undated"):
        spark.catalog.dropTempView(name)


# (options of the bracket, the underlined word, a part of the reason)
BRACKETS = [
    ("WATTR ts SLACK 10 DRATIO 1%", "1%", "DRATIO and SLACK cannot be combined"),
    ("WATTR ts MAX SLACK 10", "10", "SLACK"),
    ("WATTR ts MAX_DELAY 0 s", "0 s", "MAX_DELAY must be positive; got 0 s"),
    ("WATTR ts MAX_DELAY 1 min DRATIO 1%", "1%", "DRATIO and MAX_DELAY cannot be combined"),
    ("WATTR ts SLACK 1 SOURCE kk", "kk", "no column kk"),
    ("WATTR ts DRATIO 0", "0", "DRATIO must be a share in (0, 0.5]"),
    ("WATTR ts DRATIO 60%", "60%", "(0, 0.5], like 0.01 for 1%; got 60%"),
    ("WATTR ts SLACK -1", "-1", "SLACK must be at least 0"),
    ("WATTR ts SLACK 2.5", "2.5", "SLACK must be an integer number"),
    ("WATTR ts SLACK 1 BSIZE 0", "0", "BSIZE must be at least 1"),
    ("WATTR ts BSIZE_TOTAL 5 SOURCE k", "5", "BSIZE_TOTAL and SOURCE cannot be combined"),
    ("WATTR ts SLACK 1 IDLE 0 s", "0 s", "IDLE must be positive"),
    ("WATTR ts ESTIMATOR normal", "ESTIMATOR normal", "DRATIO"),
    (
        "WATTR ts DRATIO 1% ESTIMATOR conformel",
        "conformel",
        "conformel is not a known value of ESTIMATOR",
    ),
    ("WATTR alternatives SLACK 1", "WATTR alternatives", "WATTR must be a timestamp"),
    ("EARLIER k ORDER ts, k", "ORDER ts, k", "ORDER must be the name of one column"),
]


@pytest.mark.parametrize(("options", "word", "reason"), BRACKETS)
def test_a_bracket_that_cannot_be_says_which_word_and_why(tables, options, word, reason):
    found = error(tables, f"SELECT * FROM s [{options}]")
    assert (found.word, reason in found.reason) == (word, True), str(found)


JOINS = [
    ("WITHIN 0 PROBABILITY 0.5", "0", "WITHIN must be a positive"),
    ("WITHIN -1 PROBABILITY 0.5", "-1", "WITHIN must be a positive"),
    ("WITHIN 1 PROBABILITY 0", "0", "PROBABILITY must be a probability in (0, 1]"),
    ("WITHIN 1 PROBABILITY 150%", "150%", "got 150%"),
    ("WITHIN 1 PROBABILITY 0.5 USING indx", "indx", "indx is not a known value of USING"),
    ("WITHIN 1 PROBABILITY 0.5 OUTPUT change", "change", "change is not a known value of OUTPUT"),
    ("WITHIN 1 PROBABILITY 0.5 USING SORT", "USING SORT", "USING"),
    ("WITHIN 1 PROBABILITY 0.5 IDLE 5 s", "5 s", "IDLE needs punctuations on both sides"),
    ("WITHIN far PROBABILITY 0.5", "WITHIN far", "WITHIN names a radius column `far`"),
    (
        "WITHIN a.id PROBABILITY 0.5",
        "a.id",
        "WITHIN must name a radius column of one or both sides",
    ),
]


@pytest.mark.parametrize(("options", "word", "reason"), JOINS)
def test_a_join_that_cannot_be_says_which_word_and_why(tables, options, word, reason):
    found = error(tables, f"SELECT * FROM s a [ROWS 5] SIMILARITY JOIN r b ON (x, y) {options}")
    assert (found.word, reason in found.reason) == (word, True), str(found)


FORGETTING = {  # with FORGET or without, and with `forget_after`
    "SELECT arrival, SUM(v) AS n FROM gaps [ROWS 9{}] GROUP BY room":
        lambda df, **of: sf.window_aggregate(
            df, {"n": "sum(v)"}, window=sf.Rows(9), **of
        ).select("arrival", "n"),
    "SELECT arrival, earlier_v FROM gaps [EARLIER v KEY room{}]":
        lambda df, **of: sf.earlier_values(df, "v", **of).select("arrival", "earlier_v"),
    "SELECT COUNT(*) AS n FROM gaps [RANGE 1 DAY WATTR arrival{}] GROUP BY room":
        lambda df, **of: sf.window_aggregate(
            df, {"n": "count(*)"}, window=sf.Range("1 day"), **of
        ).select("n"),
    "SELECT TOP 3 v FROM gaps [RANGE 150 MIN WATTR arrival{}] GROUP BY room RANK BY v "
    "FREQUENCY 1 h":
        lambda df, **of: sf.top_k(
            df, sf.Top(3, every="1 hour"), by="v", window=sf.Range("150 minutes"), **of
        ).select("row.v"),
    "SELECT a.arrival FROM gaps a [ROWS 9 ORDER arrival{}] SIMILARITY JOIN gaps b ON (v) WITHIN 9 "
    "PROBABILITY 1 AND a.room = b.room": lambda df, **of: sf.similarity_join(
        df, df, on="v", within=9, probability=1, window=sf.Rows(9), **of
    ).select("left.arrival"),
}  # fmt: skip


def test_keys_are_forgotten_as_by_the_function(tables):
    columns = ("1 AS room", "timestamp_seconds(id * 3600) AS arrival", "id * 1D AS v")
    gaps = tables.range(4).selectExpr(*columns)
    gaps.createOrReplaceTempView("gaps")
    of = {"order": "arrival", "key": "room"}
    cases = {
        text.format(words): build(gaps, forget_after=after, **of)
        for text, build in FORGETTING.items()
        for words, after in (("", None), (" FORGET 30 min", "30 minutes"))
    }
    assert differing(tables, cases) == []
    controlled = "SELECT v FROM gaps [WATTR arrival SLACK 1 KEY room FORGET 30 min]"
    assert "forget_after  30 min" in explain(tables, controlled)
    for query in (
        "SELECT * FROM s [WATTR ts MAX FORGET 1 day]",
        "SELECT COUNT(*) AS n FROM s [ROWS 5 FORGET 1 day]",
        "SELECT TOP 1 * FROM s [ROWS 5 FORGET 1 day] RANK BY x FREQUENCY 1 s",
    ):
        found = error(tables, query)
        assert (found.word, "FORGET needs a" in str(found)) == ("1 day", True), query


def test_a_column_that_is_taken_for_lack_of_a_word_is_asked_for_where_it_is_missing(tables):
    for options, reason, expected in (
        ("SLACK 1", "undated has no column `event_time`", "WATTR column"),
        ("WATTR ts SLACK 1", "name the arrival column", "ARRIVAL column"),
    ):
        found = error(tables, f"SELECT * FROM undated [{options}]")
        assert (reason in found.reason, found.expected) == (True, (expected,))


def test_the_repository_of_an_imputed_table_is_read_once(tables, monkeypatch):
    from sfumato.api.imputation import Imputation

    read = []
    prepare = Imputation.prepare
    monkeypatch.setattr(
        Imputation, "prepare", lambda self, spark: read.append(1) or prepare(self, spark)
    )
    tables.range(3).select(
        F.timestamp_seconds("id").alias("ts"), F.col("id").cast("double").alias("v"), "id"
    ).createOrReplaceTempView("gaps")
    sql(
        tables,
        "SELECT AVG(v) FROM gaps [RANGE 1 hour WATTR ts] IMPUTE (v) FROM gaps "
        "BY 'id -> v : 0.1 -> 0.5' GROUP BY id",
    )
    assert len(read) == 1


def test_joins_of_extents_forget_and_wait_as_the_functions(tables, monkeypatch):
    columns = ("1 AS k", "timestamp_seconds(id * 3600) AS arrival", "id * 1D AS v")
    tables.range(4).selectExpr(*columns).createOrReplaceTempView("hours")
    given = []

    def noted(*frames, **arguments):
        given.append((arguments["forget_after"], arguments["idle_timeout"]))
        return sf.extent_join(*frames, **arguments)

    monkeypatch.setattr(import_module("sfumato.language.joins"), "extent_join", noted)
    window = "hours [RANGE 30 min WATTR arrival SLACK 1 KEY k{}]"
    joins = ("", "JOIN", ""), (" FORGET 3 h IDLE 1 h", "INNER JOIN", " FORGET 5 h")
    for words, join, others in joins:
        left, right = window.format(words), window.format(others)
        query = f"SELECT a.v AS v FROM {left} a {join} {right} b ON a.k = b.k"
        assert sorted(row.v for row in sql(tables, query).collect()) == [0.0, 1.0, 2.0, 3.0]
    assert given == [(None, None), (timedelta(hours=5), timedelta(hours=1))]
    bare = "hours [RANGE 30 min WATTR arrival FORGET 1 day]"
    found = error(tables, f"SELECT a.v FROM {bare} a JOIN {bare} b ON a.k = b.k")
    assert (found.word, "FORGET needs a" in str(found)) == ("1 day", True)
