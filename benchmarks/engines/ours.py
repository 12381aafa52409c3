"""sfumato: in memory, as a stream of files through Spark, and as a static Spark DataFrame."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import spark_alone
from engine import measure

import sfumato as sf

WINDOW = sf.Range("10 minutes", slide="1 minute")


def session() -> Any:
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    build = build.config("spark.driver.memory", "2g")
    return sf.configure(build, cores=2, local_disk=True).getOrCreate()


def means(rows: Any) -> Any:
    """Compute the answers with the same delay as Spark's watermark."""
    ordered = sf.reorder(rows, event_time="ts", arrival="arrival", max_delay=spark_alone.DELAY)
    return windows(ordered)


def windows(rows: Any) -> Any:
    asked = {"s": "sum(v)", "m": "avg(v)", "n": "count(*)"}
    return sf.window_aggregate(rows, asked, window=WINDOW, order="ts", key="k")


def memory(folder: Path, answers: Path | None) -> None:
    write(means(pq.read_table(folder / "all.parquet")), answers)


def write(out: pa.Table, answers: Path | None) -> None:
    if answers is not None:
        end = milliseconds(pc.struct_field(out["window"], "end"))
        kept = {"k": out["k"].cast("int64"), "end": end, "s": out["s"], "n": out["n"]}
        pq.write_table(pa.table(kept), answers)


def milliseconds(times: Any) -> Any:
    return pc.divide(times.cast(pa.timestamp("us", "UTC")).cast("int64"), 1000)


@cache
def table(folder: Path) -> pa.Table:
    """Return the rows as DuckDB and Polars get them: read and sorted before the first run."""
    return pq.read_table(folder / "all.parquet", columns=["ts", "k", "v"]).sort_by("ts")


def static(folder: Path, answers: Path | None) -> None:
    asked = {"s": "sum(v)", "n": "count(*)"}
    out = sf.window_aggregate(table(folder), asked, window=WINDOW, order="ts", key="k")
    write(out, answers)


def newest(folder: Path, answers: Path | None) -> None:
    asked = {"s": "sum(v)"}
    out = sf.window_aggregate(table(folder), asked, window=sf.Rows(100), order="ts", key="k")
    if answers is not None:
        kept = {"k": out["k"].cast("int64"), "end": milliseconds(out["ts"]), "s": out["s"]}
        pq.write_table(pa.table(kept), answers)


def pairs(left: Any, right: Any) -> Any:
    return sf.similarity_join(
        left,
        right,
        on="x",
        within=0.5,
        probability=0.5,
        window=sf.Rows(1000),
        order="ts",
        alternatives=False,
    )


def join(folder: Path, answers: Path | None) -> None:
    rows = pq.read_table(folder / "all.parquet")
    sides = [rows.filter(pc.equal(rows["side"], side)) for side in (0, 1)]
    out = pairs(*sides)
    if answers is not None:
        ids = {name: pc.struct_field(out[side], "id") for name, side in PAIR.items()}
        pq.write_table(pa.table(ids), answers)


def join_spark(folder: Path, answers: Path | None) -> None:
    def job(rows: Any) -> Any:
        return pairs(rows.where("side = 0"), rows.where("side = 1"))

    spark_alone.stream(folder, 2, job, answers)


PAIR = {"a": "left", "b": "right"}

if __name__ == "__main__":
    spark_alone.session = session
    measure(
        "sfumato",
        {
            "means": lambda folder, answers: spark_alone.stream(folder, 1, means, answers),
            "means_5": lambda folder, answers: spark_alone.stream(folder, 5, means, answers),
            "means_static": lambda folder, answers: spark_alone.static(folder, means, answers),
            "memory": memory,
            "static": static,
            "newest": newest,
            "join": join,
            "join_spark": join_spark,
            "first": lambda folder, answers: spark_alone.static(folder, means, answers),
            "first_memory": memory,
        },
    )
