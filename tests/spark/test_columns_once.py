"""Columns under several names: each crosses to Python once, and the table is as it was."""

from __future__ import annotations

import datetime as dt
import inspect

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

import sfumato as sf
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.columns_once import LAYOUT, Once, marked, put_together
from sfumato.spark.model.arrow_types import ZONE
from sfumato.spark.model.names import fixed
from sfumato.spark.model.same import Constant, Field, Single, Whole
from sfumato.spark.runtime.fused import Fused
from sfumato.spark.runtime.made import made
from sfumato.spark.runtime.reading import projected
from sfumato.tables.operator import TIE

AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def read(out):
    """What the first operator of a chain reads, and the same with each column once."""
    (reader,) = Fused(made(out)).sources
    frame, cells = projected(reader, 1)
    read = frame.select(*structs(cells))
    return read, Once(frame, cells, reader.same(), chunks.BUCKET)


def structs(cells):
    """The columns, structs made of their cells."""
    for name, of in cells.items():
        yield (F.struct(*structs(of)) if isinstance(of, dict) else of).alias(name)


def once_of(df, same):
    """Of a frame with a column k beside the table."""
    return Once(df, {name: F.col(name) for name in df.columns if name != "k"}, same, "k")


def test_the_rows_of_a_chain_are_put_together_as_they_were(spark):
    rows = [
        (i, AT + dt.timedelta(seconds=i), i % 2, None if i == 3 else [(0.5, 1.0 * i), (0.4, None)])
        for i in range(6)
    ]
    columns = "id int, at timestamp, site int, alternatives array<struct<prob: double, x: double>>"
    df = spark.createDataFrame(rows, columns).coalesce(1)
    controlled = sf.reorder(df, event_time="at", arrival="at", key="site", drop_ratio=0.1)
    windows = sf.window_aggregate(
        controlled, {"m": "avg(x)"}, window=sf.Rows(2), order="at", key="site"
    )
    out = sf.top_k(windows, 1, by="id", window=sf.Range("3 seconds"), order="at", key="site")
    frame, once = read(out)
    leaves = [name for name in once.frame.columns if name != chunks.BUCKET]
    assert {"order0", "key0", TIE} <= set(leaves)
    assert len(leaves) < 20 < str(frame.schema).count("StructField")
    (chunk,) = [row["chunk"] for row in chunks.pack(once.frame, 0, 1, once.layout).collect()]
    table = chunks.from_bytes(chunk)
    assert table.column_names == leaves
    expected = frame.toArrow()
    again = put_together(table)
    assert {f.name: (f.type, f.nullable) for f in again.schema} == {
        f.name: (f.type, f.nullable) for f in expected.schema
    }
    assert again.select(expected.column_names).to_pylist() == expected.to_pylist()


def test_a_table_that_says_nothing_stays_as_it_is():
    table = pa.table({"a": [1]})
    assert put_together(table) is table
    assert LAYOUT not in (table.schema.metadata or {})


def test_a_list_of_one_value_crosses_as_that_value(spark):
    rows = [(1, AT, 2.0), (2, AT, None)]
    df = spark.createDataFrame(rows, "id int, at timestamp, x double").coalesce(1)
    out = sf.window_aggregate(df, {"m": "avg(x)"}, window=sf.Rows(2), order="at")
    frame, once = read(out)
    crossing = {f.name: f.dataType.simpleString() for f in once.frame.schema.fields}
    assert "prob" not in crossing  # a certain row's is 1
    assert crossing["value0"] == "double"
    assert "double" not in [crossing[name] for name in crossing if name != "value0"]
    (chunk,) = [row["chunk"] for row in chunks.pack(once.frame, 0, 1, once.layout).collect()]
    again = put_together(chunks.from_bytes(chunk)).select(["prob", "value0"])
    assert again.to_pydict() == {"prob": [[1.0], [1.0]], "value0": [[2.0], [None]]}
    assert again.schema.types == frame.select("prob", "value0").toArrow().schema.types


def test_columns_of_other_types_are_other_columns(spark):
    df = spark.createDataFrame([(1, 1.0)], "a int, b double").selectExpr(
        "a",
        "cast(a AS long) AS wide",
        "b",
        f"struct(a AS {fixed(0)}, b AS {fixed(1)}) AS row",
        "0 AS k",
    )
    same = {"a": 0, "wide": 0, "row": {fixed(0): 0, fixed(1): "another"}}
    once = once_of(df, same)
    assert once.frame.columns[:4] == ["k", "a", "wide", "b"]
    assert len(once.frame.columns) == 5


def test_what_is_in_the_lists_of_another_column_does_not_cross_itself(spark):
    """Whatever the lists hold: NULL lists, NULL in them, empty ones."""
    df = spark.createDataFrame(
        [(0, [(0.5, 1.0), (0.5, None)]), (1, None), (2, []), (3, [None, (1.0, 2.0)])],
        "k int, alternatives array<struct<prob: double, x: double>>",
    ).coalesce(1)
    df = df.selectExpr(
        "k", "alternatives.x AS x", "alternatives.prob AS prob", "struct(alternatives AS a) AS row",
        "cast(alternatives.x AS array<float>) AS short",
    )  # fmt: skip
    lists = Whole("alternatives")
    same = {"x": Field(lists, "x"), "prob": Field(lists, "prob"), "short": Field(lists, "x")}
    alone = once_of(df.drop("row"), same)
    assert {"x", "prob", "short"} <= set(alone.frame.columns)
    once = once_of(df, same | {"row": {"a": lists}})
    assert len(once.frame.columns) == 3
    assert "short" in once.frame.columns
    table = once.frame.drop("k").toArrow().combine_chunks()
    names, expected = ["x", "prob", "short", "row"], df.drop("k").toArrow()
    for first, rows in ((0, 4), (1, 3), (2, 1)):  # slices of what crossed, too
        again = put_together(marked(table.slice(first, rows), once.layout)).select(names)
        assert again.to_pylist() == expected.slice(first, rows).select(names).to_pylist()
        again.validate(full=True)
    assert again.schema.types == expected.select(names).schema.types


def test_structs_of_constants_and_columns_are_put_together(spark):
    df = spark.createDataFrame([(0, 2.0), (1, None)], "k int, x double").coalesce(1)
    df = df.selectExpr(
        "k", "x", "array(struct(1.0D AS prob, x AS on0)) AS a", "struct(0 AS c) AS row"
    )
    same = {
        "x": Whole("x"),
        "a": Single({"prob": Constant(1.0), "on0": Whole("x")}),
        "row": {"c": Constant(0)},
    }
    once = once_of(df, same)
    assert once.frame.columns == ["k", "x"]
    again = put_together(marked(once.frame.drop("k").toArrow(), once.layout))
    expected = df.drop("k").toArrow()
    assert again.select(expected.column_names).to_pylist() == expected.to_pylist()
    assert again.select(expected.column_names).schema.types == expected.schema.types


def test_a_text_that_only_looks_like_a_column_is_computed(spark):
    """A column may be called 1, or true."""
    df = spark.createDataFrame([(AT, 5.0, 7.0)], "at timestamp, `1` double, `true` double")
    asked = {"one": "sum(1)", "column": "sum(`1`)", "yes": "sum(true)", "named": "sum(`true`)"}
    out = sf.window_aggregate(df, asked, window=sf.Rows(2), order="at")
    (row,) = out.collect()
    assert [row[name].mean for name in asked] == [1.0, 5.0, 1.0, 7.0]


@pytest.mark.skipif(
    "timezone" not in inspect.signature(to_arrow_schema).parameters,
    reason="this PySpark makes UTC of every time zone",
)
def test_nulls_that_stand_for_times_have_the_time_zone_of_the_session(spark):
    """A chain holds them beside rows whose times Spark has given it."""

    def types_of(batches):
        for batch in batches:
            yield pa.record_batch({"kind": [str(batch.schema.field("row").type)]})

    rows = [(i, AT + dt.timedelta(seconds=i), 1.0 * i) for i in range(4)]
    spark.conf.set(ZONE, "America/New_York")
    try:
        df = spark.createDataFrame(rows, "id int, at timestamp, x double").coalesce(1)
        controlled = sf.reorder(df, event_time="at", arrival="at", drop_ratio=0.1)
        out = sf.window_aggregate(controlled, {"m": "avg(x)"}, window=sf.Rows(2), order="at")
        frame, once = read(out)
        (chunk,) = [row["chunk"] for row in chunks.pack(once.frame, 0, 1, once.layout).collect()]
        given = frame.mapInArrow(types_of, "kind string").first()["kind"]
    finally:
        spark.conf.set(ZONE, "UTC")
    assert "tz=America/New_York" in given
    held = str(put_together(chunks.from_bytes(chunk)).schema.field("row").type)
    assert held.replace(" not null", "") == given.replace(" not null", "")
