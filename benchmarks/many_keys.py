"""Keys without end: a batch of 100 rows of known keys, where few and where many keys are held.

All keys are in one bucket, which is 32 times worse than on Spark. The time is the least of some
batches; state is what a snapshot has a key. The goal is a batch with 1,000,000 keys held within
1.5 times its time with 1,000. Windows of rows have 100,000: as many as 3,200,000 on Spark.

What a key takes in memory is counted by Python and Arrow, with so many keys held, and once all but
a few of them are forgotten.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa

from harness import fastest, row

FEW, MANY = 1_000, 1_000_000
MANY_WINDOWS, PEAK = 100_000, 100_000
ROWS, BATCHES = 100, 60
GOAL = 1.5
DAY = 86_400_000_000


def earlier_values(forget_after: float | None = None) -> Any:
    from sfumato.tables.imputation.earlier_values import EarlierValuesTableConfig

    return EarlierValuesTableConfig(attributes=1, keys=1, forget_after=forget_after).make()


def extents() -> Any:
    """A controller a key, and an extent complete with each row of known keys."""
    from sfumato.tables.windows.extents import ExtentTableConfig
    from sfumato.windows import Range

    return ExtentTableConfig(
        window=Range("100 us"), results=(("total", "sum", 0, None),),
        attributes=1, scope=(0,), keys=1, key_names=("key",),
    ).make()  # fmt: skip


def reorder(forget_after: float | None = None, **control: Any) -> Any:
    """A controller a key, which holds its newest row."""
    from sfumato.operators.disorder.control import DisorderControl
    from sfumato.tables.disorder.reorder import ReorderTableConfig

    controls = DisorderControl(**(control or {"slack": 1}))
    return ReorderTableConfig(control=controls, keys=1, forget_after=forget_after).make()


def reorder_of_sources() -> Any:
    """The same, where the rows of each key come from two sources."""
    from sfumato.operators.disorder.control import DisorderControl
    from sfumato.tables.disorder.reorder import ReorderTableConfig

    return ReorderTableConfig(control=DisorderControl(slack=1), keys=1, sources=1).make()


def window_of_rows(function: str, forget_after: float | None = None) -> Any:
    """A window of ten rows a key."""
    from sfumato.tables.windows.window_aggregate import RowWindowTableConfig
    from sfumato.windows import Rows

    return RowWindowTableConfig(
        window=Rows(10), results=(("found", function, 0, None),),
        attributes=1, keys=1, forget_after=forget_after,
    ).make()  # fmt: skip


def arrived(rows: pa.Table) -> pa.Table:
    """Rows as a controller reads them: none late."""
    return rows.append_column("event", rows.column("order0"))


def from_sources(rows: pa.Table) -> pa.Table:
    """Rows as controllers of two sources read them: each from both."""
    n = rows.num_rows
    both = arrived(pa.concat_tables([rows, rows]).combine_chunks())
    return both.append_column("source0", pa.array(np.arange(2 * n) // n))


def released(rows: pa.Table) -> pa.Table:
    """Rows as a controller lets them out, and windows read them."""
    n = rows.num_rows
    offsets = pa.array(np.arange(n + 1), pa.int32())
    value = rows.column("value0").combine_chunks()
    columns = {name: rows.column(name) for name in ("row", "key0", "order0", "__tie")}
    return pa.table(
        {
            **columns,
            "prob": pa.ListArray.from_arrays(offsets, pa.array(np.ones(n))),
            "value0": pa.ListArray.from_arrays(offsets, value),
            "late": pa.array(np.zeros(n, bool)),
            "punctuation": pa.array(rows.column("order0").to_numpy() - 1),
        }
    )


def uncertain(rows: pa.Table) -> pa.Table:
    """Rows as windows of rows read them."""
    return released(rows).drop_columns(["late", "punctuation"])


def rows_of(keys: np.ndarray, first: int) -> pa.Table:
    """A row of each key, in order of time from `first` on."""
    n = len(keys)
    structs = pa.StructArray.from_arrays([pa.array(keys)], ["c0"])
    columns = {
        "row": structs,
        "key0": pa.array(keys),
        "order0": pa.array(first + np.arange(n)),
        "value0": pa.array(keys % 97.0),
        "__tie": pa.array(np.arange(n)),
    }
    return pa.table(columns)


def filled(make: Any, keys: int, form: Any) -> tuple[Any, int]:
    """An operator that holds so many keys, and the time of its newest row."""
    operator, step = make(), 50_000
    for begin in range(0, keys, step):
        rows = rows_of(np.arange(begin, min(begin + step, keys)), begin)
        operator.process([(0, form(rows))], 0)
    return operator, keys


def batch_time(operator: Any, keys: int, newest: int, form: Any) -> float:
    """Least seconds of a batch of rows of keys that are held."""
    rng, best = np.random.default_rng(1), np.inf
    for batch in range(BATCHES):
        rows = form(rows_of(rng.integers(0, keys, ROWS), newest + batch * ROWS))

        def process(rows: pa.Table = rows) -> None:
            operator.process([(0, rows)], 0)
            operator.counters(), operator.gauges()

        best = min(best, fastest(process, 1, time.perf_counter))
    return best


def known_row(
    name: str, make: Any, form: Any = lambda rows: rows, most: int = MANY
) -> dict[str, Any]:
    few, many = filled(make, FEW, form), filled(make, most, form)
    mine = batch_time(few[0], FEW, few[1], form)
    theirs = batch_time(many[0], most, many[1], form)
    state = len(many[0].snapshot()) / most
    return row(
        f"{name}, {most:,} keys held / {FEW:,}",
        f"{ROWS} rows of known keys; {state:.0f} bytes of state a key",
        f"{theirs * 1e3:.2f} ms",
        f"{mine * 1e3:.2f} ms",
        theirs / mine,
        most=GOAL,
    )


def peak_row(name: str, make: Any, form: Any = lambda rows: rows) -> dict[str, Any]:
    """Memory with many keys, and after 100 of them alone had rows for ten times `forget_after`."""
    operator, newest = filled(lambda: make(None), FEW, form)
    batch_time(operator, FEW, newest, form)  # what is loaded and compiled once
    tracemalloc.start()
    operator, newest = filled(lambda: make(float(PEAK)), PEAK, form)
    most, state = _allocated(), len(operator.snapshot())
    for step in range(1, 41):
        rows = rows_of(np.arange(PEAK - 100, PEAK), newest + step * PEAK // 4)
        operator.process([(0, form(rows))], 0)
    assert len(operator.index) == 100, len(operator.index)
    left, state_left = _allocated(), len(operator.snapshot())
    tracemalloc.stop()
    return row(
        f"{name}: memory after a peak of {PEAK:,} keys",
        f"state {state / PEAK:,.0f} bytes a key, then {state_left / PEAK:,.0f}",
        f"{left / PEAK:,.0f} bytes a key",
        f"{most / PEAK:,.0f} at the peak",
        left / most,
        most=0.2,
    )


def _allocated() -> int:
    """Bytes that Python and Arrow hold."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()


def forgotten_row() -> dict[str, Any]:
    """Keys that come once, 400 an hour for a hundred days, forgotten after one day."""
    operator = earlier_values(forget_after=float(DAY))
    most = 0
    for hour in range(2400):
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


def run() -> list[dict[str, Any]]:
    """One row a comparison: name, setting, ours, peer, ratio, goal, met."""
    return [
        known_row("earlier values", earlier_values),
        known_row(
            "earlier values, forget_after", lambda: earlier_values(forget_after=float(10 * DAY))
        ),
        known_row("reorder, a controller a key", reorder, arrived),
        known_row("reorder, two sources a key", reorder_of_sources, from_sources, MANY_WINDOWS),
        known_row("extents, a controller a key", extents, released),
        known_row("window of 10 rows, avg", lambda: window_of_rows("avg"), uncertain, MANY_WINDOWS),
        peak_row("reorder, slack", reorder, arrived),
        peak_row("reorder, conformal", lambda forget: reorder(forget, drop_ratio=0.01), arrived),
        peak_row("window of 10 rows, max", lambda forget: window_of_rows("max", forget), uncertain),
        forgotten_row(),
    ]
