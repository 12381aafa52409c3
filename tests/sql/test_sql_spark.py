"""The language on Spark: the same rows as the functions; Spark's own queries are unchanged."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.language import explain, sql
from sql_readings import JOIN, same

pytestmark = pytest.mark.spark


# ---- windows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bracket", "arguments"),
    [
        ("RANGE 300 seconds SLIDE 30 seconds WATTR ts SLACK 10", {"slack": 10}),
        ("RANGE 300 seconds SLIDE 30 seconds WATTR ts DRATIO 1%", {"drop_ratio": 0.01}),
        (
            "RANGE 300 seconds SLIDE 30 seconds WATTR ts DRATIO 1% BSIZE 3",
            {"drop_ratio": 0.01, "max_buffer": 3},
        ),
        ("WATTR TS MAX ARRIVAL Arrival", {"estimator": "max"}),
        ("WATTR ts BSIZE 7", {"max_buffer": 7}),
        ("WATTR ts BSIZE_TOTAL 7 KEY sensor", {"max_buffer_total": 7, "key": "sensor"}),
        ("WATTR ts PUNCTUATION ts KEY sensor", {"punctuation": "ts", "key": "sensor"}),
        (
            "WATTR ts DRATIO 10% ESTIMATOR CONFORMAL KEY sensor IDLE 10 seconds",
            {
                "drop_ratio": 0.1,
                "estimator": "conformal",
                "key": "sensor",
                "idle_timeout": "10 seconds",
            },
        ),
    ],
)
def test_a_window_by_time_gives_the_rows_of_reorder(tables, bracket, arguments):
    by_function = sf.reorder(tables.table("s"), event_time="ts", arrival="arrival", **arguments)
    same(sql(tables, f"SELECT * FROM s [{bracket}]"), by_function)


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


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT * FROM s WHERE x > 3", "x > 3"),
        ("SELECT * FROM s AS t WHERE t.x > 3 AND t.sensor = 'a' -- done", "x > 3 AND sensor = 'a'"),
        ("FROM s SELECT * WHERE `X` BETWEEN y AND 4 OR id = 1", "x BETWEEN y AND 4 OR id = 1"),
        ("SELECT * FROM s WHERE sensor = '{x}' OR x = 1", "x = 1"),
    ],
)
def test_where_over_attributes_is_the_filter_of_the_model(tables, text, condition):
    same(sql(tables, text), sf.where(tables.table("s"), condition))


def test_where_over_certain_columns_is_sparks(tables):
    same(sql(tables, "SELECT * FROM s WHERE id < 3"), tables.table("s").where("id < 3"))


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


def test_numbers_see_the_filtered_alternatives_but_those_in_where_do_not(tables):
    kept = sf.where(tables.table("s").where(sf.expected("x") > 1.5), "x > 3")
    df = sql(tables, "SELECT id, EXPECTED(x) AS e FROM s WHERE x > 3 AND EXPECTED(x) > 1.5")
    same(df, kept.select("id", sf.expected("x").alias("e")))


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


def by_function(spark, **more):
    return sf.similarity_join(
        spark.table("s"),
        spark.table("r"),
        on=["x", "y"],
        probability=0.25,
        **{"within": 0.5, "window": sf.Rows(10), "order": "arrival", **more},
    )


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (f"SELECT * FROM s AS a [ROWS 10 CONFIDENCE 95%] {JOIN} USING NESTED", {}),
        (
            f"SELECT * FROM s a [ROWS 4 CONFIDENCE 0.8 ORDER ts, id] {JOIN} USING INDEX "
            "AND b.sensor = a.sensor",
            {"window": sf.Rows(4, 0.8), "order": ["ts", "id"], "key": "sensor"},
        ),
        (
            f"SELECT * FROM s a [ROWS 3] {JOIN} OUTPUT CHANGES",
            {"window": sf.Rows(3), "output": "changes"},
        ),
        (
            f"SELECT * FROM s a [SPAN 40 seconds ORDER ts] {JOIN}",
            {"window": sf.Range("40 seconds"), "order": "ts"},
        ),
        (
            "SELECT * FROM s a [ROWS 4 SPAN 1 minute ORDER ts] SIMILARITY JOIN r [SPAN 20 s] AS b "
            "ON (x, y) WITHIN (0.5, 2) PROBABILITY 25%",
            {
                "window": (sf.Rows(4, within="1 minute"), sf.Range("20 s")),
                "within": {"x": 0.5, "y": 2},
                "order": "ts",
            },
        ),
        (
            f"SELECT * FROM s a [ROWS 2 LOCKSTEP ORDER ts] {JOIN}",
            {"window": sf.Rows(2, lockstep=True), "order": "ts"},
        ),
        (
            f"SELECT * FROM s a [DELTA 0.4 ON x THRESHOLD 80%] {JOIN}",
            {"window": sf.Delta(0.4, on="x", threshold=0.8)},
        ),
        (
            f"SELECT * FROM s a [SPAN 20 seconds ORDER ts] {JOIN} HOW full",
            {"window": sf.Range("20 seconds"), "order": "ts", "how": "full"},
        ),
        (
            "SELECT * FROM s a [ROWS 9] SIMILARITY JOIN r AS b ON (x, y) WITHIN 100000 "
            "PROBABILITY 25% METRIC haversine",
            {"window": sf.Rows(9), "within": 100_000, "metric": "haversine"},
        ),
    ],
)
def test_a_similarity_join_gives_the_rows_of_the_function(tables, text, more):
    assert same(sql(tables, text), by_function(tables, **more))


def test_names_of_a_similarity_join_are_those_of_its_tables(tables):
    df = sql(
        tables,
        "SELECT a.id, b.id AS other, left.sensor, probability, EXPECTED(a.x) AS e, b.x, "
        f"EXISTENCE() AS p FROM s a [ROWS 10] {JOIN} WHERE a.id < 30 ORDER BY probability",
    )
    pairs = by_function(tables).where("left.id < 30")
    same(
        df,
        pairs.select(
            "left.id",
            F.col("right.id").alias("other"),
            "left.sensor",
            "probability",
            sf.expected("left_x").alias("e"),
            F.expr(
                "transform(alternatives, q -> named_struct('prob', q.prob, 'right_x', q.right_x))"
            ).alias("x"),
            sf.existence().alias("p"),
        ),
    )


def test_a_filter_on_a_joins_attributes_keeps_the_satisfying_pairs(tables):
    text = f"SELECT a.id, probability, alternatives FROM s a [ROWS 10] {JOIN}"
    df = sql(tables, f"{text} WHERE a.x > 2 AND right_y = 1 AND b.sensor = 'a'")
    kept = sf.where(by_function(tables), "left_x > 2 AND right_y = 1 AND right.sensor = 'a'")
    same(df, kept.select("left.id", "probability", "alternatives"))


def test_the_sides_of_a_join_may_be_queries(tables):
    text = (
        "SELECT * FROM (SELECT * FROM s [WATTR ts SLACK 3] WHERE NOT late) a [ROWS 10 ORDER ts] "
        f"{JOIN}"
    )
    ordered = sf.reorder(tables.table("s"), event_time="ts", arrival="arrival", slack=3)
    expected = sf.similarity_join(
        ordered.where("NOT late"),
        tables.table("r"),
        on=["x", "y"],
        within=0.5,
        probability=0.25,
        window=sf.Rows(10),
        order="ts",
    )
    same(sql(tables, text), expected)


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
