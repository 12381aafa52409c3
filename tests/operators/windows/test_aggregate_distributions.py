"""Distributions of aggregates over independent tuples against possible worlds; their summaries."""

import math

import numpy as np
import pytest

from sfumato.kernels.distributions.mergeable_moments import NODE, NODES, WEIGHT
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.distributions.independent_distribution import distribution_of
from sfumato.operators.state.tuple_batch import TupleBatch


def answer(aggregate, members, options):
    """Return the distribution's own moments, quantiles and values."""
    return options.summarise(None, [distribution_of(aggregate, members, options)])


def test_inverse_counts_are_sums_of_exponentials():
    counts = np.unique(np.round(np.geomspace(1, 1e7, 3000)))
    powers = np.exp(-np.outer(counts, NODE))
    assert NODES == NODE.size < 110
    np.testing.assert_allclose(powers @ WEIGHT, 1 / counts, rtol=1e-12)
    np.testing.assert_allclose(powers @ (WEIGHT * NODE), 1 / counts**2, rtol=1e-12)


@pytest.mark.nightly
@pytest.mark.parametrize("function", ["sum", "avg", "quantile", "stddev", "var"])
def test_laws_with_too_many_states_are_sampled_within_the_stated_error(function):
    rng = np.random.default_rng(3)
    n = 60
    offsets, prob = np.arange(n + 1), rng.random(n)
    members = TupleBatch(offsets, prob, rng.normal(0, 1, (1, n)), np.arange(n))
    argument = 0.5 if function == "quantile" else None
    options = DistributionOptions((0.1, 0.5), None, seed=1, samples=4000)
    law = distribution_of(Aggregate(function, 0, argument), members, options)
    error = math.sqrt(math.log(200) / 8000)
    assert law.error.tolist() == [pytest.approx(error)]
    many = np.where(rng.random((200_000, n)) < prob, members.values[0], np.nan)
    if function == "sum":
        truth = np.nansum(many, axis=1)
    elif function == "avg":
        truth = np.nanmean(many, axis=1)
    elif function in ("stddev", "var"):
        truth = (np.nanstd if function == "stddev" else np.nanvar)(many, axis=1, ddof=1)
    else:
        truth = np.nanquantile(many[:20_000], 0.5, axis=1, method="inverted_cdf")
    truth.sort()
    reached = np.cumsum(law.prob)
    true = np.searchsorted(truth, law.value, "right") / truth.size
    assert np.abs(reached - true).max() < error + 3 / math.sqrt(truth.size)
    measured = answer(Aggregate(function, 0, argument), members, options)
    assert measured.error[0] == pytest.approx(error)
    again = distribution_of(Aggregate(function, 0, argument), members, options)
    np.testing.assert_array_equal(law.value, again.value)


def test_samples_of_a_tuple_depend_on_its_index_alone():
    rng = np.random.default_rng(4)
    n = 80
    members = TupleBatch(np.arange(n + 1), rng.random(n), rng.normal(0, 1, (1, n)), np.arange(n))
    options = DistributionOptions((0.5,), None, seed=9, samples=200)
    turn = rng.permutation(n)
    turned = TupleBatch(
        members.offsets, members.prob[turn], np.ascontiguousarray(members.values[:, turn]), turn
    )
    one, other = (distribution_of(Aggregate("sum", 0), m, options) for m in (members, turned))
    np.testing.assert_allclose(one.value, other.value, rtol=1e-12)


def test_many_tuples_of_few_values_have_an_exact_law():
    n = 500
    prob = np.full(n, 0.5)
    members = TupleBatch(np.arange(n + 1), prob, np.full((1, n), 0.1), np.arange(n))
    law = distribution_of(Aggregate("sum", 0), members, DistributionOptions((0.5,)))
    expected = [math.comb(n, k) / 2**n for k in range(n + 1)]
    assert np.isnan(law.error[0])
    counts = np.round(law.value / 0.1).astype(int)
    np.testing.assert_allclose(law.value, 0.1 * counts, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(law.prob, np.array(expected)[counts], rtol=1e-11, atol=1e-18)
    assert (np.array(expected) > 1e-15).sum() <= counts.size < n


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantiles": (1.5,)}, "`quantiles` must lie in"),
        ({"distribution": 0}, "`distribution` must be None or"),
        ({"samples": 0}, "`samples` must be"),
        ({"seed": 0.5}, "`seed` must be"),
        ({"seed": 2**63}, "`seed` must be an integer with at most 64 bits"),
    ],
)
def test_options_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DistributionOptions(**arguments)
