"""Any column name and any key that Spark can group by, through every operator with state."""

import math
from decimal import Decimal
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.spark.runtime.fuse import COMMONEST
from spark_tables import tables_of
from streams import observed, put, run, stream_of

pytestmark = pytest.mark.spark

ODD = ["a.b", "c`d", "__tie", "__bucket", "key0", "row", "c0", "Größe, ü", "SELECT", "value0"]


def frame(spark, extra=""):
    """Build rows in order of `order0`, with columns of every odd name."""
    names = ", ".join(f"`{name.replace('`', '``')}` long" for name in ODD)
    rows = [(i, f"k{i % 2}", float(i), *(i * 10 + j for j in range(len(ODD)))) for i in range(6)]
    return spark.createDataFrame(rows, f"`order0` long, `key 0` string, `x.y` double, {names}")


def columns_of(df, names):
    """Return the values of some columns from one run, each column requested by its name."""
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    return [column.to_pylist() for column in df.select(*map(F.col, quoted)).toArrow().columns]


def assert_odd_columns_are_whole(out, *more):
    """Check the odd columns, and return the values of `more` columns, in order."""
    found = columns_of(out, [*ODD, *more])
    for j, values in enumerate(found[: len(ODD)]):
        assert sorted(values) == [i * 10 + j for i in range(6)]
    return [sorted(values) for values in found[len(ODD) :]]


def test_columns_of_any_name_pass_through_every_operator(spark):
    df = frame(spark)
    ordered = sf.reorder(df, event_time="order0", arrival="order0", key="key 0", slack=1)
    known = sf.earlier_values(ordered, "x.y", order="order0", key="KEY 0")
    assert known.columns[-2:] == ["earlier_x.y", "age_x.y"]
    window = sf.window_aggregate(
        known, {"total.1": "sum(`x.y`)"}, window=sf.Rows(2), order="order0", key="key 0"
    )
    twice = sf.window_aggregate(
        window, {"n": "count(*)"}, window=sf.Rows(3), order="ORDER0", key="key 0"
    )
    held, before = assert_odd_columns_are_whole(twice, "held", "held_1")
    assert held == [1, 1, 2, 2, 3, 3]
    assert before == [1, 1, 2, 2, 2, 2]
    ranked = sf.top_k(
        df, 1, by="`x.y`", window=sf.Range("2 us", slide="2 us"), order="order0", key="key 0"
    )
    assert set(ranked.select("row.*").columns) == set(df.columns)
    joined = sf.similarity_join(
        df, df, on="x.y", within=0.5, probability=1, window=sf.Rows(9), order="order0", key="key 0"
    )
    rows = joined.select("left.*")
    assert_odd_columns_are_whole(rows)
    assert joined.schema["alternatives"].dataType.elementType.names == [
        "prob", "left_x.y", "right_x.y",
    ]  # fmt: skip


def test_a_column_without_a_name_passes_through_a_chain(spark):
    df = spark.createDataFrame(pa.table({"at": range(6), "x": [1.0] * 6, "": range(6)}))
    ordered = sf.reorder(df, event_time="at", arrival="at", slack=1)
    last = sf.top_k(ordered, 9, by="x", window=sf.Range("9 us"), order="at").toArrow()
    assert sorted(row[""] for row in last["row"].to_pylist()) == [0, 1, 2, 3, 4, 5]


KEYS = {
    "double": [math.nan, 0.0, -0.0, None],
    "array<double>": [[math.nan], [0.0], [-0.0], None],
    "struct<a: string, b: array<int>>": [("x", [1]), None, ("x", [1]), ("y", None)],
    "decimal(9,2)": [None, "1", "1.00", "2"],
    "interval day to second": [None, 5, 5, 6],
    "binary": [b"", b"a", None, b"a"],
    "boolean": [True, None, False, True],
}


def keyed(spark, kind):
    shown = "string" if kind[0] in "di" and kind != "double" else kind
    rows = [(i, value if shown == kind or value is None else str(value))
            for i, value in enumerate(KEYS[kind] * 3)]  # fmt: skip
    df = spark.createDataFrame(rows, f"i long, k {shown}")
    if kind.startswith("decimal"):
        return df.withColumn("k", F.col("k").cast(kind))
    if kind.startswith("interval"):
        return df.withColumn("k", F.expr("make_dt_interval(0, 0, 0, cast(k as double))"))
    return df


def test_an_aggregate_of_a_name_alone_needs_no_backquotes(spark):
    table = pa.table({"at": [1, 2, 3], "flow rate": [1.0, 2.0, 6.0], "flow.rate": [2.0, 3.0, 4.0]})
    table = table.append_column("flow (l/s)", table["flow rate"])
    asked = {
        "n": "avg(flow (l/s))",
        "m": "max(flow.rate)",
        "both": "sum(`flow rate` - `flow.rate`)",
    }
    found = [
        sf.window_aggregate(rows, asked, window=sf.Rows(3), order="at").select(*asked)
        for rows in (spark.createDataFrame(table), pl.from_arrow(table))
    ]
    expected = [(1.0, 2.0, -1.0), (1.5, 3.0, -2.0), (3.0, 4.0, 0.0)]
    assert [tuple(row) for row in found[0].collect()] == found[1].rows() == expected


def test_a_name_that_needs_backquotes_is_named_in_the_error(spark):
    table = pa.table({"at": [1, 2], "flow (l/s)": [1.0, 2.0]})
    for rows in (spark.createDataFrame(table), table):
        for ask in (
            lambda of: sf.window_aggregate(
                of, {"n": "sum(2 * flow (l/s))"}, window=sf.Rows(3), order="at"
            ),
            lambda of: sf.where(of, "flow (l/s) > 1"),
        ):
            with pytest.raises(ValueError, match=r"Write `flow \(l/s\)` in backquotes$"):
                ask(rows)


def test_keys_are_grouped_as_spark_groups_them(spark):
    frames = {}
    for kind in KEYS:
        df = keyed(spark, kind)
        out = sf.window_aggregate(df, {"n": "count(*)"}, window=sf.Rows(12), order="i", key="k")
        frames[kind] = out.groupBy("k").agg(F.max("held").alias("n")).select("n")
        frames[kind, "by Spark"] = df.groupBy("k").agg(F.count("*").alias("n")).select("n")
    sizes = {name: sorted(table["n"].to_pylist()) for name, table in tables_of(frames).items()}
    assert {kind: sizes[kind] for kind in KEYS} == {kind: sizes[kind, "by Spark"] for kind in KEYS}


def test_keys_that_spark_cannot_group_by_are_refused_before_anything_runs(spark):
    df = spark.sql("select map('a', 1) as m, 1L as t, 2.0 as x")
    with pytest.raises(TypeError, match=r"`key` must name .*; Spark cannot group by column `m`"):
        sf.earlier_values(df, "x", order="t", key="m")


def test_a_name_means_what_it_means_to_spark(spark):
    df = spark.sql("select 1L as Time, 'a' as k, 2.0 as x, 3.0 as X")
    with pytest.raises(ValueError, match="names a column `y` that is not in the frame"):
        sf.earlier_values(df, "y", order="time", key="K")
    assert (
        sf.earlier_values(df.toDF("Time", "k", "x", "y"), "X", order="time", key="K").count() == 1
    )
    with pytest.raises(ValueError, match=r"but the frame has 2 \(x, X\)"):
        sf.earlier_values(df, "x", order="time")


SCHEMA = "t long, k string, x double"
ROWS = [(0, "a", 1.0), (1, "b", 2.0), (5, "a", None), (9, "b", 3.0), (16, "a", None),
        (17, "a", 7.0), (18, "b", None), (40, "b", None), (41, "a", None)]  # fmt: skip


def test_a_key_begins_anew_after_forget_after_whatever_the_micro_batches(spark, tmp_path):
    def known(df):
        return sf.earlier_values(df, "x", order="t", key="k", forget_after=10, name="anew")

    static = known(spark.createDataFrame(ROWS, SCHEMA)).select("t", "earlier_x")
    expected = {0: None, 1: None, 5: 1.0, 9: 2.0, 16: None, 17: None, 18: 3.0, 40: None, 41: None}
    assert dict(map(tuple, static.collect())) == expected
    found = {}
    for number, (begin, end) in enumerate(pairwise([0, 1, 6, 9])):
        t, k, x = zip(*ROWS[begin:end], strict=True)
        put(tmp_path / "in", number, pa.table({"t": t, "k": k, "x": pa.array(x, pa.float64())}))
        spark.conf.set("spark.sql.shuffle.partitions", str(1 + number % 3))  # for different cores
        rows, query = run(known(stream_of(spark, tmp_path / "in", SCHEMA)), tmp_path)
        found |= {row.t: row.earlier_x for row in rows}
        assert {name for name, _ in observed(query)} <= {"sfumato_earlier_values_anew"}
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert found == expected


def test_the_name_of_an_operator_stays_when_others_run_in_one_step_with_it(spark, tmp_path):
    columns = ("timestamp_seconds(id) AS ts", "timestamp_seconds(id) AS arrival", "id / 3D AS x")
    rows = spark.range(40).selectExpr(*columns)
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))

    def names(df, folder):
        _, query = run(df, tmp_path / folder)
        return {name for name, _ in observed(query) if "_input" not in name}

    def mean(df, **more):
        return sf.window_aggregate(df, {"m": "avg(x)"}, window=sf.Rows(5), order="ts", **more)

    intake = sf.reorder(stream, event_time="ts", arrival="arrival", slack=3, name="intake")
    means = mean(intake, name="means")
    both = {"sfumato_reorder_intake", "sfumato_window_means"}
    best = sf.top_k(
        means, sf.Top(1, every="5 s"), by="m", window=sf.Rows(3), order="ts", name="best"
    )
    counted = {"sfumato_top_k_best", "sfumato_top_k_best_answers"}
    assert names(best, "c") == both | counted
    # A second chain with the same operator may be in the same query.
    again = mean(intake, name="again").select("m")
    assert names(means.select("m").union(again), "d") == both | {
        "sfumato_window_again",
        "sfumato_reorder_intake__in_window_again",
    }


def test_a_text_that_only_looks_like_a_column_is_computed(spark):
    """A column may be named 1, or true."""
    df = spark.createDataFrame([(1, 5.0, 7.0)], "at long, `1` double, `true` double")
    asked = {"one": "sum(1)", "column": "sum(`1`)", "yes": "sum(true)", "named": "sum(`true`)"}
    table = df.toArrow()
    (row,) = sf.window_aggregate(df, asked, window=sf.Rows(2), order="at").collect()
    assert [row[name] for name in asked] == [1.0, 5.0, 1.0, 7.0]
    del asked["yes"]  # Arrow does not add booleans
    (row,) = sf.window_aggregate(table, asked, window=sf.Rows(2), order="at").to_pylist()
    assert [row[name] for name in asked] == [1.0, 5.0, 7.0]


def test_expressions_that_arrow_computes_otherwise_are_computed_by_spark(spark):
    df = spark.createDataFrame([(1, 3, 7.0)], "at long, n long, x double")
    asked = {
        "decimal": "sum(n * 0.1)", "comment": "sum(x --1\n)", "function": "sum(round(x - 10))",
        "guarded": "sum(n = 0 or x / n > 2)", "arrow": "sum(x / 2 - n)",
    }  # fmt: skip
    (row,) = sf.window_aggregate(df, asked, window=sf.Rows(2), order="at").collect()
    assert row["decimal"] == Decimal("0.3")  # literals like 0.1 are decimals in Spark
    found = [float(row[name]) for name in asked]
    assert found == pytest.approx([0.3, 7.0, -3.0, 1.0, 0.5])


def test_the_commonest_reason_is_that_of_most_rows_of_all_buckets(spark):
    texts = ['{"order is NULL": 2}', '{"order is NULL": 2, "key is NULL": 1}', '{"a": 3}', None]
    rows = spark.createDataFrame([(text,) for text in texts], "t string")
    commonest = F.expr(COMMONEST.format("t"))
    assert rows.agg(commonest).first()[0] == "order is NULL"
    assert rows.where("t IS NULL").agg(commonest).first()[0] is None
