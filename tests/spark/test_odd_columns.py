"""Error messages for columns whose names, types or order have surprising meanings."""

import warnings
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types

import sfumato as sf
from streams import put, run, stream_of

HOUR = sf.Range("1 hour")


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(6).selectExpr(
        "id", "timestamp_seconds(id) AS made", "timestamp_seconds(id) AS arrival", "double(id) AS x"
    )


def counts(df, **more):
    return sf.window_aggregate(df, {"n": "count(*)"}, window=HOUR, order="made", **more)


@pytest.mark.parametrize("name", ["Late", "LATE", "Punctuation", "late"])
def test_a_column_called_as_a_mark_of_reorder_is_refused_whatever_its_case(rows, name):
    named = rows.withColumn(name, F.lit(1))
    with pytest.raises(ValueError, match=f"already has a column `{name}`.*rename it before"):
        sf.reorder(named, event_time="made", arrival="arrival", slack=0)


def test_where_spark_tells_case_apart_the_column_is_another_one(spark, rows):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        named = rows.withColumn("Late", F.lit(1))
        found = sf.reorder(named, event_time="made", arrival="arrival", slack=0)
        assert found.where("NOT late").count() == 6
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.parametrize("name", ["Reason", "reason"])
def test_rejected_refuses_a_column_reason_whatever_its_case(rows, name):
    with pytest.raises(ValueError, match=f"already has a column `{name}`"):
        sf.split_invalid(rows.withColumn(name, F.lit("")), "x")


@pytest.mark.parametrize("name", ["Window", "HELD"])
def test_a_result_called_as_a_column_of_the_answers_is_refused_whatever_its_case(rows, name):
    with pytest.raises(ValueError, match=f"names a result `{name}`"):
        sf.window_aggregate(rows, {name: "count(*)"}, window=HOUR, order="made")


def test_two_results_of_one_name_are_refused_where_case_does_not_tell_them_apart(rows):
    with pytest.raises(ValueError, match="names a result `M`, but the answer already has a column"):
        sf.window_aggregate(rows, {"m": "count(*)", "M": "sum(x)"}, window=HOUR, order="made")


@pytest.mark.parametrize("value", ["'bus, train'", "array(1)", "2"])
def test_alternatives_of_another_kind_are_refused_in_a_sentence(rows, value):
    with pytest.raises(TypeError, match="column `alternatives` must be array<struct<prob"):
        counts(rows.withColumn("alternatives", F.expr(value)))


@pytest.mark.parametrize("value", ["true", "'yes'", "current_timestamp()"])
def test_an_existence_of_another_kind_is_refused_in_a_sentence(rows, value):
    named = rows.withColumn("existence", F.expr(value))
    pairs = {"on": "x", "within": 1, "probability": 0.5, "window": HOUR, "order": "made"}
    for function in (
        lambda: counts(named),
        lambda: sf.self_join(named, **pairs),
        lambda: sf.split_invalid(named)[0],
        lambda: sf.top_k(named, 1, by="x", window=HOUR, order="made"),
    ):
        with pytest.raises(TypeError, match="the probability that a row exists, a number"):
            function()


def test_an_existence_in_another_case_is_refused_and_not_ignored(rows):
    with pytest.raises(ValueError, match="a column `Existence`, but `existence` is reserved for"):
        counts(rows.withColumn("Existence", F.lit(0.5)))
    found = counts(rows.withColumn("Existence", F.lit(0.5)), existence="Existence")
    assert [row.n.mean for row in found.collect()] == [3.0]


def test_a_key_with_a_collation_is_refused_with_what_to_write(spark, rows):
    collated = rows.selectExpr("*", "CAST(IF(id % 2 = 0, 'A', 'a') AS STRING COLLATE UTF8_LCASE) k")
    with pytest.raises(
        TypeError, match=r"`key` names column `k` with the collation UTF8_LCASE.*collate"
    ):
        counts(collated, key="k")
    inside = collated.withColumn("s", F.struct("k"))
    with pytest.raises(TypeError, match="collation UTF8_LCASE"):
        counts(inside, key="s")
    plain = collated.withColumn("k", F.expr("collate(lower(k), 'UTF8_BINARY')"))
    assert [row.n for row in counts(plain, key="k").collect()] == [6]


def test_measurements_with_a_collation_are_refused(rows):
    value = F.struct(F.lit(1.0).alias("prob"), F.expr("'A' COLLATE UTF8_LCASE").alias("k"))
    with pytest.raises(TypeError, match="`measurements` names column `a` with the collation"):
        sf.fuse(rows.withColumn("a", F.array(value)), "a")


@pytest.mark.parametrize("operator", ["window", "pairs", "ranking"])
def test_structs_of_a_stream_hold_arrays_without_null_elements(spark, tmp_path, operator):
    put(tmp_path / "in", 1, pa.table({"t": range(8), "x": [float(i % 3) for i in range(8)]}))
    read = stream_of(spark, tmp_path / "in", "t long, x double")
    static = spark.read.parquet(str(tmp_path / "in"))
    window = sf.Range("4 us")

    def answers(rows):
        rows = rows.withColumn("alternatives", sf.samples("x", 0.5, 2, attributes="y"))
        rows = rows.withColumn("pair", F.array("x", F.lit(1.0)))
        if operator == "window":
            how = {"window": window, "order": "t", "missed": True}
            return sf.window_aggregate(rows, {"m": "max(y)"}, **how)
        if operator == "ranking":
            return sf.top_k(rows, 1, by="y", window=window, order="t")
        near = {"on": "y", "within": 0.6, "probability": 0.1, "alternatives": True}
        return sf.self_join(rows, **near, window=window, order="t")

    found, _ = run(answers(read), tmp_path)
    assert found
    assert {*map(str, found)} <= {*map(str, answers(static).collect())}


POINT = "st_geomfromwkb(unhex('0101000000000000000000F03F0000000000000040'))"


@pytest.mark.parametrize("form", ["{}", "array({})", "named_struct('geometry', {})"])
def test_geometries_pass_through_a_stream(spark, tmp_path, form):
    if not hasattr(types, "GeometryType"):
        pytest.skip("this version of Spark has no geometries")
    put(tmp_path / "in", 1, pa.table({"t": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]}))

    def answers(rows):
        rows = rows.withColumn("at", F.expr(form.format(POINT)))
        rows = sf.reorder(rows, event_time="t", arrival="t", slack=1)
        return sf.window_aggregate(rows, {"n": "count(*)"}, window=sf.Rows(2), order="t")

    found, _ = run(answers(stream_of(spark, tmp_path / "in", "t long, x double")), tmp_path)
    expected = answers(spark.read.parquet(str(tmp_path / "in"))).collect()
    assert len(found) == 3  # the newest row is held
    assert {*map(str, found)} < {*map(str, expected)}
    assert "Geometry" in str(found[0].at)
    static = spark.range(1).selectExpr("id", f"{form.format(POINT)} AS at")
    with pytest.raises(TypeError, match=r"cannot group by column `at`, which is .*geometry\(0\)"):
        sf.reorder(static, event_time="id", arrival="id", key="at", slack=1)


def test_a_struct_with_a_field_called_geometry_is_a_key(rows):
    named = rows.withColumn("place", F.expr("named_struct('geometry', id % 2, 'variant', 1)"))
    assert [row.n for row in counts(named, key="place").collect()] == [3, 3]


def test_intervals_of_months_are_refused_with_what_to_write(rows):
    months = rows.withColumn("span", F.expr("make_ym_interval(1, 2)"))
    with pytest.raises(TypeError, match=r"pass the column `span`, which is interval year to month"):
        sf.reorder(months, event_time="made", arrival="arrival", slack=1)
    with pytest.raises(TypeError, match="convert it to a string, or drop it"):
        sf.window_aggregate(months, {"n": "count(*)"}, window=sf.Rows(2), order="made")
    assert [row.n for row in counts(months).collect()] == [6]


def test_columns_in_another_order_after_a_restart_are_refused_in_a_sentence(rows, tmp_path):
    spark = rows.sparkSession

    def run(*columns):
        stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
        found = sf.reorder(stream.select(*columns), event_time="made", arrival="arrival", slack=1)
        writer = found.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "state"))
        writer.start(str(tmp_path / "out")).awaitTermination()

    rows.write.parquet(str(tmp_path / "in"))
    run("id", "made", "arrival", "x")
    rows.write.mode("append").parquet(str(tmp_path / "in"))
    with pytest.raises(Exception, match="select the columns in their earlier order"):
        run("id", "x", "made", "arrival")
    run("id", "made", "arrival", "x")


@pytest.fixture(scope="module")
def labels(spark):
    uncertain = spark.createDataFrame(
        [(0, [(0.7, "cat", 1.0), (0.3, None, 2.0)]), (1, [(0.5, "dog", 3.0)])],
        "s int, alternatives array<struct<prob: double, label: string, x: double>>",
    ).selectExpr("timestamp_seconds(s) AS at", "alternatives")
    certain = spark.sql(
        "SELECT timestamp_seconds(0) AS at, 'cat' AS label UNION ALL "
        "SELECT timestamp_seconds(1), NULL"
    )
    return {"uncertain": uncertain, "certain": certain}


def test_measures_of_texts_say_so(labels):
    for measure in (sf.expected("label"), sf.stddev("label"), sf.quantile("label", 0.5)):
        with pytest.raises(Exception, match="the attribute `label` must be numeric"):
            labels["uncertain"].select(measure).collect()


@pytest.mark.parametrize("name", ["uncertain", "certain"])
def test_sql_counts_texts_and_refuses_numbers_of_them_when_it_is_planned(spark, labels, name):
    labels[name].createOrReplaceTempView("labelled")
    window = "FROM labelled [ROWS 5 ORDER at]"
    assert len(sf.sql(spark, f"SELECT COUNT(label) AS n {window}").collect()) == 2
    for text in (
        "SELECT EXPECTED(label) FROM labelled",
        "SELECT QUANTILE(label, 0.5) FROM labelled",
        f"SELECT AVG(label) {window}",
        f"SELECT EXPECTED(MAX(label)) {window}",
        f"SELECT PROB(SUM(label) > 1) {window}",
    ):
        with pytest.raises(sf.errors.SqlError, match=r"label.* is string"):
            sf.sql(spark, text)


def test_a_column_of_nothing_but_null_is_one_of_numbers(spark, rows):
    history = spark.range(30).selectExpr("double(id) AS x", "id * 2D AS y")
    missing = rows.selectExpr("x", "NULL AS y")
    how = {"repository": history, "dependencies": "x -> y : 0.5 -> 0.5", "attributes": "y"}
    assert sf.impute(missing, **how).where("imputed_by IS NOT NULL").count() == 6
    (found,) = sf.window_aggregate(
        rows.selectExpr("made", "NULL AS y"), {"n": "count(y)"}, window=HOUR, order="made"
    ).collect()
    assert found.n == 0


@pytest.mark.parametrize(("kind", "is_long"), [("DECIMAL(38, 2)", True), ("DECIMAL(15, 2)", False)])
def test_decimals_with_more_digits_than_a_double_are_warned_of(rows, kind, is_long):
    money = rows.selectExpr("made", f"CAST(0.25 AS {kind}) AS x")
    window = {"window": HOUR, "order": "made"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (found,) = sf.window_aggregate(money, {"m": "sum(x)"}, **window).collect()  # exact
        sf.window_aggregate(money, {"m": "avg(x)"}, **window)
        sf.self_join(money, on="x", within=1, probability=0.5, window=HOUR, order="made")
        sf.window_aggregate(money, {"n": "count(x)"}, **window)
    said = [w for w in caught if "has decimal(38,2) values in `x`" in str(w.message)]
    assert len({w.lineno for w in said}) == (2 if is_long else 0)
    assert all(w.filename == __file__ for w in said)
    assert found.m == Decimal("1.50")
