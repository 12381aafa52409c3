"""Distributions of aggregates over independent tuples that are all inside a window."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sfumato.kernels.distributions.extreme_distribution import (
    PassedValues,
    cut_alternatives,
    extreme_distribution,
)
from sfumato.kernels.distributions.poisson_binomial import distribution_of_sum
from sfumato.kernels.distributions.sampled_worlds import SampledWorlds, draw_worlds, tuple_hashes
from sfumato.kernels.distributions.statistics import (
    SUM,
    exact_distribution,
    result_existences,
    sampled_statistics,
)
from sfumato.kernels.distributions.tuples import AttributeTuples, tuple_moments
from sfumato.kernels.tolerances import NEGLIGIBLE_COUNT
from sfumato.operators.distributions.aggregate import (
    LISTED,
    OVER_TIME,
    Aggregate,
    AggregateResult,
    Floats,
    Ints,
)
from sfumato.operators.distributions.discrete_distributions import (
    OF_VALUES,
    STATISTICS,
    DiscreteDistributions,
    DistributionOptions,
    distribution_limits,
)
from sfumato.operators.row_hash import Hashes
from sfumato.operators.state.tuple_batch import TupleBatch

MAX_DISTRIBUTIONS = 256  # summarised together


def with_values(members: TupleBatch, aggregate: Aggregate) -> AttributeTuples:
    """Return the tuples with the values to aggregate; for count(*), every tuple has a value."""
    if aggregate.attribute is None:
        return AttributeTuples(members.offsets, members.prob, np.zeros(members.prob.size))
    values = np.ascontiguousarray(members.values[aggregate.attribute])
    return AttributeTuples(members.offsets, members.prob, values)


def distribution_of(
    aggregate: Aggregate, members: TupleBatch, options: DistributionOptions
) -> DiscreteDistributions:
    """Return the distribution of an aggregate over independent tuples. The result is exact for
    count, min, max and boundary_sum, and for other functions if the distribution is small (see
    `discrete_distributions`). Other distributions are sampled, in the worlds of count windows."""
    tuples, function = with_values(members, aggregate), aggregate.function
    n = members.index.size
    if function == "count":
        return _count_distribution(_moments_of(tuples)[0])
    if function == "boundary_sum":
        return DiscreteDistributions.exact(
            [(np.ones(1), _moments_of(tuples)[1].sum(keepdims=True))]
        )
    if function in ("min", "max"):
        return DiscreteDistributions.exact([_extreme(1.0 if function == "max" else -1.0, tuples)])
    if function == "count_distinct" and (chances := _value_chances(tuples)) is not None:
        return _count_distribution(chances)
    what, share = STATISTICS.get(function, SUM), float(aggregate.argument or 0.0)
    done, prob, value = exact_distribution(
        what, share, tuples, 0, n, max(n, 1), distribution_limits()
    )
    if done:
        return DiscreteDistributions.exact([(prob, value)])
    existence = result_existences(what, tuples, np.zeros(1, np.int64), np.array([n]), n)
    return sampled_distribution(aggregate, members, options, existence)


def sampled_distribution(
    aggregate: Aggregate, members: TupleBatch, options: DistributionOptions, existence: Floats
) -> DiscreteDistributions:
    """Return the distribution of a statistic in sampled worlds. existence : float64[1], Pr(result).
    Tuples with equal index and equal probabilities have the alternative with the same number."""
    tuples, function = with_values(members, aggregate), aggregate.function
    n, share = members.size, float(aggregate.argument or 0.0)
    drawn = SampledWorlds(tuples, tuple_hashes(options.seed, members.index), 0)
    head, end = np.zeros(1, np.int64), np.array([n])
    what = STATISTICS.get(function, SUM)
    samples = sampled_statistics(what, share, drawn, head, end, n, options.samples)
    return DiscreteDistributions.of_samples(
        samples, existence, function in ("quantile", *OF_VALUES)
    )


def draw_tuples(
    offsets: Ints, prob: Floats, hashes: Hashes, worlds: int
) -> tuple[Ints, Ints, Ints]:
    """Return (tuple, world, place of its alternative) for each world in which a tuple exists.

    offsets : int64[n + 1]    prob : float64[m]    hashes : uint64[n], one per tuple
    Entries are ordered by tuple, then world. Equal hashes result in equal draws.
    """
    return draw_worlds(
        offsets, *(np.require(array, requirements=["C", "W"]) for array in (prob, hashes)), worlds
    )


def _count_distribution(chances: Floats) -> DiscreteDistributions:
    distribution = distribution_of_sum(chances, NEGLIGIBLE_COUNT)
    used = np.flatnonzero(distribution > 0.0)
    return DiscreteDistributions.exact([(distribution[used], used.astype(np.float64))])


def _value_chances(tuples: AttributeTuples) -> Floats | None:
    """Return the probability that each distinct value exists, float64[values], or None if a tuple
    has several possible values, because these values are dependent."""
    there = ~np.isnan(tuples.value)
    owner = np.repeat(np.arange(tuples.offsets.size - 1), np.diff(tuples.offsets))[there]
    value, of = np.unique(tuples.value[there], return_inverse=True)
    pairs = np.unique(owner * max(value.size, 1) + of)
    if np.unique(owner).size < pairs.size:
        return None
    rest = np.ones(value.size)  # each tuple has one value, possibly in several alternatives
    with_value = _moments_of(tuples)[0]
    np.multiply.at(rest, pairs % max(value.size, 1), 1.0 - with_value[pairs // max(value.size, 1)])
    return 1.0 - rest


def _moments_of(tuples: AttributeTuples) -> Floats:
    result = np.empty((3, tuples.offsets.size - 1))
    tuple_moments(*tuples, result)
    return result


def _extreme(sign: float, tuples: AttributeTuples) -> tuple[Floats, Floats]:
    n, m = tuples.offsets.size - 1, tuples.prob.size
    owner = np.repeat(np.arange(n), np.diff(tuples.offsets))
    rest, order = np.ones(n), np.argsort(-sign * tuples.value, kind="stable")
    of = PassedValues(tuples.value, tuples.prob, owner, rest)
    kept = cut_alternatives(0, m, of, order)
    at, prob = np.empty(kept), np.empty(kept)
    begins, counts = np.zeros(1, np.int64), np.array([kept])
    found = extreme_distribution(sign, begins, counts, order, of, at, prob)
    step = -1 if sign > 0 else 1
    return np.ascontiguousarray(prob[:found][::step]), np.ascontiguousarray(at[:found][::step])


def results_of(
    aggregates: Sequence[Aggregate],
    options: DistributionOptions,
    moments: Floats,
    order: Ints,
    members: Callable[[int], TupleBatch],
) -> list[AggregateResult]:
    """Return the results of several aggregates in some rows, with distributions where requested.

    moments : float64[r, 3, n], mean, standard deviation and existence of each aggregate in all
        rows; unused for the functions in LISTED
    order : int64[k], rows    members : function that returns the tuples in a row's window
    """
    if not order.size:
        return [options.no_results() for _ in aggregates]
    wanted = [r for r, of in enumerate(aggregates) if options.needs_distribution(of)]
    parts: list[list[AggregateResult]] = [[] for _ in aggregates]
    for begin in range(0, order.size if wanted else 0, MAX_DISTRIBUTIONS):
        rows = order[begin : begin + MAX_DISTRIBUTIONS]
        found = [
            [distribution_of(aggregates[r], tuples, options) for r in wanted]
            for tuples in map(members, rows.tolist())
        ]
        for r, own in zip(wanted, zip(*found, strict=True), strict=True):
            mean, stddev, existence = moments[r][:, rows]
            known = None if aggregates[r].function in LISTED else (mean, stddev, existence)
            parts[r].append(options.summarise(known, [DiscreteDistributions.concat(own)]))
    for r in range(len(aggregates)):
        if r not in wanted:
            mean, stddev, existence = moments[r][:, order]
            parts[r].append(options.summarise((mean, stddev, existence), None))
    return [AggregateResult.concat(some) for some in parts]


def check_aggregates(config: Any, over_time: bool = False, more: int = 0) -> None:
    """Check the fields `aggregates` and `attributes` of a new config, and set the latter if None.

    over_time : whether the functions in OVER_TIME are computed    more : further attributes
    Raises errors like `checked_aggregates`.
    """
    object.__setattr__(config, "aggregates", tuple(config.aggregates))
    given = None if config.attributes is None else config.attributes - more
    attributes = more + checked_aggregates(config.aggregates, given, over_time)
    object.__setattr__(config, "attributes", attributes)


def checked_aggregates(
    aggregates: Sequence[Aggregate], attributes: int | None, over_time: bool = False
) -> int:
    """Return the number of attributes that `aggregates` need, or `attributes` if given.

    over_time : whether the functions in OVER_TIME are computed
    Raises TypeError for objects other than `Aggregate`, ValueError for too few attributes.
    """
    if not aggregates:
        raise ValueError("`aggregates` must name at least one aggregate; got none")
    for aggregate in aggregates:
        if not isinstance(aggregate, Aggregate):
            raise TypeError(f"`aggregates` must contain Aggregate(...); got {aggregate!r}")
        if aggregate.function in OVER_TIME and not over_time:
            raise ValueError(
                f"{aggregate.function} needs a time window with extents; got a different window"
            )
    needed = max(-1 if a.attribute is None else a.attribute for a in aggregates) + 1
    if attributes is None:
        return needed
    if attributes < needed:
        raise ValueError(
            f"`attributes` must be at least {needed}, the number of attributes in `aggregates`; "
            f"got {attributes}"
        )
    return attributes
