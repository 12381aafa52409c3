"""The disorder controllers against simple references, and the guarantees of each."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data import traces
from controllers import CONTROLS, NEVER, START, every_control
from seeds import examples
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.disorder.reorder import Reorder


@st.composite
def streams(draw, max_size=200):
    """Draw (event_time, arrival) with gaps or ties, and delays of several scales, some negative."""
    n = draw(st.integers(0, max_size))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    scale = draw(st.sampled_from([1, 50, 10_000, 10**9]))
    gap = draw(st.sampled_from([0, 1, 100, 10**6]))
    arrival = START + np.cumsum(rng.integers(0, gap + 1, n))
    heavy = draw(st.booleans())
    delay = rng.integers(-scale // 4, scale + 1, n) * (rng.pareto(1.2, n) if heavy else 1.0)
    return arrival - delay.astype(np.int64), arrival


# ----------------------------------------------------------------------------------- references


def slack_reference(event_time, n, m):
    """Return punctuations of Aurora's sort buffer, of which the smallest of more than n rows
    leaves, and of a bound m on the held rows; also the largest number of held rows."""
    buffer, held, punctuation, out, most = [], [], NEVER, [], 0
    for tau in event_time.tolist():
        if tau > punctuation:
            held.append(tau)
            buffer.append(tau)
            if len(buffer) > n:
                punctuation = min(buffer)
                buffer.remove(punctuation)
        held = [h for h in held if h > punctuation]
        while m is not None and len(held) > m:
            punctuation = min(held)
            held = [h for h in held if h > punctuation]
            buffer = [b for b in buffer if b > punctuation]
        most = max(most, len(held))
        out.append(punctuation)
    return out, most


def normal_reference(event_time, arrival, drop_ratio, rounding):
    """Return punctuations of DRATIO, recomputed from all of VSeq in rationals at every arrival."""
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
    """Return punctuations of MAX: arrival time minus the largest delay so far."""
    delay = (arrival - event_time).tolist()
    wanted = [t - max(delay[: i + 1]) for i, t in enumerate(arrival.tolist())]
    return np.maximum.accumulate(np.array(wanted, np.int64)).tolist()


def averaged_reference(event_time, arrival):
    """Return punctuations at the clock minus the mean of the largest delays of 20-row blocks."""
    delay = (arrival - event_time).tolist()
    out, punctuation = [], NEVER
    for i, t in enumerate(arrival.tolist()):
        blocks = [delay[k : min(k + 20, i + 1)] for k in range(0, i + 1, 20)]
        mean = Fraction(sum(max(block) for block in blocks), len(blocks))
        punctuation = max(punctuation, t - math.ceil(mean))
        out.append(punctuation)
    return out


@examples(120)
@given(streams(), st.integers(0, 12), st.none() | st.integers(1, 12))
def test_slack_is_the_sort_buffer_and_a_full_buffer_wins_over_it(stream, n, m):
    expected, most = slack_reference(stream[0], n, m)
    got = Punctuator(slack=n, max_buffer=m, guard=False).extend(*stream)
    assert got.tolist() == expected
    assert m is None or most <= m


@examples(40)
@given(streams(), st.sampled_from([0.001, 0.01, 0.1, 0.5]), st.sampled_from(["ceiling", "floor"]))
def test_normal_is_the_measure_of_c_recomputed_at_every_arrival(stream, drop_ratio, rounding):
    got = Punctuator(drop_ratio, estimator="normal", rounding=rounding, guard=False).extend(*stream)
    rule = math.ceil if rounding == "ceiling" else math.floor
    expected = normal_reference(*stream, drop_ratio, rule)
    for a, b in zip(got.tolist(), expected, strict=True):
        # The reference divides exactly, the kernel in float64: they may differ by a microsecond.
        assert abs(a - b) <= 1 + abs(b - START) * 1e-14


def test_a_huge_delay_leaves_no_error_in_the_sums():
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


# ------------------------------------------------------------- properties of every controller


@every_control
@examples(15)
@given(stream=streams(400))
def test_punctuations_never_decrease_and_rows_below_the_last_one_are_late(control, stream):
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(*stream)
    assert (punctuation[1:] >= punctuation[:-1]).all()
    before = np.concatenate([[NEVER], punctuation])[: len(punctuation)]
    assert late.tolist() == ((stream[0] < before) & (before > NEVER)).tolist()
    assert punctuator.counters["late"] == late.sum()
    assert punctuator.counters["rows"] == len(late)


@every_control
def test_times_may_be_datetimes(control):
    event, arrival = traces.stalls(5, 500, 1.0, 0.2, 3, 1)
    got = Punctuator(**control).extend(event, arrival)
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


# ------------------------------------------------------------------------- a bounded buffer


@every_control
def test_at_most_max_buffer_rows_are_held(control):
    event, arrival = traces.stalls(7, 4000, 3.0, 1.0, 4, 2)
    bound = 10
    control = {**control, "max_buffer": bound}
    punctuator = Punctuator(**control)
    punctuation, late = punctuator.extend_with_late(event, arrival)
    for i in range(0, len(event), 7):
        held = (event[: i + 1] > punctuation[i]) & ~late[: i + 1]
        assert held.sum() <= bound
    reorder = Reorder(**control)
    reorder.process(np.zeros(len(event), np.int64), event, arrival)
    assert reorder.counters["evicted_late"] == 0
    assert reorder.held_count <= bound
    if "slack" not in control:
        assert punctuator.counters["forced"] > 0


# --------------------------------------------------------------------------------- invalid input


@pytest.mark.parametrize(
    ("control", "error", "words"),
    [
        ({}, ValueError, "one of `drop_ratio`"),
        ({"drop_ratio": 0.01, "slack": 10}, ValueError, "DRATIO.*SLACK.*cannot be combined"),
        ({"slack": 10, "estimator": "normal"}, ValueError, "needs no estimator"),
        ({"estimator": "max", "drop_ratio": 0.1}, ValueError, "cannot be controlled"),
        ({"estimator": "conformal"}, ValueError, "one of `drop_ratio`"),
        ({"drop_ratio": 0.0}, ValueError, r"\(0, 0.5\]"),
        ({"drop_ratio": -0.1}, ValueError, "got -0.1"),
        ({"drop_ratio": 1.0}, ValueError, "0.01 for 1%"),
        ({"drop_ratio": float("nan")}, ValueError, "nan"),
        ({"drop_ratio": "1%"}, TypeError, "must be a number"),
        ({"drop_ratio": True}, TypeError, "must be a number"),
        ({"drop_ratio": 0.01, "estimator": "median"}, ValueError, "conformal, normal, max"),
        ({"slack": -1}, ValueError, "at least 0"),
        ({"slack": 1.5}, TypeError, "integer number of rows"),
        ({"slack": 3, "max_buffer": 0}, ValueError, "BSIZE"),
        ({"drop_ratio": 0.01, "rounding": "up"}, ValueError, "'ceiling' or 'floor'"),
        ({"drop_ratio": 0.01, "averaged": True}, ValueError, "`averaged` needs estimator='max'"),
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
        ([1, 2], [2], ValueError, "same length; got 2 and 1"),
        ([[1]], [2], ValueError, "one-dimensional"),
        (np.array(["NaT"], "datetime64[us]"), [2], ValueError, "NaT"),
    ],
)
def test_arrays_of_wrong_type_or_shape_are_refused(event, arrival, error, words):
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


@pytest.mark.parametrize(
    ("control", "sent"),
    [({"estimator": "sent"}, [5]), ({"estimator": "sent"}, []), ({"slack": 1}, [5, 6])],
)
def test_sent_punctuations_are_one_per_row_and_only_where_expected(control, sent):
    times = np.array([1, 2])
    with pytest.raises(ValueError, match="`sent` must have"):
        Punctuator(**control).extend(times, times, np.array(sent, np.int64))
    assert Punctuator(estimator="sent").extend(times, times, np.array([5, 4])).tolist() == [5, 5]
