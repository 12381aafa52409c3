"""Mixtures of results: the law of total probability."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from sfumato.kernels.distributions.statistics import SAMPLE_TIE, merge_near
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.distributions.aggregate import Aggregate, AggregateResult
from sfumato.operators.distributions.discrete_distributions import (
    CERTAINTY,
    OF_VALUES,
    DiscreteDistributions,
    DistributionOptions,
)

EXACT_VALUES = ("quantile", "count_distinct", *OF_VALUES)  # without rounding errors
ALL_VALUES = 2**31  # more values than any distribution has


def full_options(options: DistributionOptions) -> DistributionOptions:
    """Return the options of the results that are mixed: full distributions if any are requested."""
    distribution = ALL_VALUES if options.has_distributions else None
    return replace(options, quantiles=(), distribution=distribution)


def mixtures(
    of: Aggregate,
    given: AggregateResult,
    weight: Floats,
    begins: Ints,
    options: DistributionOptions,
) -> AggregateResult:
    """Return n results, each a mixture of given results of `of`.

    given : m results with `full_options`
    weight : float64[m], the weights of a mixture sum to 1    begins : int64[n + 1], of mixtures
    Exact for exact results. Bounds of sampled results are widened so that all bounds of a mixture
    hold together with probability CERTAINTY, and their weighted sum bounds the mixture.
    """
    n, owner = begins.size - 1, np.repeat(np.arange(begins.size - 1), np.diff(begins))
    share, defined = weight * given.existence, given.existence > 0.0
    total = np.bincount(owner, share, n)
    means, spreads = (np.where(defined, x, 0.0) for x in (given.mean, given.stddev))
    with np.errstate(invalid="ignore"):
        share = share / total[owner]
        mean = np.where(total > 0.0, np.bincount(owner, share * means, n), np.nan)
        squares = np.bincount(owner, share * (spreads**2 + (means - mean[owner]) ** 2), n)
    moments = mean, np.sqrt(squares), np.minimum(total, 1.0)
    if given.offsets is None or given.prob is None or given.value is None:
        return options.summarise(moments, None)
    chance = given.prob * np.repeat(weight, np.diff(given.offsets))
    near = 0.0 if of.function in EXACT_VALUES else SAMPLE_TIE
    ends = given.offsets[begins].tolist()
    parts = [
        merge_near(chance[low:high], given.value[low:high], near) for low, high in pairwise(ends)
    ]
    if not parts:
        return options.no_results()
    mixed = DiscreteDistributions.exact(parts)
    sampled = ~np.isnan(given.error)
    if sampled.any():
        many = np.bincount(owner, sampled, n)
        widened = np.sqrt(1.0 + np.log(np.maximum(many, 1.0)) / np.log(2.0 / (1.0 - CERTAINTY)))
        error = widened * np.bincount(owner, np.where(sampled, weight * given.error, 0.0), n)
        mixed.error[:] = np.where(many > 0, error, np.nan)
    return options.summarise(moments, [mixed])
