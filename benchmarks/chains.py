"""What a chain of operators costs beside its first one: in one step, and each in a step of its own.

Micro-batches of 100,000 disordered rows of 1,000 keys, one file each, into a sink that discards
rows; the queries take turns, a run each, and the time of a micro-batch is the median of Spark's own
figure over the later half of all runs.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

SIZE, BATCHES, KEYS, RUNS = 100_000, 8, 1_000, 2


def chains(stream: Any) -> dict[str, Any]:
    """The queries by name; the first is what the others begin with."""
    import sfumato as sf

    def reordered() -> Any:
        return sf.reorder(
            stream, event_time="event", arrival="arrival", key="device", drop_ratio=0.01
        )

    def extents() -> Any:
        window = sf.Range("5 minutes")
        return sf.window_aggregate(
            reordered(), {"m": "avg(x)"}, window=window, order="event", key="device"
        )

    def rows() -> Any:
        window = sf.Rows(20, confidence=0.95)
        return sf.window_aggregate(
            reordered(), {"m": "avg(x)"}, window=window, order="event", key="device"
        )

    def ranked() -> Any:
        window = sf.Range("30 minutes", slide="10 minutes")
        return sf.top_k(reordered(), 3, by="x", window=window, order="event", key="device")

    def ranked_rows() -> Any:
        window = sf.Range("30 minutes", slide="10 minutes")
        return sf.top_k(rows(), 3, by="device % 7", window=window, order="event", key="device")

    return {
        "reorder": reordered,
        "reorder, extents": extents,
        "reorder, count window": rows,
        "reorder, top_k": ranked,
        "reorder, count window, top_k": ranked_rows,
    }


def run(spark: Any, folder: Path, runs: int = RUNS, only: str = "") -> list[dict[str, Any]]:
    from sfumato.spark.runtime.fusing import FUSE_SETTING
    from spark_path import later, readings, stream_of, times_of, write_files

    source = write_files(readings(SIZE * BATCHES, KEYS, 3, seed=4), SIZE, folder / "chains")
    stream = stream_of(spark, source)
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(runs):
        for name, made in chains(stream).items():
            for fuse in ("true",) if name == "reorder" else ("true", "false"):
                if only not in name and name != "reorder":
                    continue
                spark.conf.set(FUSE_SETTING, fuse)
                place = folder / f"{turn}-{name}-{fuse}"
                times.setdefault((name, fuse), []).extend(later(times_of(made(), place)))
    spark.conf.unset(FUSE_SETTING)
    median = {which: statistics.median(found) for which, found in times.items()}
    first = median["reorder", "true"]
    return [
        {
            "name": name,
            "s a micro-batch": round(median[name, "true"], 2),
            "x reorder": round(median[name, "true"] / first, 2),
            "a step each": round(median.get((name, "false"), first), 2),
            "a step each x reorder": round(median.get((name, "false"), first) / first, 2),
        }
        for name, fuse in median
        if fuse == "true"
    ]


if __name__ == "__main__":
    import sys
    import tempfile

    from pyspark.sql import SparkSession

    import sfumato as sf

    builder = SparkSession.builder.master("local[2]")
    for name, value in sf.settings(cores=2).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as scratch:
        only = sys.argv[1] if len(sys.argv) > 1 else ""
        for row in run(session, Path(scratch), only=only):
            print(row)
