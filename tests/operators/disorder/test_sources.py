"""Rows of several sources, read at any pace, against a definition by source."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers import NEVER, release_in_parts
from seeds import examples
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.disorder.reorder import Reorder

CONTROLS = {
    "slack": {"slack": 3},
    "normal": {"drop_ratio": 0.05, "estimator": "normal"},
    "conformal": {"drop_ratio": 0.05, "estimator": "conformal"},
    "max": {"estimator": "max"},
}
every_control = pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS.keys())


@st.composite
def sources(draw, most=4):
    """Draw [(event_time, arrival)] of some sources, each in arrival order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out = []
    for _ in range(draw(st.integers(1, most))):
        n = draw(st.integers(1, 90))
        arrival = 10**6 + np.cumsum(rng.integers(0, 50, n))
        event = arrival - rng.integers(0, draw(st.sampled_from([1, 60, 900])), n)
        out.append((event // 7 * 7, arrival))  # some times tie, within and across sources
    return out


@st.composite
def paces(draw, streams):
    """Draw an order of all rows, as (source, number there), that keeps each source's own order."""
    left = [s for s, (event, _) in enumerate(streams) for _ in event]
    weights = {s: draw(st.sampled_from([1.0, 4.0, 50.0])) for s in range(len(streams))}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    priority = rng.exponential(size=len(left)) / np.array([weights[s] for s in left])
    turns = np.argsort(
        np.concatenate([np.cumsum(np.sort(priority[np.array(left) == s])) for s in set(left)])
    )
    taken = dict.fromkeys(range(len(streams)), 0)
    order = []
    for s in np.array(left)[turns].tolist():
        order.append((s, taken[s]))
        taken[s] += 1
    return order


def definition(control, streams, key_of):
    """Return (late rows, released rows by key), computed from each source's own sequence."""
    late, ready, steps = {}, [], {}
    for s, (event, arrival) in enumerate(streams):
        punctuator, values = Punctuator(**control), []
        for i in range(len(event)):
            before = punctuator.punctuation
            (after,), (is_late,) = punctuator.extend_with_late(event[i : i + 1], arrival[i : i + 1])
            values.append(int(after))
            if is_late:
                late[s, i] = before
            else:  # a row tied with the punctuation follows others of its time
                ready.append((int(event[i]), bool(event[i] == before), s, i))
        steps[s] = values
    out = {key: [] for key in set(key_of)}
    for time, tied, s, i in sorted(ready):
        due = time + tied
        own = [steps[other] for other in steps if key_of[other] == key_of[s]]
        if all(values[-1] >= due for values in own):
            step = min(next(v for v in values if v >= due) for values in own)
            out[key_of[s]].append((s, i, step))
    return late, out


def columns_of(streams, order, key_of):
    """Return (keys, event_time, arrival, source) of rows in the given order."""
    event, arrival = (np.array([streams[s][x][i] for s, i in order]) for x in (0, 1))
    source = np.array([s for s, _ in order])
    return np.array(key_of)[source], event, arrival, source


def sort_out(parts, order, key_of):
    """Return (late rows, released rows by key) of released parts, in the form of `definition`."""
    late, out = {}, {key: [] for key in set(key_of)}
    names = ("number", "late", "punctuation", "key", "event_time")
    for released in parts:
        columns = (getattr(released, name) for name in names)
        for n, is_late, p, key, time in zip(*columns, strict=True):
            s, i = order[n]
            if is_late:
                late[s, i] = int(p)
            else:
                assert p >= time or p == NEVER
                out[int(key)].append((s, i, int(p)))
    return late, out


@every_control
@pytest.mark.parametrize("expected", [False, True])
@examples(40)
@given(data=st.data())
def test_rows_are_released_as_defined_by_each_source_for_any_pace(control, expected, data):
    streams = data.draw(sources())
    order = data.draw(paces(streams))
    cuts = data.draw(st.lists(st.integers(0, 300), max_size=5))
    key_of = [0] * len(streams)
    if not expected:  # the first call has each source's first row, before rows are released
        key_of = data.draw(st.sampled_from([[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1]]))
        key_of = key_of[: len(streams)]
        order = sorted(order, key=lambda row: row[1] > 0)
        cuts = [cut for cut in cuts if cut >= len(streams)]
    wanted = len(streams) if expected else None
    reorder = Reorder(by_source=True, expected_sources=wanted, **control)
    columns = columns_of(streams, order, key_of)
    _, parts = release_in_parts(reorder, columns, cuts, data.draw(st.booleans()))
    assert sort_out(parts, order, key_of) == definition(control, streams, key_of)


@examples(40)
@given(data=st.data())
def test_every_row_is_released_once_and_in_order_if_sources_are_silent(data):
    streams = data.draw(sources())
    order = data.draw(paces(streams))
    reorder, parts = Reorder(by_source=True, slack=2), []
    columns = columns_of(streams, order, [0] * len(streams))
    for low in range(0, len(order), 17):
        parts.append(reorder.process(*(column[low : low + 17] for column in columns)))
        if data.draw(st.booleans()):
            known = st.integers(0, len(reorder.controllers) - 1)
            silent = data.draw(st.lists(known, min_size=1, unique=True))
            parts.append(reorder.idle(np.array(silent)))
    parts.append(reorder.flush())
    number, event, late, punctuation = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("number", "event_time", "late", "punctuation")
    )
    assert sorted(number.tolist()) == list(range(len(order)))
    assert event.tolist() == [streams[order[n][0]][0][order[n][1]] for n in number]
    assert (np.diff(event[~late]) >= 0).all()
    assert (np.diff(punctuation[~late]) >= 0).all()
    assert (event[late] <= punctuation[late]).all()
    assert reorder.counters["held"] == 0
    assert reorder.counters["late"] == late.sum()


def test_a_silent_source_delays_no_other_until_it_resumes():
    # Source 0 is slack 1 behind; source 1 is silent after 20. After the timeout, 0 continues alone.
    reorder = Reorder(by_source=True, slack=1)

    def rows(*pairs):
        source, event = (np.array(x) for x in zip(*pairs, strict=True))
        n = len(source)
        out = reorder.process(np.zeros(n, int), event, np.arange(n), source)
        columns = out.event_time, out.late, out.punctuation
        return list(zip(*map(np.ndarray.tolist, columns), strict=True))

    found = rows((0, 10), (1, 15), (1, 20), (0, 30), (0, 40))
    assert found == [(10, False, 10), (15, False, 15)]
    silent = reorder.idle(np.array([1]))
    assert silent.event_time.tolist() == [20, 30]
    assert rows((0, 50)) == [(40, False, 40)]
    # Source 1 resumes: 35 is above its own punctuation (15), but 40 has been released.
    assert rows((1, 35), (1, 45), (0, 60), (1, 70)) == [(35, True, 40), (45, False, 45)]
    assert reorder.counters["after_idle"] == 1
    assert reorder.counters["late"] == 1


def test_rows_that_a_silent_source_delayed_have_the_punctuations_that_release_them():
    reorder = Reorder(by_source=True, slack=1)
    event, source = np.array([10, 15, 20, 30, 40, 50]), np.array([0, 1, 1, 0, 0, 0])
    reorder.process(np.zeros(6, int), event, np.arange(6), source)
    out = reorder.idle(np.array([1]))
    assert out.event_time.tolist() == [20, 30, 40]
    assert out.punctuation.tolist() == [30, 30, 40]


def test_tied_rows_are_released_in_order_of_the_ranks_of_their_sources():
    reorder = Reorder(by_source=True, slack=0)
    keys, event = np.zeros(3, int), np.array([5, 5, 5])
    reorder.sources.ranks = lambda codes: np.array([2, 0, 1])[codes]
    out = reorder.process(keys, event, event, np.array([0, 1, 2]))
    assert out.number.tolist() == [1, 2, 0]


def test_expected_sources_without_sources_is_refused():
    with pytest.raises(ValueError, match="`expected_sources` needs `source`"):
        Reorder(slack=1, expected_sources=2)


def test_a_source_that_never_resumes_has_state_of_fixed_size():
    reorder = Reorder(by_source=True, max_delay=10)
    time = np.arange(20)
    reorder.process(np.zeros(20, int), time, time, np.arange(20) % 2)
    reorder.idle(np.array([1]))
    sizes = []
    for batch in range(1, 20):
        rows = np.arange(100) + 100 * batch
        reorder.process(np.zeros(100, int), rows, rows, np.zeros(100, int))
        sizes.append(len(reorder.snapshot()))
    assert max(sizes) <= min(sizes) + 64
    assert np.bincount(reorder.waiting.key).tolist() == [10]
