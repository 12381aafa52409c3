"""Rankings whose time advances with the clock while no rows come."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucket_worker import Entries
from ranked_tables import PLAIN, table
from seeds import examples
from sfumato.spark.crossing import chunks
from sfumato.spark.state.bucket_state import BucketProcessor
from sfumato.tables.reading.chain import ChainConfig, ChainStep, Feed
from sfumato.windows import Range, Rows
from tables.ranking.test_table_top_k import tuples
from tables.test_idle_clocks import Clock, TimedHandle

TIMEOUT, LENGTH = 2, 8  # in milliseconds; event times are in microseconds
WINDOW = Range(f"{LENGTH} ms", idle_timeout=f"{TIMEOUT} ms")
QUERIES = (("quick", 1, 1_000), ("wide", 3, 3_000))
PLAN = replace(PLAIN, window=WINDOW, queries=QUERIES, processing_time=True)
CONTROLLED = replace(PLAN, scope=())


def in_milliseconds(rows):
    return [{**row, "time": 1_000 * row["time"]} for row in rows]


def listed(parts):
    return [row for part in parts for row in part.to_pylist()]


def without_clock(answers):
    return [{name: row[name] for name in row if name != "answered"} for row in answers]


def ended(rows, key, at):
    """Return the rows and a last row of a key, which releases all instants up to its time."""
    return [*rows, {**rows[-1], "id": 10_000, "key": key, "time": at, "punctuation": at}]


def expected(plan, rows, at):
    """Return the answers of every key for instants after its rows, up to the time `at`."""
    newest, found = {}, []
    for row in rows:
        newest[row["key"]] = max(row["time"], newest.get(row["key"], 0))
    for key in newest:
        last = newest[key] if plan.scope is None else max(newest.values())
        until = min(newest[key] + LENGTH * 1_000, last + at)
        answers = listed(plan.make().process([(0, table(ended(rows, key, until)))], 0))
        found += [row for row in answers if row["key0"] == key and row["time"] > last]
    return sorted(without_clock(found), key=repr)


@pytest.mark.parametrize("plan", [PLAN, CONTROLLED], ids=["ordered", "controlled"])
@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.lists(st.integers(0, 5), max_size=8),
    restart=st.booleans(),
)
def test_a_silence_has_the_answers_of_rows_that_show_the_same_time(plan, seed, steps, restart):
    rows, operator, now = in_milliseconds(tuples(seed, 12)), plan.make(), 5_000
    for row in rows:
        row["punctuation"] = row["time"]
    operator.process([(0, table(rows))], now)
    came, out = now, []
    for step in steps:
        now += step
        if restart:
            operator = plan.restore(operator.snapshot())
        out += listed(operator.idle(now))
    silent = now - came if now - came >= TIMEOUT else 0
    assert sorted(without_clock(out), key=repr) == expected(plan, rows, 1_000 * silent)
    assert {row["answered"] for row in out} <= {None}


def test_an_operator_wakes_for_each_instant_until_its_windows_are_empty():
    rows, operator, now = in_milliseconds(tuples(3, 12)), PLAN.make(), 5_000
    operator.process([(0, table(rows))], now)
    times, wakes = set(), []
    while (wake := operator.next_timeout()) is not None:
        assert wake > now
        now = wake
        wakes.append(now)
        found = listed(operator.idle(now))
        times |= {row["time"] for row in found}
    assert wakes[0] >= 5_000 + TIMEOUT
    assert len(wakes) > LENGTH / 2
    assert max(times) - max(row["time"] for row in rows) == (LENGTH - 1) * 1_000 + 1_000
    assert operator.idle(now + 10**9) == []


def test_rows_after_a_silence_are_late_up_to_the_answered_instants():
    first = {"id": 0, "key": "s", "time": 10_000, "score": [1.0], "prob": [0.5], "rule": None}
    operator = replace(PLAN, queries=(("wide", 3, 1_000),)).make()
    operator.process([(0, table([first]))], 0)
    assert [row["time"] for row in listed(operator.idle(3))][-1] == 13_000
    rows = [{**first, "id": i, "time": time} for i, time in ((1, 12_999), (2, 13_500))]
    operator.process([(0, table(rows))], 4)
    assert operator.counters()["late"] == 1
    answers = listed(operator.idle(6))  # 13.5 ms came at 4 ms
    assert sorted(row["row"]["id"] for row in answers if row["time"] == 15_000) == [0, 2]


def test_a_clock_that_steps_back_answers_nothing_twice():
    rows, operator = in_milliseconds(tuples(4, 12, keys=1)), PLAN.make()
    operator.process([(0, table(rows))], 5_000)
    out = listed(operator.idle(5_004))
    assert operator.idle(3_000) == []
    out += listed(operator.idle(3_007))
    out += listed(operator.idle(9_000))
    assert sorted(without_clock(out), key=repr) == expected(PLAN, rows, 10**9)


def test_a_bucket_sets_timers_until_the_windows_are_empty():
    chain = ChainConfig((ChainStep(PLAN, (Feed(0),), idles=True),))
    processor = BucketProcessor(chain, PLAN.fingerprint(), TIMEOUT)
    handle, now, timers = TimedHandle(), 5_000, []
    processor.open(handle, Entries())
    rows = in_milliseconds(tuples(3, 12))
    chunk = {"side": 0, "chunk": chunks.to_bytes(table(rows))}
    list(processor.handleInputRows((3,), iter([chunk]), Clock(now)))
    while handle.timers:
        now = min(handle.timers)
        handle.timers = [timer for timer in handle.timers if timer > now]
        timers.append(now)
        list(processor.handleExpiredTimer((3,), Clock(now), None))
    assert timers[0] >= 5_000 + TIMEOUT
    assert len(timers) > LENGTH / 2
    assert timers[-1] <= 5_000 + LENGTH + 1


@pytest.mark.parametrize("window", [Range("8 ms"), Rows(5)])
def test_processing_time_needs_an_idle_timeout(window):
    with pytest.raises(ValueError, match="`processing_time` needs a time window with `idle_ti"):
        replace(PLAN, window=window)
