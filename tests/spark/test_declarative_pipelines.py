"""The functions in declarative pipelines over their own tables, run by `spark-pipelines`."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline_folder
import sfumato as sf
from connect_cases import CASES
from docs.pages import DOCS, blocks

TEXT = "SELECT id, AVG(id) AS mean FROM readings [ROWS 5 ORDER arrival]"
COLUMNS = "id long, event timestamp, arrival timestamp"
# The next run sees the tables of the previous one.
LASTING = ["--conf", "spark.sql.catalogImplementation=hive"]
# A run takes minutes at most, so the JVM need not optimize much.
QUICK = ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

import sfumato as sf

spark = SparkSession.active()
COLUMNS = {columns!r}

@dp.materialized_view
def all_in_order():
    kept = sf.ops.declared(spark.read.table("kept"), COLUMNS)
    return sf.reorder(kept, event_time="event", arrival="arrival", slack=3)

@dp.table
def above():  # no state: over a stream of the pipeline's own table as it is
    rows = sf.ops.declared(spark.readStream.table("kept"), COLUMNS, streaming=True).select(
        "id", sf.samples(F.col("id").cast("double"), 1.0, 4, attributes="x").alias("alternatives"))
    return sf.where(rows, "x > 50").select("id", sf.existence())

try:
    rows = sf.ops.declared(spark.readStream.table("kept"), COLUMNS, streaming=True)
    sf.reorder(rows, event_time="event", arrival="arrival", slack=3)
except ValueError as error:
    print("refused:", error)

# outside of the functions Spark may be asked
outside = spark.readStream.schema(COLUMNS).parquet({source!r})
moved = sf.where(outside.withColumn("existence", F.lit(0.5)), "id > 50")

@dp.table
def at_module_level():
    return moved
"""
SQL = """
CREATE STREAMING TABLE kept AS SELECT * FROM STREAM readings;
CREATE MATERIALIZED VIEW high AS SELECT * FROM means WHERE mean > 20;
"""
RUN = ["all_in_order", "above", "at_module_level", "kept", "high", "readings", "means", "in_order"]
EVERY = """
from types import SimpleNamespace

from connect_cases import CASES, ROWS
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import sfumato as sf

spark = SparkSession.active()
complete = spark.createDataFrame([(1.0, 2.0), (2.0, 3.0)], "x double, y double")

@dp.materialized_view
def of_cases():
    return spark.range(0).selectExpr(
        "id", "timestamp_micros(id) AS event", "timestamp_micros(id) AS arrival",
        "double(id) AS x", "double(id) AS y", "id AS k")

def define(name, case):
    @dp.materialized_view(name=f"of_{name}")
    def table():
        rows = sf.ops.declared(spark.read.table("of_cases"), ROWS)
        return case(SimpleNamespace(spark=spark, rows=rows, others=rows, complete=complete))

for name, case in CASES.items():
    define(name, case)
"""


def put(folder, first, count):
    """Write a file of rows whose event times are slightly out of order."""
    ids = np.arange(first, first + count)
    stamp = pa.timestamp("us", tz="UTC")
    event, arrival = ids * 10, ids * 10 + ids % 7 * 15
    table = pa.table(
        {
            "id": ids,
            "event": pa.array(event).cast(stamp),
            "arrival": pa.array(arrival).cast(stamp),
        }
    )
    pq.write_table(table, folder / f"{first}.parquet")


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def example(source, stored):
    """Return the pipeline that docs/how-to/declarative-pipelines.md shows, with these folders."""
    (text,) = (
        block.text
        for block in blocks(DOCS / "how-to" / "declarative-pipelines.md")
        if block.kind == "python" and "@dp.table" in block.text
    )
    given = {
        "/data/in": str(source),
        "/data/warehouse/readings": str(stored),
        "slack=100": "slack=3",
    }
    for shown, here in given.items():
        assert text.count(shown) == 1, shown
        text = text.replace(shown, here)
    return text


@pytest.mark.nightly
@pytest.mark.spark
def test_a_pipeline_over_its_own_tables_run_twice_equals_static_frames(spark, tmp_path):
    """The first run also resolves a table of every function, over a table yet to be created."""
    source, warehouse = tmp_path / "in", tmp_path / "spark-warehouse"
    source.mkdir()
    shown = example(source, warehouse / "readings")
    code = PYTHON.format(source=str(source), columns=COLUMNS)
    pipeline_folder.written(
        tmp_path, shown_py=shown, tables_py=code, tables_sql=SQL, every_py=EVERY
    )

    def stored(name):
        return spark.read.parquet(str(warehouse / name))

    def in_order_of(rows):
        return sf.reorder(rows, event_time="event", arrival="arrival", slack=3)

    for first in (0, 200):  # far enough apart that the second run releases no row of the first
        put(source, first, 100)
        said = pipeline_folder.run(tmp_path, *LASTING, *QUICK, "--refresh", ",".join(RUN))
        assert "Run is COMPLETED" in said
        if first == 0:
            assert "refused: `df` is the stream of a table that does not exist yet" in said
            (tmp_path / "transformations" / "every.py").unlink()
        rows = spark.read.schema(COLUMNS).parquet(str(source))
        all_in_order = values(in_order_of(rows))
        assert values(stored("all_in_order")) == all_in_order
        means = values(sf.sql(spark, TEXT, readings=rows))
        assert values(stored("means")) == means
        assert values(stored("high")) == [row for row in means if row[1] > 20]
        in_order = values(stored("in_order"))  # including rows of the same run
        assert set(in_order) <= set(all_in_order)
        assert len(in_order) == rows.count() - 3  # the buffer still holds three rows
    above = {row.id: row.existence for row in stored("above").collect()}
    assert (above[49], above[50], above[51], above[52]) == (0.25, 0.5, 0.75, 1.0)
    assert (min(above), len(above)) == (49, 151)
    assert stored("at_module_level").count() == 149
    assert len(CASES) > 20
