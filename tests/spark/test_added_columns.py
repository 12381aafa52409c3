"""A pass-through column is added to a running checkpoint, on real Spark."""

from functools import reduce

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from seeds import nightly_except
from two_sources import CONTROL, SCHEMA, add_files, run_over, source, write_files

pytestmark = pytest.mark.spark

NOTE = "note struct<tags: array<string>, at: timestamp>"
WIDE = SCHEMA.replace("id long", f"id long, {NOTE}")
RANGE = sf.Range("4 minutes", "2 minutes")
PAIRS = {"on": "x", "within": 1.0, "probability": 0.2, "window": sf.Rows(6), "key": "device"}


def reordered(df, **more):
    return sf.reorder(df, **CONTROL, key="device", **more)


def halves(df):
    return [reordered(df.where(f"id % 2 = {i}")) for i in (0, 1)]


ODD = {
    "many": "named_struct('a', 1, 'b', array(1.5D))",
    "pairs": "map('k', id)",
    "amount": "CAST(id AS decimal(20, 3))",
    "day": "date'2026-01-01'",
    "data": "X'01'",
    "span": "INTERVAL '1' DAY",
    "local": "timestamp_ntz'2026-01-01 00:00:00'",
    "small": "CAST(id % 100 AS tinyint)",
    "yes": "true",
}


def with_odd_types(df):
    """Add further new columns to a wide frame's rows, NULL where there is no note."""
    odd = {name: f"IF(note IS NULL, NULL, {of})" for name, of in ODD.items()}
    return df.selectExpr("*", *(f"{of} AS {name}" for name, of in odd.items()))


QUERIES = {
    "reorder": lambda df: sf.reorder(
        with_odd_types(df) if "note" in df.columns else df, **CONTROL, unique="id"
    ),
    "members": lambda df: sf.window_aggregate(
        reordered(df), {"m": "avg(x)"}, window=RANGE, order="ts", key="device", with_rows=True
    ),
    "late rows of sources": lambda df: sf.window_aggregate(
        sf.reorder(
            df.withColumn("half", F.col("id") % 2), **CONTROL, source="half", expected_sources=2
        ),
        {"m": "avg(x)"}, window=sf.Rows(3), order="ts", key="device",
    ),
    "ranking": lambda df: sf.top_k(
        reordered(df), 2, by="x", window=sf.Range("5 minutes"), order="ts", key="device"
    ),
    "pairs": lambda df: sf.similarity_join(*halves(df), order="ts", **PAIRS),
    "pairs by arrival": lambda df: sf.self_join(df, order="arrival", **PAIRS),
    "as-of": lambda df: sf.asof_join(*halves(df), order="ts", key="device"),
    "grid": lambda df: sf.resample(reordered(df), every="1 minute", order="ts", key="device"),
    "three steps": lambda df: sf.earlier_values(
        sf.window_aggregate(
            reordered(df), {"m": "avg(x)"}, window=sf.Delta(3.0, on="x"), order="ts", key="device"
        ),
        "id", order="ts", key="device",
    ),
}  # fmt: skip

GROUPS = [
    ("reorder", "members", "pairs"),
    ("late rows of sources", "ranking"),
    ("pairs by arrival", "as-of"),
    ("grid", "three steps"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write files of rows; the later ones have notes."""
    rows = sorted(source(1) + source(2), key=lambda row: row["arrival"])
    for i, row in enumerate(rows[66:]):
        row["note"] = {"tags": [None, f"t{i}"][i % 3 :], "at": row["ts"]}
    return write_files(tmp_path_factory.mktemp("files"), rows)


def run(spark, folder, files, schema, build, at_once=1):
    """Run a query over further files, some per micro-batch, to their end."""
    add_files(files, folder / "in")
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", at_once)
    run_over(build(stream.json(str(folder / "in"))), folder)


@pytest.mark.parametrize("names", nightly_except(GROUPS, GROUPS[0]), ids=" and ".join)
def test_a_query_goes_on_with_a_column_that_only_passes_through(spark, files, names, tmp_path):
    def together(df):
        """Combine several queries: the name of each, and its rows as text."""
        parts = [
            QUERIES[name](df).select(
                F.lit(name).alias("query"), F.to_json(F.struct("*")).alias("row")
            )
            for name in names
        ]
        return reduce(lambda one, other: one.union(other), parts)

    changed, whole = tmp_path / "changed", tmp_path / "whole"
    run(spark, changed, files[:2], SCHEMA, together)
    run(spark, changed, files[2:3], WIDE, together)
    run(spark, changed, files[3:], WIDE, together)
    run(spark, whole, files, WIDE, together, at_once=4)
    found, expected = (
        sorted((row.query, row.row) for row in spark.read.parquet(str(folder / "out")).collect())
        for folder in (changed, whole)
    )
    assert found == expected
    for name in names:
        rows = [row for query, row in found if query == name]
        assert len(rows) > 5
        assert any("note" in row for row in rows)
        assert any("note" not in row for row in rows)


def certain(df):
    return sf.self_join(df.selectExpr("* EXCEPT (alternatives)", "id AS x"), order="ts", **PAIRS)


def test_a_column_that_the_operator_reads_is_refused_in_a_sentence(spark, files, tmp_path):
    run(spark, tmp_path, files[:1], SCHEMA, certain)
    with pytest.raises(Exception, match="column `existence` is new, but the operator reads it"):
        run(spark, tmp_path, files[1:2], f"{SCHEMA}, existence double", certain)
