"""Text from outside queries and does nothing else, unless the session trusts it."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.spark.model.expression_text import TRUST
from sfumato.sql import SqlError, sql

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
        (f"SELECT `java_method`({JAVA})", "java_method"),
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
    with pytest.raises(SqlError, match="which a query may not") as caught:
        sql(spark, query)
    assert caught.value.word == word


def test_a_session_may_trust_its_texts(spark, stream):
    spark.conf.set(TRUST, "true")
    try:
        (row,) = sql(spark, f"SELECT reflect({JAVA})").collect()
        assert row[0].startswith("/")
        assert sf.where(stream, f"reflect({JAVA}) != ''").count() == 3
    finally:
        spark.conf.unset(TRUST)


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
