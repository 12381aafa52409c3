"""The idle timeout when the clock steps back: rows are released one timeout later, not only when
the clock has caught up."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucket_worker import Entries, KeptConfig, alone
from memory_tables import tuples_of
from ranked_tables import PLAIN
from ranked_tables import table as ranked
from sfumato.operators.disorder.control import DisorderControl
from sfumato.spark.crossing import chunks
from sfumato.spark.state import operator_owners
from sfumato.spark.state.bucket_state import BucketProcessor
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.operator import ROW, TIE, TableConfig
from sfumato.tables.reading.chain import ChainConfig, ChainStep, Feed
from sfumato.windows import JoinWindow, Range
from table_runs import table_of, waiting_rows
from table_subjects import TABLES, extents_of

TIMEOUT, HOUR, START = 30_000, 3_600_000, 1_800_000_000_000
KEYS = ReorderTableConfig(control=DisorderControl(slack=5), keys=1, idle_timeout=1000 * TIMEOUT)
SOURCES = ReorderTableConfig(
    control=DisorderControl(slack=0), sources=1, expected_sources=2, idle_timeout=1000 * TIMEOUT
)


def times(values):
    return pa.array(np.array(values, "int64")).cast(pa.timestamp("us", "UTC"))


def reordered(source, first):
    at, number = times([first, first + 1]), np.arange(first, first + 2)
    return table_of({"id": number}, number, source0=[source] * 2, event=at, order0=at)


def held_by_a_key(operator, now):
    rows = reordered("k", 0).rename_columns([ROW, "key0", "event", "order0", TIE])
    operator.process([(0, rows)], now)


def held_by_a_source(operator, now):
    operator.process([(0, reordered("silent", 0)), (0, reordered("busy", 2))], now)
    operator.process([(0, reordered("busy", 10))], now)


def joined(operator, now):
    for side, count in ((0, 9), (1, 1)):
        at = times(range(1, count + 1))
        columns = {"order0": at, "late": [False] * count, "punctuation": at}
        columns["alternatives"] = tuples_of([[(1.0, 1.0)]] * count, x=pa.float64())
        operator.process([(side, table_of({"id": range(count)}, **columns))], now)


def in_extents(operator, now):
    columns = {"key0": ["k"], "order0": [5], "late": [False], "punctuation": [5]}
    rows = table_of({"id": [1]}, prob=[[1.0]], value0=[[2.0]], **columns)
    operator.process([(0, rows)], now)


def in_a_ranking(operator, now):
    tuples = [
        {"id": i, "key": "k", "time": i, "score": [1.0], "prob": [0.5], "rule": None}
        for i in range(3)
    ]
    operator.process([(0, ranked(tuples))], now)


@dataclass
class Case:
    config: TableConfig
    feed: Any


WINDOW = Range("8 us", idle_timeout="30 s")
EXTENTS = replace(extents_of(40, 20), window=WINDOW)
JOIN = replace(
    TABLES["similarity join"].make().config, keys=0, aligned=((), ()), idle_timeout=1000 * TIMEOUT,
    within=1.0, probability=0.3, windows=(JoinWindow(4),) * 2, output="append",
)  # fmt: skip
CASES = {
    "a controller": Case(KEYS, held_by_a_key),
    "a controller with sources": Case(SOURCES, held_by_a_source),
    "one window for both sides": Case(JOIN, joined),
    "extents": Case(EXTENTS, in_extents),
    "a ranking": Case(replace(PLAIN, window=WINDOW, queries=(("q", 2, 4),)), in_a_ranking),
}


def held(operator):
    """Return the number of rows that wait in the operator's sides, or None without sides."""
    sides = getattr(operator, "sides", None)
    return None if sides is None else waiting_rows(sides)


@pytest.mark.parametrize("hours", [0, 1])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_released_after_a_timeout_whatever_the_clock_stepped_back(name, restarts, hours):
    case = CASES[name]
    operator = case.config.make()
    case.feed(operator, START)
    if restarts:  # on a machine whose clock may be an hour behind
        operator = case.config.restore(operator.snapshot())
    back, before = START - hours * HOUR, held(operator)
    assert not sum(t.num_rows for t in operator.idle(back))
    assert not sum(t.num_rows for t in operator.idle(back + TIMEOUT - 1))
    assert held(operator) == before
    released = sum(t.num_rows for t in operator.idle(back + TIMEOUT))
    assert released if before is None else held(operator) < before


@pytest.mark.parametrize("name", CASES)
def test_time_in_which_a_query_does_not_run_is_not_silence(name):
    case = CASES[name]
    operator = case.config.make()
    case.feed(operator, START)
    operator = case.config.restore(operator.snapshot())
    later, before = START + HOUR, held(operator)
    operator.resume(later)
    assert not sum(t.num_rows for t in operator.idle(later + TIMEOUT - 1))
    assert held(operator) == before
    released = sum(t.num_rows for t in operator.idle(later + TIMEOUT))
    assert released if before is None else held(operator) < before


def test_rows_of_a_busy_source_do_not_wait_until_the_clock_has_caught_up():
    operator = SOURCES.make()
    held_by_a_source(operator, START)
    back, first, out = START - HOUR, 20, []
    for now in range(back, back + 2 * TIMEOUT, 10_000):
        out += operator.process([(0, reordered("busy", first))], now)
        out += operator.idle(now)
        first += 2
    released = {row["id"] for t in out for row in t.column(ROW).to_pylist()}
    assert set(range(20, first)) <= released


def test_a_chain_passes_the_clock_to_steps_that_get_no_rows():
    chain = ChainConfig((ChainStep(KEYS, (Feed(0),), idles=True),)).make()
    held_by_a_key(chain, START)
    chain.set_clock(START - HOUR)
    assert chain.idle(START - HOUR + TIMEOUT)


class Clock:
    def __init__(self, now):
        self.now = now

    def getCurrentProcessingTimeInMs(self):  # noqa: N802
        return self.now


class TimedHandle:
    def __init__(self):
        self.timers = []

    def registerTimer(self, due):  # noqa: N802
        self.timers.append(due)


@pytest.mark.parametrize("lost", [False, True])
def test_a_restarted_query_waits_for_the_rows_that_it_has_not_read(lost):
    entries, handle = Entries(), TimedHandle()

    def released(processor, now, *batch):
        rows = [chunks.to_bytes(reordered(source, first)) for source, first in batch]
        given, clock = [{"side": 0, "chunk": chunk} for chunk in rows], Clock(now)
        found = [*processor.handleInputRows((3,), iter(given), clock)] if given else []
        found += processor.handleExpiredTimer((3,), clock, None)
        return sum(chunks.from_bytes(row["chunk"]).num_rows for row in found if row["chunk"])

    def started():
        chain = ChainConfig((ChainStep(SOURCES, (Feed(0),), idles=True),))
        made = BucketProcessor(chain, SOURCES.fingerprint(), TIMEOUT)
        made.open(handle, entries)
        return made

    processor = started()
    released(processor, START, ("a", 0), ("b", 0))
    processor, later = started(), START + HOUR
    assert not released(processor, later, ("a", 100))
    if lost:  # the operator is then restored from its snapshot and log
        operator_owners.CACHE.take(processor.identity, 3, "")
    assert not released(processor, later + TIMEOUT - 1)
    assert handle.timers[-1] == later + TIMEOUT
    assert released(processor, later + TIMEOUT) == 2


@pytest.mark.parametrize("step", [0, -HOUR, HOUR])
def test_a_bucket_has_a_timer_one_timeout_after_its_newest_row_whatever_the_clock_did(step):
    config = KeptConfig()
    processor = BucketProcessor(alone(config), config.fingerprint(), TIMEOUT)
    handle = TimedHandle()
    processor.open(handle, Entries())

    def rows_at(now):
        rows = pa.table({ROW: [0.0], "order0": [1.0], TIE: [0]})
        chunk = {"side": 0, "chunk": chunks.to_bytes(rows)}
        list(processor.handleInputRows((3,), iter([chunk]), Clock(now)))

    rows_at(START)
    assert handle.timers == [START + TIMEOUT]
    now = START + step + 1_000
    rows_at(now)
    fired, at = 0, now
    while fired < 9:  # timers fire as in Spark, when due by the clock
        due = [timer for timer in handle.timers if timer <= at]
        if due:
            fired += 1
            handle.timers = [timer for timer in handle.timers if timer > at]
            list(processor.handleExpiredTimer((3,), Clock(at), None))
        if at >= now + TIMEOUT:
            break
        at = min([timer for timer in handle.timers if timer > at], default=now + TIMEOUT)
        at = min(at, now + TIMEOUT)
    assert fired
    assert due
    assert at == now + TIMEOUT
