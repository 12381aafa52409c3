"""All functions in a Spark Connect client without a JVM, run by spark/test_connect.py.

A case returns a frame computed from the frames in `f`. It is collected over static frames, and run
over streams. The program prints a JSON object with the results by case.
"""

import faulthandler
import json
import sys
import time
import warnings
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from column_cases import differing, readings
from connect_cases import CASES, ROWS, STATIC, extents


def main(folder: str) -> dict[str, object]:
    builder = SparkSession.builder.remote("local[2]").config("spark.sfumato.buckets", "2")
    spark = sf.configure(builder, cores=1, local_disk=True).getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
    number = F.col("id")
    rows = spark.range(40).select(
        "id",
        F.timestamp_micros(number * 10).alias("event"),
        F.timestamp_micros(number * 10 + number % 7 * 15).alias("arrival"),
        (number % 5).cast("double").alias("x"),
        F.when(number % 3 > 0, number % 5 + 0.5).alias("y"),
        (number % 4).alias("k"),
    )
    rows.coalesce(1).write.parquet(f"{folder}/in")
    static = spark.read.schema(ROWS).parquet(f"{folder}/in")
    complete = static.where("y IS NOT NULL")
    found: dict[str, object] = {"static": {}, "stream": {}}
    f = SimpleNamespace(spark=spark, rows=static, others=static, complete=complete, static=True)
    found["static"] = counts(together(f))
    found["explain"] = sf.explain(spark, "SELECT AVG(x) FROM r [ROWS 5 ORDER id]", r=static)
    found["discovered"] = len(sf.discover_dependencies(complete.select("x", "y")))
    stated = sf.ops.declared(static, ROWS)
    found["left"] = stated.drop("ID", "nothing").withColumn("K", F.lit(1)).columns
    found["declared"] = counts(extents(stated).select(F.lit("extents").alias("of")))
    found["differing"] = differing(readings(spark))
    spark.dataSource.register(sf.ops.ReplaySource)
    file = next(Path(folder, "in").glob("*.parquet"))
    found["played"] = spark.read.format("replay").load(str(file)).count()
    found["stream"] = streamed(spark, folder, complete)
    found["warned"] = warned(spark, folder)
    return found  # without spark.stop(): a listener to queries must not keep the client alive


def warned(spark, folder, patience=60.0):
    """Return a stream's warnings about invalid rows under a client that asks for them."""
    spark.conf.set("spark.sfumato.warnInvalid", "true")
    rows = spark.readStream.schema(ROWS).parquet(f"{folder}/in")
    twice = rows.withColumn("existence", F.when(F.col("id") % 4 > 0, 1.0).otherwise(2.0))
    counted = sf.window_aggregate(
        twice, {"n": "count(*)"}, window=sf.Rows(3), order="id", name="loud"
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        writer = counted.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/loud").start().awaitTermination()
        until = time.monotonic() + patience
        while time.monotonic() < until:
            mine = [str(w.message) for w in told if w.category is sf.errors.InvalidRowsWarning]
            if mine:
                return mine
            time.sleep(0.1)
    return []


def together(f):
    """Return the rows of all possible cases with their case's name, as one job or query."""
    cases = {name: case for name, case in CASES.items() if f.static or name not in STATIC}
    frames = [case(f).select(F.lit(name).alias("of")) for name, case in cases.items()]
    return reduce(lambda a, b: a.union(b), frames)


def counts(rows):
    return {row.of: row["count"] for row in rows.groupBy("of").count().collect()}


def streamed(spark, folder, complete):
    """Return the number of rows in the sink of one query of all cases, on the page, and in the
    sink of a stream that ends."""
    page = sf.ops.watch(spark)

    def started(name, make):
        source = spark.readStream.schema(ROWS).parquet(f"{folder}/in")
        about = {"spark": spark, "complete": complete, "static": False}
        f = SimpleNamespace(rows=source, others=source, **about)
        writer = make(f).writeStream.queryName(name).format("parquet")
        writer = writer.option("path", f"{folder}/{name}")
        writer = writer.option("checkpointLocation", f"{folder}/{name}_state")
        return writer.trigger(availableNow=True).start()

    started("all", together).awaitTermination()
    seen = shown(page)
    page.stop()
    sf.ops.run_to_end(spark, lambda: started("ended", CASES["reorder"]))
    return {
        "rows": counts(spark.read.parquet(f"{folder}/all")),
        "watched": seen,
        "ended": spark.read.parquet(f"{folder}/ended").count(),
    }


def shown(page, patience=60.0):
    """Return the numbers of input rows that a page shows, once it has reports."""
    until = time.monotonic() + patience
    while True:
        with page.metrics.locked():
            found = {query.name: query.rows_in for query in page.metrics.queries()}
        if any(found.values()) or time.monotonic() > until:
            return found
        time.sleep(0.1)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(700, exit=True)  # prints where a process hangs
    print(json.dumps(main(sys.argv[1])))
    Path(sys.argv[1], "done").touch()
