"""Calibrated imputation and its learned state, against a plain computation of every step."""

import numpy as np
import pytest

from calibrated_reference import (
    at_levels,
    calibrated_law,
    learned,
    rank_and_beyond,
    raw_law,
    within,
)
from seeds import seeds
from sfumato.kernels.imputation.calibration import curve_of
from sfumato.kernels.imputation.dependency_choice import MARGINAL, donors_in_box
from sfumato.kernels.imputation.donors import interval_of_nodes
from sfumato.kernels.imputation.imputation import held_out_ranks
from sfumato.kernels.imputation.reduced_values import thin_to_quantiles
from sfumato.kernels.imputation.repository import new_scratch, scale
from sfumato.operators.imputation.imputer import Imputer

NAMES = ("a", "b", "c", "d")
DEPENDENCIES = [
    *(
        f"{x} -> {y} : {near} -> 0.2"
        for x in NAMES
        for y in NAMES
        if x != y
        for near in (0.03, 0.2)
    ),
    "a, b -> c : 0.1, 0.1 -> 0.1",
]


def rows(seed, n=700):
    """Return rows of four dependent attributes; d has few distinct values."""
    rng = np.random.default_rng(seed)
    a, noise, more = rng.random(n), rng.standard_normal(n), rng.standard_normal(n)
    b = 0.6 * a + 0.1 * (0.3 + a) * noise
    c = a - b**2 + 0.05 * more
    return np.column_stack([a, b, c, np.round(4.0 * (a + 0.1 * more)) / 4.0])


def with_gaps(objects, many, rng):
    gaps = objects.copy()
    lost = np.argsort(rng.random(gaps.shape), axis=1)[:, :many]
    np.put_along_axis(gaps, lost, np.nan, axis=1)
    return gaps


def imputer_of(seed, **options):
    return Imputer(rows(seed), DEPENDENCIES, names=NAMES, **{"least_donors": 8, **options})


def interval(imputer, one, t, chosen):
    """Return the bounds of an attribute's values, from the index nodes of its chosen rule."""
    scratch = new_scratch(imputer.prepared)
    scale(imputer.prepared, one, scratch.scaled)
    nodes = donors_in_box(imputer.prepared, t, chosen, scratch)[2] if chosen > 0 else 0
    return interval_of_nodes(imputer.prepared, t, scratch.search, nodes)


def by_hand(imputer, objects):
    """Yield {t: (values, probabilities)} of each object's missing attributes."""
    known, chosen = imputer._rows, imputer.impute(objects).rules_used
    shift, span = np.array([imputer.scaling[name] for name in NAMES]).T
    for i, one in enumerate(objects):
        laws = {}
        for t in np.flatnonzero(np.isnan(one)):
            laws[int(t)] = calibrated_law(
                known, (known - shift) / span, (one - shift) / span, int(t), NAMES,
                learned(imputer, t), interval(imputer, one, int(t), chosen[i, t]),
            )  # fmt: skip
        yield laws


@pytest.mark.parametrize("seed", seeds(4))
def test_a_missing_value_has_the_distribution_that_is_found_by_hand(seed):
    imputer, rng = imputer_of(seed), np.random.default_rng(seed)
    objects = with_gaps(rows(seed + 100, 60), 1, rng)
    lacking = rng.random(objects.shape) < 0.2  # may also remove determinants; such rows are skipped
    objects[lacking] = np.nan
    objects = objects[np.isnan(objects).sum(axis=1) < 4]
    done, compared = imputer.impute(objects), 0
    for i, laws in enumerate(by_hand(imputer, objects)):
        if len(laws) != 1:
            continue
        ((t, law),) = laws.items()
        assert (law is None) == (done.rules_used[i, t] == MARGINAL)
        if law is not None:
            part = slice(done.offsets[i], done.offsets[i + 1])
            np.testing.assert_allclose(done.values[part, t], law[0], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(done.prob[part], law[1], rtol=1e-9, atol=1e-12)
            compared += 1
    assert compared > 15


@pytest.mark.parametrize("most", [None, 1000])
def test_several_missing_values_are_independent_at_even_levels_of_their_distributions(most):
    imputer, rng = imputer_of(5, max_alternatives=most), np.random.default_rng(5)
    objects = np.vstack([with_gaps(rows(105 + m, 12), m, rng) for m in (2, 3)])
    done, bound = imputer.impute(objects), min(most or 1024, 1024)
    for i, laws in enumerate(by_hand(imputer, objects)):
        part = slice(done.offsets[i], done.offsets[i + 1])
        assert part.stop - part.start <= bound
        if any(law is None for law in laws.values()):
            continue
        limits = shared(bound, {t: len(law[0]) for t, law in laws.items()})
        shortened = [at_levels(*law, limits[t]) for t, law in laws.items()]
        values = np.meshgrid(*(law[0] for law in shortened), indexing="ij")
        prob = np.ones(())
        for law in shortened:
            prob = np.multiply.outer(prob, law[1])
        for t, expected in zip(laws, values, strict=True):
            np.testing.assert_allclose(done.values[part, t], expected.ravel(), rtol=1e-9)
        np.testing.assert_allclose(done.prob[part], prob.ravel(), rtol=1e-9)


@pytest.mark.parametrize("most", [*range(1, 12), 23, 24, 40])
def test_few_values_keep_the_ends_of_the_90_percent_range(most):
    rng = np.random.default_rng(most)
    values, weight = np.sort(rng.normal(size=200)), rng.random(200)
    law, prob = at_levels(values, weight / weight.sum(), most)
    kept_values, kept_weight = values.copy(), weight.copy()
    number, moved = thin_to_quantiles(kept_values, kept_weight, 200, weight.sum(), most)
    np.testing.assert_allclose(kept_values[:number], law)
    np.testing.assert_allclose(kept_weight[:number], prob)
    assert moved <= np.ptp(values)
    if most >= 3:
        for level in (0.05, 0.95):
            whole = values[np.searchsorted(np.cumsum(weight) / weight.sum(), level)]
            assert law[np.searchsorted(np.cumsum(prob), level - 1e-12)] == whole


@pytest.mark.parametrize("most", [60, 7, 1])
def test_with_too_few_alternatives_for_ten_values_each_they_come_from_the_same_rows(most):
    """Two values for each of three attributes cover half of the cases in a 90% range."""
    imputer, rng = imputer_of(5, max_alternatives=most), np.random.default_rng(5)
    together = imputer_of(5, max_alternatives=most, joint=True)
    objects = np.vstack([with_gaps(rows(105 + m, 40), m, rng) for m in (1, 2, 3)])
    done, wanted = imputer.impute(objects), together.impute(objects)
    several = np.isnan(objects).sum(axis=1) > 1
    lent = several & (done.rules_used != MARGINAL).all(axis=1)
    assert lent.sum() > 60
    assert done.joint[lent].mean() > 0.9  # few have no row that is near on all determinants
    assert not done.joint[~lent].any()
    for i in np.flatnonzero(lent):
        own, same = (slice(of.offsets[i], of.offsets[i + 1]) for of in (done, wanted))
        np.testing.assert_array_equal(done.values[own], wanted.values[same])
        np.testing.assert_array_equal(done.prob[own], wanted.prob[same])
        assert own.stop - own.start <= most
    assert not imputer_of(5, max_alternatives=most, method="plain").impute(objects).joint.any()


def shared(most, sizes):
    """Return how many values each attribute keeps: small ones all, others equal shares."""
    if np.prod(list(sizes.values())) <= most:
        return sizes
    limits, left = {}, most
    for place, t in enumerate(sorted(sizes, key=lambda t: (sizes[t], t))):
        root, open_ones = 1, len(sizes) - place
        while (root + 1) ** open_ones <= left and root < sizes[t]:
            root += 1
        limits[t] = root
        left //= root
    return limits


@pytest.mark.parametrize("t", range(4))
def test_ranks_of_rows_left_out_are_those_by_hand_without_them(t):
    imputer = imputer_of(9)
    of, known, how = imputer.prepared, imputer._rows, learned(imputer, t)
    without = of._replace(choice=of.choice._replace(least_donors=of.choice.least_donors + 1))
    rng = np.random.default_rng(9)
    picked, chance = rng.permutation(len(known))[:40], rng.random(40)
    objects = known[picked].copy()
    objects[rng.random(objects.shape) < 0.2] = np.nan
    objects[:, t] = np.nan
    ranks, distances, _, scores = held_out_ranks(without, t, objects, picked, chance)
    shift, span = np.array([imputer.scaling[name] for name in NAMES]).T
    compared = 0
    for i, row in enumerate(picked):
        others = np.delete(known, row, axis=0)
        centre = (objects[i] - shift) / span
        raw = raw_law(others, (others - shift) / span, centre, t, NAMES, how)
        assert (raw is None) == np.isnan(scores[i])
        if raw is None or not raw[3][0] <= raw[0].min() <= raw[0].max() <= raw[3][1]:
            continue  # values may then end at the bounds of the index
        order = np.argsort(raw[0])
        law, weight = raw[0][order], raw[1][order]
        rank, beyond = rank_and_beyond(law, weight, known[row, t], chance[i])
        share = weight / weight.sum()
        score = share @ np.abs(law - known[row, t])
        score -= share @ np.abs(law[:, None] - law[None, :]) @ share / 2
        assert distances[i] == pytest.approx(beyond, abs=1e-12)
        assert scores[i] == pytest.approx(score, rel=1e-9)
        assert np.isnan(ranks[i]) if rank is None else ranks[i] == pytest.approx(rank)
        compared += 1
    assert compared >= 8


def test_a_curve_counts_ranks_and_tails_are_quarters_of_what_lies_beyond():
    rng = np.random.default_rng(3)
    ranks = rng.beta(2.0, 3.0, 400)
    beyond = np.sort(np.concatenate([-rng.random(30), rng.random(50) * 2.0]))
    curve, tails, far = curve_of(ranks, beyond, 20, 10.0)
    steps = np.histogram(ranks, np.linspace(0, 1, 21))[0] + 0.5
    np.testing.assert_allclose(np.diff(curve), steps / 410 * 400 / 482, atol=1e-15)
    assert curve[0] == pytest.approx(31 / 482)
    assert curve[-1] == pytest.approx(1 - 51 / 482)
    assert far == 1 / 482
    below, above = -beyond[beyond < 0][::-1], beyond[beyond > 0]
    farthest = max(below[-1], above[-1])
    quarters = (0.125, 0.375, 0.625, 0.875)
    assert tails[0].tolist() == [*(below[int(30 * q)] for q in quarters), farthest]
    assert tails[1].tolist() == [*(above[int(50 * q)] for q in quarters), farthest]
    curve, tails, far = curve_of(np.empty(0), np.empty(0), 20, 10.0)
    np.testing.assert_allclose(curve, np.linspace(0, 1, 21))
    assert not tails.any()
    assert far == 0.0


@pytest.mark.parametrize(("rows", "times"), [(2, 199 / 3), (5, (199 / 6) ** 0.5), (199, 1.0)])
def test_the_far_ends_of_tails_are_the_farther_the_fewer_rows_were_left_out(rows, times):
    curve, tails, far = curve_of(np.empty(0), np.linspace(-3.0, 2.0, rows), 20, 10.0)
    assert tails[0, -1] == tails[1, -1] == pytest.approx(3.0 * times)
    assert far == 1 / (rows + 2)
    assert np.diff(curve) == pytest.approx(0.0)


@pytest.mark.parametrize(
    "many",
    [1, pytest.param(2, marks=pytest.mark.nightly), pytest.param(3, marks=pytest.mark.nightly)],
)
def test_ranges_hold_as_many_values_as_they_say_for_each_number_of_missing_attributes(many):
    imputer = Imputer(rows(20, 4000), DEPENDENCIES, names=NAMES)
    objects = rows(21, 900)
    gaps = with_gaps(objects, many, np.random.default_rng(many))
    done, inside = imputer.impute(gaps), []
    for i, t in zip(*np.nonzero(np.isnan(gaps[:, :3])), strict=True):  # d has few values
        part = slice(done.offsets[i], done.offsets[i + 1])
        inside.append(within((done.values[part, t], done.prob[part]), objects[i, t], 0.9))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.03)
