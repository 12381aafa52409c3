"""What grows with what: time a row and bytes of state, one quantity varied at a time.

In one process, without Spark: operators over Arrow tables, as a worker runs them for one bucket.
Every time is the least of some runs, so that other work on the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf

ROWS = 100_000
RUNS = 3


def least(run: Callable[[], Any], rows: int) -> float:
    """Microseconds a row."""
    run()  # compiles, or reads what was compiled
    best = np.inf
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best / rows * 1e6


def disordered(rows: int, keys: int, samples: int = 1) -> pa.Table:
    """A disordered stream, as a table, in order of arrival."""
    from spark_path import readings

    return readings(rows, keys, samples, seed=3)


def reorder(rows: int = ROWS, keys: int = 1_000) -> float:

    table = disordered(rows, keys)
    how = {"event_time": "event", "arrival": "arrival", "drop_ratio": 0.01, "key": "device"}
    return least(lambda: sf.reorder(table, **how), rows)


def window(length: int = 100, samples: int = 3, aggregate: str = "avg(x)") -> float:
    import sfumato as sf

    table = disordered(ROWS // 5, 10, samples)
    asked = {"window": sf.Rows(length), "order": "arrival", "key": "device"}
    return least(lambda: sf.window_aggregate(table, {"m": aggregate}, **asked), ROWS // 5)


def extents(keys: int = 1_000, rows: int = ROWS) -> float:
    import sfumato as sf

    table = disordered(rows, keys)
    asked = {"window": sf.Range("5 minutes"), "order": "arrival", "key": "device"}
    return least(lambda: sf.window_aggregate(table, {"m": "avg(x)"}, **asked), rows)


def join(rows: int = 2_000, samples: int = 10, tasks: int = 1) -> tuple[float, int]:
    """(microseconds an arrival, bytes of state) of the busiest task of a join without key."""
    from join_tasks import BATCH, BATCHES, Setting, filled, stream, timed

    setting = Setting("", rows, 3, samples, 100.0, 5.0, 9.0, {})
    table = stream(setting, 2 * rows + 2 * BATCH * BATCHES)
    spent = max(
        min(timed(setting, table, tasks, task) for _ in range(2)) for task in range(min(tasks, 2))
    )
    return spent, len(filled(setting, table, tasks, 0).snapshot())


def keys_held(keys: int) -> tuple[float, int]:
    """(microseconds a row of known keys, bytes of state a key) where so many are held."""
    from many_keys import ROWS as BATCH
    from many_keys import batch_time, earlier_values, filled

    operator, newest = filled(earlier_values, keys, lambda rows: rows)
    spent = batch_time(operator, keys, newest, lambda rows: rows) / BATCH * 1e6
    return spent, len(operator.snapshot()) // keys


def line(what: str, of: str, value: int, time: float, state: str = "") -> dict[str, Any]:
    return {"name": what, "grows": of, "value": f"{value:,}", "us a row": time, "state": state}


def run() -> list[dict[str, Any]]:
    """One row a point."""
    found = []
    for rows in (20_000, 100_000, 500_000):
        found.append(line("reorder, 1,000 keys", "rows", rows, reorder(rows=rows)))
    for keys in (1, 100, 10_000):
        found.append(line("reorder, 100,000 rows", "keys", keys, reorder(keys=keys)))
    for keys in (10, 1_000, 100_000):
        found.append(line("window by time, 100,000 rows", "keys", keys, extents(keys=keys)))
    for keys in (1_000, 100_000, 1_000_000):
        spent, size = keys_held(keys)
        found.append(line("earlier values, keys held", "keys", keys, spent, f"{size} B a key"))
    for aggregate in ("avg(x)", "max(x)"):
        for length in (10, 100, 1_000):
            spent = window(length, aggregate=aggregate)
            found.append(line(f"window of rows, {aggregate}", "window", length, spent))
    for samples in (1, 10, 100):
        spent = window(samples=samples)
        found.append(line("window of 100 rows, avg(x)", "samples", samples, spent))
    for rows in (1_250, 5_000, 20_000):
        spent, size = join(rows=rows)
        found.append(line("join, 10 samples", "window", rows, spent, f"{size / 1e6:.1f} MB"))
    for samples in (10, 30, 100):
        spent, size = join(samples=samples)
        found.append(
            line("join, windows of 2,000", "samples", samples, spent, f"{size / 1e6:.1f} MB")
        )
    for tasks in (1, 2, 4, 8):
        spent, size = join(rows=10_000, samples=30, tasks=tasks)
        what = "join, windows of 10,000, 30 samples, a task"
        found.append(line(what, "tasks", tasks, spent, f"{size / 1e6:.1f} MB"))
    return found


if __name__ == "__main__":
    for point in run():
        print(point)
