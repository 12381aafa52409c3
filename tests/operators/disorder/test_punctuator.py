"""The disorder controllers against slow and obvious references, and what each of them promises."""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import device_traces
import hindsight
import traces
from seeds import examples
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.state.snapshot import SnapshotError

NEVER = np.iinfo(np.int64).min
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
CONTROLS = {
    "slack": {"slack": 7},
    "normal": {"drop_ratio": 0.01, "estimator": "normal"},
    "normal, floor": {"drop_ratio": 0.05, "estimator": "normal", "rounding": "floor"},
    "conformal": {"drop_ratio": 0.02, "estimator": "conformal"},
    "max": {"estimator": "max"},
    "fixed": {"max_delay": 100_000},
    "averaged max": {"estimator": "max", "averaged": True},
    "slack, bounded": {"slack": 9, "max_buffer": 5},
    "normal, bounded": {"drop_ratio": 0.01, "estimator": "normal", "max_buffer": 12},
    "conformal, bounded": {"drop_ratio": 0.02, "estimator": "conformal", "max_buffer": 12},
    "max, bounded": {"estimator": "max", "max_buffer": 3},
}
every_control = pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS.keys())


@st.composite
def streams(draw, max_size=200):
    """Arrivals with gaps (zeros too), and delays of several scales, negative ones included."""
    n = draw(st.integers(0, max_size))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    scale = draw(st.sampled_from([1, 50, 10_000, 10**9]))
    gap = draw(st.sampled_from([0, 1, 100, 10**6]))
    arrival = START + np.cumsum(rng.integers(0, gap + 1, n))
    heavy = draw(st.booleans())
    delay = rng.integers(-scale // 4, scale + 1, n) * (rng.pareto(1.2, n) if heavy else 1.0)
    return arrival - delay.astype(np.int64), arrival


# ---------------------------------------------------------------- references, slow and obvious


def slack_reference(event_time, n):
    """Aurora's sort buffer: when it holds more than n rows, the smallest leaves."""
    buffer, out, punctuation = [], [], NEVER
    for tau in event_time.tolist():
        if tau > punctuation:
            heapq.heappush(buffer, tau)
            if len(buffer) > n:
                punctuation = heapq.heappop(buffer)
        out.append(punctuation)
    return out


def normal_reference(event_time, arrival, drop_ratio, rounding):
    """DRATIO, recomputed from the whole of VSeq in exact rationals at every arrival."""
    c = NormalDist().inv_cdf(drop_ratio) ** 2
    vseq, limit, punctuation, out = [], 30, NEVER, []
    for tau, t in zip(event_time.tolist(), arrival.tolist(), strict=True):
        vseq = [*vseq, (t, tau)][-limit:]
        if len(vseq) == limit:
            n = len(vseq)
            delays = [Fraction(a - b) for a, b in vseq]
            mu = sum(delays) / n
            sigma = math.sqrt(sum((d - mu) ** 2 for d in delays) / n)
            theta = (vseq[-1][0] - vseq[0][0]) / (n - 1)
            if theta > 0:
                length = rounding((c + math.sqrt(c * c + 8 * c * (sigma / theta) ** 2)) / 2)
                reach = length * theta
                limit = min(max(30, length), 16_384)
                vseq = vseq[-limit:]
            else:
                reach = math.sqrt(2 * c) * sigma
            punctuation = max(punctuation, math.floor(Fraction(t) - mu - Fraction(reach)))
        out.append(punctuation)
    return out


def largest_reference(event_time, arrival):
    """MAX: the clock less the largest delay so far."""
    delay = (arrival - event_time).tolist()
    wanted = [t - max(delay[: i + 1]) for i, t in enumerate(arrival.tolist())]
    return np.maximum.accumulate(np.array(wanted, np.int64)).tolist()


def averaged_reference(event_time, arrival):
    """The clock less the average of the largest delays of blocks of 20 rows."""
    delay = (arrival - event_time).tolist()
    out, punctuation = [], NEVER
    for i, t in enumerate(arrival.tolist()):
        blocks = [delay[k : min(k + 20, i + 1)] for k in range(0, i + 1, 20)]
        mean = Fraction(sum(max(block) for block in blocks), len(blocks))
        punctuation = max(punctuation, t - math.ceil(mean))
        out.append(punctuation)
    return out


@examples(60)
@given(streams(), st.integers(0, 20))
def test_slack_is_the_sort_buffer(stream, n):
    got = Punctuator(slack=n, guard=False).extend(*stream)
    assert got.tolist() == slack_reference(stream[0], n)


def test_slack_by_hand():
    # buffer of 2:   5      5 9    5 9 7 -> 5 leaves    9 7 8 -> 7 leaves   6 <= 7 is late
    got = Punctuator(slack=2).extend(np.array([5, 9, 7, 8, 6]), np.array([10, 11, 12, 13, 14]))
    assert got.tolist() == [NEVER, NEVER, 5, 7, 7]


@examples(40)
@given(streams(), st.sampled_from([0.001, 0.01, 0.1, 0.5]), st.sampled_from(["ceiling", "floor"]))
def test_normal_is_the_measure_of_c_recomputed_at_every_arrival(stream, drop_ratio, rounding):
    got = Punctuator(drop_ratio, estimator="normal", rounding=rounding, guard=False).extend(*stream)
    rule = math.ceil if rounding == "ceiling" else math.floor
    expected = normal_reference(*stream, drop_ratio, rule)
    for a, b in zip(got.tolist(), expected, strict=True):
        # the reference divides exactly, the kernel in float64: at most the last microsecond differs
        assert abs(a - b) <= 1 + abs(b - START) * 1e-14


def test_a_burst_with_one_stamp_has_theta_zero_and_still_a_punctuation():
    event = START - np.arange(30) * 1000
    got = Punctuator(0.01, estimator="normal", guard=False).extend(event, np.full(30, START))
    sigma = math.sqrt((30**2 - 1) / 12) * 1000
    reach = math.sqrt(2) * -NormalDist().inv_cdf(0.01) * sigma
    assert got[-1] == pytest.approx(START - 14_500 - reach, abs=2)


def test_equal_delays_have_sigma_zero_and_the_punctuation_trails_by_c_gaps():
    arrival = START + np.arange(100) * 1000
    got = Punctuator(0.01, estimator="normal").extend(arrival - 500, arrival)
    c = NormalDist().inv_cdf(0.01) ** 2  # 5.41: n_p is its ceiling, 6
    assert got[-1] == arrival[-1] - 500 - math.ceil(c) * 1000


def test_a_huge_delay_leaves_no_trace_in_the_sums_once_it_left():
    rng = np.random.default_rng(1)
    arrival = START + np.cumsum(rng.integers(1, 2000, 20_000))
    event = arrival - rng.integers(0, 5000, 20_000)
    event[40] = -(2**57)  # VSeq grows to its limit, is full once, and shrinks again
    got = Punctuator(0.01, estimator="normal", guard=False).extend(event, arrival)
    clean = Punctuator(0.01, estimator="normal", guard=False).extend(
        event[19_000:], arrival[19_000:]
    )
    assert abs(int(got[-1]) - int(clean[-1])) <= 1


@examples(30)
@given(streams())
def test_max_is_the_clock_less_the_largest_delay(stream):
    got = Punctuator(estimator="max", guard=False).extend(*stream)
    assert got.tolist() == largest_reference(*stream)


@examples(30)
@given(streams(max_size=90))
def test_averaged_max_is_the_clock_less_the_mean_of_block_maxima(stream):
    got = Punctuator(estimator="max", averaged=True, guard=False).extend(*stream)
    expected = averaged_reference(*stream)
    for a, b in zip(got.tolist(), expected, strict=True):
        assert abs(a - b) <= 1  # the mean is a float64


# ------------------------------------------------------------------------- laws of all of them


@every_control
@examples(15)
@given(stream=streams(400), cuts=st.lists(st.integers(0, 400), max_size=6), guard=st.booleans())
def test_neither_cuts_nor_snapshots_change_a_punctuation(control, stream, cuts, guard):
    event, arrival = stream
    whole = Punctuator(**control, guard=guard)
    expected = whole.extend(event, arrival)
    punctuator, parts = Punctuator(**control, guard=guard), []
    places = sorted({0, len(event), *(c for c in cuts if c <= len(event))})
    for low, high in pairwise(places):
        dying, punctuator = punctuator, Punctuator.restore(punctuator.snapshot())
        dying.extend(event[low:high], arrival[low:high])  # the snapshot must not notice
        parts.append(punctuator.extend(event[low:high], arrival[low:high]))
    got = np.concatenate([*parts, np.empty(0, np.int64)])
    assert got.tolist() == expected.tolist()
    assert punctuator.counters == whole.counters
    assert punctuator.punctuation == whole.punctuation


@every_control
@examples(15)
@given(stream=streams(400))
def test_punctuations_never_move_back_and_late_means_at_or_below_the_one_before(control, stream):
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(*stream)
    assert (punctuation[1:] >= punctuation[:-1]).all()
    before = np.concatenate([[NEVER], punctuation])[: len(punctuation)]
    assert late.tolist() == ((stream[0] <= before) & (before > NEVER)).tolist()
    assert punctuator.counters["late"] == late.sum()
    assert punctuator.counters["rows"] == len(late)


@every_control
def test_inputs_stay_unmodified_and_times_may_be_datetimes(control):
    event, arrival = traces.stalls(5, 500, 1.0, 0.2, 3, 1)
    kept = event.copy(), arrival.copy()
    got = Punctuator(**control).extend(event, arrival)
    assert (event == kept[0]).all()
    assert (arrival == kept[1]).all()
    same = Punctuator(**control).extend(
        event.view("datetime64[us]"), arrival.view("datetime64[us]").astype("datetime64[ns]")
    )
    assert same.tolist() == got.tolist()


@pytest.mark.parametrize("estimator", ["normal", "conformal", "max"])
def test_estimates_do_not_depend_on_where_time_starts(estimator):
    event, arrival = traces.stalls(6, 3000, 5.0, 0.5, 4, 1)
    ratio = None if estimator == "max" else 0.01
    got = Punctuator(ratio, estimator=estimator).extend(event, arrival)
    moved = Punctuator(ratio, estimator=estimator).extend(event - START, arrival - START)
    known = got > NEVER
    assert (known == (moved > NEVER)).all()
    assert np.abs((got - START)[known] - moved[known]).max() <= 1


# ------------------------------------------------------------------------------ the buffer's bound


def bounded_slack_reference(event_time, n, m):
    """SLACK n with BSIZE m: (punctuations, the most rows held)."""
    buffer, held, punctuation, out, most = [], [], NEVER, [], 0
    for tau in event_time.tolist():
        if tau > punctuation:
            held.append(tau)
            buffer.append(tau)
            if len(buffer) > n:
                punctuation = min(buffer)
                buffer.remove(punctuation)
        held = [h for h in held if h > punctuation]
        while len(held) > m:
            punctuation = min(held)
            held = [h for h in held if h > punctuation]
            buffer = [b for b in buffer if b > punctuation]
        most = max(most, len(held))
        out.append(punctuation)
    return out, most


@examples(60)
@given(streams(), st.integers(0, 12), st.integers(1, 12))
def test_a_full_buffer_wins_over_slack_and_then_slack_resumes(stream, n, m):
    punctuator = Punctuator(slack=n, max_buffer=m, guard=False)
    expected, most = bounded_slack_reference(stream[0], n, m)
    assert punctuator.extend(*stream).tolist() == expected
    assert most <= m


@every_control
def test_at_most_max_buffer_rows_are_held(control):
    event, arrival = traces.stalls(7, 4000, 3.0, 1.0, 4, 2)
    bound = 10
    control = {**control, "max_buffer": bound}
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(event, arrival)
    for i in range(0, len(event), 7):
        held = (event[: i + 1] > punctuation[i]) & ~late[: i + 1]
        assert held.sum() <= bound + punctuator.counters["expelled"]
    assert punctuator.counters["expelled"] == 0
    if "slack" not in control:
        assert punctuator.counters["forced"] > 0


# ----------------------------------------------------------------- the guard against the future


def steady(n, seed=3, delay=0.05):
    rng = np.random.default_rng(seed)
    return traces.in_arrival_order(traces.poisson(rng, n), SECOND * rng.exponential(delay, n))


@every_control
@pytest.mark.parametrize("place", [0, 1, 5, 15, 16, 17, 500])
@pytest.mark.parametrize("ahead", [3600 * SECOND, 50 * 365 * 86_400 * SECOND, 2**62])
def test_one_row_from_the_future_is_set_aside_and_event_time_goes_on(control, place, ahead):
    event, arrival = steady(2000)
    punctuator = Punctuator(**control)
    bad = event.copy()
    bad[place] = min(int(bad[place]) + ahead, 2**62)
    punctuation, late = punctuator.extend_with_late(bad, arrival)
    assert punctuator.counters["future"] == 1
    tight = dict(control)
    if "max_buffer" in control:  # the row set aside takes one place of the buffer
        tight["max_buffer"] -= 1
    assert late.sum() <= Punctuator(**tight).extend_with_late(event, arrival)[1].sum() + 15
    assert punctuation[-1] <= event.max()
    assert punctuation[-1] > event.max() - 10 * SECOND


@every_control
def test_a_few_rows_from_the_future_in_a_row_are_set_aside_too(control):
    event, arrival = steady(3000)
    bad = event.copy()
    bad[1000:1008] += 10**15 + np.arange(8) * 10**12
    bad[2000::50] += 10**14
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(bad, arrival)
    assert punctuator.counters["future"] == 28
    tight = dict(control)
    if "max_buffer" in control:  # those set aside take up to half of the buffer
        tight["max_buffer"] = max(tight["max_buffer"] // 2, 1)
    assert late.sum() <= Punctuator(**tight).extend_with_late(event, arrival)[1].sum() + 30
    assert punctuation[-1] <= event.max()


def test_rows_set_aside_fill_at_most_half_of_the_buffer_and_the_farthest_goes_as_late():
    event, arrival = steady(400)
    bad = event.copy()
    bad[100:400:20] += 100 * SECOND
    punctuator = Punctuator(slack=2, max_buffer=4)
    punctuation = punctuator.extend(bad, arrival)
    assert punctuator.counters["future"] == 15
    assert punctuator.counters["expelled"] == 13
    assert punctuation[-1] <= event.max()


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
def test_a_lasting_change_of_the_clocks_is_believed_after_1024_consecutive_rows(control, by):
    event, arrival = steady(4000)
    event = event.copy()
    event[1000:] += by
    punctuator = Punctuator(**control)
    punctuation = punctuator.extend(event, arrival)
    assert punctuator.counters["future"] == 1024
    assert punctuation[2023] < event[999] + 10 * SECOND
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
    event[1000:] -= YEAR  # all of them are late, but the controller is not lost for the next change
    event[3000:] += 2 * YEAR
    for control in ({"drop_ratio": 0.01}, {"slack": 50}, {"estimator": "max"}):
        punctuator = Punctuator(**control)
        punctuation = punctuator.extend(event, arrival)
        assert punctuator.counters["stale"] == 1024
        assert punctuation[2999] <= event[999]
        assert punctuation[-1] == punctuation[2999]  # 1,000 rows are not enough to be believed


def test_without_the_guard_one_row_from_the_future_ends_event_time():
    event, arrival = steady(2000)
    bad = event.copy()
    bad[0] += 10**15
    late = Punctuator(estimator="max", guard=False).extend_with_late(bad, arrival)[1]
    assert late.sum() == 1999  # why there is a guard


def test_a_row_from_the_far_past_holds_nothing_up_for_longer_than_vseq():
    event, arrival = steady(20_000)
    bad = event.copy()
    bad[1000] = 0
    got = Punctuator(0.01, estimator="normal").extend(bad, arrival)
    clean = Punctuator(0.01, estimator="normal").extend(event, arrival)
    assert (got[-500:] > event[-500:] - 5 * SECOND).all()
    assert abs(int(got[-1]) - int(clean[-1])) < SECOND


# --------------------------------------------------------------------- what C measured, repeated


def test_normal_delays_of_16_to_20_sensors_drop_under_one_percent_as_in_c():
    ratios, largest, averaged = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sensors = 16 + seed % 5
        event = traces.poisson(rng, 3000, sensors)
        delay = SECOND * np.maximum(rng.normal(2.0, 0.5, 3000), 0)
        stream = traces.in_arrival_order(event, delay)
        ratios.append(Punctuator(0.01, estimator="normal").extend_with_late(*stream)[1].mean())
        largest.append(Punctuator(estimator="max").extend_with_late(*stream)[1].mean())
        averaged.append(
            Punctuator(estimator="max", averaged=True).extend_with_late(*stream)[1].mean()
        )
    assert max(ratios) < 0.01
    assert np.mean(ratios) > 0  # it is not simply holding everything
    assert max(largest) < 0.012
    assert np.mean(averaged) > 0.02


def test_an_early_burst_of_disorder_grows_the_wait_of_max_but_not_ours():
    waits = {}
    for name, control in (
        ("max", {"estimator": "max"}),
        ("normal", {"drop_ratio": 0.01, "estimator": "normal"}),
        ("conformal", {"drop_ratio": 0.01, "estimator": "conformal"}),
    ):
        for burst in (0.0, 20.0):
            rng = np.random.default_rng(8)
            delay = np.maximum(rng.normal(0.5, 0.1, 20_000), 0)
            delay[300:330] += burst * rng.random(30)
            stream = traces.in_arrival_order(traces.poisson(rng, 20_000, 20), SECOND * delay)
            punctuation = Punctuator(**control).extend(*stream)
            waits[name, burst] = hindsight.waits(*stream, punctuation)[1].mean() / SECOND
    assert waits["max", 20.0] > waits["max", 0.0] + 10
    assert waits["normal", 20.0] < waits["normal", 0.0] + 2
    assert waits["conformal", 20.0] < waits["conformal", 0.0] + 2


# ------------------------------------------------- conformal: no assumption, the drop ratio holds


def drop_and_wait(stream, drop_ratio=0.01):
    """(drop ratio reached / wanted, mean wait / mean wait of the best fixed slack in hindsight)."""
    punctuation = Punctuator(drop_ratio, estimator="conformal").extend(*stream)
    late, wait = hindsight.waits(*stream, punctuation)
    best = min(hindsight.best_fixed(*stream, drop_ratio).values())
    return late.mean() / drop_ratio, wait.mean() / best


HEAVY = dict(traces.heavy_tailed())
SHIFTING = dict(traces.shifting())
MIXED = dict(traces.mixed())
BURSTY = dict(traces.bursty())


@pytest.mark.parametrize("name", [n for n in HEAVY if "dense" not in n])
def test_heavy_tails_drop_one_percent_and_wait_hardly_longer_than_with_hindsight(name):
    drop, wait = drop_and_wait(HEAVY[name])
    assert 0.9 <= drop <= 1.05
    assert wait <= 1.15


@pytest.mark.parametrize("name", [n for n in SHIFTING if "clock" not in n])
def test_shifting_delays_drop_one_percent_and_wait_less_than_any_fixed_slack(name):
    drop, wait = drop_and_wait(SHIFTING[name])
    assert 0.75 <= drop <= 1.05  # a falling drift leaves some of the budget unspent
    assert wait < 1.0


@pytest.mark.parametrize("name", ["clock offset", "clock drift"])
def test_clocks_that_shift_are_followed(name):
    # a fixed slack behind the newest event time does not feel them: here it cannot be beaten
    drop, wait = drop_and_wait(SHIFTING[name])
    assert 0.9 <= drop <= 1.05
    assert wait <= 1.15


CONSTANT_IS_BEST = ("correlated", "two modes, 0.9% far")


@pytest.mark.parametrize("name", [n for n in MIXED if n not in CONSTANT_IS_BEST])
def test_several_modes_cycles_and_walks_drop_one_percent(name):
    drop, wait = drop_and_wait(MIXED[name])
    assert 0.85 <= drop <= 1.05
    assert wait <= 1.15


@pytest.mark.parametrize("name", CONSTANT_IS_BEST)
def test_where_a_constant_threshold_is_best_ours_is_not_much_worse(name):
    drop, wait = drop_and_wait(MIXED[name])
    assert 0.85 <= drop <= 1.05
    assert wait <= 1.5


@pytest.mark.parametrize(
    "name",
    [
        "link stalls",
        "link stalls, shuffled piles",
        "flushed each second",
        "on and off",
        "bursty gaps",
        "shuffled batches",
        "shifted by positions",
    ],
)
def test_short_bursty_streams_drop_one_percent(name):
    drop, wait = drop_and_wait(BURSTY[name])
    assert drop <= 1.05
    assert wait <= 1.6


KNOWN_TO_FAIL = {  # name -> the drop ratio (wanted: 1) that is not exceeded; see the kernel's head
    "1 of 10 sources stalls": 1.0,
    "3 of 10 sources stall": 1.5,
    "1 of 4 stalls often": 1.2,
    "1 of 3 stalls rarely": 1.3,
    "storms of 100 rows": 1.2,
}


@pytest.mark.parametrize("name", KNOWN_TO_FAIL)
def test_known_limit_piles_of_some_links_can_exceed_a_short_streams_budget(name):
    # not a goal reached: this holds the damage, so that a change for the worse is seen
    drop, _ = drop_and_wait(BURSTY[name])
    assert drop <= KNOWN_TO_FAIL[name]


def test_known_limit_rows_overtaken_by_a_jump_of_the_clocks_are_late():
    late = Punctuator(0.01, estimator="conformal").extend_with_late(*SHIFTING["clock offset back"])[
        1
    ]
    assert late.mean() <= 0.09  # 3,000 of 40,000 rows are overtaken at once


@pytest.mark.parametrize("drop_ratio", [0.003, 0.05, 0.1])
@pytest.mark.parametrize("name", ["lognormal 2", "pareto 1.5"])
def test_other_drop_ratios_hold_as_well(name, drop_ratio):
    drop, wait = drop_and_wait(HEAVY[name], drop_ratio)
    assert 0.85 <= drop <= 1.05
    assert wait <= 1.2


def test_real_mobile_sessions_hold_the_drop_ratio_and_wait_at_most_1_6_times(data_folder):
    sessions = dict(traces.mobile_network(data_folder))
    assert len(sessions) == 5
    for name, stream in sessions.items():
        drop, wait = drop_and_wait(stream)
        assert drop <= 1.05, name
        assert wait <= 1.6, name


def test_real_flights_and_machinery_hold_the_drop_ratio_and_wait_at_most_1_15_times(data_folder):
    real = {**dict(traces.flights(data_folder)), **dict(traces.machinery(data_folder))}
    for name in ("flights from JFK", "machinery, drawn"):
        drop, wait = drop_and_wait(real[name])
        assert 0.9 <= drop <= 1.05, name
        assert wait <= 1.15, name


@pytest.mark.parametrize("n", [2000, 10_000])
def test_a_stream_that_ends_before_its_delays_are_known_drops_no_more_than_wanted(n):
    drop, _ = drop_and_wait(dict(device_traces.short(n, 5))["dense"])
    assert drop <= 1.05


def test_real_motes_wait_less_than_with_any_fixed_slack(data_folder):
    # their links stall together: a flurry of late rows is waited for, not answered by drops
    (stream,) = dict(traces.motes(data_folder)).values()
    drop, wait = drop_and_wait(stream)
    assert drop <= 1.0
    assert wait <= 0.8


def test_a_stream_in_order_is_released_at_once_and_nothing_is_late():
    arrival = START + np.cumsum(np.random.default_rng(9).exponential(SECOND, 5000)).astype(np.int64)
    punctuation, late = Punctuator(0.01, estimator="conformal").extend_with_late(
        arrival - 500, arrival
    )
    assert not late.any()
    assert (punctuation[20:] == arrival[20:] - 500).all()


@pytest.mark.parametrize(("mean", "sd"), [(2.0, 0.7), (5.0, 2.0), (10.0, 5.0), (20.0, 10.0)])
def test_sets_of_30_seconds_drop_less_than_one_percent_on_average_however_long_the_delays(mean, sd):
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sensors = 16 + seed % 5
        event = np.sort(np.repeat(np.arange(30), sensors) + rng.random(30 * sensors))
        delay = np.maximum(rng.normal(mean, sd, len(event)), 0)
        stream = traces.in_arrival_order(START + event * SECOND, SECOND * delay)
        ratios.append(Punctuator(0.01).extend_with_late(*stream)[1].mean())
    assert np.mean(ratios) < 0.01


def test_an_unforeseen_pile_is_paid_back():
    # 300 rows come 60 s late at row 5,000: three times the budget so far, and of 40,000 rows 3/4
    rng = np.random.default_rng(10)
    delay = rng.exponential(0.1, 40_000)
    delay[5000:5300] += 60
    stream = traces.in_arrival_order(traces.poisson(rng, 40_000), SECOND * delay)
    late = Punctuator(0.01, estimator="conformal").extend_with_late(*stream)[1]
    assert late[:12_000].sum() > 300
    assert late.mean() <= 0.0105


def test_what_is_remembered_of_a_key_is_bounded():
    rng = np.random.default_rng(11)
    stream = traces.in_arrival_order(
        traces.poisson(rng, 100_000, 10_000.0), 10**6 * rng.random(10**5)
    )
    for control in ({"estimator": "conformal"}, {"estimator": "normal"}):
        punctuator = Punctuator(0.01, **control)
        punctuator.extend(*stream)
        bound = 60_000 if control["estimator"] == "conformal" else 16 * 32_768 + 10_000
        assert len(punctuator.snapshot()) <= bound


# ------------------------------------------------------------------------------------ bad inputs


@pytest.mark.parametrize(
    ("control", "error", "words"),
    [
        ({}, ValueError, "one of `drop_ratio`"),
        ({"drop_ratio": 0.01, "slack": 10}, ValueError, "DRATIO.*SLACK.*exclude each other"),
        ({"slack": 10, "estimator": "normal"}, ValueError, "needs no estimator"),
        ({"estimator": "max", "drop_ratio": 0.1}, ValueError, "cannot be steered"),
        ({"estimator": "conformal"}, ValueError, "one of `drop_ratio`"),
        ({"drop_ratio": 0.0}, ValueError, r"\(0, 0.5\]"),
        ({"drop_ratio": -0.1}, ValueError, "got -0.1"),
        ({"drop_ratio": 1.0}, ValueError, "0.01 for 1%"),
        ({"drop_ratio": float("nan")}, ValueError, "nan"),
        ({"drop_ratio": "1%"}, TypeError, "must be a number"),
        ({"drop_ratio": True}, TypeError, "must be a number"),
        ({"drop_ratio": 0.01, "estimator": "median"}, ValueError, "conformal, normal, max"),
        ({"slack": -1}, ValueError, "at least 0"),
        ({"slack": 1.5}, TypeError, "whole number"),
        ({"slack": 3, "max_buffer": 0}, ValueError, "BSIZE"),
        ({"drop_ratio": 0.01, "rounding": "up"}, ValueError, "'ceiling' or 'floor'"),
        ({"drop_ratio": 0.01, "averaged": True}, ValueError, "variant of estimator='max'"),
    ],
)
def test_errors_name_the_parameter_and_what_to_do(control, error, words):
    with pytest.raises(error, match=words):
        Punctuator(**control)


@pytest.mark.parametrize(
    ("event", "arrival", "error", "words"),
    [
        ([1.5], [2], TypeError, "`event_time` must be int64 microseconds"),
        ([1], [2.0], TypeError, "`arrival` must be int64 microseconds"),
        ([1, 2], [2], ValueError, "one length; got 2 and 1"),
        ([[1]], [2], ValueError, "one-dimensional"),
        (np.array(["NaT"], "datetime64[us]"), [2], ValueError, "NaT"),
    ],
)
def test_arrays_of_another_kind_are_refused(event, arrival, error, words):
    with pytest.raises(error, match=words):
        Punctuator(slack=1).extend(np.asarray(event), np.asarray(arrival))


def test_rows_out_of_arrival_order_are_processed_as_they_come_and_counted():
    punctuator = Punctuator(slack=1)
    got = punctuator.extend(np.array([1, 2, 3]), np.array([10, 5, 11]))
    assert got.tolist() == [NEVER, 1, 2]
    assert punctuator.counters["out_of_order"] == 1


def test_extreme_times_do_not_overflow():
    extreme = np.array([2**63 - 1, -(2**63) + 1, 0, 2**60, -(2**60)] * 20)
    for control in CONTROLS.values():
        punctuation = Punctuator(**control).extend(extreme, np.sort(extreme))
        assert (punctuation[1:] >= punctuation[:-1]).all()


def test_a_snapshot_of_another_kind_is_refused():
    with pytest.raises(SnapshotError):
        Punctuator.restore(b"not a snapshot")
    damaged = bytearray(Punctuator(slack=3).snapshot())
    damaged[-1] ^= 1
    with pytest.raises(SnapshotError):
        Punctuator.restore(bytes(damaged))


def test_no_rows_are_no_punctuations():
    none = np.empty(0, np.int64)
    assert Punctuator(slack=3).extend(none, none).tolist() == []
    assert Punctuator(0.01, estimator="normal").extend(none, none).dtype == np.int64
