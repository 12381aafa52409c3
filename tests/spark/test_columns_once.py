"""Columns under several names: each crosses to Python once, and the table is as it was."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

import sfumato as sf
from sfumato.spark.model.names import fixed
from sfumato.spark.runtime import chunks
from sfumato.spark.runtime.columns_once import LAYOUT, Once, put_together
from sfumato.spark.runtime.fused import Fused
from sfumato.spark.runtime.made import made
from sfumato.spark.runtime.reading import projected
from sfumato.tables.operator import TIE

AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def read(out):
    """What the first operator of a chain reads, and the same with each column once."""
    (reader,) = Fused(made(out)).sources
    frame = projected(reader, 1)
    return frame, Once(frame, reader.same(reader.input.frame.columns), chunks.BUCKET)


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
    expected = frame.drop(chunks.BUCKET).toArrow()
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
    assert crossing["prob"] == crossing["value0"] == "double"
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
    once = Once(df, same, "k")
    assert once.frame.columns[:4] == ["k", "a", "wide", "b"]
    assert len(once.frame.columns) == 5
