"""Reordering of many keys against one row at a time, and what came out against what went in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data import traces
from seeds import examples
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.operators.state.stateful import load_bytes, saved_bytes
from sfumato.tables.disorder.table_reorder import RowReorder
from sfumato.tables.row_store import RowStore

NEVER = np.iinfo(np.int64).min
CONTROLS = {
    "slack": {"slack": 4},
    "normal": {"drop_ratio": 0.05, "estimator": "normal"},
    "conformal": {"drop_ratio": 0.05, "estimator": "conformal"},
    "max": {"estimator": "max"},
    "slack, bounded": {"slack": 9, "max_buffer": 5},
    "conformal, bounded": {"drop_ratio": 0.01, "estimator": "conformal", "max_buffer": 4},
}


def ordered(**control):
    return RowReorder(Reorder(**control))


def restored(reorder):
    """What comes of it through a snapshot."""
    _, saved = load_bytes(saved_bytes("rows", 1, reorder, {}), "rows", 1)
    other = RowReorder(Reorder.of(reorder.operator.config))
    other.load_state(saved)
    saved.check_empty()
    return other


every_control = pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS.keys())


@st.composite
def many_keys(draw, max_rows=250):
    """(keys, event_time, arrival): a few keys, ties in both times, sometimes a wild event time."""
    n = draw(st.integers(0, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keys = rng.integers(0, draw(st.integers(1, 5)), n)
    arrival = 10**9 + np.cumsum(rng.integers(0, 50, n))
    event = arrival - rng.integers(0, draw(st.sampled_from([1, 100, 2000])), n)
    if draw(st.booleans()):
        event = np.where(rng.random(n) < 0.05, event + 10**12, event)
    return keys, event // 7 * 7, arrival


def rows_of(keys, event, arrival):
    """Rows that can be told apart: their number, and text."""
    number = np.arange(len(keys))
    return pa.table({"number": number, "event": event, "text": [f"row {i}" for i in number]})


def one_row_at_a_time(control, event, arrival):
    """What comes out of one key: (number, late, punctuation) for each arrival in turn."""
    controllers, held, out = Controllers(DisorderControl(**control)), [], []
    waits = "max_buffer" not in control  # a row that ties, until the punctuation is above its time
    before, one, start = NEVER, np.zeros(1, np.int64), np.array([0, 1])
    for i in range(len(event)):
        (punctuation,), (late,), _, first, end = controllers.extend(
            one, start, event[i : i + 1], arrival[i : i + 1]
        )
        if late:
            out.append((i, True, before))
        else:
            held.append((event[i], i, event[i] + (event[i] == before and waits)))
        # rows from the future that a later row contradicts, or that a full buffer expels
        expelled = {n for a, b in zip(first, end, strict=True) for n in range(a, b)}
        leaving = sorted(h for h in held if h[2] <= punctuation or h[1] in expelled)
        out += [(number, number in expelled, punctuation) for _, number, _ in leaving]
        held = [h for h in held if h not in leaving]
        before = punctuation
    return out, held


def collect(parts, keys):
    """Per key the sequence of (number, late, punctuation) over calls."""
    out = {int(k): [] for k in np.unique(keys)}
    for part in parts:
        number = part.rows["number"].to_numpy() if part.rows.num_columns else []
        for k, n, late, p in zip(part.key, number, part.late, part.punctuation, strict=True):
            out[int(k)].append((int(n), bool(late), int(p)))
    return out


def run(reorder, stream, cuts, restore=False):
    keys = stream[0]
    rows = rows_of(*stream)
    places = sorted({0, len(keys), *(c for c in cuts if c <= len(keys))})
    parts = []
    for low, high in pairwise(places):
        if restore:
            dying, reorder = reorder, restored(reorder)
            dying.process(*(x[low:high] for x in stream), rows.slice(low, high - low))
        parts.append(reorder.process(*(x[low:high] for x in stream), rows.slice(low, high - low)))
    return reorder, parts


@every_control
@examples(20)
@given(stream=many_keys(), cuts=st.lists(st.integers(0, 250), max_size=5), restore=st.booleans())
def test_each_key_comes_out_as_if_its_rows_came_alone_and_one_at_a_time(
    control, stream, cuts, restore
):
    keys, event, arrival = stream
    reorder, parts = run(ordered(**control), stream, cuts, restore)
    got = collect(parts, keys)
    held = 0
    for key in got:
        mine = np.flatnonzero(keys == key)
        expected, left = one_row_at_a_time(control, event[mine], arrival[mine])
        assert got[key] == [(int(mine[i]), bool(late), int(p)) for i, late, p in expected]
        assert (reorder.operator.held[key] if key < len(reorder.operator.held) else 0) == len(left)
        held += len(left)
    counters = reorder.operator.counters
    assert counters["rows"] == len(keys)
    assert counters["held"] == held
    assert counters["late"] == sum(late for rows in got.values() for _, late, _ in rows)
    assert counters["on_time"] == sum(not late for rows in got.values() for _, late, _ in rows)


@every_control
@examples(15)
@given(stream=many_keys(), cuts=st.lists(st.integers(0, 250), max_size=3))
def test_no_row_is_lost_or_doubled_or_changed_and_on_time_rows_are_in_order(control, stream, cuts):
    keys, event = stream[:2]
    reorder, parts = run(ordered(**control), stream, cuts)
    parts.append(reorder.flush())
    rows = pa.concat_tables([p.rows for p in parts if p.rows.num_rows] or [rows_of(*stream)[:0]])
    number = rows["number"].to_numpy()
    assert sorted(number) == list(range(len(keys)))
    assert rows["text"].to_pylist() == [f"row {i}" for i in number]
    assert rows["event"].to_numpy().tolist() == event[number].tolist()
    for part in parts:
        assert part.event_time.tolist() == part.rows["event"].to_pylist() if len(part.key) else True
    late = np.concatenate([p.late for p in parts]) if parts else np.empty(0, bool)
    for key in np.unique(keys):
        mine = (keys[number] == key) & ~late
        assert (np.diff(event[number[mine]]) >= 0).all()
        ties = np.diff(event[number[mine]]) == 0
        assert (np.diff(number[mine])[ties] > 0).all()
    assert reorder.operator.counters["held"] == 0


def test_a_stream_by_hand():
    # slack 1:  arrivals 5 | 9 -> 5 out | 7 -> 7 out | 6 late | 12 -> 9 out
    reorder = ordered(slack=1)
    event = np.array([5, 9, 7, 6, 12])
    out = reorder.process(np.zeros(5, int), event, np.arange(5), pa.table({"number": event}))
    assert out.rows["number"].to_pylist() == [5, 7, 6, 9]
    assert out.late.tolist() == [False, False, True, False]
    assert out.punctuation.tolist() == [5, 7, 7, 9]
    assert reorder.flush().rows["number"].to_pylist() == [12]


def test_idle_keys_release_what_they_hold_but_for_rows_from_the_future():
    rng = np.random.default_rng(4)
    event, arrival = traces.in_arrival_order(traces.poisson(rng, 400), rng.integers(0, 10**5, 400))
    event = event.copy()
    event[200] += 10**8
    keys = np.arange(400) % 2
    reorder = ordered(slack=20)
    reorder.process(keys, event, arrival, rows_of(keys, event, arrival))
    assert reorder.operator.held.tolist() == [21, 20]  # key 0 holds the row set aside as well
    out = reorder.idle(np.array([0]))
    assert set(out.key) == {0}
    assert out.rows.num_rows == 20
    assert not out.late.any()
    assert (np.diff(out.event_time) >= 0).all()
    assert reorder.operator.punctuations()[0] == out.event_time.max() == out.punctuation[0]
    assert reorder.operator.held.tolist() == [1, 20]
    late = reorder.process(
        np.array([0]),
        out.event_time[-1:] - 1,
        arrival[-1:],
        rows_of(keys[:1], out.event_time[-1:] - 1, arrival[-1:]),
    )
    assert late.late.tolist() == [True]
    assert reorder.idle().rows.num_rows == 20
    assert reorder.flush().event_time.tolist() == [event[200]]


def test_a_sort_buffer_starts_afresh_after_idle():
    reorder = ordered(slack=2)
    rows = pa.table({"number": [1, 2]})
    reorder.process(np.zeros(2, int), np.array([10, 20]), np.array([1, 2]), rows)
    assert reorder.idle().event_time.tolist() == [10, 20]
    out = reorder.process(np.zeros(2, int), np.array([30, 40]), np.array([3, 4]), rows)
    assert out.rows.num_rows == 0  # two rows fill the buffer again, none is pushed out


@every_control
def test_idle_and_flush_survive_a_snapshot(control):
    rng = np.random.default_rng(5)
    event, arrival = traces.in_arrival_order(traces.poisson(rng, 600), rng.integers(0, 10**6, 600))
    keys = rng.integers(0, 3, 600)
    rows = rows_of(keys, event, arrival)
    one = ordered(**control)
    one.process(keys[:300], event[:300], arrival[:300], rows[:300])
    one.idle(np.array([1]))
    two = restored(one)
    for reorder in (one, two):
        reorder.parts = [reorder.process(keys[300:], event[300:], arrival[300:], rows[300:])]
        reorder.parts.append(reorder.flush())
    assert collect(one.parts, keys) == collect(two.parts, keys)
    assert one.operator.counters == two.operator.counters


def test_held_rows_are_copied_together_and_forgotten():
    held, alive = RowStore(), np.empty(0, np.int64)
    rng = np.random.default_rng(6)
    for start in range(0, 20_000, 50):
        numbers = np.arange(start, start + 50)
        held.append(pa.table({"number": numbers}), numbers)
        alive = np.concatenate([alive, numbers])
        alive = alive[(rng.random(len(alive)) < 0.9) | (alive < 5)]
        held.forget(alive)
        assert len(held) <= 2 * len(alive) + 1100
        assert len(held._chunks) <= 12
    wanted = rng.permutation(alive)
    parts = held.parts(wanted)
    got = np.empty_like(wanted)
    for places, table in parts:
        got[places] = table["number"].to_numpy()
    assert got.tolist() == wanted.tolist()
    assert held.take(wanted)["number"].to_pylist() == wanted.tolist()
    held.keep(alive)
    assert held.stored["number"].to_pylist() == alive.tolist()


def test_any_columns_pass_through():
    rows = pa.table(
        {
            "nested": pa.array([[{"prob": 0.5, "x": 1.0}], [], None] * 4),
            "word": pa.array(["a", None, "b"] * 4).dictionary_encode(),
        }
    )
    reorder = ordered(slack=3)
    event = np.arange(12)[::-1] // 2 + np.arange(12) * 2
    parts = [
        reorder.process(np.zeros(6, int), event[i : i + 6], np.arange(i, i + 6), rows.slice(i, 6))
        for i in (0, 6)
    ]
    parts = [*parts, reorder.flush()]
    assert sum(p.rows.num_rows for p in parts) == 12
    assert all(p.rows.schema.equals(rows.schema) for p in parts)


@pytest.mark.parametrize(
    ("keys", "event", "rows", "error", "words"),
    [
        ([0.5, 1.5], [1, 2], 2, TypeError, "`keys` must be int64 codes"),
        ([0], [1, 2], 1, TypeError, "one a row"),
        ([-1, 0], [1, 2], 2, ValueError, "codes 0, 1, 2"),
        ([0, 0], [1, 2], 3, ValueError, "`rows` must have 2 rows"),
        ([0, 0], [1, 2, 3], 2, ValueError, "one length"),
    ],
)
def test_bad_batches_are_refused_whole(keys, event, rows, error, words):
    reorder = ordered(slack=1)
    with pytest.raises(error, match=words):
        reorder.process(
            np.array(keys), np.array(event), np.array([1, 2]), pa.table({"x": range(rows)})
        )
    assert reorder.operator.counters["rows"] == 0


def test_a_changed_schema_is_refused():
    reorder = ordered(slack=1)
    one = np.array([0])
    reorder.process(one, one, one, pa.table({"x": [1]}))
    with pytest.raises(ValueError, match="schema"):
        reorder.process(one, one, one, pa.table({"y": [1]}))
    with pytest.raises(SnapshotError):
        Reorder.restore(b"")
