"""Unbounded keys: a batch of 100 rows of known keys, with few and with many held keys.

All keys are in one bucket, which is 32 times worse than on Spark. The time is the least of some
batches; state is the snapshot's size per key. The goal is a batch with 1,000,000 held keys within
1.5 times its time with 1,000. Count windows have 100,000 keys, which is 3,200,000 on Spark.

A key's memory is measured in Python and Arrow, with all these keys held, and after all but a few of
them have been forgotten.
"""

import gc
import time
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.streams import numbers, operator_rows
from benchmarks.harness import Row, fastest, row
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.imputation.table_earlier_values import EarlierValuesTableConfig
from sfumato.tables.windows.table_extents import ExtentTableConfig
from sfumato.tables.windows.table_windows import RowWindowTableConfig
from sfumato.windows import Range, Rows

FEW, MANY = 1_000, 1_000_000
MANY_WINDOWS, PEAK = 100_000, 100_000
ROWS, BATCHES = 100, 60
HOURS = 2400
WINDOW_KEYS, MOST_MICROSECONDS = 5_000, 15
GOAL = 1.5
DAY = 86_400_000_000
QUICK = {
    "MANY": 5_000,
    "MANY_WINDOWS": 5_000,
    "PEAK": 2_000,
    "BATCHES": 3,
    "HOURS": 48,
    "WINDOW_KEYS": 50,
    "MOST_MICROSECONDS": 1_000,
}


def earlier_values(forget_after: float | None = None) -> Any:
    return EarlierValuesTableConfig(attributes=1, keys=1, forget_after=forget_after).make()


def extents() -> Any:
    """Build extents with a controller per key; each row of a known key completes an extent."""
    return ExtentTableConfig(
        window=Range("100 us"), results=(("total", "sum", 0, None),),
        attributes=1, scope=(0,), keys=1,
    ).make()  # fmt: skip


def reorder(forget_after: float | None = None, sources: int = 0, **control: Any) -> Any:
    """Build a controller per key, which holds its newest row."""
    controls = DisorderControl(**(control or {"slack": 1}))
    return ReorderTableConfig(
        control=controls, keys=1, sources=sources, forget_after=forget_after
    ).make()


def window_of_rows(function: str, forget_after: float | None = None) -> Any:
    """Build a window of ten rows per key."""
    return RowWindowTableConfig(
        window=Rows(10), results=(("found", function, 0, None),),
        attributes=1, keys=1, forget_after=forget_after,
    ).make()  # fmt: skip


def rows_of(keys: np.ndarray, first: int) -> pa.Table:
    """Return one row per key, in time order starting at `first`."""
    times = pa.array(first + np.arange(len(keys)))
    named = {"key0": pa.array(keys), "order0": times, "value0": pa.array(keys % 97.0)}
    return operator_rows({"c0": named["key0"]}, **named)


def arrived(rows: pa.Table) -> pa.Table:
    """Return rows as a controller reads them, none of them late."""
    return rows.append_column("event", rows["order0"])


def from_sources(rows: pa.Table) -> pa.Table:
    """Return rows as controllers of two sources read them, each from both."""
    n = rows.num_rows
    both = arrived(pa.concat_tables([rows, rows]).combine_chunks())
    return both.append_column("source0", pa.array(np.arange(2 * n) // n))


def uncertain(rows: pa.Table) -> pa.Table:
    """Return rows as count windows read them."""
    lists = {"prob": numbers(np.ones(rows.num_rows)), "value0": numbers(rows["value0"])}
    kept = rows.select(["row", "key0", "order0", "__tie"])
    return pa.table({**dict(zip(kept.column_names, kept.columns, strict=True)), **lists})


def released(rows: pa.Table) -> pa.Table:
    """Return rows as a controller releases them and extents read them."""
    late = pa.array(np.zeros(rows.num_rows, bool))
    punctuation = pa.array(rows["order0"].to_numpy() - 1)
    return uncertain(rows).append_column("late", late).append_column("punctuation", punctuation)


def filled(make: Any, keys: int, form: Any = lambda rows: rows) -> Any:
    """Return an operator that holds `keys` keys; the time of its newest row is `keys - 1`."""
    operator, step = make(), 50_000
    for begin in range(0, keys, step):
        rows = rows_of(np.arange(begin, min(begin + step, keys)), begin)
        operator.process([(0, form(rows))], 0)
    return operator


def batch_time(operator: Any, keys: int, form: Any = lambda rows: rows) -> float:
    """Return the least seconds of a batch of rows of known keys."""
    rng = np.random.default_rng(1)
    firsts = iter(range(keys, keys + BATCHES * ROWS, ROWS))

    def process(rows: pa.Table) -> None:
        operator.process([(0, rows)], 0)
        operator.counters(), operator.gauges()

    def prepare() -> pa.Table:
        return form(rows_of(rng.integers(0, keys, ROWS), next(firsts)))

    return fastest(process, BATCHES, time.perf_counter, prepare)


def known_row(name: str, make: Any, form: Any = lambda rows: rows, most: int | None = None) -> Row:
    most = most or MANY
    few, many = filled(make, FEW, form), filled(make, most, form)
    mine, theirs = batch_time(few, FEW, form), batch_time(many, most, form)
    state = len(many.snapshot()) / most
    return row(
        f"{name}, {most:,} keys held / {FEW:,}",
        f"{ROWS} rows of known keys; {state:.0f} bytes of state per key",
        f"{theirs * 1e3:.2f} ms",
        f"{mine * 1e3:.2f} ms",
        theirs / mine,
        most=GOAL,
    )


def peak_row(name: str, make: Any, form: Any) -> Row:
    """Compare memory with many keys to memory after only 100 of them had rows for ten times
    `forget_after`.
    """
    batch_time(filled(partial(make, None), FEW, form), FEW, form)  # loads and compiles
    tracemalloc.start()
    operator = filled(partial(make, float(PEAK)), PEAK, form)
    most, state = _allocated(), len(operator.snapshot())
    for step in range(1, 41):
        rows = rows_of(np.arange(PEAK - 100, PEAK), PEAK + step * PEAK // 4)
        operator.process([(0, form(rows))], 0)
    assert len(operator.index) == 100, len(operator.index)
    left, state_left = _allocated(), len(operator.snapshot())
    tracemalloc.stop()
    return row(
        f"{name}: memory after a peak of {PEAK:,} keys",
        f"state {state / PEAK:,.0f} bytes per key, then {state_left / PEAK:,.0f}",
        f"{left / PEAK:,.0f} bytes per key",
        f"{most / PEAK:,.0f} at the peak",
        left / most,
        most=0.2,
    )


def short_windows_row(name: str, aggregate: Aggregate, **laws: Any) -> Row:
    """Measure the time per row of uncertain windows of 20 rows, with two rows per key and call."""
    window = CountWindowAggregate(20, 0.9, [aggregate], **laws)
    rng, n = np.random.default_rng(1), 2 * WINDOW_KEYS

    def batch() -> tuple[np.ndarray, ...]:
        codes = rng.permutation(np.arange(n) % WINDOW_KEYS)
        return codes, np.arange(n + 1), rng.uniform(0.5, 1.0, n), rng.random((n, 1))

    for _ in range(12):  # until the windows are full
        window.process(*batch())
    took = fastest(lambda given: window.process(*given), 5, time.perf_counter, batch) / n * 1e6
    return row(
        f"{name} of windows of 20 rows", f"{WINDOW_KEYS:,} keys, 2 rows per key and call",
        f"{took:.1f} µs per row", f"{MOST_MICROSECONDS} µs per row", took, most=MOST_MICROSECONDS,
    )  # fmt: skip


def _allocated() -> int:
    """Return the bytes that Python and Arrow have allocated."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()


def forgotten_row() -> Row:
    """Measure keys that come once, 400 per hour for a hundred days, forgotten after one day."""
    operator = earlier_values(forget_after=float(DAY))
    most = 0
    for hour in range(HOURS):
        keys = np.arange(hour * 400, (hour + 1) * 400)
        operator.process([(0, rows_of(keys, hour * DAY // 24))], 0)
        most = max(most, len(operator.index))
    return row(
        "keys that come once, forgotten after a day",
        "400 an hour for 100 days; alive within a day: 10,000",
        f"{most:,} keys at most",
        "960,000 keys in all",
        most / 10_000,
        most=1.2,
    )


def run() -> list[Row]:
    ten_days, average = float(10 * DAY), partial(window_of_rows, "avg")
    return [
        known_row("earlier values", earlier_values),
        known_row("earlier values, forget_after", partial(earlier_values, ten_days)),
        known_row("reorder, a controller per key", reorder, arrived),
        known_row(
            "reorder, two sources per key", partial(reorder, sources=1), from_sources, MANY_WINDOWS
        ),
        known_row("extents, a controller per key", extents, released),
        known_row("window of 10 rows, avg", average, uncertain, MANY_WINDOWS),
        peak_row("reorder, slack", reorder, arrived),
        peak_row("reorder, conformal", partial(reorder, drop_ratio=0.01), arrived),
        peak_row("window of 10 rows, max", partial(window_of_rows, "max"), uncertain),
        forgotten_row(),
        short_windows_row("sum", Aggregate("sum", 0)),
        short_windows_row("max", Aggregate("max", 0)),
        short_windows_row("quantiles of count", Aggregate("count"), quantiles=(0.1, 0.9)),
    ]
