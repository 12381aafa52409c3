"""The language on Spark: the same rows as the functions; Spark's own queries are unchanged."""

import pytest

import sfumato as sf
from sfumato.language import explain, sql

pytestmark = pytest.mark.spark


# ---- windows -------------------------------------------------------------------------------------


def test_without_disorder_control_rows_are_taken_to_come_in_order(tables):
    df = sql(tables, "SELECT id, late FROM s [RANGE 10 s WATTR ts]")
    newest = [max(1_000 + j - 5 * (j % 3 == 0) for j in range(i + 1)) for i in range(40)]
    for row in df.collect():
        earlier = newest[row.id - 1] if row.id else 0
        assert row.late == (1_000 + row.id - 5 * (row.id % 3 == 0) <= earlier)


def test_the_whole_query_around_a_window_is_sparks(tables):
    df = sql(
        tables,
        "SELECT n.sensor, count(*) AS n, max(p.id) AS m FROM s AS n [WATTR ts MAX] "
        "JOIN plain p ON n.id % 5 = p.id WHERE n.id < 20 GROUP BY n.sensor ORDER BY 1 LIMIT 5",
    )
    assert [tuple(row) for row in df.collect()] == [("a", 10, 4), ("b", 10, 4)]


def test_common_tables_subqueries_and_set_operations_may_hold_windows(tables):
    text = """
        WITH ordered AS (SELECT * FROM s [WATTR ts SLACK 3]),
             few (n, is_late) AS (SELECT id, late FROM ordered WHERE id < 3)
        SELECT n FROM few
        UNION ALL SELECT id FROM (SELECT * FROM r [WATTR ts SLACK 3]) t WHERE t.id > 137
        UNION ALL SELECT id FROM plain WHERE id IN (SELECT id FROM s [WATTR ts SLACK 0]) AND id = 4
    """
    assert sorted(row.n for row in sql(tables, text).collect()) == [0, 1, 2, 4, 138, 139]


def test_a_stream_without_arrival_gets_the_time_spark_received_the_row(tables, tmp_path):
    tables.table("s").drop("arrival").write.parquet(str(tmp_path / "s"))
    schema = tables.table("s").drop("arrival").schema
    tables.readStream.schema(schema).parquet(str(tmp_path / "s")).createOrReplaceTempView("live")
    try:
        df = sql(tables, "SELECT id, arrival, late FROM live [WATTR ts DRATIO 1%]")
        assert df.isStreaming
        assert df.schema["arrival"].dataType.typeName() == "timestamp"
        assert "when Spark received the row" in explain(tables, "SELECT * FROM live [WATTR ts MAX]")
    finally:
        tables.catalog.dropTempView("live")


def test_a_streaming_query_gives_the_rows_of_the_static_one(tables, tmp_path):
    tables.table("s").coalesce(1).write.parquet(str(tmp_path / "s"))
    schema = tables.table("s").schema
    tables.readStream.schema(schema).parquet(str(tmp_path / "s")).createOrReplaceTempView("live")
    text = "SELECT id, late, EXPECTED(x) AS e FROM {} [WATTR ts SLACK 2] WHERE x > 1"
    try:
        query = (
            sql(tables, text.format("live"))
            .writeStream.format("memory")
            .queryName("from_sql")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        out = {row.id: row for row in tables.table("from_sql").collect()}
    finally:
        tables.catalog.dropTempView("live")
    whole = {row.id: row for row in sql(tables, text.format("s")).collect()}
    assert out.keys() <= whole.keys()
    assert len(whole) - len(out) <= 2  # still held
    assert all(out[i] == whole[i] for i in out)


# ---- the model -----------------------------------------------------------------------------------


def test_numbers_of_attributes_are_those_of_the_functions(tables):
    text = (
        "SELECT id, EXPECTED(x), EXISTENCE(), STDDEV(t.y), QUANTILE(x, 50%) AS median, "
        "EXPECTED(x) + 1 AS more FROM s t WHERE EXPECTED(x) > 1 ORDER BY STDDEV(x), id"
    )
    expected = (
        tables.table("s")
        .where(sf.expected("x") > 1)
        .orderBy(sf.stddev("x"), "id")
        .select(
            "id",
            sf.expected("x"),
            sf.existence(),
            sf.stddev("y"),
            sf.quantile("x", 0.5).alias("median"),
            (sf.expected("x") + 1).alias("more"),
        )
    )
    df = sql(tables, text)
    assert df.columns == expected.columns
    assert df.collect() == expected.collect()


def test_an_attribute_in_plain_use_is_its_distribution(tables):
    df = sql(tables, "SELECT *, x, t.y AS why FROM s t WHERE id = 8")
    assert df.columns == [*tables.table("s").columns, "x", "why"]
    (row,) = df.collect()
    assert [tuple(a) for a in row.x] == [(0.5, 1.0), (0.25, 4.0)]
    assert [tuple(a) for a in row.why] == [(0.5, 1.0), (0.25, 2.0)]


def test_a_star_never_means_the_columns_added_for_a_query(tables):
    columns = tables.table("s").columns
    for text in (
        "SELECT * FROM s ORDER BY EXPECTED(x)",
        "SELECT t.* FROM s t ORDER BY EXPECTED(x)",
        "SELECT DISTINCT * FROM s WHERE EXPECTED(x) > 0",
    ):
        assert sql(tables, text).columns == columns, text
    assert sql(tables, "SELECT * EXCEPT (id), x FROM s").columns == [*columns[1:], "x"]
    both = "SELECT *, EXPECTED(a.x) - EXPECTED(b.x) AS d FROM s a JOIN r b ON a.id + 100 = b.id"
    df = sql(tables, both)
    assert df.columns == [*columns, *columns, "d"]
    assert {row[-1] for row in df.collect()} == {0.0}


def test_a_certain_table_is_taken_by_its_existence(tables):
    df = sql(tables, "SELECT EXPECTED(v) AS e, EXISTENCE() AS p, QUANTILE(v, 1) AS q FROM scored")
    assert [tuple(row) for row in df.collect()] == [(2.0, 0.5, 4.0)]
    assert sql(tables, "SELECT STDDEV(id) AS s FROM plain").first().s == pytest.approx(2.5**0.5)


# ---- similarity join -----------------------------------------------------------------------------


# ---- Spark's own ---------------------------------------------------------------------------------


def test_braces_in_a_rewritten_query_stay_the_users(tables):
    df = sql(tables, "SELECT '{d0} {{}} }{' AS `{b}`, map('{', 1)['{'] AS m FROM s [WATTR ts MAX]")
    assert df.columns == ["{b}", "m"]
    assert tuple(df.first()) == ("{d0} {{}} }{", 1)


def test_several_statements_give_a_list(tables):
    one, two = sql(tables, "SELECT id FROM plain; SELECT id FROM s [WATTR ts MAX];")
    assert (one.count(), two.count()) == (5, 40)


def test_nothing_runs_and_nothing_is_left_behind(tables):
    before = {t.name for t in tables.catalog.listTables()}
    sql(tables, "SELECT raise_error(concat('ran ', id)), EXPECTED(x) FROM s WHERE x > 1")
    assert {t.name for t in tables.catalog.listTables()} == before
