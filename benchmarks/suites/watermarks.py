"""Windows whose rows depend on micro-batches: Spark's watermark and an equally long `max_delay`.

20,000 readings, one per second, arrive after exponential delays with a mean of 25, 50 or 100
seconds. Both sides count the rows of windows of 100 seconds, and wait for 150 seconds:
`withWatermark` and `max_delay`. The stream is cut into micro-batches of several sizes. `rows` is
the number of rows in all windows. `differ` is the number of windows whose count differs from
sfumato's count over the whole table in memory, where each row is compared with the rows before it.
`cut` is the number of windows whose count differs from the same side's count over the smallest
micro-batches.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.harness import Row
from benchmarks.spark_streams import benchmark_session, fresh_folder, stream_of, write_files

ROWS, SIZES, MEANS = 20_000, (200, 1_000), (25, 50, 100)  # means of the delays in seconds
QUICK = {"ROWS": 1_000, "SIZES": (250,), "MEANS": (100,)}
WINDOW, DELAY = "100 seconds", "150 seconds"

Counts = dict[int, int]


def readings(mean: float) -> pa.Table:
    """Return readings in order of arrival.

    mean : mean delay, in seconds
    """
    made = np.arange(ROWS) * 1_000_000
    arrival = made + (np.random.default_rng(7).exponential(mean, ROWS) * 1e6).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    kind = pa.timestamp("us", tz="UTC")
    times = {"made": made[order], "arrival": arrival[order]}
    return pa.table({name: pa.array(of).cast(kind) for name, of in times.items()})


def ours(rows: Any) -> Any:
    ordered = sf.reorder(rows, event_time="made", arrival="arrival", max_delay=DELAY)
    return sf.window_aggregate(ordered, {"n": "count(*)"}, window=WINDOW, order="made")


def sparks(rows: Any) -> Any:
    from pyspark.sql import functions

    windows = rows.withWatermark("made", DELAY).groupBy(functions.window("made", WINDOW))
    return windows.agg(functions.count("*").alias("n"))


def counts(out: Any, folder: Path) -> Counts:
    """Run a query to the end of its files, and return each window's row count by its start."""
    writer = out.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "state"))
    writer.start(str(folder / "out")).awaitTermination()
    found = out.sparkSession.read.parquet(str(folder / "out"))
    rows = found.selectExpr("unix_seconds(window.start) AS start", "n").collect()
    return {row.start: row.n for row in rows}


def differing(found: Counts, expected: Counts) -> int:
    """Count the windows that are in both, with different counts."""
    return sum(found[start] != expected[start] for start in found.keys() & expected.keys())


def run() -> list[Row]:
    rows: list[Row] = []
    with benchmark_session() as spark, fresh_folder() as folder:
        for mean in MEANS:
            table = readings(mean)
            whole = ours(table)
            starts = [window["start"].timestamp() for window in whole["window"].to_pylist()]
            expected = dict(zip(map(int, starts), whole["n"].to_pylist(), strict=True))
            finest: dict[str, Counts] = {}
            for size in SIZES:
                here = folder / f"{mean}-{size}"
                source = write_files(table, size, here / "in")
                for name, query in (("Spark's watermark", sparks), ("sfumato", ours)):
                    found = counts(query(stream_of(spark, source)), here / query.__name__)
                    # The last windows are open when a stream ends.
                    both = found.keys() & expected.keys()
                    cut = differing(found, finest.setdefault(name, found))
                    rows.append(
                        {
                            "name": name,
                            "setting": f"delays of {mean} s, {size:,} rows per micro-batch",
                            "windows": len(both),
                            "rows": sum(found[start] for start in both),
                            "differ": differing(found, expected),
                            "cut": cut,
                        }
                    )
    return rows
