"""Static frames of any length: rows per second, and the peak memory of a Python worker.

    python -m benchmarks.static_frames [CASE...] [--out FOLDER] [--page FILE]

docs/static-frames.md describes what is measured.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from typer import Argument, Option, run

import sfumato as sf
from benchmarks.harness import Row, fastest
from benchmarks.page import fill, keep, table
from benchmarks.spark_streams import fresh_folder

SUITE = "static_frames"
PIECE = 1_000_000  # rows per file
BATCH = 65_536  # rows that warm up workers and kernels
IN_MEMORY = 1_000_000  # rows of the table in memory
KEYS = 1000
RUNS = (
    ("reorder, Range", 20_000_000, 2),
    ("reorder, Range", 50_000_000, 2),
    ("reorder, Range by key", 6_000_000, 1),
    ("reorder, Range by key", 6_000_000, 2),
    ("join", 10_000_000, 2),
)


def readings(first: int, rows: int, keys: int) -> pa.Table:
    """Return rows of a disordered stream, from number `first`, about 0.1 s apart and 3 s late."""
    rng = np.random.default_rng(first)
    event = (np.arange(first, first + rows) + rng.random(rows)) * 1e5
    arrival = event + rng.exponential(3e6, rows)
    order = np.argsort(arrival)
    return pa.table(
        {
            "device": rng.integers(0, keys, rows),
            "event": event[order].astype(np.int64),
            "arrival": arrival[order].astype(np.int64),
            "x": rng.normal(0, 100, rows),
        }
    )


def written(folder: Path, rows: int, keys: int) -> str:
    """Write files with these rows, and return their folder."""
    for i, first in enumerate(range(0, rows, PIECE)):
        part = readings(first, min(PIECE, rows - first), keys)
        pq.write_table(part, folder / f"{i:05d}.parquet", row_group_size=PIECE // 4)
    return str(folder)


def ordered_extents(frame: Any, keys: int) -> Any:
    key = None if keys == 1 else "device"
    rows = sf.reorder(frame, event_time="event", arrival="arrival", drop_ratio=0.01, key=key)
    return sf.window_aggregate(
        rows, {"n": "count(*)", "mean": "avg(x)"}, key=key, order="event",
        window=sf.Range("5 minutes", slide="1 minute"),
    )  # fmt: skip


def pairs(frame: Any, _: int) -> Any:
    """Join even with odd devices, half of the rows each."""
    if isinstance(frame, pa.Table):
        odd = np.asarray(frame["device"]) % 2
        sides = [frame.filter(pa.array(odd == side)) for side in (0, 1)]
    else:
        sides = [frame.where(f"device % 2 = {side}") for side in (0, 1)]
    return sf.similarity_join(
        *sides, on="x", within=0.01, probability=0.5, window=sf.Rows(1000), order="arrival"
    )


CASES: dict[str, tuple[int, Callable[[Any, int], Any]]] = {
    "reorder, Range": (1, ordered_extents),
    "reorder, Range by key": (KEYS, ordered_extents),
    "join": (2, pairs),
}


class Peaks:
    """A context that records the largest resident memory of this process's descendants (bytes)."""

    def __init__(self) -> None:
        self.python = self.java = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.2):
            for child in me.children(recursive=True):
                try:
                    status = Path(f"/proc/{child.pid}/status").read_text()
                except OSError:  # ended meanwhile
                    continue
                peak = [line for line in status.splitlines() if line.startswith("VmHWM")]
                size = int(peak[0].split()[1]) << 10 if peak else 0
                if "java" in status.split("\n", 1)[0]:
                    self.java = max(self.java, size)
                elif "python" in status.split("\n", 1)[0]:
                    self.python = max(self.python, size)


def timed(frame: Any) -> float:
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def measured(case: str, rows: int, cores: int) -> Row:
    from sfumato.cli.session import session

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # for Python and Java, too
    keys, query = CASES[case]
    few = readings(0, IN_MEMORY, keys)
    query(few.slice(0, BATCH), keys)  # compiles
    alone = IN_MEMORY / fastest(lambda: query(few, keys), 1, time.perf_counter)
    with fresh_folder() as folder:
        spark = session("static frames", cores=cores)
        try:
            frame = spark.read.parquet(written(folder, rows, keys))
            timed(query(frame.limit(BATCH), keys))  # starts workers, loads kernels
            with Peaks() as peaks:
                seconds = timed(query(frame, keys))
            load = os.getloadavg()[0]
        finally:
            spark.stop()
    return {
        "name": case,
        "rows": f"{rows:,}",
        "cores": cores,
        "seconds": round(seconds, 1),
        "rows/s": round(rows / seconds),
        "rows/s of a table in memory": round(alone),
        "MB per worker, peak": peaks.python >> 20,
        "MB of the JVM, peak": peaks.java >> 20,
        "load": round(load, 1),
    }


def merged(folder: Path, fresh: list[Row]) -> list[Row]:
    """Return a folder's rows, in which new rows replace rows of the same run."""
    path = folder / f"{SUITE}.json"
    kept = json.loads(path.read_text()) if path.exists() else []
    runs = {(row["name"], row["rows"], row["cores"]): row for row in [*kept, *fresh]}
    known = [(case, f"{rows:,}", cores) for case, rows, cores in RUNS]
    return [runs[of] for of in known if of in runs]


def main(
    cases: Annotated[list[str] | None, Argument(help="Some of the cases; none: all.")] = None,
    out: Annotated[Path | None, Option(help="Folder that keeps the rows measured.")] = None,
    page: Annotated[Path | None, Option(help="Page whose table they become.")] = None,
) -> None:
    """Measure each case in a separate process."""
    pool = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    with pool:
        found = [pool.submit(measured, *of).result() for of in RUNS if of[0] in (cases or CASES)]
    if out is not None:
        found = merged(out, found)
        keep(out, SUITE, found)
    if page is not None:
        fill(page, table(found))
    print(table(found))


if __name__ == "__main__":
    run(main)
