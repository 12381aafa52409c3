"""Distributions with finitely many outcomes, and mixtures of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions import statistics
from sfumato.kernels.distributions.discrete_distribution import (
    all_bounded,
    all_moments,
    all_quantiles,
)
from sfumato.kernels.distributions.sampled_worlds import distributions_of_samples
from sfumato.kernels.distributions.statistics import SAMPLE_TIE, merge_near
from sfumato.operators.arguments import quantile_level, whole
from sfumato.operators.arrays import Floats, Ints, offsets_of
from sfumato.operators.distributions.aggregate import LISTED, Aggregate, AggregateResult
from sfumato.operators.state.columns import Columns

# Above these limits, worlds are sampled.
MAX_STATES = 4_096  # states of the exact distribution of a sum or average
MAX_WORK = 4e6  # cell updates of the exact distribution of a quantile
MAX_SPREAD_WORK = 1e5  # tuples examined when worlds are enumerated
CERTAINTY = 0.99  # probability that a sampled distribution function is within `error`
STATISTICS = {
    "avg": statistics.AVERAGE,
    "quantile": statistics.QUANTILE,
    "var": statistics.VARIANCE,
    "stddev": statistics.DEVIATION,
    "count_distinct": statistics.DISTINCT,
    "first": statistics.FIRST_VALUE,
    "last": statistics.LAST_VALUE,
}
OF_VALUES = ("first", "last")  # results are values of tuples, so equal results are bitwise equal
EXACT_VALUES = ("quantile", "count_distinct", *OF_VALUES)  # without rounding errors
ALL_VALUES = 2**31  # more values than any distribution has

Moments = tuple[Floats, Floats, Floats]  # mean, standard deviation, existence


def distribution_limits() -> tuple[int, float, float]:
    """Return the limits of exact distributions; see `exact_distribution`."""
    return MAX_STATES, float(MAX_WORK), float(MAX_SPREAD_WORK)


@dataclass(frozen=True)
class DiscreteDistributions(Columns, flat=("prob", "value"), begins="places"):
    """k distributions with ascending values.

    places : int64[k + 1], start of each distribution in prob and value, float64[...]
    error : float64[k], NaN for exact distributions; otherwise as in `AggregateResult`
    """

    places: Ints
    prob: Floats
    value: Floats
    error: Floats

    @classmethod
    def exact(cls, distributions: Sequence[tuple[Floats, Floats]]) -> DiscreteDistributions:
        prob, value = (
            np.concatenate([distribution[i] for distribution in distributions]) for i in range(2)
        )
        places = offsets_of(np.array([len(distribution[0]) for distribution in distributions]))
        return cls(places, prob, value, np.full(len(distributions), np.nan))

    @classmethod
    def of_samples(cls, samples: Floats, existence: Floats, exact: bool) -> DiscreteDistributions:
        """Build the distributions of an aggregate from sampled worlds.

        samples : float64[k, worlds], NaN where undefined; sorted in place    existence : float64[k]
        exact : whether values have no rounding errors
        """
        samples.sort(axis=1)
        places, prob, value, used = distributions_of_samples(
            samples, existence, 0.0 if exact else SAMPLE_TIE
        )
        # Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant.
        error = np.sqrt(np.log(2.0 / (1.0 - CERTAINTY)) / (2.0 * np.maximum(1, used)))
        return cls(places, prob, value, error)

    def moments(self) -> Moments:
        of = all_moments(self.places, self.prob, self.value)
        return of[:, 0], of[:, 1], of[:, 2]


@dataclass(frozen=True)
class DistributionOptions:
    """Requested properties of each result, in addition to its mean and standard deviation.

    quantiles : shares in [0, 1]
    distribution : largest number of values, or None for no distribution
    seed, samples : for sampled distributions    Raises ValueError for values out of range.
    """

    saved_as: ClassVar[str] = "LawOptions"
    quantiles: tuple[float, ...] = ()
    distribution: int | None = None
    seed: int = 0
    samples: int = 1000

    def __post_init__(self) -> None:
        levels = tuple(quantile_level("`quantiles`", q) for q in self.quantiles)
        object.__setattr__(self, "quantiles", levels)
        if self.distribution is not None:
            whole("distribution", self.distribution, "None or an integer of at least 1")
        whole("samples", self.samples)
        number = isinstance(self.seed, int | np.integer) and not isinstance(self.seed, bool)
        if not number or not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"`seed` must be an integer with at most 64 bits; got {self.seed!r}")

    @property
    def has_distributions(self) -> bool:
        """Return whether quantiles or distributions are requested."""
        return bool(self.quantiles) or self.distribution is not None

    def needs_distribution(self, aggregate: Aggregate) -> bool:
        """Return whether the results of `aggregate` need distributions."""
        return self.has_distributions or aggregate.function in LISTED

    def summarise(
        self, moments: Moments | None, distributions: Iterable[DiscreteDistributions] | None
    ) -> AggregateResult:
        """Return one aggregate's results; without `moments`, compute them from `distributions`."""
        if distributions is None:
            assert moments is not None
            k = moments[0].size
            none = np.broadcast_to(np.nan, (k, len(self.quantiles)))
            return AggregateResult(*moments, none, np.broadcast_to(np.nan, k))
        parts, at = [], 0
        for some in distributions:
            begin, at = at, at + some.error.size
            mean, stddev, existence = moments or some.moments()
            if moments is not None:
                mean, stddev, existence = (x[begin:at] for x in (mean, stddev, existence))
            parts.append(self._result(some, (mean, stddev, existence)))
        return AggregateResult.concat(parts) if parts else self.no_results()

    def bounded(self, found: AggregateResult) -> AggregateResult:
        """Return results with at most `distribution` values instead of a larger number."""
        *columns, moved = all_bounded(found.offsets, found.prob, found.value, self.distribution)
        named = dict(zip(("offsets", "prob", "value"), columns, strict=True))
        return replace(found, **named, moved=found.moved + moved)

    def certain_results(self, values: Floats) -> AggregateResult:
        """Return certain results with these values; NaN for undefined results."""
        undefined = np.isnan(values)
        if not undefined.any():
            spread, existence = np.broadcast_to(0.0, values.size), np.broadcast_to(1.0, values.size)
            return self.summarise((values, spread, existence), None)
        return self.summarise((values, np.where(undefined, np.nan, 0.0), 1.0 - undefined), None)

    def no_results(self) -> AggregateResult:
        none = np.empty(0)
        return self._result(
            DiscreteDistributions(np.zeros(1, np.int64), none, none, none), (none, none, none)
        )

    def _result(self, distributions: DiscreteDistributions, moments: Moments) -> AggregateResult:
        shares = np.array(self.quantiles, np.float64)
        quantiles = all_quantiles(
            distributions.places, distributions.prob, distributions.value, shares
        )
        if self.distribution is None:
            return AggregateResult(*moments, quantiles, distributions.error)
        bounded = all_bounded(
            distributions.places, distributions.prob, distributions.value, self.distribution
        )
        return AggregateResult(*moments, quantiles, distributions.error, *bounded)


def plain_result(aggregate: Aggregate, total: Floats, count: npt.NDArray[Any]) -> Floats:
    """Return an aggregate of certain values from their total and their count."""
    if aggregate.function == "count":
        return count.astype(np.float64)
    if aggregate.function != "avg":
        return total
    with np.errstate(invalid="ignore"):
        return total / count


# ---- mixtures: the law of total probability --------------------------------------------------


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
    weight : float64[m], the weights of a mixture sum to 1
    begins : int64[n + 1], start of each mixture
    Mixtures of exact results are exact. Bounds of sampled results are widened so that all bounds of
    a mixture hold together with probability CERTAINTY; their weighted sum bounds the mixture.
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
