"""What a reorder knows of its held rows without a look at all of them is what a look would show."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.statistics import BufferStatistics
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.operator import ROW, TIE

CONTROLS = [
    DisorderControl(slack=3, guard=False),
    DisorderControl(max_delay=50, guard=False),
    DisorderControl(drop_ratio=0.2, estimator="conformal"),
    DisorderControl(slack=5, max_buffer=4),
]


def batch(rng, keys, first, at):
    n = int(rng.integers(1, 30))
    arrival = at + np.sort(rng.integers(0, 60, n))
    event = arrival - rng.integers(0, 80, n) * (rng.random(n) < 0.5)
    return pa.table(
        {
            ROW: pa.StructArray.from_arrays([pa.array(first + np.arange(n))], ["id"]),
            "key0": pa.array(rng.integers(0, keys, n)),
            "event": pa.array(event),
            "order0": pa.array(arrival),
            "source0": pa.array(rng.integers(0, 3, n)),
            TIE: pa.array(np.arange(n)),
        }
    )


@given(
    seed=st.integers(0, 10**6),
    keys=st.integers(1, 40),
    control=st.sampled_from(CONTROLS),
    more=st.sampled_from([{}, {"forget_after": 100.0}, {"sources": 1}]),
)
def test_figures_that_are_kept_up_are_those_of_a_look_at_all(seed, keys, control, more):
    rng = np.random.default_rng(seed)
    config = ReorderTableConfig(control=control, keys=1, idle_timeout=5, **more)
    operator, held, arrivals, newest = config.make(), {}, {}, None
    for step in range(12):
        if seed % 3 == 0 and step % 5 == 4:
            out = operator.idle(step)
        elif step == 11:
            out = operator.flush()
        else:
            rows = batch(rng, keys, 100 * step, 40 * step)
            for row, event, arrival in zip(
                rows.column(ROW).to_pylist(),
                rows.column("event").to_pylist(),
                rows.column("order0").to_pylist(),
                strict=True,
            ):
                held[row["id"]], arrivals[row["id"]] = event, arrival
                newest = max(arrival, arrival if newest is None else newest)
            out = operator.process([(0, rows)], step)
        for table in out:
            for row in table.column(ROW).to_pylist():
                del held[row["id"]]
        shown = operator.gauges()
        assert operator.operator.holds == len(held) == operator.counters()["held"]
        assert shown["oldest"] == min(held.values(), default=None)
        waited = newest - min(arrivals[row] for row in held) if held else None
        assert shown["waited"] == waited
        whole = BufferStatistics(operator.operator).now(operator._present)
        assert (shown["oldest"], shown["punctuation"], shown["lag"]) == whole[:3]
        if shown["oldest"] is None:
            assert shown["slowest"] is None
