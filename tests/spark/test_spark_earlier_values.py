"""sf.earlier_values on real Spark: late rows, and orders that are no numbers."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import sfumato as sf
from streams import counts_of, put_parts, run, stream_of

pytestmark = pytest.mark.spark

SCHEMA = "id long, device string, time timestamp, a double, b double"
START = 1_600_000_000_000_000  # microseconds
ADDED = ["earlier_a", "age_a", "earlier_b", "age_b"]


def table_of(rows):
    ids, device, at, a, b = zip(*rows, strict=True)
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        [pa.array(ids), pa.array(device, pa.string()), pa.array(at, pa.int64()).cast(stamp),
         pa.array(a, pa.float64()), pa.array(b, pa.float64())],
        names=["id", "device", "time", "a", "b"],
    )  # fmt: skip


def knows(df):
    return sf.earlier_values(df, ["a", "b"], order="time", key="device")


def test_a_late_row_replaces_nothing(spark, tmp_path):
    rows = [
        (0, "d", START, 1.0, None),
        (1, "d", START + 4_000_000, 2.0, 3.0),
        (2, "d", START + 1_000_000, 9.0, 9.0),
        (3, "d", START + 5_000_000, None, None),
    ]
    put_parts(tmp_path / "in", table_of(rows), [0, 2, 3, 4])
    got, query = run(knows(stream_of(spark, tmp_path / "in", SCHEMA)), tmp_path)
    by_id = {row.id: tuple(row[name] for name in ADDED) for row in got}
    assert by_id[2] == (2.0, -3.0, 3.0, -3.0)
    assert by_id[3] == (2.0, 1.0, 3.0, 1.0)
    assert counts_of(query)["out_of_order"] == 1


def test_an_order_that_is_no_number_is_no_order(spark):
    rows = [("x", 1.0, 5.0), ("y", math.nan, 6.0), ("z", 2.5, None)]
    df = spark.createDataFrame(rows, "id string, at double, a double")
    out = sf.earlier_values(df, "a", order="at").collect()
    got = {row.id: (row.earlier_a, row.age_a) for row in out}
    assert got == {"x": (None, None), "y": (None, None), "z": (5.0, 1.5)}
