"""Growth of time per row and of bytes of state, with one quantity varied at a time.

Everything runs in one process, without Spark: operators over Arrow tables, as a worker runs them
for one bucket. Every time is the least of some runs, so that other work on the machine matters
little.
"""

import time
from typing import Any

import pyarrow as pa

import sfumato as sf
from benchmarks.data.streams import readings
from benchmarks.harness import Row, warm_fastest
from benchmarks.suites import join_tasks, many_keys

ROWS = 100_000
RUNS = 3


def spent(function: Any, table: pa.Table, *arguments: Any, **how: Any) -> float:
    """Return microseconds per row for a public function."""
    call = lambda: function(table, *arguments, **how)  # noqa: E731
    return warm_fastest(call, RUNS, time.perf_counter) / table.num_rows * 1e6


def reorder(rows: int = ROWS, keys: int = 1_000) -> float:
    how = {"event_time": "event", "arrival": "arrival", "drop_ratio": 0.01, "key": "device"}
    return spent(sf.reorder, readings(rows, keys, 1, seed=3), **how)


def aggregate(
    window: Any, rows: int = ROWS // 5, keys: int = 10, samples: int = 3, of: str = "avg(x)"
) -> float:
    how = {"window": window, "order": "arrival", "key": "device"}
    return spent(sf.window_aggregate, readings(rows, keys, samples, seed=3), {"m": of}, **how)


def join(rows: int = 2_000, samples: int = 10, tasks: int = 1) -> tuple[float, int]:
    """Return (microseconds per arrival, bytes of state) of a keyless join's busiest task."""
    setting = join_tasks.Setting("", rows, 3, samples, 100.0, 5.0, 9.0, {})
    table = join_tasks.stream(setting, 2 * rows + 2 * join_tasks.BATCH * join_tasks.BATCHES)
    busiest = max(
        min(join_tasks.timed(setting, table, tasks, task) for _ in range(2))
        for task in range(min(tasks, 2))
    )
    return busiest, len(join_tasks.filled(setting, table, tasks, 0).snapshot())


def keys_held(keys: int) -> tuple[float, int]:
    """Return (microseconds per row of known keys, bytes of state per key) with `keys` held keys."""
    operator = many_keys.filled(many_keys.earlier_values, keys)
    seconds = many_keys.batch_time(operator, keys)
    return seconds / many_keys.ROWS * 1e6, len(operator.snapshot()) // keys


def line(what: str, of: str, value: int, time: float, state: str = "") -> Row:
    return {"name": what, "grows": of, "value": f"{value:,}", "us per row": time, "state": state}


def run() -> list[Row]:
    """Return one row per point."""
    found = []
    for rows in (20_000, 100_000, 500_000):
        found.append(line("reorder, 1,000 keys", "rows", rows, reorder(rows=rows)))
    for keys in (1, 100, 10_000):
        found.append(line("reorder, 100,000 rows", "keys", keys, reorder(keys=keys)))
    for keys in (10, 1_000, 100_000):
        cost = aggregate(sf.Range("5 minutes"), ROWS, keys, samples=1)
        found.append(line("time window, 100,000 rows", "keys", keys, cost))
    for keys in (1_000, 100_000, 1_000_000):
        time_of, size = keys_held(keys)
        found.append(line("earlier values, keys held", "keys", keys, time_of, f"{size} B per key"))
    for of in ("avg(x)", "max(x)"):
        for length in (10, 100, 1_000):
            what = f"row window, {of}"
            found.append(line(what, "window", length, aggregate(sf.Rows(length), of=of)))
    for samples in (1, 10, 100):
        cost = aggregate(sf.Rows(100), samples=samples)
        found.append(line("window of 100 rows, avg(x)", "samples", samples, cost))
    joins = [
        ("join, 10 samples", "window", rows, {"rows": rows}) for rows in (1_250, 5_000, 20_000)
    ]
    joins += [("join, windows of 2,000", "samples", n, {"samples": n}) for n in (10, 30, 100)]
    what, large = "join, windows of 10,000, 30 samples, per task", {"rows": 10_000, "samples": 30}
    joins += [(what, "tasks", n, {**large, "tasks": n}) for n in (1, 2, 4, 8)]
    for what, grows, value, how in joins:
        time_of, size = join(**how)
        found.append(line(what, grows, value, time_of, f"{size / 1e6:.1f} MB"))
    return found
