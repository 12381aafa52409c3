"""The guards against rows from the future and from the far past, under every controller."""

import numpy as np
import pytest

from benchmarks.data import traces
from controllers import SECOND, every_control
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.disorder.reorder import Reorder

# -------------------------------------------------------------------------------- the future guard


def steady(n, seed=3, delay=0.05):
    rng = np.random.default_rng(seed)
    return traces.in_arrival_order(traces.poisson(rng, n), SECOND * rng.exponential(delay, n))


@every_control
@pytest.mark.parametrize("place", [0, 1, 5, 15, 16, 17, 500])
@pytest.mark.parametrize("ahead", [3600 * SECOND, 50 * 365 * 86_400 * SECOND, 2**62])
def test_one_row_from_the_future_is_set_aside_and_event_time_advances(control, place, ahead):
    event, arrival = steady(2000)
    punctuator = Punctuator(**control)
    bad = event.copy()
    bad[place] = min(int(bad[place]) + ahead, 2**62)
    punctuation, late = punctuator.extend_with_late(bad, arrival)
    assert punctuator.counters["future"] == 1
    tight = dict(control)
    if "max_buffer" in control:  # the row that is set aside takes one place in it
        tight["max_buffer"] -= 1
    assert late.sum() <= Punctuator(**tight).extend_with_late(event, arrival)[1].sum() + 15
    assert punctuation[-1] <= event.max()
    assert punctuation[-1] > event.max() - 10 * SECOND


@every_control
def test_a_few_consecutive_rows_from_the_future_are_set_aside(control):
    event, arrival = steady(3000)
    bad = event.copy()
    bad[1000:1008] += 10**15 + np.arange(8) * 10**12
    bad[2000::50] += 10**14
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(bad, arrival)
    assert punctuator.counters["future"] == 28
    tight = dict(control)
    if "max_buffer" in control:  # rows set aside take up to half of the buffer
        tight["max_buffer"] = max(tight["max_buffer"] // 2, 1)
    assert late.sum() <= Punctuator(**tight).extend_with_late(event, arrival)[1].sum() + 30
    assert punctuation[-1] <= event.max()


def test_rows_set_aside_fill_at_most_half_of_the_buffer_and_the_farthest_is_late():
    event, arrival = steady(400)
    bad = event.copy()
    bad[100:400:20] += 100 * SECOND
    reorder = Reorder(slack=2, max_buffer=4)
    reorder.process(np.zeros(len(bad), np.int64), bad, arrival)
    assert reorder.counters["future"] == 15
    assert reorder.counters["evicted_late"] == 13
    assert reorder.punctuations_of(np.arange(1))[0] <= event.max()


def test_a_change_of_the_clocks_by_minutes_is_accepted_within_48_rows():
    event, arrival = steady(1000)
    event = event.copy()
    event[500:] += 300 * SECOND
    punctuator = Punctuator(estimator="conformal", drop_ratio=0.01)
    punctuation = punctuator.extend(event, arrival)
    assert punctuator.counters["future"] <= 48
    assert punctuation[-1] > event[-1] - 10 * SECOND


YEAR = 365 * 86_400 * SECOND


@every_control
@pytest.mark.parametrize("by", [3600 * SECOND, YEAR])
def test_a_lasting_change_of_the_clocks_is_accepted_after_1024_consecutive_rows(control, by):
    event, arrival = steady(4000)
    event = event.copy()
    event[1000:] += by
    punctuator = Punctuator(**control)
    punctuation = punctuator.extend(event, arrival)
    assert punctuator.counters["future"] == 1024
    assert punctuation[2022] < event[999] + 10 * SECOND
    assert punctuation[-1] > event[-1] - 10 * SECOND


@every_control
@pytest.mark.parametrize("rows", [500, 1023])
def test_hundreds_of_rows_a_year_ahead_do_not_move_event_time(control, rows):
    event, arrival = steady(5000)
    bad = event.copy()
    bad[2000 : 2000 + rows] += YEAR
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(bad, arrival)
    clean = Punctuator(**control).extend_with_late(event, arrival)[1].sum()
    assert punctuation[-1] <= event.max()
    assert late.sum() <= rows + 1.2 * clean + 20


@every_control
@pytest.mark.parametrize("rows", [4, 5, 8])
def test_up_to_half_of_the_first_rows_a_year_ahead_do_not_move_event_time(control, rows):
    if "max_buffer" in control:  # room for the rows that come before any is judged
        control = control | {"max_buffer": 40}
    event, arrival = steady(3000)
    bad = event.copy()
    bad[np.random.default_rng(rows).choice(16, rows, replace=False)] += YEAR
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(bad, arrival)
    clean = Punctuator(**control).extend_with_late(event, arrival)[1].sum()
    assert event.max() - 10 * SECOND < punctuation[-1] <= event.max()
    assert late.sum() <= rows + 1.2 * clean + 30


@every_control
def test_rows_of_1970_and_of_a_device_a_year_behind_are_stale_and_good_rows_are_not(control):
    event, arrival = steady(20_000)
    rng = np.random.default_rng(1)
    for wrong, time in ((rng.random(20_000) < 0.002, 0), (rng.random(20_000) < 0.02, -YEAR)):
        bad = np.where(wrong, 0 if time == 0 else event + time, event)
        punctuator = Punctuator(**control)
        punctuation, late = punctuator.extend_with_late(bad, arrival)
        clean = Punctuator(**control).extend_with_late(event, arrival)[1].sum()
        assert (late & ~wrong).sum() <= 1.1 * clean + 20
        assert punctuation[-1] > event[-1] - 10 * SECOND
        fixed = "max_delay" in control  # a fixed delay needs no guard against the past
        assert punctuator.counters["stale"] == (0 if fixed else wrong[16:].sum())


def test_a_lasting_change_into_the_past_is_learned_too():
    event, arrival = steady(4000)
    event = event.copy()
    event[1000:] -= YEAR  # all are late, but the controller can follow the next change
    event[3000:] += 2 * YEAR
    for control in ({"drop_ratio": 0.01}, {"slack": 50}, {"estimator": "max"}):
        punctuator = Punctuator(**control)
        punctuation = punctuator.extend(event, arrival)
        assert punctuator.counters["stale"] == 1024
        assert punctuation[2999] <= event[999]
        assert punctuation[-1] == punctuation[2999]  # 1,000 rows are too few for a lasting change


def test_without_the_guard_one_row_from_the_future_ends_event_time():
    event, arrival = steady(2000)
    bad = event.copy()
    bad[0] += 10**15
    late = Punctuator(estimator="max", guard=False).extend_with_late(bad, arrival)[1]
    assert late.sum() == 1999  # the reason for the guard


def test_a_row_from_the_far_past_delays_nothing_after_it_leaves_vseq():
    event, arrival = steady(20_000)
    bad = event.copy()
    bad[1000] = 0
    got = Punctuator(0.01, estimator="normal").extend(bad, arrival)
    clean = Punctuator(0.01, estimator="normal").extend(event, arrival)
    assert (got[-500:] > event[-500:] - 5 * SECOND).all()
    assert abs(int(got[-1]) - int(clean[-1])) < SECOND
