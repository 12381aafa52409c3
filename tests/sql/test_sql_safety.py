"""Untrusted text may query and do nothing else, unless the session trusts it."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.language import SqlError, sql
from sfumato.spark.model.untrusted_sql import TRUST_SETTING

pytestmark = pytest.mark.spark

JAVA = "'java.lang.System', 'getProperty', 'user.dir'"


@pytest.fixture(scope="module")
def stream(spark):
    array = F.expr("array(named_struct('prob', 1D, 'x', CAST(id AS DOUBLE)))")
    df = spark.range(3).select(
        "id", F.timestamp_seconds("id").alias("ts"), array.alias("alternatives")
    )
    df.createOrReplaceTempView("s")
    yield df
    spark.catalog.dropTempView("s")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        (f"SELECT reflect({JAVA})", "reflect"),
        (f"SELECT try_reflect ({JAVA})", "try_reflect"),
        (f"SELECT java_method /* ( */ ({JAVA})", "java_method"),
        (f"SELECT `java_method`({JAVA})", "`java_method`"),
        (f"SELECT system.builtin.reflect({JAVA})", "reflect"),
        (f"SELECT IDENTIFIER('reflect')({JAVA})", "IDENTIFIER"),
        (f"SELECT id FROM s WHERE x > 0 AND reflect({JAVA}) = ''", "reflect"),
        ("SELECT '${env:HOME}'", "${env:HOME}"),
        ("SELECT id FROM s WHERE x > ${spark.app.id}", "${spark.app.id}"),
        ("SELECT * FROM text.`/etc/passwd`", "text.`/etc/passwd`"),
        ("SELECT * FROM text.`passwd`", "text.`passwd`"),
        ("SELECT id FROM s, csv . `/etc/passwd`", "csv . `/etc/passwd`"),
        ("SELECT (SELECT max(value) FROM text.`/etc/passwd`) FROM s", "text.`/etc/passwd`"),
        ("WITH a AS (TABLE text.`/etc/passwd`) SELECT * FROM a", "text.`/etc/passwd`"),
        (
            "SELECT * FROM s IMPUTE (id) FROM csv.`/etc/passwd` BY 'a -> id : 1 -> 1'",
            "csv.`/etc/passwd`",
        ),
    ],
)
def test_a_query_calls_no_java_and_reads_no_path(spark, stream, query, word):
    with pytest.raises(SqlError, match="not allowed in a query") as caught:
        sql(spark, query)
    assert caught.value.word == word


def test_a_session_may_trust_its_texts(spark, stream):
    spark.conf.set(TRUST_SETTING, "true")
    try:
        (row,) = sql(spark, f"SELECT reflect({JAVA})").collect()
        assert row[0].startswith("/")
        assert sf.where(stream, f"reflect({JAVA}) != ''").count() == 3
    finally:
        spark.conf.unset(TRUST_SETTING)


SECRET = "TOP SECRET"
ELSEWHERE = [
    "SELECT * FROM {}",
    "SELECT * FROM ({})",
    "SELECT * FROM (({}))",
    "SELECT * FROM s, {}",
    "SELECT * FROM s, s t, {}",
    "SELECT * FROM s, LATERAL {}",
    "SELECT * FROM s JOIN ({} t) ON TRUE",
    "SELECT (TABLE {} LIMIT 1)",
    "SELECT * FROM s WHERE id IN (TABLE {})",
    "SELECT * FROM s WHERE EXISTS (FROM {})",
    "SELECT * FROM s ORDER BY (SELECT value FROM {})",
    "WITH a AS (FROM {}) SELECT * FROM a",
    "VALUES ((SELECT max(value) FROM {}))",
    "SELECT * FROM VALUES (1), {}",
    "SELECT * FROM explode(array(1)), {}",
    "SELECT * FROM TABLE({})",
    "SELECT * FROM STREAM {}",
    "SELECT * FROM STREAM({})",
    "FROM s |> JOIN {} ON TRUE",
    "FROM s |> UNION ALL TABLE {}",
    "FROM s |> UNION ALL (FROM {})",
    # Clauses that Spark parses as aliases.
    "FROM (SELECT 1 a) a select (a), {} |> SELECT *",
    "FROM (SELECT 1 a) a where (a), {} SELECT *",
    "SELECT is distinct FROM {}",
    "SELECT value distinct FROM {}",
    "SELECT * FROM s GROUP, {}",
    "SELECT * FROM s limit, {}",
    "SELECT * FROM s order, {}",
    "SELECT * FROM s having JOIN s b, {}",
    "SELECT * FROM s window, {}",
    "SELECT * FROM s TABLESAMPLE (1 ROWS), {}",
    "SELECT * FROM s LATERAL VIEW explode(array(1)) v AS x, {}",
    "SELECT * FROM s PIVOT (max(id) FOR ts IN (1)), {}",
]


@pytest.mark.parametrize("query", ELSEWHERE)
@pytest.mark.parametrize("form", ["text", "org.apache.spark.sql.execution.datasources.text"])
def test_no_table_is_a_file_wherever_it_may_stand(spark, stream, tmp_path, query, form):
    (tmp_path / "secret").write_text(SECRET)
    with pytest.raises(SqlError):
        sql(spark, query.format(f"`{form}`.`{tmp_path}/secret`"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT transform(id) USING 'cat' AS (a) FROM s",
        "SELECT * FROM (MAP id USING 'cat' AS (a) FROM s)",
        "FROM s REDUCE id USING 'cat' AS (a)",
        "FROM (SELECT 'x' a) t --\\\n'\nSELECT TRANSFORM(a) USING 'cat' AS (b string) -- '",
        "FROM (SELECT 'x' a) t /* /* /* /* */ */ */ ' */ INSERT OVERWRITE DIRECTORY 'x' SELECT *",
        "FROM s JOIN (SELECT 1 AS 1r) ON 1r'\\' = ' ' INSERT OVERWRITE DIRECTORY 'x' SELECT *",
        "FROM s INSERT INTO t SELECT *",
        "SELECT /*+ COALESCE(1) */ id FROM s",
        "SELECT * FROM s WITH (`path`='/etc/passwd')",
        "SELECT * FROM IDENTIFIER('s')",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "BEGIN SELECT 1; END",
        "DECLARE x INT",
        "SET x=1",
        "SELECT from_xml('<a/>', 'a int', map('rowValidationXSDPath', '/etc/passwd'))",
        "SELECT input_file_name() FROM s",
        "SELECT system.builtin.abs(1)",
        "EXPLAIN INSERT INTO s VALUES (1, 2)",
        "CREATE TABLE x AS SELECT 1",
        "SELECT id FROM s; DROP VIEW s",
        "SELECT :x",
        "SELECT ?",
    ],
)
def test_a_statement_is_a_query_and_nothing_else(spark, stream, query):
    for make in (sql, sf.explain):
        with pytest.raises(SqlError):
            make(spark, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM s WHERE id IN (SELECT max(id) FROM s)",
        "SELECT t.id, u.id FROM s t JOIN s u ON t.id = u.id WHERE t.id > 0 GROUP BY t.id, u.id",
        "FROM s SELECT id, s.ts WHERE id > 0",
        "FROM s |> WHERE id > 0 |> SELECT id, s.ts",
        "WITH a AS (SELECT 1 x), b (y, z) AS (SELECT 2, 3) SELECT a.x, b.y FROM a, b",
        "SELECT extract(year FROM s.t), trim(BOTH 'x' FROM s.b) FROM (SELECT now() t, 'x' b) s",
        "SELECT a.id IS DISTINCT FROM b.id FROM range(3) a, range(3) b",
        "SELECT sum(id) OVER (PARTITION BY s.id, s.ts ORDER BY s.id) FROM s",
        "SELECT transform(array(1), x -> x + 1), CAST(1 AS decimal(10,2)), stack(1, 2) AS (c)",
        "SELECT * FROM VALUES (1, 2), (3, 4) AS t (a, b)",
        "SELECT count(*) FILTER (WHERE id > 1) FROM s GROUP BY GROUPING SETS ((id), ())",
        "SELECT * FROM range(3) r, LATERAL explode(array(r.id)) AS e(x)",
        "SELECT rank() OVER w FROM s WHERE id > 0 WINDOW w AS (ORDER BY id), v AS (ORDER BY ts)",
        "SELECT * FROM range(3) a LEFT JOIN range(2) b USING (id) UNION ALL SELECT 1",
        "SELECT if(id > 1, 'a', 'b'), left('abc', 2), date '2020-01-01', interval 3 days FROM s",
        "SELECT timestampdiff(HOUR, now(), now()), try_cast('1' AS int), position('a' IN 'ba')",
        "SELECT 1 AS limit, 2 AS offset",
        "SELECT listagg(id) WITHIN GROUP (ORDER BY id) FROM s",
        "SELECT ARRAY(1)[0], map('a', 1)['a'], named_struct('a', 1).a, x'1F', now(), current_date",
        "TABLE s",
        "VALUES (1)",
        "SELECT a[0], '{id} [ROWS 5]' AS `{d0}` FROM (SELECT array(7, 8) AS a)",
        "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 4) TABLE t",
        "SELECT id, count(*) AS n FROM s GROUP BY id HAVING id > 0 ORDER BY abs(id) DESC LIMIT 2",
    ],
)
def test_queries_of_every_kind_run_as_in_spark(spark, stream, query):
    assert sql(spark, query).collect() == spark.sql(query).collect() or "now" in query


def test_a_function_of_the_session_is_not_called(spark, stream):
    spark.udf.register("outside", lambda: "called")
    for query in (
        "SELECT outside()",
        "SELECT `outside`() FROM s",
        "SELECT id FROM s WHERE x > outside()",
    ):
        with pytest.raises(SqlError, match="not allowed in a query"):
            sql(spark, query)


def test_settings_that_change_how_texts_are_read_refuse_them(spark, stream):
    for setting, query in (
        ("spark.sql.ansi.doubleQuotedIdentifiers", 'SELECT "id" FROM s'),
        ("spark.sql.parser.escapedStringLiterals", r"SELECT '\d' FROM s"),
    ):
        spark.conf.set(setting, "true")
        try:
            with pytest.raises(SqlError, match=setting):
                sql(spark, query)
        finally:
            spark.conf.unset(setting)


def test_texts_of_any_size_are_answered(spark, stream):
    for unit in (
        "reflect/*",
        "reflect/**/",
        "(",
        "csv.`a` ",
        "impute (",
        "'",
        "`",
        "a,",
        "--\n",
        "\\",
    ):
        text = "SELECT reflect" + unit * (1_000_000 // len(unit))
        for make in (lambda t: sql(spark, t), lambda t: sf.where(stream, t)):
            with pytest.raises(ValueError, match="at most"):
                make(text)


@pytest.mark.parametrize(
    "text",
    [
        "x > 99) or (true",
        "x > 99)) or ((true",
        "x > 99 or (true",
        "id > 1; drop table s",
        f"reflect({JAVA}) = ''",
        "id IN (SELECT value FROM text.`/etc/passwd`)",
        "'${env:HOME}' > ''",
    ],
)
def test_an_expression_only_computes(stream, text):
    with pytest.raises(ValueError, match="`condition`"):
        sf.where(stream, text)
    with pytest.raises(ValueError, match="`condition`"):
        sf.where(stream.drop("alternatives"), text)
    with pytest.raises(ValueError, match="`by`"):
        sf.top_k(stream, sf.Top(1, every="1 s"), by=text, window=sf.Range("5 s"), order="ts")
    with pytest.raises(ValueError, match="aggregates"):
        sf.window_aggregate(stream, {"a": f"sum({text})"}, window=sf.Rows(2), order="ts")


def test_signs_in_strings_names_and_comments_are_only_text(stream):
    for text in ("x < 2 AND ') or (' != ''", "x < 2 /* ) */ -- (", "x < 2 AND id = `id`"):
        assert sf.where(stream, text).count() == 2
