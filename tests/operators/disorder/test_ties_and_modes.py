"""Rows with equal event times, delays with lasting modes, and clocks that are wrong for a while."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers import CONTROLS, SECOND, START, release_in_parts
from seeds import examples
from sfumato.operators.disorder.reorder import Reorder

ALL = {**CONTROLS, "buffer alone": {"max_buffer": 20}, "no wait": {"slack": 0}}
every_control = pytest.mark.parametrize("control", ALL.values(), ids=ALL.keys())
HOUR = 3600 * SECOND


def late_rows(event, arrival, cuts=(), **control):
    """Return (late bool[n], numbers of the other rows as released, counters) for one key."""
    columns = np.zeros(len(event), np.int64), event, arrival
    reorder, parts = release_in_parts(Reorder(**control), columns, cuts)
    late, in_order = np.zeros(len(event), bool), []
    for out in [*parts, reorder.flush()]:
        late[out.number[out.late]] = True
        in_order += out.number[~out.late].tolist()
    return late, in_order, reorder.counters


@st.composite
def ordered_streams(draw):
    """Draw a stream in event-time order with many ties, and delays that keep this order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 600))
    unit = draw(st.sampled_from([1, SECOND, 60 * SECOND, 24 * HOUR]))
    per_time = draw(st.sampled_from([1, 3, 40, 1000]))
    event = START + np.cumsum(rng.random(n) < 1 / per_time) * unit
    arrival = event + draw(st.sampled_from([-HOUR, 0, 5 * SECOND, 30 * 24 * HOUR]))
    arrival = np.maximum.accumulate(arrival + rng.integers(0, unit + 1, n))
    return event, arrival


@every_control
@examples(25)
@given(stream=ordered_streams(), cuts=st.lists(st.integers(0, 600), max_size=4))
def test_a_stream_in_order_has_no_late_rows_for_any_number_of_ties(control, stream, cuts):
    event, arrival = stream
    late, in_order, counters = late_rows(event, arrival, cuts=cuts, **control)
    assert late.sum() == 0
    assert counters["late"] == 0
    assert in_order == list(range(len(event)))


@pytest.mark.parametrize(
    "control",
    [{"slack": 100}, {"drop_ratio": 0.05}, {"estimator": "max"}, {"max_delay": SECOND}],
    ids=str,
)
def test_thousands_of_rows_of_one_minute_are_not_late(control):
    seconds = np.arange(60_000) * 0.02
    event = (seconds // 60 * 60 * SECOND).astype(np.int64)
    late, _, _ = late_rows(event, (seconds * SECOND).astype(np.int64), **control)
    assert late.sum() == 0


def test_a_row_that_ties_with_the_punctuation_follows_the_rows_released_before():
    reorder = Reorder(slack=0)

    def out(*event):
        times = np.array(event)
        released = reorder.process(np.zeros(len(times), np.int64), times, times)
        columns = released.number, released.late, released.punctuation
        return list(zip(*map(np.ndarray.tolist, columns), strict=True))

    assert out(10) == [(0, False, 10)]
    assert out(10, 9) == [(2, True, 10)]  # the row at 10 waits, the row at 9 is late
    assert out(11) == [(1, False, 11), (3, False, 11)]


def fleets(share, lag, rate, rows, jitter=0.1, seed=1):
    """Return a stream of which a share of the rows arrives a fixed time later."""
    rng = np.random.default_rng(seed)
    made = np.arange(rows) / rate
    came = made + rng.exponential(jitter, rows) + np.where(rng.random(rows) < share, lag, 0)
    order = np.argsort(came, kind="stable")
    return (made[order] * SECOND).astype(np.int64), (came[order] * SECOND).astype(np.int64)


@pytest.mark.parametrize(
    ("share", "lag", "ratio"),
    [
        (0.1, 1200, 0.05),
        (0.1, 1200, 0.01),
        (0.4, 1200, 0.05),
        (0.3, 1200, 0.005),
        (0.2, 1200, 0.1),
        (0.3, 300, 0.1),
        (0.05, 300, 0.02),
        (0.1, 700, 0.005),
    ],
)
def test_the_ratio_holds_in_the_second_half_if_a_share_of_rows_is_delayed(share, lag, ratio):
    event, arrival = fleets(share, lag, rate=30, rows=200_000)
    late, _, counters = late_rows(event, arrival, drop_ratio=ratio)
    assert late[100_000:].mean() <= 1.05 * ratio
    assert counters["stale"] <= 0.01 * len(event)  # only until the mode is learned


@pytest.mark.nightly
def test_a_thinned_tail_does_not_make_rows_of_a_lasting_mode_late():
    event, arrival = fleets(0.1, 900, rate=500, rows=2_500_000, jitter=0.05)
    late, _, _ = late_rows(event, arrival, drop_ratio=0.01)
    assert late[1_250_000:].mean() <= 0.0105


@pytest.mark.parametrize(
    "control",
    [{"max_delay": 300 * SECOND}, {"drop_ratio": 0.01}, {"slack": 5}, {"estimator": "max"}],
    ids=str,
)
@pytest.mark.parametrize("boot", [1, 15, 16, 17, 20, 40, 300])
def test_after_a_clock_that_starts_in_1970_at_most_a_few_rows_are_late(control, boot):
    now = START + 60 * SECOND * np.arange(3000)
    event = now.copy()
    event[:boot] = 60 * SECOND * np.arange(boot)
    late, _, _ = late_rows(event, now + SECOND, **control)
    assert late.sum() <= 20


@every_control
@pytest.mark.parametrize("ahead", [HOUR, 365 * 24 * HOUR])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_few_rows_far_in_the_future_make_no_row_of_a_stream_in_order_late(control, ahead, rows):
    event = START + SECOND * np.arange(4000)
    for place in (0, 5, 15, 16, 20, 500, 3995):
        bad = event.copy()
        bad[place : place + rows] += ahead
        wrong = bad != event
        late, _, _ = late_rows(bad, event + SECOND, **control)
        assert (late & ~wrong).sum() == 0, place


def test_max_buffer_alone_holds_rows_until_the_buffer_is_full():
    rng = np.random.default_rng(3)
    arrival = START + SECOND * np.arange(2000)
    event = arrival - SECOND * rng.integers(0, 20, 2000)
    order = Reorder(max_buffer=100)
    order.process(np.zeros(2000, np.int64), event, arrival)
    assert order.counters["late"] == 0
    assert order.held_count == 100
