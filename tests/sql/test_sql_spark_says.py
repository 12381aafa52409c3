"""The language on Spark: errors that point at words of real tables, and explanations."""

import pytest
from pyspark.errors import AnalysisException

import sfumato as sf
from sfumato.language import explain, sql
from sql_readings import JOIN, NEAR, error

pytestmark = pytest.mark.spark

# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word", "suggestion"),
    [
        ("SELECT *\nFROM plian", "plian", "plain"),
        ("SELECT *\nFROM plian [WATTR id SLACK 3]", "plian", "plain"),
        ("SELECT EXPECTED(x)\nFROM plian", "plian", "plain"),
        ("WITH common AS (SELECT 1) SELECT *\nFROM comon [WATTR id SLACK 3]", "comon", "common"),
        ("SELECT *\nFROM s [WATTR ts MAX ARRIVAL arival]", "arival", "arrival"),
        ("SELECT *\nFROM s [WATTR ts MAX KEY (id, senor)]", "senor", "sensor"),
        ("SELECT id FROM plain\nWHERE idd > 3", "idd", "id"),
        ("SELECT id FROM s [WATTR ts MAX]\nORDER BY s.sensr", "sensr", "sensor"),
        ("SELECT id FROM s\nWHERE x > 3 AND senso = 'a'", "senso", "sensor"),
        (
            "SELECT a.id FROM s a [ROWS 5] SIMILARITY JOIN r\nON (xx) WITHIN 1 PROBABILITY 1",
            "xx",
            "x",
        ),
        (
            f"SELECT a.id FROM s a [ROWS 5] SIMILARITY JOIN r b {NEAR}\nAND a.sensr = b.sensor",
            "a.sensr",
            "sensor",
        ),
        (f"SELECT a.idd,\na.senor FROM s a [ROWS 5] SIMILARITY JOIN r b {NEAR}", "idd", "id"),
        ("SELECT EXPECTED(\nxx) FROM s", "xx", "x"),
        ("SELECT\nEXPECTD(x) FROM s", "EXPECTD", "EXPECTED"),
    ],
)
def test_unknown_names_are_pointed_at_with_the_likely_one(tables, text, word, suggestion):
    found = error(tables, text)
    assert (found.word, found.suggestion) == (word, suggestion)
    assert found.line == (1 if word == "idd" and "a.idd" in text else 2)


@pytest.mark.parametrize(
    ("text", "word", "reason"),
    [
        ("SELECT DISTINCT id FROM s [RANGE 1 s WATTR ts]", "DISTINCT", "each extent"),
        (
            "SELECT * FROM s [RANGE 1 s WATTR ts] LEFT JOIN r [RANGE 1 s WATTR ts] ON TRUE",
            "ON",
            "accepts only equal keys",
        ),
        (
            "SELECT * FROM s [RANGE 1 s WATTR ts] LEFT JOIN r [RANGE 1 s WATTR ts]",
            "r [RANGE 1 s WATTR ts]",
            "accepts only equal keys",
        ),
        (
            "SELECT * FROM s [RANGE 1 s WATTR ts] a SIMILARITY JOIN r [RANGE 1 s WATTR ts] b "
            f"{NEAR} AND a.sensor = b.id",
            "b.id",
            "a key must have the same name on both sides",
        ),
        (
            "SELECT * FROM s [RANGE 1 s WATTR ts] SIMILARITY JOIN r [RANGE 1 s WATTR ts] "
            f"{NEAR} AND sensor = sensor",
            "sensor",
            "needs the name of its table",
        ),
        (
            "SELECT * FROM s [RANGE 1 s WATTR ts] LEFT SEMI JOIN r [RANGE 1 s WATTR ts] ON TRUE",
            "LEFT",
            "a join of windows must be inner or outer",
        ),
        ("SELECT * FROM s [ROWS 5]", "[ROWS 5]", "SIMILARITY JOIN"),
        ("SELECT * FROM s [DELTA 5 ON x]", "[DELTA 5 ON x]", "needs an aggregate"),
        ("SELECT AVG(x) FROM s [DELTA 5 ON z]", "z", "has no column z"),
        (
            "SELECT MEDIAN(x) FROM s [ROWS 5] GROUP BY sensor",
            "MEDIAN",
            "not supported over windows",
        ),
        ("SELECT AVG(EXPECTED(x)) FROM s [ROWS 5]", "EXPECTED", "in a subquery"),
        ("SELECT AVG(x) FROM s [ROWS 5] GROUP BY id + 1", "id", "GROUP BY accepts only columns"),
        ("SELECT AVG(x) FROM s [ROWS 5] GROUP BY senser", "senser", "has no column"),
        (
            "SELECT AVG(s.x) FROM s [ROWS 5] JOIN plain USING (id)",
            "plain USING (id)",
            "in a subquery",
        ),
        ("SELECT id FROM s [ROWS 5] HAVING PROB(id > 1) > 0.5", "(id > 1)", "one aggregate"),
        (
            "SELECT PROB(COUNT(*) = 2 AND SUM(x) > 5) FROM s [ROWS 5]",
            "(COUNT(*) = 2 AND SUM(x) > 5)",
            "has 2 (COUNT(*), SUM(x)), whose joint distribution is not computed",
        ),
        ("SELECT AVG(x) FROM s", "AVG", "AVG(EXPECTED(x))"),
        ("SELECT COUNT(DISTINCT t.x) FROM s t", "COUNT", "not supported yet"),
        ("SELECT * FROM s JOIN r ON s.x = r.x", "s", "SIMILARITY JOIN"),
        ("SELECT * FROM s JOIN r ON s.id = r.id WHERE r.x > 1", "r", "several tables"),
        ("SELECT * FROM s WHERE x IN (SELECT id FROM plain)", "x", "nested query"),
        ("FROM s |> WHERE x > 1 |> SELECT id", "x", "a pipe"),
        ("FROM s [ROWS 5] |> AGGREGATE COUNT(*) AS n", "|", "put the window and its aggregates"),
        ("SELECT COUNT(*) FROM s [RANGE 1 s WATTR ts] |> LIMIT 1", "|", "put the window"),
        ("SELECT AVG(x) FILTER WHERE x > 1 FROM s [ROWS 5]", "FILTER", "needs parentheses"),
        ("SELECT AVG(x) IS NULL FROM s [ROWS 5]", "AVG", "AVG(x) is uncertain, but IS needs"),
        ("SELECT EXPECTED(x) FROM s JOIN r ON s.id = r.id", "x", "several tables"),
        ("SELECT EXISTENCE() FROM s JOIN r ON s.id = r.id", "EXISTENCE()", "must name its table"),
        ("SELECT EXPECTED(x + 1) FROM s", "x + 1", "name of an uncertain attribute"),
        ("SELECT QUANTILE(x, 2) FROM s", "2", "from 0 to 1"),
        ("SELECT QUANTILE(x) FROM s", "(x)", "needs 2 arguments"),
        (f"SELECT * FROM s SIMILARITY JOIN r {NEAR}", "SIMILARITY JOIN", "needs a window"),
        (
            f"SELECT * FROM s [ROWS 5 ORDER ts] SIMILARITY JOIN r [ROWS 6 ORDER id] {NEAR}",
            "[ROWS 6 ORDER id]",
            "must have the same ORDER and FORGET",
        ),
        (
            f"SELECT * FROM s [SPAN 5 s MAX_TUPLES 9] SIMILARITY JOIN r {NEAR}",
            "MAX_TUPLES 9",
            "needs a ROWS window",
        ),
        (
            "SELECT * FROM s [ROWS 5] SIMILARITY JOIN r ON (x) WITHIN (1, 2) PROBABILITY 1",
            "WITHIN (1, 2)",
            "has 2 distances, but ON has 1 attributes",
        ),
        (
            f"SELECT * FROM s [ROWS 5] SIMILARITY JOIN r {NEAR} METRIC city",
            "city",
            "expected EUCLIDEAN or HAVERSINE",
        ),
        ("SELECT AVG(x) AS m FROM s [ROWS 5 SPAN 5 s]", "SPAN 5 s", "expected [RANGE duration]"),
        (f"SELECT * FROM s [ROWS 5] SIMILARITY JOIN s {NEAR}", "s ", "give them aliases"),
        (
            f"SELECT * FROM s [WATTR ts MAX] SIMILARITY JOIN r {NEAR}",
            "[WATTR ts MAX]",
            "needs ROWS, SPAN or DELTA windows",
        ),
        (
            f"SELECT * FROM s [ROWS 5] SIMILARITY JOIN r {NEAR} AND s.sensor = r.id",
            "r.id",
            "the same name on both sides",
        ),
        (
            f"SELECT * FROM s probability [ROWS 5] SIMILARITY JOIN r {NEAR}",
            "SIMILARITY JOIN",
            "a different alias",
        ),
        ("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM s [WATTR ts MAX]", "WITH", "RECURSIVE"),
    ],
)
def test_what_has_no_meaning_yet_is_refused_and_not_guessed(tables, text, word, reason):
    found = error(tables, text)
    assert found.word.strip() == word.strip()
    assert reason in str(found)


@pytest.mark.parametrize(
    ("text", "word", "suggestion"),
    [
        ("SELECT id\nFORM plain", "FORM", "FROM"),
        ("SELECT COUNT(*)\nFORM s [RANGE 1 s WATTR ts]", "FORM", "FROM"),
        ("SELECT COUNT(*) FROM s [RANGE 1 s WATTR ts]\nWHER id > 1", "WHER", "WHERE"),
        ("SELECT COUNT(*) FROM s [RANGE 1 s WATTR ts]\nGROUPBY id", "GROUPBY", "GROUP BY"),
        ("SELECT id FROM plain WHERE id > 1\nORDERBY id", "ORDERBY", "ORDER BY"),
        (
            "SELECT id FROM s [RANGE 1 s WATTR ts] GROUP BY id\nHAVIN COUNT(*) > 1",
            "HAVIN",
            "HAVING",
        ),
        ("SELECT id\nid id FROM plain", "id", None),
        ("SELECT id\nabs(id) FROM plain", "abs", None),
        ("SELECT id\n, FROM plain", ",", None),
        ("SELECT id FROM plain\nWHERE id = = 2", "=", None),
        ("SELECT id FROM plain WHERE\nabs(id) > ", "", None),
    ],
)
def test_what_spark_cannot_parse_is_pointed_at_in_the_users_text(tables, text, word, suggestion):
    found = error(tables, text)
    assert (found.suggestion, word in found.word) == (suggestion, True)


@pytest.mark.parametrize("call", ["COUNT(id, x)", "COUNT(DISTINCT id, x)", "FIRST(id, true)"])
def test_aggregates_over_windows_refuse_further_arguments(tables, call):
    found = error(tables, f"SELECT {call} FROM s [RANGE 1 s WATTR ts]")
    assert found.word in ("x", "true")
    assert "accepts one argument" in str(found)


def test_an_aggregate_in_where_belongs_in_having(tables):
    found = error(tables, "SELECT id FROM s [RANGE 1 s WATTR ts]\nWHERE COUNT(*) > 1 GROUP BY id")
    assert (found.word, found.line, found.expected) == ("COUNT", 2, ("HAVING",))


def test_sparks_own_errors_stay_sparks(tables):
    with pytest.raises(AnalysisException, match="DATATYPE_MISMATCH"):
        sql(tables, "SELECT abs(sensor + array(1)) FROM s [WATTR ts MAX]")


# ---- explain -------------------------------------------------------------------------------------


def test_explain_says_what_reorder_will_do(tables):
    told = explain(
        tables,
        "SELECT id FROM s [RANGE 5 min SLIDE 30 s WATTR ts DRATIO 1% BSIZE 100 KEY sensor] "
        "WHERE x > 3",
    )
    for words in (
        "Spark SQL: SELECT id FROM {d0} AS `s`",
        "filter on alternatives: x > 3",
        "event_time  ts",
        "arrival     arrival",
        "one per value of (sensor), in parallel",
        "drop_ratio  0.01",
        "estimator   conformal",
        "RANGE 5 min SLIDE 30 s",
        "at most 100 rows per key",
        "each row once, in order of event time",
        "static table s (id int, sensor string",
    ):
        assert words in told, words


def test_explain_shows_the_estimator_and_the_punctuation_that_were_given(tables):
    told = explain(tables, "SELECT id FROM s [WATTR ts DRATIO 1% ESTIMATOR NORMAL]")
    assert "estimator   normal" in told
    assert "if gaps and delays are as assumed" in told
    told = explain(tables, "SELECT id FROM s [WATTR ts PUNCTUATION ts]")
    assert "punctuation  ts" in told
    assert "estimator" not in told


def test_explain_says_that_all_keys_share_a_buffer(tables):
    told = explain(tables, "SELECT id FROM s [WATTR ts SLACK 9 BSIZE_TOTAL 70 KEY sensor]")
    assert "one per value of (sensor), in one task" in told
    assert "at most 70 rows, about" in told


def test_explain_says_what_a_join_will_do(tables):
    told = explain(tables, f"SELECT a.id FROM s a [ROWS 500] {JOIN} USING INDEX")
    for words in (
        "within       0.5",
        "probability  0.25",
        "500 existing ones with confidence 95%",
        "≥ 500) ≥ 0.75 = min(0.95, 1 - 0.25); at existence 1: 500, 0.9: about ",
        "strategy     index",
        "one task (estimated time per arrival: 11 us in one task, 10.5 us in each of 2;",
        "exact: a pair is emitted if and only if it reaches the given probability; a pair",
    ):
        assert words in told, words


def test_tasks_share_a_join(tables):
    query = f"SELECT a.id FROM s a [ROWS 500] {JOIN}"
    assert "one per side, in 3 tasks that share the work" in explain(tables, f"{query} TASKS 3")
    shared = sf.sql(tables, f"{query} TASKS 3").collect()
    assert sorted(shared) == sorted(sf.sql(tables, query).collect())
    large = explain(tables, query.replace("500", "100000"))
    assert (
        "in 8 tasks (estimated time per arrival: 210 us in one task, 35 us in each of 8; TASKS"
        in large
    )


def test_explain_says_whether_the_pace_of_two_streams_matters(tables):
    rates = tables.readStream.format("rate").load()
    query = "SELECT a.value FROM {0} a [ROWS 5 ORDER timestamp] SIMILARITY JOIN {1} b ON (value) " \
        "WITHIN 1 PROBABILITY 1"  # fmt: skip
    raw = sf.explain(tables, query.format("r1", "r2"), r1=rates, r2=rates)
    assert (
        "pace         if the sides are two sources, the answers depend on how fast each source"
        in raw
    )
    ordered = "(SELECT * FROM {} [WATTR timestamp SLACK 5 ARRIVAL timestamp])"
    sides = [ordered.format(name) for name in ("r1", "r2")]
    told = sf.explain(tables, query.format(*sides), r1=rates, r2=rates)
    assert "pace         any: rows wait until both sides are complete" in told
    assert "pace " not in explain(tables, f"SELECT a.id FROM s a [ROWS 500] {JOIN}")


def test_explain_as_a_statement_is_a_frame_with_one_column(tables):
    df = sf.sql(tables, "EXPLAIN SELECT id FROM s [WATTR ts SLACK 5]")
    assert df.columns == ["plan"]
    assert df.first().plan == sf.explain(tables, "SELECT id FROM s [WATTR ts SLACK 5]")
    two = explain(tables, "SELECT 1; EXPLAIN SELECT 2")
    assert two.splitlines() == [
        "-- query 1",
        "Spark SQL, unchanged: SELECT 1",
        "-- query 2",
        "Spark SQL, unchanged: SELECT 2",
    ]
