"""Laws of aggregates over independent tuples that all are inside, and the results from them."""

from collections.abc import Sequence

import numpy as np

from sfumato.kernels.laws import sampled_worlds
from sfumato.kernels.laws.extreme_law import Passed, cut_alternatives, extreme_law
from sfumato.kernels.laws.order_statistics import (
    order_statistic_law,
    quantile_is_small,
    value_existences,
)
from sfumato.kernels.laws.poisson_binomial import law_of_sum
from sfumato.kernels.laws.sampled_worlds import Drawn
from sfumato.kernels.laws.sum_law import sum_law
from sfumato.kernels.laws.tuples import AttributeTuples, lift
from sfumato.kernels.tolerances import NEGLIGIBLE_COUNT
from sfumato.operators.laws import finite_laws
from sfumato.operators.laws.aggregate import LISTED, Aggregate, Floats, Ints, Measured
from sfumato.operators.laws.finite_laws import FiniteLaws, LawOptions
from sfumato.operators.laws.spreads import (
    STATISTICS,
    exact_statistic,
    is_small,
    sampled_statistics,
    statistic_existences,
)
from sfumato.operators.state.tuple_batch import TupleBatch

MOST_LAWS = 256  # summarised at a time


def with_values(members: TupleBatch, aggregate: Aggregate) -> AttributeTuples:
    """The tuples with the values that an aggregate is over; those of count(*) all have one."""
    if aggregate.attribute is None:
        return AttributeTuples(members.offsets, members.prob, np.zeros(members.prob.size))
    values = np.ascontiguousarray(members.values[aggregate.attribute])
    return AttributeTuples(members.offsets, members.prob, values)


def law_of(aggregate: Aggregate, members: TupleBatch, options: LawOptions) -> FiniteLaws:
    """Law of an aggregate over independent tuples: one law.

    Exact for count, min, max and boundary_sum; for the others while it is small (see
    `finite_laws`), or if all tuples are certain; else sampled, in the worlds of count windows.
    """
    tuples, function = with_values(members, aggregate), aggregate.function
    n = members.index.size
    if function == "count":
        law = law_of_sum(_lifted(tuples)[0], NEGLIGIBLE_COUNT)
        used = np.flatnonzero(law > 0.0)
        return FiniteLaws.exact([(law[used], used.astype(np.float64))])
    if function == "boundary_sum":
        return FiniteLaws.exact([(np.ones(1), _lifted(tuples)[1].sum(keepdims=True))])
    if function in ("min", "max"):
        return FiniteLaws.exact([_extreme(1.0 if function == "max" else -1.0, tuples)])
    if function == "quantile":
        share = float(aggregate.argument or 0.0)
        if quantile_is_small(tuples, 0, n, max(n, 1), finite_laws.MOST_WORK):
            prob, value = order_statistic_law(tuples, 0, n, max(n, 1), share)
            return FiniteLaws.exact([(prob[prob > 0.0], value[prob > 0.0])])
        return _sampled(sampled_worlds.QUANTILE, share, members, tuples, options)
    if function in STATISTICS:
        return _statistic_law(function, members, tuples, options)
    averaged = function == "avg"
    done, prob, value = sum_law(tuples, 0, n, max(n, 1), averaged, finite_laws.MOST_STATES)
    if done:
        return FiniteLaws.exact([(prob, value)])
    what = sampled_worlds.AVERAGE if averaged else sampled_worlds.SUM
    return _sampled(what, 0.0, members, tuples, options)


def _statistic_law(
    function: str, members: TupleBatch, tuples: AttributeTuples, options: LawOptions
) -> FiniteLaws:
    n, head = members.index.size, np.zeros(1, np.int64)
    if function == "count_distinct" and (chances := _value_chances(tuples)) is not None:
        law = law_of_sum(chances, NEGLIGIBLE_COUNT)
        used = np.flatnonzero(law > 0.0)
        return FiniteLaws.exact([(law[used], used.astype(np.float64))])
    if not n or is_small(function, tuples, head, n - 1, n)[0]:
        return FiniteLaws.exact([exact_statistic(function, tuples, 0, n, max(n, 1))])
    drawn = Drawn(tuples, sampled_worlds.tuple_hashes(options.seed, members.index), 0)
    samples = sampled_statistics(function, drawn, head, n - 1, n, options.samples)
    existence = statistic_existences(function, tuples, head, n - 1, n)
    return FiniteLaws.of_samples(samples, existence, False)


def _value_chances(tuples: AttributeTuples) -> Floats | None:
    """Return the probability that each different value is there: float64[values].

    None where a tuple may have one of several values: then these are not independent.
    """
    there = ~np.isnan(tuples.value)
    owner = np.repeat(np.arange(tuples.offsets.size - 1), np.diff(tuples.offsets))[there]
    value, of = np.unique(tuples.value[there], return_inverse=True)
    pairs = np.unique(owner * max(value.size, 1) + of)
    if np.unique(owner).size < pairs.size:
        return None
    rest = np.ones(value.size)  # each tuple's one value; it may be several alternatives
    with_value = _lifted(tuples)[0]
    np.multiply.at(rest, pairs % max(value.size, 1), 1.0 - with_value[pairs // max(value.size, 1)])
    return 1.0 - rest


def _lifted(tuples: AttributeTuples) -> Floats:
    """Each tuple's probability of a value, and the value's mean and variance: float64[3, n]."""
    result = np.empty((3, tuples.offsets.size - 1))
    lift(*tuples, result)
    return result


def _extreme(sign: float, tuples: AttributeTuples) -> tuple[Floats, Floats]:
    n, m = tuples.offsets.size - 1, tuples.prob.size
    owner = np.repeat(np.arange(n), np.diff(tuples.offsets))
    rest, order = np.ones(n), np.argsort(-sign * tuples.value, kind="stable")
    of = Passed(tuples.value, tuples.prob, owner, rest)
    kept = cut_alternatives(0, m, of, order)
    at, prob = np.empty(kept), np.empty(kept)
    begins, counts = np.zeros(1, np.int64), np.array([kept])
    found = extreme_law(sign, begins, counts, order, of, at, prob)
    step = -1 if sign > 0 else 1
    return np.ascontiguousarray(prob[:found][::step]), np.ascontiguousarray(at[:found][::step])


def _sampled(
    what: int, share: float, members: TupleBatch, tuples: AttributeTuples, options: LawOptions
) -> FiniteLaws:
    hashes = sampled_worlds.tuple_hashes(options.seed, members.index)
    samples = sampled_worlds.sample_set(tuples, hashes, what, share, options.samples)
    n, existence = members.index.size, np.ones(1)
    if what != sampled_worlds.SUM:
        existence = value_existences(tuples, np.zeros(1, np.int64), n - 1, n)
    exact = what == sampled_worlds.QUANTILE
    return FiniteLaws.of_samples(samples[None], existence, exact)


class LawfulResults:
    """Results of several aggregates, row by row, with laws where they are wanted.

    moments : float64[r, 3, n], of each aggregate mean, standard deviation and existence of all
        rows; of those in LISTED none are known
    """

    def __init__(
        self, aggregates: Sequence[Aggregate], options: LawOptions, moments: Floats
    ) -> None:
        self._aggregates, self._options, self._moments = aggregates, options, moments
        self.lawful = [r for r, a in enumerate(aggregates) if options.law_wanted(a)]
        self._rows: list[int] = []  # that have laws, in order of `put`
        self._laws: list[list[FiniteLaws]] = [[] for _ in aggregates]  # not summarised yet
        self._parts: list[list[Measured]] = [[] for _ in aggregates]

    def put(self, row: int, members: TupleBatch) -> None:
        """The laws of a row, from the tuples inside."""
        self._rows.append(row)
        for r in self.lawful:
            self._laws[r].append(law_of(self._aggregates[r], members, self._options))
        if len(self._rows) % MOST_LAWS == 0:
            self._summarise()

    def measured(self, order: Ints) -> list[Measured]:
        """The results of these rows, in this order; all or none have laws."""
        self._summarise()
        place = np.empty(self._moments.shape[2], np.int64)
        place[self._rows] = np.arange(len(self._rows))
        results = []
        for r, parts in enumerate(self._parts):
            if parts:
                results.append(Measured.joined(parts).take(place[order]))
            elif order.size:
                mean, stddev, existence = self._moments[r][:, order]
                results.append(self._options.measured((mean, stddev, existence), None))
            else:
                results.append(self._options.nothing())
        return results

    def _summarise(self) -> None:
        for r in self.lawful:
            laws = self._laws[r]
            if laws:
                mean, stddev, existence = self._moments[r][:, self._rows[-len(laws) :]]
                from_law = self._aggregates[r].function in LISTED
                moments = None if from_law else (mean, stddev, existence)
                done = self._options.measured(moments, [FiniteLaws.joined(laws)])
                self._parts[r].append(done)
                self._laws[r] = []


def checked_aggregates(aggregates: Sequence[Aggregate], attributes: int | None) -> int:
    """Number of attributes that `aggregates` need, or `attributes` if that is given.

    Raises TypeError for something else than `Aggregate`, ValueError for too few attributes.
    """
    if not aggregates:
        raise ValueError("`aggregates` must name at least one aggregate; got none")
    for aggregate in aggregates:
        if not isinstance(aggregate, Aggregate):
            raise TypeError(f"`aggregates` must hold Aggregate(...); got {aggregate!r}")
    needed = max(-1 if a.attribute is None else a.attribute for a in aggregates) + 1
    if attributes is None:
        return needed
    if attributes < needed:
        raise ValueError(f"`attributes` must be at least {needed}, as asked for; got {attributes}")
    return attributes
