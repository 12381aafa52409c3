"""Reordering of many keys: against one row at a time, with every row emitted once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data import traces
from controllers import NEVER, every_control, release_in_parts
from seeds import examples, seeds
from sfumato.operators.arrays import grouped
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.disorder.rows import KeyedRuns, WaitingRows


@st.composite
def many_keys(draw, max_rows=250):
    """Draw (keys, event_time, arrival) with few keys, ties in both times, and outliers at times."""
    n = draw(st.integers(0, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keys = rng.integers(0, draw(st.integers(1, 5)), n)
    arrival = 10**9 + np.cumsum(rng.integers(0, 50, n))
    event = arrival - rng.integers(0, draw(st.sampled_from([1, 100, 2000])), n)
    if draw(st.booleans()):
        event = np.where(rng.random(n) < 0.05, event + 10**12, event)
    return keys, event // 7 * 7, arrival


def one_row_at_a_time(control, event, arrival):
    """Return one key's output [(number, late, punctuation), ...] by arrival, and its held rows."""
    controllers, held, out = Controllers(DisorderControl(**control)), [], []
    controllers.grow(1)
    waits = "max_buffer" not in control  # a tied row waits until the punctuation exceeds its time
    one = grouped(np.zeros(1, np.int64))
    for i in range(len(event)):
        (before,), (punctuation,), (late,), _, _, ranges, _ = controllers.extend(
            one, event[i : i + 1], arrival[i : i + 1]
        )
        if late:
            out.append((i, True, before))
        else:
            held.append((event[i], i, event[i] + (event[i] == before and waits)))
        # Rows from the future that a later row contradicts, or that a full buffer evicts.
        evicted_late = {n for _, _, first, end, _ in ranges.tolist() for n in range(first, end)}
        leaving = sorted(h for h in held if h[2] <= punctuation or h[1] in evicted_late)
        out += [(number, number in evicted_late, punctuation) for _, number, _ in leaving]
        held = [h for h in held if h not in leaving]
    return out, held


@every_control
@examples(20)
@given(stream=many_keys(), cuts=st.lists(st.integers(0, 250), max_size=5), restore=st.booleans())
def test_each_key_is_released_as_if_alone_and_one_row_at_a_time(control, stream, cuts, restore):
    keys, event, arrival = stream
    reorder, parts = release_in_parts(Reorder(**control), stream, cuts, restore)
    got = {int(k): [] for k in np.unique(keys)}
    for part in parts:
        assert part.event_time.tolist() == event[part.number].tolist()
        for k, *row in zip(part.key, part.number, part.late, part.punctuation, strict=True):
            got[int(k)].append(tuple(row))
    held = 0
    for key in got:
        mine = np.flatnonzero(keys == key)
        expected, left = one_row_at_a_time(control, event[mine], arrival[mine])
        assert got[key] == [(mine[i], late, p) for i, late, p in expected]
        assert len(reorder.held_of(np.array([key])).key) == len(left)
        held += len(left)
    counters = reorder.counters
    late = sum(late for rows in got.values() for _, late, _ in rows)
    assert (counters["rows"], counters["held"], counters["late"]) == (len(keys), held, late)
    assert counters["on_time"] == len(keys) - held - late
    rest = reorder.flush()
    number = np.concatenate([*(part.number for part in parts), rest.number])
    assert sorted(number) == list(range(len(keys)))
    for key in np.unique(keys):
        mine = rest.number[(rest.key == key) & ~rest.late]
        assert np.lexsort((mine, event[mine])).tolist() == list(range(len(mine)))
    assert reorder.counters["held"] == 0


def test_idle_keys_release_all_rows_except_those_from_the_future():
    rng = np.random.default_rng(4)
    event, arrival = traces.in_arrival_order(traces.poisson(rng, 400), rng.integers(0, 10**5, 400))
    event = event.copy()
    event[200] += 10**8
    reorder = Reorder(slack=20)
    reorder.process(np.arange(400) % 2, event, arrival)
    held = np.bincount(reorder.waiting.key).tolist()
    assert held == [21, 20]  # key 0 holds the row set aside as well
    out = reorder.idle(np.array([0]))
    assert set(out.key) == {0}
    assert len(out.number) == 20
    assert not out.late.any()
    assert (np.diff(out.event_time) >= 0).all()
    assert reorder.punctuations_of(np.arange(1))[0] == out.event_time.max() == out.punctuation[0]
    assert np.bincount(reorder.waiting.key).tolist() == [1, 20]
    late = reorder.process(np.array([0]), out.event_time[-1:] - 1, arrival[-1:])
    assert late.late.tolist() == [True]
    assert len(reorder.idle().number) == 20
    assert reorder.flush().event_time.tolist() == [event[200]]


def test_a_sort_buffer_is_empty_after_idle():
    reorder = Reorder(slack=2)
    reorder.process(np.zeros(2, int), np.array([10, 20]), np.array([1, 2]))
    assert reorder.idle().event_time.tolist() == [10, 20]
    out = reorder.process(np.zeros(2, int), np.array([30, 40]), np.array([3, 4]))
    assert not len(out.number)  # two rows fill the buffer again, but do not exceed it


@every_control
def test_idle_and_flush_survive_a_snapshot(control):
    rng = np.random.default_rng(5)
    event, arrival = traces.in_arrival_order(traces.poisson(rng, 600), rng.integers(0, 10**6, 600))
    keys = rng.integers(0, 3, 600)
    one = Reorder(**control)
    one.process(keys[:300], event[:300], arrival[:300])
    one.idle(np.array([1]))
    found = []
    for reorder in (one, Reorder.restore(one.snapshot())):
        parts = [reorder.process(keys[300:], event[300:], arrival[300:]), reorder.flush()]
        found.append([[x.tolist() for x in vars(part).values()] for part in parts])
        assert NEVER < reorder.newest == arrival[-1]
    assert found[0] == found[1]


def test_times_of_unequal_lengths_are_refused_whole():
    reorder = Reorder(slack=1)
    with pytest.raises(ValueError, match="the same length"):
        reorder.process(np.zeros(3, int), np.arange(3), np.arange(2))
    assert reorder.counters["rows"] == 0


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("keys", [1, 50, 3_000, 10**12])
def test_rows_held_are_found_by_their_keys(keys, seed):
    rng = np.random.default_rng(seed)
    held, plain, number = KeyedRuns(WaitingRows), {}, 0
    for _ in range(30):
        n = int(rng.integers(0, 400))
        key = rng.integers(int(rng.integers(0, keys)), keys, n)  # runs start at different keys
        numbers = number + np.cumsum(rng.integers(1, 4, n))
        number += 4 * n
        held.add(WaitingRows(numbers, key, *[numbers] * 4, np.zeros(n, bool)))
        plain.update(zip(numbers.tolist(), key.tolist(), strict=True))
        some = rng.choice(list(plain.values()) or [0], 50)
        wanted = np.unique(np.append(some, rng.integers(0, keys, 9)))
        found, places = held.rows_of(wanted)
        expected = sorted((plain[one], one) for one in plain if plain[one] in set(wanted.tolist()))
        by_key = np.argsort(found.key, kind="stable")  # rows of a key ascend by number
        assert list(zip(found.key[by_key], found.number[by_key], strict=True)) == expected
        leaving = rng.random(len(places)) < 0.7
        held.remove(places[leaving])
        for one in found.number[leaving].tolist():
            del plain[one]
        assert len(held) == len(plain)
    assert dict(zip(held.rows.number.tolist(), held.rows.key.tolist(), strict=True)) == plain
