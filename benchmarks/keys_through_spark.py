"""Keys without end, through Spark: a micro-batch of 100 rows of known keys beside few and many.

Public functions only. Each key has a row first, in files of 100,000; then come files of 100 rows of
keys that are known, one a micro-batch. The time is the median of Spark's own figure over the later
half of these; the goal is 1,000,000 keys within 1.5 times that with 1,000.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import row
from spark_path import STAMP, later, stream_of, times_of

FEW, MANY = 1_000, 1_000_000
FILE, ROWS, BATCHES = 100_000, 100, 30
GOAL = 1.5


def readings(keys: np.ndarray, first: int) -> pa.Table:
    """A row of each of these keys, a millisecond apart, each out of order by a few of them."""
    time = (first + np.arange(len(keys))) * 1_000
    event = time - keys % 7 * 1_000
    return pa.table(
        {
            "device": pa.array(keys),
            "event": pa.array(event).cast(STAMP),
            "arrival": pa.array(time).cast(STAMP),
            "x": pa.array(keys % 97.0),
        }
    )


def files(folder: Path, keys: int) -> str:
    """A row of each key, then some of known keys, a file a micro-batch."""
    rng, parts = np.random.default_rng(1), []
    for begin in range(0, keys, FILE):
        parts.append(readings(np.arange(begin, min(begin + FILE, keys)), begin))
    for batch in range(BATCHES):
        parts.append(readings(rng.integers(0, keys, ROWS), keys + batch * ROWS))
    folder.mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number:05d}.parquet")
    return str(folder)


def queries() -> dict[str, Any]:
    """What is measured: a DataFrame to a DataFrame."""
    import sfumato as sf

    def ordered(rows: Any) -> Any:
        return sf.reorder(rows, event_time="event", arrival="arrival", key="device", slack=1)

    def averages(rows: Any, window: Any, order: str) -> Any:
        total = {"total": "avg(x)"}
        return sf.window_aggregate(rows, total, window=window, order=order, key="device")

    return {
        "reorder, a controller a key": ordered,
        "reorder, extents of 1 s": lambda rows: averages(
            ordered(rows), sf.Range("1 second"), "event"
        ),
        "windows of 10 rows": lambda rows: averages(rows, sf.Rows(10), "arrival"),
        "windows while x is within 5": lambda rows: averages(
            rows, sf.Delta(5.0, on="x"), "arrival"
        ),
    }


def run() -> list[dict[str, Any]]:
    """One row a query: name, setting, ours, peer, ratio, goal, met."""
    from sfumato.cli.session import session

    spark, results = session("sfumato benchmark"), []
    for name, query in queries().items():
        seconds = {}
        for keys in (FEW, MANY):
            folder = Path(tempfile.mkdtemp())
            try:
                out = query(stream_of(spark, files(folder / "rows", keys)))
                known = times_of(out, folder / "state")[-BATCHES:]
                seconds[keys] = statistics.median(later(known))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        ratio = seconds[MANY] / seconds[FEW]
        results.append(
            row(
                f"{name}, {MANY:,} keys held / {FEW:,}",
                f"{ROWS} rows of known keys a micro-batch",
                f"{seconds[MANY] * 1e3:.0f} ms",
                f"{seconds[FEW] * 1e3:.0f} ms",
                ratio,
                most=GOAL,
            )
        )
    spark.stop()
    return results
