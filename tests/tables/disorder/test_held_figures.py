"""What a reorder says it holds: the oldest row, the punctuation, how far behind, and for whom."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
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


def held(operator):
    """What an operator shows of what it holds: of a restored one it is the same."""
    return {name: operator.gauges()[name] for name in ("oldest", "punctuation", "lag", "slowest")}


def test_the_oldest_row_the_punctuation_and_its_distance_to_the_newest_row_are_shown():
    operator = config().make()
    assert operator.gauges() == dict.fromkeys(config().gauges) | {"keys": 0, "new_keys": 0}
    operator.process([(0, rows([100, 103, 107], ["a"] * 3))], now=0)
    shown = {"oldest": 100, "punctuation": 97, "lag": 10, "slowest": None}
    assert held(operator) == shown
    operator.process([(0, rows([150], ["a"], arrival=9))], now=0)
    assert held(operator) == {"oldest": 150, "punctuation": 140, "lag": 10, "slowest": None}
    operator.flush()
    assert held(operator) == {"oldest": None, "punctuation": 150, "lag": 0, "slowest": None}


def test_the_source_that_holds_the_oldest_row_back_is_named():
    operator = config(sources=1, expected_sources=2).make()
    operator.process([(0, rows([100, 200], ["fast", "fast"]))], now=0)
    shown = operator.gauges()
    assert (shown["oldest"], shown["slowest"]) == (
        100, "a source that is expected and has not spoken",
    )  # fmt: skip
    operator.process([(0, rows([90, 300], ["slow", "fast"], arrival=9))], now=0)
    assert held(operator) == {"oldest": 90, "punctuation": 80, "lag": 220, "slowest": "slow"}
    restored = operator.config.restore(operator.snapshot())
    assert held(restored) == held(operator)
    assert restored.gauges()["keys"] == operator.gauges()["keys"] == 1


def test_rows_from_the_future_are_held_but_are_no_newest_row():
    control = DisorderControl(slack=2)
    operator = ReorderTableConfig(control=control, keys=1).make()
    times = [*range(0, 10_000, 100), 300_000, 10_000]  # 0.3 s ahead: held until its time
    operator.process([(0, rows(times, ["a"] * len(times)))], now=0)
    shown = operator.gauges()
    assert operator.counters()["held"] > 0
    assert shown["lag"] <= 10_000


def test_rows_wait_from_their_arrival_to_that_of_the_row_that_lets_them_out():
    operator = config().make()
    operator.begin()
    operator.process([(0, rows([100, 103, 107], ["a"] * 3))], now=0)
    assert operator.gauges()["waits"] is None
    assert operator.gauges()["waited"] == 2
    operator.begin()
    operator.process([(0, rows([118], ["a"], arrival=5_000))], now=0)  # 100, 103 and 107 come out
    shown = operator.gauges()
    assert shown["waits"][3] == sum(shown["waits"]) == 3  # from 4 to below 8 ms
    assert shown["waited"] == 0
    operator.begin()
    operator.process([(0, rows([50, 119], ["a"] * 2, arrival=9_000))], now=0)  # 50 is late
    assert operator.gauges()["waits"] is None
    assert operator.gauges()["waited"] == 4_001
    operator.flush()
    assert operator.gauges()["waited"] is None


def test_how_long_rows_waited_hangs_on_no_micro_batch():
    rng = np.random.default_rng(1)
    control = DisorderControl(max_delay=300_000, guard=False)
    settings = ReorderTableConfig(control=control, keys=1, sources=1)
    event = np.cumsum(rng.integers(0, 20_000, 500)).tolist()
    table = rows(event, [["a", "b"][i % 2] for i in range(500)])
    arrival = np.cumsum(rng.integers(0, 20_000, 500))
    table = table.set_column(table.schema.get_field_index("order0"), "order0", [arrival])

    def waits(cuts):
        operator = settings.make()
        for start, end in zip([0, *cuts], [*cuts, 500], strict=True):
            operator.process([(0, table.slice(start, end - start))], now=0)
        return operator.gauges()["waits"]

    assert sum(waits([])[1:]) > 400
    assert waits([]) == waits([1, 2, 50, 333]) == waits(list(range(1, 500)))


def test_of_rows_held_before_a_restart_nobody_says_how_long_they_waited():
    operator = config().make()
    operator.process([(0, rows([100, 103, 107], ["a"] * 3))], now=0)
    restored = operator.config.restore(operator.snapshot())
    assert restored.gauges()["waited"] is None
    restored.begin()
    restored.process([(0, rows([118, 130], ["a"] * 2, arrival=5_000))], now=0)
    assert sum(restored.gauges()["waits"]) == 1  # 118 came and went behind the restart
    assert restored.gauges()["waited"] == 0


def test_keys_are_counted_and_those_of_a_micro_batch_apart():
    operator = config().make()
    operator.begin()
    operator.process([(0, rows([100], ["a"]))], now=0)
    assert operator.gauges()["keys"] == operator.gauges()["new_keys"] == 1
    operator.begin()
    operator.process([(0, rows([101], ["a"], arrival=1))], now=0)
    assert (operator.gauges()["keys"], operator.gauges()["new_keys"]) == (1, 0)
