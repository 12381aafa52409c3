"""Imputed distributions are calibrated: a range of probability p contains a share p of values."""

import numpy as np
import pytest

from calibrated_reference import within
from sfumato.kernels.imputation.dependency_choice import MARGINAL
from sfumato.operators.imputation.imputer import Imputer

DEPENDENCIES = [
    *(f"a -> c : {near} -> 0.1" for near in (0.02, 0.1)),
    *(f"b -> c : {near} -> 0.2" for near in (0.02, 0.1)),
    "a, b -> c : 0.05, 0.05 -> 0.05",
    "noise -> c : 0.05 -> 0.01",  # promises the smallest error, but has no meaning
]


def rows(n, seed):
    """Return rows in which c follows from a and b, with noise that grows with a."""
    rng = np.random.default_rng(seed)
    a, b, noise = rng.random((3, n))
    c = 2.0 * a - b**2 + (0.02 + 0.1 * a) * rng.standard_normal(n)
    return np.column_stack([a, b, noise, c])


def calibrated(repository, dependencies=tuple(DEPENDENCIES), **options):
    options = {"method": "calibrated", **options}
    return Imputer(repository, dependencies, ["c"], names=["a", "b", "noise", "c"], **options)


def hidden(objects, share, seed):
    """Return the objects without c, a share of them also without a."""
    gaps = objects.copy()
    gaps[:, 3] = np.nan
    gaps[np.random.default_rng(seed).random(len(gaps)) < share, 0] = np.nan
    return gaps


def laws(imputer, objects):
    done = imputer.impute(objects)
    for i in range(len(objects)):
        part = slice(done.offsets[i], done.offsets[i + 1])
        yield done.values[part, 0], done.prob[part]


def score(law, value):
    """Return the continuous ranked probability score, by its definition with expectations."""
    values, prob = law
    between = np.abs(values[:, None] - values[None, :])
    return prob @ np.abs(values - value) - prob @ between @ prob / 2


def imputer_of(n=2000, **options):
    repository = rows(n, 1)
    return calibrated(repository, DEPENDENCIES, **options)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_ranges_hold_as_many_values_as_they_say_whatever_dependencies_promise(share):
    objects = rows(1000, 2)
    found = list(laws(imputer_of(), hidden(objects, share, 3)))
    for probability, slack in ((0.5, 0.06), (0.8, 0.05), (0.9, 0.035)):
        held = np.mean(
            [within(law, c, probability) for law, c in zip(found, objects[:, 3], strict=True)]
        )
        assert held == pytest.approx(probability, abs=slack)
    plain = list(laws(imputer_of(method="plain"), hidden(objects, share, 3)))
    held = np.mean([within(law, c, 0.9) for law, c in zip(plain, objects[:, 3], strict=True)])
    assert held < 0.8  # overconfident


def test_it_is_nearer_to_the_truth_than_the_plain_way_and_the_mean_of_the_nearest_rows():
    objects, repository = rows(400, 2), rows(2000, 1)
    gaps = hidden(objects, 0.0, 3)
    ours = np.mean(
        [score(*pair) for pair in zip(laws(imputer_of(), gaps), objects[:, 3], strict=True)]
    )
    plain = laws(imputer_of(method="plain"), gaps)
    assert ours < 0.9 * np.mean([score(*pair) for pair in zip(plain, objects[:, 3], strict=True)])
    off = np.abs(repository[None, :, :2] - objects[:, None, :2]).max(axis=2)
    near = np.argsort(off, axis=1)[:, :5]
    assert ours < np.abs(repository[near, 3].mean(axis=1) - objects[:, 3]).mean()


def test_at_least_so_many_donors_lend_and_a_box_with_fewer_is_widened():
    imputer = imputer_of(least_donors=12)
    objects = hidden(rows(200, 4), 0.3, 5)
    objects[0, :3] = 1.4, np.nan, np.nan  # outside all known values, but near their edge
    objects[1, :3] = 0.99999, 0.99999, np.nan
    done = imputer.impute(objects)
    inside = done.rules_used[:, 0] != MARGINAL
    assert (done.donors[inside, 0] >= 12).all()
    assert done.rules_used[0, 0] == MARGINAL
    assert inside[1:].all()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_rows_and_columns_in_any_order_make_the_same_imputer(order):
    repository, objects = rows(300, 6), hidden(rows(50, 7), 0.3, 8)
    names = [["a", "b", "noise", "c"][i] for i in order]
    turned = repository[::-1, order].copy()
    other = Imputer(turned, DEPENDENCIES[::-1], ["c"], names=names, method="calibrated")
    for mine, its in zip(
        laws(calibrated(repository), objects), laws(other, objects[:, order]), strict=True
    ):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("n", [1, 2, 3, 25])
def test_a_repository_of_few_rows_lends_what_it_has(n):
    done = imputer_of(n).impute(rows(1, 1)[:, :] * [1, 1, 1, np.nan])
    assert done.offsets[1] >= 1
    assert done.prob.sum() == pytest.approx(1.0)


NOISES = {
    "normal": lambda rng, n: rng.normal(0.0, 1.0, n),
    "heavy": lambda rng, n: rng.standard_t(2, n),
    "skewed": lambda rng, n: rng.exponential(1.0, n),
    "whole": lambda rng, n: rng.poisson(2.0, n) * 1.0,
}


def held_of_few(noise, size, levels, repetitions, lacking=False):
    """Return the shares of values in central ranges of these levels, with a small repository."""
    held = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, size])

        def draw(n, rng=rng):
            x = rng.uniform(0.0, 10.0, n)
            return np.column_stack([x, 2.0 * x + NOISES[noise](rng, n)])

        repository, objects = draw(size), draw(20)
        gaps = objects.copy()
        gaps[:, 1 - lacking :] = np.nan
        found = Imputer(repository, ["x -> y : 0.1 -> 0.2"], ["y"], names=["x", "y"])
        pairs = list(zip(laws(found, gaps), objects[:, 1], strict=True))
        held.append([[within(law, y, level) for law, y in pairs] for level in levels])
    return np.mean(held, axis=(0, 2))


@pytest.mark.parametrize(
    ("noise", "lacking"), [*((noise, False) for noise in NOISES), ("normal", True)]
)
@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 10, 20, 30, 60])
def test_ranges_hold_as_many_values_as_they_say_however_few_rows_there_are(noise, lacking, size):
    levels = (0.5, 0.8, 0.9, 0.95, 0.99)
    held = held_of_few(noise, size, levels, 40, lacking)
    slack = [0.1, 0.06, 0.04, 0.05, 0.04] if lacking else [0.1, 0.05, 0.03, 0.03, 0.04]
    assert (held >= np.array(levels) - slack).all()


def test_methods_are_named():
    with pytest.raises(ValueError, match="`method` must be one of calibrated, plain"):
        imputer_of(50, method="best")
    assert imputer_of(50).least_donors == 20
    assert imputer_of(50, method="plain").least_donors == 1
