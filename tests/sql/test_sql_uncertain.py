"""A distribution is not a number: Spark operations that treat it as an array raise an error."""

import re

import pytest
from pyspark.sql import functions as F  # noqa: N812

from engine_cases import rows_of
from sfumato.language import SqlError, sql
from spark_tables import tables_of
from sql_readings import error, same

pytestmark = pytest.mark.spark
ALTERNATIVES = "alternatives"


@pytest.fixture(scope="module")
def tables(spark):
    """Create `s` with uncertain x, and `certain` with a plain v."""
    rows = spark.range(6).select(
        F.col("id"),
        (F.col("id") % 2).alias("k"),
        F.timestamp_seconds(F.col("id") * 60).alias("ts"),
        F.timestamp_seconds(F.col("id") * 60).alias("arrival"),
    )
    likely = "named_struct('prob', 0.75D, 'x', CAST(id AS DOUBLE))"
    array = f"array({likely}, named_struct('prob', 0.25D, 'x', 9D))"
    rows.withColumn(ALTERNATIVES, F.expr(array)).createOrReplaceTempView("s")
    rows.withColumn("v", F.col("id").cast("double")).createOrReplaceTempView("certain")
    both = rows.select(
        "*", F.lit(None).cast("double").alias("x"), F.expr(array).alias(ALTERNATIVES)
    )
    both.createOrReplaceTempView("imputed")
    yield spark
    for name in ("s", "certain", "imputed"):
        spark.catalog.dropTempView(name)


# (query, the underlined word, a part of the reason)
REFUSED = [
    ("SELECT id FROM s ORDER BY x", "x", "rows must be ordered by numbers: write EXPECTED"),
    ("SELECT id FROM s ORDER BY id, s.x DESC", "s", "ordered by numbers"),
    ("SELECT x AS y, id FROM s ORDER BY x", "x", "ordered by numbers"),
    ("SELECT count(*) FROM s GROUP BY x", "x", "rows must be grouped by numbers"),
    ("SELECT DISTINCT x FROM s", "x", "DISTINCT needs numbers"),
    ("SELECT DISTINCT k, x FROM s", "x", "DISTINCT needs numbers"),
    ("SELECT row_number() OVER (ORDER BY x) FROM s", "x", "ordered by numbers"),
    ("SELECT rank() OVER (PARTITION BY x ORDER BY id) FROM s", "x", "partitioned and ordered"),
    ("SELECT rank() OVER w FROM s WINDOW w AS (ORDER BY x)", "x", "ordered by numbers"),
    ("SELECT x + 1 FROM s", "x", "+ needs a number"),
    ("SELECT id, -x FROM s", "x", "- needs a number"),
    ("SELECT CASE WHEN x > 3 THEN 1 END FROM s", "x", "> needs a number"),
    ("SELECT x BETWEEN 1 AND 2 FROM s", "x", "BETWEEN needs a number"),
    ("SELECT abs(x - 1) FROM s", "x", "- needs a number"),
    ("SELECT SUM(x) > 40 FROM s [ROWS 2]", "SUM", "SUM(x) is uncertain, but > needs a number"),
    ("SELECT AVG(v) OVER (PARTITION BY k) FROM certain [RANGE 2 min WATTR ts]", "AVG", "OVER"),
    ("SELECT AVG(x) OVER (PARTITION BY k) FROM s [RANGE 2 min WATTR ts]", "AVG", "OVER"),
    ("SELECT AVG(x), SUM(id) OVER () FROM s [ROWS 2]", "SUM", "leave OVER out"),
    ("SELECT AVG(x) FILTER (k = 1) FROM s [ROWS 2]", "AVG", "sum(x) FILTER (WHERE y > 0)"),
    ("SELECT AVG(x) FILTER (WHERE k = 1) OVER () FROM s [ROWS 2]", "AVG", "leave OVER out"),
    ("SELECT AVG(x) FILTER (WHERE EXPECTED(x) > 1) FROM s [ROWS 2]", "EXPECTED", "AVG cannot"),
    ("SELECT SUM(x), COUNT_IF(id) FROM s [ROWS 2]", "COUNT_IF(id)", "compute COUNT_IF(id): "),
    ("SELECT SUM(DISTINCT x) FROM s [ROWS 2]", "DISTINCT", "DISTINCT in SUM"),
    ("SELECT avg(y) FROM (SELECT x AS y FROM s)", "y", "is a distribution"),
    ("SELECT y + 1 FROM (SELECT x AS y FROM s)", "y", "is a distribution"),
    ("SELECT avg(m) FROM (SELECT AVG(x) AS m FROM s [ROWS 2])", "m", "distribution (its mean and"),
    ("SELECT m * 2 FROM (SELECT SUM(x) AS m FROM s [ROWS 2])", "m", "distribution (its mean and"),
    ("SELECT AVG(xx) FROM s [ROWS 2]", "xx", "there is no column xx"),
    ("SELECT id AS xx, AVG(xx) FROM s [ROWS 2]", "xx", "there is no column xx"),
    ("SELECT x FROM imputed", "x",
     "both a certain column and an uncertain attribute: write EXPECTED(x)"),
    ("SELECT EXISTENCE(), COUNT(*) FROM s [ROWS 2]", "EXISTENCE", "answers without alternatives"),
    ("SELECT TOP 1 EXISTENCE() FROM s [RANGE 2 min WATTR ts] RANK BY x", "EXISTENCE", "not known"),
    ("SELECT EXISTENCE() FROM asof_join(s, s, order => ts)", "EXISTENCE", "not known"),
    ("SELECT EXISTENCE(a) FROM s [RANGE 2 min WATTR ts] a JOIN s [RANGE 2 min WATTR ts] b "
     "ON a.k = b.k", "EXISTENCE", "in a subquery before the window or join"),
    ("SELECT EXPECTED(a.x) FROM s [RANGE 2 min WATTR ts] a JOIN s [RANGE 2 min WATTR ts] b "
     "ON a.k = b.k", "a.x", "select EXPECTED(...) in a subquery"),
    ("SELECT ROUND(EXPECTED(SUM(x))) AS m FROM s [ROWS 2] HAVING PROB(m > 3) > 0.5", "(m > 3)",
     "needs a condition on one aggregate"),
    ("SELECT SUM(x) AS m FROM s [ROWS 2] HAVING PROB(m > AVG(x)) > 0.5", "(m > AVG(x))", "has 2"),
    ("SELECT EXPECTED(m) FROM (SELECT AVG(x) AS m FROM s [ROWS 2])", "m", "but m is struct"),
    ("SELECT EXPECTED(ts) FROM certain", "ts", "EXPECTED needs numbers, but ts is timestamp"),
    ("SELECT TOP 1 id FROM s [RANGE 2 min WATTR ts] GROUP BY k RANK BY x", "GROUP BY k",
     "the answers of TOP have a column with this name: rename it in a subquery"),
    ("SELECT TOP 1 id FROM (SELECT *, id AS `Time` FROM s) [RANGE 2 min WATTR ts] "
     "GROUP BY `Time` RANK BY x", "GROUP BY `Time`", "GROUP BY cannot name Time"),
    ("SELECT TOP 1 id FROM s [RANGE 2 min WATTR ts KEY id] RANK BY x", "KEY id",
     "To group the rows, leave KEY out and write GROUP BY `id`"),
    ("SELECT COUNT(*) FROM certain [RANGE 2 min WATTR ts KEY (k, id)] GROUP BY k", "KEY (k, id)",
     "write GROUP BY `k`, `id`"),
    ("SELECT COUNT(*) FROM s [RANGE 2 min WATTR ts REMEMBER 1 HOUR]", "REMEMBER 1 HOUR",
     "REMEMBER needs UNIQUE"),
    ("SELECT TIME_AVG(x) FROM s [RANGE 2 min WATTR ts SHARED id]", "TIME_AVG(x)", "or SHARED out"),
    ("SELECT LAST(x) FROM s [RANGE 2 min WATTR ts EARLY 1 min]", "LAST(x)", "without EARLY"),
    ("SELECT ROUND(AVG( x )) FROM s [ROWS 2]", "AVG( x )", "AVG( x ) is a distribution"),
    ("SELECT a.m > b.m FROM (SELECT k, window, SUM(x) AS m FROM s [RANGE 2 min WATTR ts] GROUP BY "
     "k) a JOIN (SELECT k, window, SUM(v) AS m FROM certain [RANGE 2 min WATTR ts] GROUP BY k) b "
     "ON a.k = b.k", "a.m", "a.m is a distribution"),
    ("SELECT EXPECTED(y) FROM (SELECT x AS y FROM s)", "y", "but y is array<"),
    ("SELECT QUANTILE(y, 0.5) FROM (SELECT x AS y FROM s)", "y", "but y is array<"),
    ("SELECT t.a, EXPECTED(x) FROM (SELECT id, alternatives FROM s) t(a, b)", "(a, b)",
     "rename the columns in the subquery"),
    ("SELECT id FROM s TABLESAMPLE (9 ROWS) WHERE x > 3", "x", "with other words after the table"),
    ("SELECT COUNT(*) FROM (SELECT ts, true AS late, 'a' AS punctuation FROM certain) "
     "[RANGE 2 min WATTR ts]", "[RANGE 2 min WATTR ts]", "but `punctuation` is string"),
    ("SELECT window FROM certain [RANGE 2 min WATTR ts] SIMILARITY JOIN s [RANGE 2 min WATTR ts] b "
     "ON (x) WITHIN 1 PROBABILITY 1", None, "which has no column `alternatives`"),
    ("SELECT k FROM certain a [RANGE 2 min WATTR ts] CROSS JOIN certain b [RANGE 2 min WATTR ts] "
     "ON a.k = b.k", "CROSS", "CROSS JOIN of windows"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "word", "reason"), REFUSED)
def test_a_distribution_where_a_number_is_meant_is_refused_at_its_place(
    tables, query, word, reason
):
    found = error(tables, query)
    assert (word or found.word, reason in found.reason) == (found.word, True), str(found)
    assert "__" not in str(found)


def test_the_likely_words_are_offered(tables):
    median = error(tables, "SELECT MEDIAN(x) FROM s [ROWS 2]")
    assert median.suggestion == "PERCENTILE(x, 0.5)"
    assert error(tables, "SELECT AVG(idd) FROM s [ROWS 2]").suggestion == "id"
    assert error(tables, "SELECT x + 1 FROM s").expected == ("EXPECTED(x)",)
    assert error(tables, "SELECT abs(SUM(x)) FROM s [ROWS 2]").expected == ("EXPECTED(SUM(x))",)
    counts = "(SELECT COUNT(*) AS n FROM s [ROWS 2])"
    found = error(tables, f"SELECT EXPECTED(n) FROM {counts}")
    assert found.expected == ("n.mean", "n.stddev", "n.existence")
    instead = error(tables, "SELECT EXPECTED(ts) FROM certain").expected
    assert instead == ("QUANTILE(ts, 0.5)",)
    assert sql(tables, f"SELECT min({instead[0]}) FROM certain").first()[0] == 0.0


def test_what_is_meant_of_arrays_and_names_stays_as_it_is(tables):
    def values(query):
        return [row[0] for row in sql(tables, query).collect()]

    assert values("SELECT id FROM s ORDER BY EXPECTED(x) DESC LIMIT 1") == [5]
    assert values("SELECT EXPECTED(x) AS x FROM s ORDER BY x LIMIT 1") == [2.25]
    assert values("SELECT size(x) FROM s LIMIT 1") == [2]
    assert values("SELECT x[0].prob > 0.5 FROM s LIMIT 1") == [True]
    assert values("SELECT aggregate(x, 0D, (a, x) -> a + x.prob) FROM s LIMIT 1") == [1.0]
    assert values("SELECT transform(alternatives, x -> x.prob * 2)[0] FROM s LIMIT 1") == [1.5]
    assert values("SELECT round(STDDEV(EXPECTED(x)), 6) FROM s") == [pytest.approx(1.403122)]
    assert values("SELECT count(*) FROM s WHERE x > 8") == [6]


def test_having_accepts_the_name_of_an_aggregate(tables):
    query = "SELECT window.end, AVG({0}) AS m FROM {1} [RANGE 2 min WATTR ts] HAVING {2} > {3}"
    for *of, least in (("x", "s", 5), ("v", "certain", 2)):
        words = "M", f"AVG({of[0]})"
        named, repeated = (sql(tables, query.format(*of, word, least)) for word in words)
        assert named.toArrow() == repeated.toArrow()
        every = sql(tables, query.format(*of, "", "").partition(" HAVING")[0])
        assert 0 < named.count() < every.count()


@pytest.mark.parametrize(
    ("selected", "having", "instead"),
    [
        ("AVG(v) AS v", "v > 2.5", "AVG(v) > 2.5"),
        ("EXPECTED(AVG(v)) + 1 AS m", "m > 2 AND NOT M > 5", "AVG(v) > 1 AND NOT AVG(v) > 4"),
        ("PROB(AVG(v) > 2) AS p", "p >= 0.5", "PROB(AVG(v) > 2) >= 0.5"),
        ("EXPECTED(AVG(v)) AS v", "v < 3", "EXPECTED(AVG(v)) < 3"),
        ("k AS g", "g = 1", "k = 1"),
        ("COUNT(*) AS k", "k = 1", "k = 1 AND COUNT(*) > 0"),
        (
            "MAX(v) AS m",
            "PROB(M > 2 AND NOT m > 4) > 0.3",
            "PROB(MAX(v) > 2 AND NOT MAX(v) > 4) > 0.3",
        ),
        (
            "AVG(v) AS m",
            "EXPECTED(m) > 3 AND EXISTENCE(m) > 0.5",
            "AVG(v) > 3 AND EXISTENCE(AVG(v)) > 0.5",
        ),
        ("SUM(v) AS m", "QUANTILE(m, 0.5) < 4", "QUANTILE(SUM(v), 0.5) < 4"),
    ],
)
def test_an_alias_in_having_stands_for_its_expression(tables, selected, having, instead):
    frames, alias = {}, selected.rpartition(" AS ")[2]
    for column, table in (("v", "certain"), ("x", "s")):
        query = f"SELECT window.end, {selected} FROM {table} [RANGE 2 min WATTR ts] GROUP BY k"
        for end in ("", f" HAVING {having}", f" HAVING {instead}", f" ORDER BY {alias}"):
            frames[table, end] = sql(tables, re.sub(r"\bv\b", column, query + end))
    found = [rows_of(rows) for rows in tables_of(frames).values()]
    for every, named, repeated, ordered in (found[:4], found[4:]):
        assert named == repeated
        assert 0 < len(named) < len(every) == len(ordered)


@pytest.mark.parametrize(
    ("alias", "written"),
    [
        ("m", ("m.mean < 6", "m < 6", "SUM(x) < 6")),
        ("m", ("s.k > 0 AND `M`.stddev < 6", "k > 0 AND STDDEV(SUM(x)) < 6")),
        ("s", ("s.k > 0 AND s < 10", "k > 0 AND SUM(x) < 10")),
    ],
)
def test_having_accepts_a_field_of_an_alias_and_a_qualified_column(tables, alias, written):
    query = f"SELECT k, SUM(x) AS {alias} FROM s [RANGE 2 min WATTR ts] GROUP BY k"
    every, first, *others = (
        rows_of(sql(tables, query + end).toArrow())
        for end in ("", *(f" HAVING {w}" for w in written))
    )
    assert 0 < len(first) < len(every)
    assert all(first == other for other in others)


def test_an_alias_of_a_rows_own_measure_is_known_in_having(tables):
    query = "SELECT id, EXPECTED(x) AS m, COUNT(*) AS n FROM s [RANGE 2 min WATTR ts] HAVING {} > 4"
    named, repeated = (sql(tables, query.format(word)) for word in ("m", "EXPECTED(x)"))
    assert (
        [row.id for row in named.collect()] == [row.id for row in repeated.collect()] == [3, 4, 5]
    )


@pytest.mark.parametrize("condition", ["true", "l.many"])
def test_a_join_of_windows_accepts_a_condition_that_is_one_name(tables, condition):
    side = "(SELECT window, SUM(v) AS m, COUNT(*) > 0 AS many FROM certain [RANGE 2 min WATTR ts])"
    query = f"SELECT l.m, r.m AS n FROM {side} l JOIN {side} r ON {condition}"
    assert sorted(sql(tables, query).collect()) == [(1, 1), (5, 5), (9, 9)]


WITH_PARTS = (
    "WITH one AS ({}), other AS ({}) SELECT COUNT(*) FROM (SELECT * FROM one {} SELECT * FROM "
    "other ORDER BY 1) [RANGE 9 min WATTR ts]"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT ts, alternatives FROM s",) * 2,
        ("SELECT * FROM s WHERE x > 2", "SELECT * FROM s WHERE x <= 2"),
        ("SELECT ts, alternatives FROM r", "SELECT window.end AS ts, DISTRIBUTION(SUM(x)) AS "
         "alternatives FROM s [RANGE 2 min SLIDE 1 min WATTR ts]"),
    ],
)  # fmt: skip
def test_a_union_of_parts_that_share_readings_is_refused(tables, one, other):
    change = "transform(alternatives, a -> named_struct('prob', a.prob, 'value', a.x))"
    rows = tables.table("s").withColumn(ALTERNATIVES, F.expr(change))
    for union in ("UNION ALL", "UNION"):
        with pytest.raises(SqlError, match="may share readings"):
            sql(tables, WITH_PARTS.format(one, other, union), r=rows)


def test_a_union_of_different_readings_is_computed_and_is_in_no_order(tables):
    later = tables.table("s").withColumn("ts", F.expr("ts + INTERVAL 5 SECONDS"))
    parts = "SELECT * FROM s WHERE x > 2", "SELECT * FROM r WHERE x <= 2"
    (row,) = sql(tables, WITH_PARTS.format(*parts, "UNION ALL"), r=later).collect()
    below = [0.75] * 3  # of each table, the share of its first three rows with x <= 2
    shares = [*(1 - p for p in below), 1, 1, 1, *below]
    assert row[0].mean == pytest.approx(sum(shares))
    assert row[0].stddev == pytest.approx(sum(p * (1 - p) for p in shares) ** 0.5)
    query = "SELECT id, id, x FROM s [WATTR ts] UNION ALL SELECT id, id, x FROM r [WATTR ts]"
    both = sql(tables, query, r=later)
    assert (both.columns, both.count()) == (["id", "id", "x"], 12)
    ordered = "SELECT * FROM s [WATTR ts] UNION ALL SELECT * FROM r [WATTR ts]"
    with pytest.raises(SqlError, match="drop both columns"):
        sql(tables, f"SELECT COUNT(*) FROM ({ordered}) [ROWS 2 ORDER ts]", r=later)


def test_an_attribute_may_have_a_dot_in_its_name(tables):
    rows = tables.sql(
        "SELECT id, ts, arrival, transform(alternatives, a -> named_struct('prob', a.prob, "
        "'x (m.s)', a.x, 'x', 0D)) AS alternatives FROM s"
    )
    words = "`x (m.s)` + `X (m.s)` > 8 AND 'in `x (m.s)`' <> '' AND x = 0"
    found = sql(tables, f"SELECT id, EXISTENCE() AS p FROM r WHERE {words} AND id <> 5", r=rows)
    assert sorted(found.collect()) == [(0, 0.25), (1, 0.25), (2, 0.25), (3, 0.25), (4, 0.25)]
    query = "SELECT id, EXPECTED(SUM({})) AS m FROM r [ROWS 1 ORDER arrival]"
    same(*(sql(tables, query.format(of), r=rows) for of in ("round(`x (m.s)`)", "`x (m.s)`")))


def test_columns_are_called_as_they_are_written(tables):
    query = (
        "SELECT k, PROB(AVG(x) > 4) >= 0.5, EXPECTED(AVG(x)) + 1, EXPECTED(AVG(x)) AS mean "
        "FROM s [ROWS 2] GROUP BY k"
    )
    assert sql(tables, query).columns == [
        "k",
        "PROB(AVG(x) > 4) >= 0.5",
        "EXPECTED(AVG(x)) + 1",
        "mean",
    ]
    plain = "SELECT EXPECTED(x) * 2, EXPECTED(x) e, EXPECTED(x), x FROM s"
    assert sql(tables, plain).columns == ["EXPECTED(x) * 2", "e", "expected_x", "x"]


@pytest.mark.parametrize(
    ("query", "word", "here"),
    [
        ("SELECT COUNT(*) FROM s GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE)", "TUMBLE", "RANGE 10"),
        ("SELECT * FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), 1, 2))", "HOP", "SLIDE"),
        ("SELECT k FROM s WINDOW TUMBLING (SIZE 5 MINUTES) GROUP BY k", "WINDOW TUMBLING", "RANGE"),
        ("SELECT k FROM s WINDOW SESSION (5 MINUTES) GROUP BY k", "WINDOW SESSION", "session("),
        ("SELECT k FROM s EMIT CHANGES", "EMIT CHANGES", "without it"),
        (
            "SELECT COUNT(*) FROM s [RANGE 5 min WATTR ts] GROUP BY window",
            "window",
            "leave `window`",
        ),
        ("SELECT avg(x) FROM s [RANGE 1 MINUTE ON ts]", "ON", "write WATTR"),
        ("SELECT avg(x) FROM s [ROWS 9 PARTITION BY k]", "PARTITION", "write KEY"),
        ("SELECT avg(x) FROM s [RANGE INTERVAL 5 MINUTES]", "INTERVAL", "without INTERVAL"),
        ("SELECT PROB(x > 4) + 1 AS above FROM s", "PROB", "select EXISTENCE()"),
    ],
)
def test_windows_of_other_systems_are_told_as_they_are_written_here(tables, query, word, here):
    found = error(tables, query)
    assert (found.word, here in found.reason) == (word, True)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("AVG(2 * x (mV))", "Write `x (mV)` in backquotes"),
        ("max(below(v, 1, 4))", "below adds a column to a table: write FROM below(table, ...)"),
        ("SUM(array(v))", "SUM(array(v)) needs a numeric expression for sum"),
    ],
)
def test_an_error_in_an_aggregate_is_reported_at_the_aggregate(tables, call, reason):
    rows = tables.table("certain").withColumn("x (mV)", F.col("v"))
    with pytest.raises(SqlError) as caught:
        sql(tables, f"SELECT COUNT(*), {call} FROM r [ROWS 2]", r=rows)
    assert caught.value.word == call
    assert reason in caught.value.reason
    found = sql(tables, "SELECT AVG(x (mV)) AS m, AVG(v) AS n FROM r [ROWS 2]", r=rows)
    assert found.where("m <> n").isEmpty()


def test_frames_are_tables_by_their_names(tables):
    frame = tables.table("certain")
    assert sql(tables, "SELECT max(v) FROM given", given=frame).first()[0] == 5.0
    query = "SELECT AVG(v) AS a FROM certain [RANGE 6 min WATTR ts]"
    (row,) = sql(tables, query, certain=frame.where("v < 2")).collect()
    assert row.a == 0.5
    with pytest.raises(SqlError, match="no stream, table or view givn") as caught:
        sql(tables, "SELECT * FROM givn [ROWS 2]", given=frame)
    assert caught.value.suggestion == "given"
