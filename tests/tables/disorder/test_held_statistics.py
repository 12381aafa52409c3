"""A reorder's statistics of held rows: oldest row, punctuation, distance and slowest source."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.statistics import BufferStatistics
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.operator import ROW
from table_runs import table_of

CONTROLS = [
    DisorderControl(slack=3, guard=False),
    DisorderControl(max_delay=50, guard=False),
    DisorderControl(drop_ratio=0.2, estimator="conformal"),
    DisorderControl(slack=5, max_buffer=4),
]


def table(shown, key, source, event, arrival):
    return table_of({"id": shown}, key0=key, source0=source, event=event, order0=arrival)


def rows(times, sources, arrival=0):
    n = len(times)
    return table(times, ["k"] * n, sources, times, arrival + np.arange(n))


def made(rng, keys, first, at):
    n = int(rng.integers(1, 30))
    arrival = at + np.sort(rng.integers(0, 60, n))
    event = arrival - rng.integers(0, 80, n) * (rng.random(n) < 0.5)
    key, source = rng.integers(0, keys, n), rng.integers(0, 3, n)
    return table(first + np.arange(n), key, source, event, arrival)


def config(**more):
    control = DisorderControl(max_delay=10, guard=False)
    return ReorderTableConfig(control=control, keys=1, **more)


def held(operator):
    """Return an operator's statistics of held rows, which a restored operator must repeat."""
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
        100, "an expected source that has sent no rows",
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


def test_rows_wait_until_the_arrival_of_the_row_that_releases_them():
    operator = config().make()
    operator.begin()
    operator.process([(0, rows([100, 103, 107], ["a"] * 3))], now=0)
    assert operator.gauges()["waits"] is None
    assert operator.gauges()["waited"] == 2
    operator.begin()
    operator.process([(0, rows([118], ["a"], arrival=5_000))], now=0)  # releases 100, 103, 107
    shown = operator.gauges()
    assert shown["waits"][3] == sum(shown["waits"]) == 3  # 4 to below 8 ms
    assert shown["waited"] == 0
    operator.begin()
    operator.process([(0, rows([50, 119], ["a"] * 2, arrival=9_000))], now=0)  # 50 is late
    assert operator.gauges()["waits"] is None
    assert operator.gauges()["waited"] == 4_001
    operator.flush()
    assert operator.gauges()["waited"] is None


def test_waits_do_not_depend_on_micro_batches():
    rng = np.random.default_rng(1)
    control = DisorderControl(max_delay=300_000, guard=False)
    settings = ReorderTableConfig(control=control, keys=1, sources=1)
    event = np.cumsum(rng.integers(0, 20_000, 500)).tolist()
    arrival = np.cumsum(rng.integers(0, 20_000, 500))
    batch = table(event, ["k"] * 500, [["a", "b"][i % 2] for i in range(500)], event, arrival)

    def waits(cuts):
        operator = settings.make()
        for start, end in zip([0, *cuts], [*cuts, 500], strict=True):
            operator.process([(0, batch.slice(start, end - start))], now=0)
        return operator.gauges()["waits"]

    assert sum(waits([])[1:]) > 400
    assert waits([]) == waits([1, 2, 50, 333]) == waits(list(range(1, 500)))


def test_rows_held_before_a_restart_have_waited_since_their_arrival():
    operator = config().make()
    operator.process([(0, rows([100, 103, 107], ["a"] * 3))], now=0)
    restored = operator.config.restore(operator.snapshot())
    assert restored.gauges()["waited"] == 2
    restored.begin()
    restored.process([(0, rows([118, 130], ["a"] * 2, arrival=5_000))], now=0)
    assert sum(restored.gauges()["waits"]) == 4
    assert restored.gauges()["waited"] == 0


def test_keys_and_new_keys_of_a_micro_batch_are_counted():
    operator = config().make()
    operator.begin()
    operator.process([(0, rows([100], ["a"]))], now=0)
    assert operator.gauges()["keys"] == operator.gauges()["new_keys"] == 1
    operator.begin()
    operator.process([(0, rows([101], ["a"], arrival=1))], now=0)
    assert (operator.gauges()["keys"], operator.gauges()["new_keys"]) == (1, 0)


@given(
    seed=st.integers(0, 10**6),
    keys=st.integers(1, 40),
    control=st.sampled_from(CONTROLS),
    more=st.sampled_from([{}, {"forget_after": 100.0}, {"sources": 1}]),
)
def test_updated_statistics_are_those_of_a_full_computation(seed, keys, control, more):
    rng = np.random.default_rng(seed)
    config = ReorderTableConfig(control=control, keys=1, idle_timeout=5_000, **more)
    operator, held, arrivals, newest = config.make(), {}, {}, None
    for step in range(12):
        if seed % 3 == 0 and step % 5 == 4:
            out = operator.idle(step)
        elif step == 11:
            out = operator.flush()
        else:
            batch = made(rng, keys, 100 * step, 40 * step)
            for row in batch.to_pylist():
                number, arrival = row[ROW]["id"], row["order0"]
                held[number], arrivals[number] = row["event"], arrival
                newest = max(arrival, arrival if newest is None else newest)
            out = operator.process([(0, batch)], step)
        for part in out:
            for row in part.column(ROW).to_pylist():
                del held[row["id"]]
        shown = operator.gauges()
        assert operator.operator.held_count == len(held) == operator.counters()["held"]
        assert shown["oldest"] == min(held.values(), default=None)
        waited = newest - min(arrivals[row] for row in held) if held else None
        assert shown["waited"] == waited
        whole = BufferStatistics(operator.operator).update(operator._present)
        assert (shown["oldest"], shown["punctuation"], shown["lag"]) == whole[:3]
        if shown["oldest"] is None:
            assert shown["slowest"] is None
