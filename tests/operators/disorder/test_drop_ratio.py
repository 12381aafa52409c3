"""How many rows controllers drop and how long rows wait, on generated and real streams."""

import numpy as np
import pytest

from benchmarks import fresh_traces
from benchmarks.data import traces
from benchmarks.peers import hindsight
from controllers import SECOND, START
from sfumato.operators.disorder.punctuator import Punctuator

# ----------------------------------------------------------------- the measurements of C, repeated


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
    assert np.mean(ratios) > 0  # it does not hold everything
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


# --------------------------------- conformal: the drop ratio holds without assumptions about delays


def drop_and_wait(stream, drop_ratio=0.01):
    """Return reached / target drop ratio, and mean wait / best fixed slack's mean wait."""
    punctuation = Punctuator(drop_ratio, estimator="conformal").extend(*stream)
    late, wait = hindsight.waits(*stream, punctuation)
    best = min(hindsight.best_fixed(*stream, drop_ratio).values())
    return late.mean() / drop_ratio, wait.mean() / best


TRACES = {
    family: dict(getattr(traces, family)())
    for family in ("heavy_tailed", "shifting", "mixed", "bursty")
}
# family, names (None: all others), least and greatest drop, greatest wait. Some of the drop budget
# remains unspent if the tail is flat at the drop ratio, because it is not cut, or if drift falls.
BOUNDS = [
    ("heavy_tailed", ["pareto 1.5, dense"], 0.0, 2.0, 99.0),  # rows in transit at the end
    ("heavy_tailed", ["pareto 1.1", "pareto 1.5, sparse"], 0.85, 1.05, 1.3),
    ("heavy_tailed", ["normal"], 0.5, 1.05, 1.15),
    ("heavy_tailed", None, 0.7, 1.05, 1.15),
    # Clock shifts do not affect a fixed slack behind the newest event time.
    ("shifting", ["clock offset", "clock drift"], 0.9, 1.05, 1.15),
    ("shifting", ["clock offset back"], 0.0, 9.0, 99.0),  # 3,000 rows overtaken at once
    ("shifting", None, 0.6, 1.05, 1.05),  # less than with any fixed slack
    ("mixed", ["correlated", "two modes, 0.9% far"], 0.8, 1.05, 1.5),  # a constant is best
    ("mixed", None, 0.35, 1.05, 1.15),
    # Backlogs of some links exceed a short stream's budget; these bounds limit the excess.
    ("bursty", ["1 of 10 sources stalls"], 0.0, 1.05, 9.0),
    ("bursty", ["3 of 10 sources stall"], 0.0, 1.5, 9.0),
    ("bursty", ["1 of 4 stalls often"], 0.0, 1.2, 9.0),
    ("bursty", ["storms of 100 rows"], 0.0, 1.25, 30.0),
    ("bursty", ["1 of 3 stalls rarely"], 0.0, 1.3, 9.0),
    ("bursty", ["link stalls, shuffled piles"], 0.0, 1.05, 0.5),
    ("bursty", ["on and off"], 0.0, 1.05, 2.5),
    ("bursty", None, 0.0, 1.05, 1.6),
]
NAMED = {(family, name) for family, names, *_ in BOUNDS for name in names or ()}
CASES = [
    (family, name, *bounds)
    for family, names, *bounds in BOUNDS
    for name in names or [n for n in TRACES[family] if (family, n) not in NAMED]
]


@pytest.mark.parametrize(("family", "name", "least", "most", "longest"), CASES)
def test_waits_are_little_longer_than_with_hindsight_at_one_percent(
    family, name, least, most, longest
):
    drop, wait = drop_and_wait(TRACES[family][name])
    assert least <= drop <= most
    assert wait <= longest


@pytest.mark.parametrize("drop_ratio", [0.003, 0.05, 0.1])
@pytest.mark.parametrize("name", ["lognormal 2", "pareto 1.5"])
def test_other_drop_ratios_hold_as_well(name, drop_ratio):
    drop, wait = drop_and_wait(TRACES["heavy_tailed"][name], drop_ratio)
    assert 0.85 <= drop <= 1.05
    assert wait <= 1.25


def test_real_mobile_sessions_hold_the_drop_ratio_and_wait_at_most_twice_as_long(data_folder):
    real = dict(traces.real(data_folder))
    sessions = {name: stream for name, stream in real.items() if "mobile network" in name}
    assert len(sessions) == 5
    for name, stream in sessions.items():
        drop, wait = drop_and_wait(stream)
        assert drop <= 1.05, name
        assert wait <= 2.0, name


@pytest.mark.nightly
def test_real_flights_and_machinery_hold_the_drop_ratio_and_wait_at_most_1_15_times(data_folder):
    real = dict(traces.real(data_folder))
    for name in ("flights from JFK", "machinery, drawn"):
        drop, wait = drop_and_wait(real[name])
        assert 0.9 <= drop <= 1.05, name
        assert wait <= 1.15, name


@pytest.mark.parametrize("n", [2000, 10_000])
def test_a_stream_that_ends_before_its_delays_are_known_drops_no_more_than_wanted(n):
    drop, _ = drop_and_wait(dict(traces.short(n, 5))["dense"])
    assert drop <= 1.05


def test_real_motes_wait_less_than_with_any_fixed_slack(data_folder):
    # Their links stall together: the controller waits for a burst of late rows and drops few.
    drop, wait = drop_and_wait(dict(traces.real(data_folder))["epochs of motes"])
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


def test_an_unforeseen_burst_of_late_rows_is_compensated():
    # 300 rows come 60 s late at row 5,000: 3 times the budget so far, 3/4 of that for 40,000 rows.
    rng = np.random.default_rng(10)
    delay = rng.exponential(0.1, 40_000)
    delay[5000:5300] += 60
    stream = traces.in_arrival_order(traces.poisson(rng, 40_000), SECOND * delay)
    late = Punctuator(0.01, estimator="conformal").extend_with_late(*stream)[1]
    assert late[:12_000].sum() > 300
    assert late.mean() <= 0.0105


def test_the_state_of_a_key_is_bounded():
    rng = np.random.default_rng(11)
    stream = traces.in_arrival_order(
        traces.poisson(rng, 100_000, 10_000.0), 10**6 * rng.random(10**5)
    )
    for control in ({"estimator": "conformal"}, {"estimator": "normal"}):
        punctuator = Punctuator(0.01, **control)
        punctuator.extend(*stream)
        bound = 7_000 if control["estimator"] == "conformal" else 16 * 32_768 + 10_000
        assert len(punctuator.snapshot()) <= bound


# Streams that were not used to choose the constants of the conformal estimator.
@pytest.mark.nightly
def test_less_than_one_percent_of_fresh_streams_drop_more_rows_than_wanted():
    missed, judged = [], 0
    for _, name, rows, seed, (event, arrival) in fresh_traces.fresh((710_000, 720_000, 730_000)):
        if fresh_traces.hard(name) or fresh_traces.apart(event, 0.01):
            continue
        late = Punctuator(0.01).extend_with_late(event, arrival)[1]
        judged += 1
        if late.mean() > fresh_traces.MISSED * 0.01:
            missed.append((name, rows, seed, late.mean()))
    assert judged > 200
    assert len(missed) < judged / 100, missed
