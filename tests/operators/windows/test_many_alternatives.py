"""Windows of tuples with hundreds of alternatives, which kernels sort, against definitions."""

import numpy as np
import pytest

from seeds import seeds
from sfumato.operators.arrays import offsets_of
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from window_reference import Window


def drawn(rng, tuples, most=200):
    """Return tuples (prob, values) with ties and some missing values."""
    found = []
    for _ in range(tuples):
        n = int(rng.choice([1, 2, 33, most]))
        values = np.round(rng.normal(size=n), 1)
        values[rng.random(n) < 0.05] = np.nan
        found.append((rng.dirichlet(np.ones(n)) * rng.choice([0.6, 1.0]), values))
    return found


def given(tuples):
    offsets = offsets_of(np.array([len(p) for p, _ in tuples]))
    prob = np.minimum(np.concatenate([p for p, _ in tuples]), 1.0)
    values = np.concatenate([v for _, v in tuples])[:, None]
    return np.zeros(len(tuples), np.int64), offsets, prob, values


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", seeds(6))
def test_the_extreme_of_many_alternatives_has_its_law(seed, sign):
    rng = np.random.default_rng(seed)
    tuples, rows = drawn(rng, 8), 100
    function = "max" if sign > 0 else "min"
    window = CountWindowAggregate(rows, 0.95, [Aggregate(function, 0)], distribution=10_000)
    [result] = window.process(*given(tuples)).results
    for t in range(len(tuples)):
        held = tuples[: t + 1]
        at = np.unique(np.concatenate([v[~np.isnan(v)] for _, v in held]))
        none = Window(held, rows).none_beyond(sign, at).tolist()
        places = slice(result.offsets[t], result.offsets[t + 1])
        value, prob = result.value[places], result.prob[places]
        for x, expected in zip(at, none, strict=True):
            beaten = prob[sign * value > sign * x].sum()
            assert beaten == pytest.approx(1 - expected, abs=1e-9)


@pytest.mark.parametrize("seed", seeds(6))
def test_a_quantile_of_many_alternatives_has_its_law(seed):
    rng = np.random.default_rng(seed)
    tuples = [(p, np.nan_to_num(v)) for p, v in drawn(rng, 3, 120)]
    window = CountWindowAggregate(3, 0.95, [Aggregate("quantile", 0, 0.5)], distribution=10_000)
    [result] = window.process(*given(tuples)).results
    places = slice(result.offsets[2], result.offsets[3])
    assert np.isnan(result.error[2])  # it is exact
    law: dict[float, float] = {}
    parts = [[*zip(p, v, strict=True), (1 - p.sum(), None)] for p, v in tuples]
    for p, x in parts[0]:
        for q, y in parts[1]:
            for r, z in parts[2]:
                there = sorted(v for v in (x, y, z) if v is not None)
                if there and p * q * r > 0:
                    middle = there[(len(there) + 1) // 2 - 1]
                    law[middle] = law.get(middle, 0.0) + p * q * r
    found = dict(zip(result.value[places].tolist(), result.prob[places].tolist(), strict=True))
    for x in law.keys() | found.keys():
        assert found.get(x, 0.0) == pytest.approx(law.get(x, 0.0), abs=1e-10)


@pytest.mark.parametrize("seed", seeds(6))
def test_a_delta_window_of_many_alternatives_evicts_by_definition(seed):
    rng = np.random.default_rng(seed)
    tuples, delta, threshold = drawn(rng, 12), 2.05, 0.4
    window = DeltaWindowAggregate(
        delta, 0, [Aggregate("count"), Aggregate("max", 0), Aggregate("min", 0)],
        threshold=threshold,
    )  # fmt: skip
    answers, held = window.process(*given(tuples)), []
    for t, one in enumerate(tuples):
        held.append(one)
        while len(held) > 1 and broken(held[0], held[1:], delta) >= threshold:
            held.pop(0)
        assert answers.held[t] == len(held)
        for result, sign in zip(answers.results[1:], (1, -1), strict=True):
            at, mass = np.array(list(Window(held).extreme(sign).items()), float).T
            assert result.mean[t] == pytest.approx(mass @ at / mass.sum(), abs=1e-9)


def broken(oldest, others, delta):
    """Return Pr(some other tuple is too far from the oldest | the oldest exists), by definition."""
    lost = 0.0
    for p, x in zip(*oldest, strict=True):
        near = 1.0
        for prob, values in others:
            near *= 1.0 - prob[np.abs(values - x) > delta].sum()
        lost += p * (1.0 - near)
    return lost / oldest[0].sum()
