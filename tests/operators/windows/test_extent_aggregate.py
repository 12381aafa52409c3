"""Time extents: members, completion and counters by a simple simulation; results by worlds."""

from __future__ import annotations

import numpy as np
import pytest

from extents import COUNT, check_against_worlds, facts, feed, in_parts, simulated, stream
from seeds import seeds
from sfumato.operators.distributions import discrete_distributions
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from window_cases import ALL, random_tuples

LENGTHS = [(10, 10), (12, 4), (7, 3), (3, 10), (1, 1), (30, 2), (4, 5), (11, 10)]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 4))
def test_each_extent_comes_once_complete_in_order_with_its_counts(seed, ordered):
    rng = np.random.default_rng(seed)
    for length, slide in LENGTHS:
        n = int(rng.integers(1, 90))
        data = stream(rng, n, int(rng.integers(1, 5)), ordered)
        tuples = random_tuples(rng, n, 2, most=1)
        for entry in tuples:
            if rng.random() < 0.05:
                entry.clear()
        exists = [bool(entry) for entry in tuples]
        expected, scopes = simulated(length, slide, data, exists)
        window = ExtentAggregate(length, slide, COUNT, members=True, attributes=2)
        window, parts = in_parts(window, rng, data, tuples)
        assert facts(parts) == [(e, g, len(rows), p, late) for e, g, rows, p, late in expected]
        assert all((p.start == p.end - length).all() for p in parts)
        members = [
            p.members.tolist()[p.offsets[k] : p.offsets[k + 1]]
            for p in parts
            for k in range(len(p))
        ]
        assert [sorted(m) for m in members] == [inside for _, _, inside, _, _ in expected]
        counters = window.counters
        assert counters["late"] == sum(s.late for s in scopes.values())
        assert counters["outside"] == sum(s.outside for s in scopes.values())
        assert counters["rows"] == n
        assert sum(s.late + s.outside + len(s.held) for s in scopes.values()) == (
            n - counters["absent"]
        )


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_results_are_those_of_the_possible_worlds(seed):
    rng = np.random.default_rng(100 + seed)
    shares = (0.25, 0.5, 0.875)
    for length, slide in LENGTHS:
        n = int(rng.integers(5, 25))
        data = stream(rng, n, 2, bool(seed % 2), spread=100)
        certain = float(rng.choice([0.0, 0.5, 1.0]))
        level = float(rng.choice([0.0, 1e6]))
        tuples = random_tuples(rng, n, 2, most=2, certain=certain, level=level)
        expected, _ = simulated(length, slide, data, [True] * n)
        window = ExtentAggregate(length, slide, ALL, quantiles=shares, distribution=4)
        _, parts = in_parts(window, rng, data, tuples)
        check_against_worlds(parts, expected, data[2], tuples, shares)


def test_what_was_passed_in_may_change_afterwards():
    times, prob, values = np.array([1, 2]), np.array([0.5, 1.0]), np.array([[3.0], [4.0]])
    window = ExtentAggregate(10, 10, [Aggregate("sum", 0)])
    window.process(np.zeros(2, int), times, None, None, np.arange(3), prob, values)
    for array in (times, prob, values):
        array[:] = 9
    assert window.flush().results[0].mean.tolist() == [5.5]


def test_a_high_level_does_not_cancel_the_spread():
    rng = np.random.default_rng(7)
    n = 400
    times, x, e = np.arange(n), 1e6 + rng.normal(0, 1, n), rng.uniform(0.5, 1, n)
    window = ExtentAggregate(100, 10, [Aggregate("avg", 0), Aggregate("max", 0)])
    found = window.process(np.zeros(n, int), times, None, None, np.arange(n + 1), e, x[:, None])
    assert len(found) > 30
    for k in range(len(found)):
        inside = (times >= found.start[k]) & (times < found.end[k])
        p, v = e[inside], x[inside]
        law = np.zeros((3, p.size + 1))
        law[0, 0] = 1.0
        centre = v.mean()
        for q, y in zip(p, v - centre, strict=True):
            m = np.concatenate([np.zeros((3, 1)), law[:, :-1]], axis=1)
            law = (1 - q) * law + q * np.stack(
                [m[0], m[1] + y * m[0], m[2] + 2 * y * m[1] + y * y * m[0]]
            )
        counts = np.arange(1, p.size + 1)
        mean = (law[1, 1:] / counts).sum() / (1 - law[0, 0])
        second = (law[2, 1:] / counts**2).sum() / (1 - law[0, 0])
        assert abs(found.results[0].mean[k] - centre - mean) < 1e-9
        assert abs(found.results[0].stddev[k] - np.sqrt(second - mean**2)) < 1e-9
        order = np.argsort(-v)
        first = p[order] * np.append(1.0, np.cumprod(1 - p[order])[:-1])
        high = first @ (v[order] - centre) / first.sum()
        spread = np.sqrt(first @ (v[order] - centre - high) ** 2 / first.sum())
        assert abs(found.results[1].mean[k] - centre - high) < 1e-9
        assert abs(found.results[1].stddev[k] - spread) < 1e-9


def test_of_certain_rows_results_are_those_of_numpy():
    rng = np.random.default_rng(8)
    n = 3000
    times = np.sort(rng.integers(0, 10**6, n))
    x = rng.normal(5, 2, n)
    wanted = [Aggregate(f, 0) for f in ("count", "sum", "avg", "min", "max")]
    window = ExtentAggregate(10**5, 10**4, wanted, quantiles=(0.5,))
    found = feed(window, times, values=x)
    assert len(found) > 80
    for k in range(len(found)):
        inside = x[(times >= found.start[k]) & (times < found.end[k])]
        expected = [inside.size, inside.sum(), inside.mean(), inside.min(), inside.max()]
        means = [result.mean[k] for result in found.results]
        np.testing.assert_allclose(means, expected, rtol=1e-12)
        for result in found.results:
            assert (result.stddev[k], result.existence[k]) == (0.0, 1.0)
            assert np.isnan(result.error[k])
            np.testing.assert_allclose(result.quantiles[k, 0], result.mean[k], rtol=1e-11)


def test_state_is_bounded_by_one_range_and_one_pane():
    rng = np.random.default_rng(9)
    n, length, slide = 30_000, 1000, 100
    times = np.sort(rng.integers(0, n, n))
    window = ExtentAggregate(length, slide, [Aggregate("avg", 0), Aggregate("max", 0)])
    largest = most = 0
    for low in range(0, n, 700):
        part = times[low : low + 700]
        e, x = rng.random(part.size), rng.normal(0, 1, (part.size, 1))
        window.process(np.zeros(part.size, int), part, None, None, np.arange(part.size + 1), e, x)
        largest = max(largest, len(window.snapshot()))
        most = max(most, window.counters["held"])
    assert most <= 1.15 * (length + slide)  # one tuple per microsecond on average
    assert largest <= 56 * most + 4000  # 4 fields, an offset, a probability and a value each
    assert window.nbytes < 1_200_000


def test_far_and_early_rows_are_refused_and_others_do_not_allocate_the_span_between():
    window = ExtentAggregate(10, 10, COUNT)
    with pytest.raises(ValueError, match="`event_time` must lie within"):
        feed(window, [2**61])
    feed(window, [-(2**60), 2**60])
    assert window.flush().held.tolist() == [1]
    assert window.nbytes < 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, COUNT), "`length` must be"),
        ((10, 1.5, COUNT), "`slide` must be"),
        ((10, 10, []), "`aggregates` must name at least one"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ExtentAggregate(*arguments)


def test_arrays_that_do_not_fit_are_refused_and_nothing_is_taken():
    window = ExtentAggregate(10, 10, [Aggregate("sum", 0)], members=True)
    good = {
        "group": np.zeros(1, int), "event_time": np.array([3]), "punctuation": None, "late": None,
        "offsets": np.array([0, 1]), "prob": np.ones(1), "values": np.ones((1, 1)),
    }  # fmt: skip
    bad = [
        ({"group": np.array([-1])}, ValueError, "must be codes 0, 1, 2"),
        ({"group": np.zeros(1)}, TypeError, "`group` must be an array of int64"),
        ({"prob": np.array([1.5])}, ValueError, "`prob` must have probabilities"),
        ({"prob": np.array([np.nan])}, ValueError, "`prob` must have probabilities"),
        ({"values": np.ones((1, 0))}, ValueError, "`values` must have one row"),
        ({"values": np.full((1, 1), -np.inf)}, ValueError, "`values` must be within"),
        ({"values": np.full((1, 1), 1e200)}, ValueError, "`values` must be within"),
        ({"offsets": np.array([0, 2])}, ValueError, "`prob` must have 2 entries"),
        ({"punctuation": np.zeros(2, int)}, ValueError, "`punctuation` must have 1 entries"),
    ]
    for change, error, message in bad:
        with pytest.raises(error, match=message):
            window.process(**{**good, **change})
    assert window.counters["rows"] == 0
    window.process(**good)
    with pytest.raises(SnapshotError):
        ExtentAggregate.restore(b"nothing")


def test_a_group_that_holds_nothing_is_as_one_that_never_had_a_tuple(monkeypatch):
    monkeypatch.setattr(discrete_distributions, "MAX_WORK", 0.0)  # quantiles are sampled
    rng = np.random.default_rng(3)
    times, probs = np.sort(rng.integers(0, 20, 14)), rng.uniform(0.2, 0.9, (2, 14))
    values = rng.normal(0, 1, (2, 14))

    def found(parts):
        window = ExtentAggregate(20, 10, [Aggregate("quantile", 0, 0.5)], seed=5, samples=30)
        out = []
        for shift, which in parts:
            arrays = (np.arange(15), probs[which], values[which][:, None])
            out.append(window.process(np.zeros(14, int), times + shift, None, None, *arrays))
        out.append(window.flush())
        assert not np.isnan(out[-1].results[0].error).any()
        return [value for part in out for value in part.results[0].mean.tolist()]

    assert found([(0, 0), (1000, 1)])[-3:] == found([(1000, 1)])
