"""What a reorder says it holds: the oldest row, the punctuation, how far behind, and for whom."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.reorder import ReorderTableConfig
from sfumato.tables.operator import ROW, TIE

HOUR = 3_600_000_000


def rows(times, sources, arrival=0):
    n = len(times)
    column = pa.array(sources)
    return pa.table(
        {
            ROW: pa.StructArray.from_arrays([pa.array(times)], ["time"]),
            "key0": pa.array(["k"] * n),
            "source0": column,
            "event": pa.array(times),
            "order0": pa.array(arrival + np.arange(n)),
            TIE: pa.array(np.arange(n)),
        }
    )


def config(**more):
    control = DisorderControl(max_delay=10, guard=False)
    return ReorderTableConfig(control=control, keys=1, **more)


def test_the_oldest_row_the_punctuation_and_its_distance_to_the_newest_row_are_shown():
    operator = config().make()
    assert operator.gauges() == dict.fromkeys(config().gauges)
    operator.process([(0, rows([100, 103, 107], ["a"] * 3))], now=0)
    shown = {"oldest": 100, "punctuation": 97, "lag": 10, "slowest": None}
    assert operator.gauges() == shown
    operator.process([(0, rows([150], ["a"], arrival=9))], now=0)
    assert operator.gauges() == {"oldest": 150, "punctuation": 140, "lag": 10, "slowest": None}
    operator.flush()
    assert operator.gauges() == {"oldest": None, "punctuation": 150, "lag": 0, "slowest": None}


def test_the_source_that_holds_the_oldest_row_back_is_named():
    operator = config(sources=1, expected_sources=2).make()
    operator.process([(0, rows([100, 200], ["fast", "fast"]))], now=0)
    shown = operator.gauges()
    assert (shown["oldest"], shown["slowest"]) == (
        100, "a source that is expected and has not spoken",
    )  # fmt: skip
    operator.process([(0, rows([90, 300], ["slow", "fast"], arrival=9))], now=0)
    assert operator.gauges() == {"oldest": 90, "punctuation": 80, "lag": 220, "slowest": "slow"}
    restored = operator.config.restore(operator.snapshot())
    assert restored.gauges() == operator.gauges()


def test_rows_from_the_future_are_held_but_are_no_newest_row():
    control = DisorderControl(slack=2)
    operator = ReorderTableConfig(control=control, keys=1).make()
    times = [*range(0, 10_000, 100), 300_000, 10_000]  # 0.3 s ahead: held until its time
    operator.process([(0, rows(times, ["a"] * len(times)))], now=0)
    shown = operator.gauges()
    assert operator.counters()["held"] > 0
    assert shown["lag"] <= 10_000
