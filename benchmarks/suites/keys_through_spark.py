"""Unbounded keys on Spark: 100 rows of known keys per micro-batch, with few or many held keys.

Only public functions are used. First, each key has a row, in files of 100,000; then come files of
100 rows of known keys, one per micro-batch. The time is the median of Spark's own figure over the
later half of these files. The goal is at most 1.5 times as long with 1,000,000 keys as with 1,000.
"""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.streams import STAMP
from benchmarks.harness import Row, row
from benchmarks.spark_streams import (
    benchmark_session,
    fresh_folder,
    later,
    stream_of,
    times_of,
    write_tables,
)

FEW, MANY = 1_000, 1_000_000
FILE, ROWS, BATCHES = 100_000, 100, 30
GOAL = 1.5
QUICK = {"MANY": 2_000, "BATCHES": 3}


def readings(keys: np.ndarray, first: int) -> pa.Table:
    """Build a row for each of these keys, a millisecond apart, each out of order by a few."""
    time = (first + np.arange(len(keys))) * 1_000
    return pa.table(
        {
            "device": pa.array(keys),
            "event": pa.array(time - keys % 7 * 1_000).cast(STAMP),
            "arrival": pa.array(time).cast(STAMP),
            "x": pa.array(keys % 97.0),
        }
    )


def batches(keys: int) -> Iterator[pa.Table]:
    """Yield a row of each key, then some rows of known keys."""
    rng = np.random.default_rng(1)
    for begin in range(0, keys, FILE):
        yield readings(np.arange(begin, min(begin + FILE, keys)), begin)
    for batch in range(BATCHES):
        yield readings(rng.integers(0, keys, ROWS), keys + batch * ROWS)


def queries() -> dict[str, Any]:
    """Return the measured queries: functions from a DataFrame to a DataFrame."""
    import sfumato as sf

    def ordered(rows: Any) -> Any:
        return sf.reorder(rows, event_time="event", arrival="arrival", key="device", slack=1)

    def averages(rows: Any, window: Any, order: str = "arrival") -> Any:
        total = {"total": "avg(x)"}
        return sf.window_aggregate(rows, total, window=window, order=order, key="device")

    return {
        "reorder, a controller per key": ordered,
        "reorder, extents of 1 s": lambda rows: averages(
            ordered(rows), sf.Range("1 second"), "event"
        ),
        "windows of 10 rows": lambda rows: averages(rows, sf.Rows(10)),
        "windows while x is within 5": lambda rows: averages(rows, sf.Delta(5.0, on="x")),
    }


def seconds_of(spark: Any, query: Any, keys: int) -> float:
    with fresh_folder() as folder:
        out = query(stream_of(spark, write_tables(batches(keys), folder / "rows")))
        return statistics.median(later(times_of(out, folder / "state")[-BATCHES:]))


def run() -> list[Row]:
    found = []
    with benchmark_session() as spark:
        for name, query in queries().items():
            few, many = (seconds_of(spark, query, keys) for keys in (FEW, MANY))
            setting = f"{ROWS} rows of known keys per micro-batch"
            times = f"{many * 1e3:.0f} ms", f"{few * 1e3:.0f} ms"
            found.append(
                row(f"{name}, {MANY:,} keys held / {FEW:,}", setting, *times, many / few, most=GOAL)
            )
    return found
