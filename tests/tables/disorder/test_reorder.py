"""The disorder controller over Arrow tables: idle keys and sources, and times out of range."""

import dataclasses

import numpy as np
import pyarrow as pa

from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from table_runs import table_of, with_column

BY_KEY = ReorderTableConfig(
    control=DisorderControl(0.1, estimator="conformal"), keys=2, idle_timeout=2_000_000
)
BY_SOURCE = dataclasses.replace(BY_KEY, keys=1, sources=1, expected_sources=2)


def disordered(rows, seed, by_source=False):
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.integers(1, 100, rows))
    arrival = event + rng.integers(0, 300, rows)
    order = np.argsort(arrival, kind="stable")
    device = pa.array([["a", None, "b"][i] for i in rng.integers(0, 3, rows)])
    line = pa.array(rng.integers(0, 2, rows))
    note = [{"number": int(i), "tags": ["x"] * (i % 3)} for i in range(rows)]
    columns = {"key0": device, "source0" if by_source else "key1": line}
    columns |= {"event": event[order], "order0": np.sort(arrival) + np.arange(rows)}
    return table_of({"device": device, "line": line, "note": note}, **columns)


def test_a_source_without_rows_is_waited_for_until_the_timeout():
    assert BY_SOURCE.make().idle(now=2000) == []
    table = disordered(100, 2, by_source=True)
    only = table.filter(pa.compute.equal(table.column("source0"), 0))
    operator = BY_SOURCE.make()
    for rows, now in ((only, 0), (only.slice(0, 1), 1500)):
        for out in operator.process([(0, rows)], now):
            assert all(out.column("late").to_pylist())
    (out,) = operator.idle(now=2000)  # a row of one key has come since, so its source is not idle
    assert not any(out.column("late").to_pylist())
    assert 0 < out.num_rows < only.num_rows
    assert operator.operator.counters["held"] > 0


def test_event_times_out_of_range_are_invalid_and_released():
    table = disordered(50, 3)
    event = table.column("event").to_pylist()
    event[3], event[10], event[20], event[30] = None, 2**60, -(2**62), 2**60 - 1
    table = with_column(table, "event", event)
    operator = BY_KEY.make()
    out = pa.concat_tables([*operator.process([(0, table)], now=0), *operator.flush()])
    assert out.num_rows == 50
    assert operator.counters()["invalid"] == 3
    assert operator.counters()["rows"] == 50
    assert out.slice(0, 3).column("late").to_pylist() == [True] * 3
    assert out.slice(0, 3).column("punctuation").null_count == 3
