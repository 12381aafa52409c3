"""Aggregates over uncertain count windows, with one answer per arriving tuple."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.discrete_distribution import Distributions
from sfumato.kernels.distributions.tuples import tuple_moments
from sfumato.kernels.windows.count.count_boundary import Boundary, empty_boundary
from sfumato.kernels.windows.count.count_extremes import empty_extremes
from sfumato.kernels.windows.count.count_groups import (
    Groups,
    PackedTuples,
    move_boundaries,
    move_extremes,
    move_sums,
    move_totals,
)
from sfumato.kernels.windows.count.count_moments import MOMENTS, empty_stacks
from sfumato.operators.arguments import NO_LIMIT
from sfumato.operators.arrays import Floats, Ints, grouped
from sfumato.operators.distributions.aggregate import (
    LISTED,
    TOTALLED,
    Aggregate,
    AggregateResult,
    WindowAnswers,
)
from sfumato.operators.distributions.discrete_distributions import (
    DiscreteDistributions,
    DistributionOptions,
    Moments,
    plain_result,
)
from sfumato.operators.distributions.independent_distribution import checked_aggregates
from sfumato.operators.distributions.moment_channels import EXTREMES
from sfumato.operators.state.declared import Part, Value
from sfumato.operators.state.stateful import Operator, Stateful
from sfumato.operators.state.tuple_batch import check_certain, checked_alternatives
from sfumato.operators.windows.count.group_store import GroupStore
from sfumato.operators.windows.count.window_distributions import WindowDistributions, column
from sfumato.operators.windows.uncertain_window import UncertainWindowConfig

SHORT_ROWS, SHORT_HELD = 128, 250  # windows within both limits are rebuilt at each call
MAX_CACHE_BYTES = 256_000_000  # for the groups' cached windows, including sampled worlds


@dataclass(frozen=True)
class CountWindowConfig:
    """Arguments of a `CountWindowAggregate`."""

    rows: int
    confidence: float
    aggregates: tuple[Aggregate, ...]
    max_tuples: int | None = None
    certain: bool = False
    options: DistributionOptions = field(default_factory=DistributionOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "aggregates", tuple(self.aggregates))
        UncertainWindowConfig(self.rows, self.confidence, None, self.max_tuples)

    @property
    def plain(self) -> bool:
        """Return whether the answers are plain totals of the newest rows."""
        totalled = all(of.function in TOTALLED for of in self.aggregates)
        bounded = self.rows > (self.max_tuples or NO_LIMIT)
        return self.certain and totalled and not (self.options.has_distributions or bounded)


@dataclass
class GroupCache(Stateful):
    """Cache of one group between calls, derived from its tuples.

    states : kernel states of the sums, then of the extremes
    arrived : number of the group's arrivals up to which the cache is valid
    worlds : sampled worlds, by `WindowDistributions`
    """

    boundary: Boundary
    states: list[Any]
    arrived: int = -1
    worlds: dict[Any, Any] = field(default_factory=dict)
    size: int = 0

    def recount_bytes(self) -> int:
        """Update `size`, in bytes, and return the increase."""
        before, self.size = self.size, self.nbytes
        return self.size - before


class CountWindowAggregate(Operator):
    """Aggregates over the `rows` newest existing tuples in the window W(U, w, alpha), by group.

    rows, confidence, max_tuples : as for `UncertainWindow`
    certain : whether every tuple exists with one value. Counts, sums, averages, minima and maxima
        are then computed without distributions, in O(1) per arrival
    options : quantiles, distribution, seed, samples, see `DistributionOptions`

    An answer covers exactly the `rows` newest existing tuples among the held tuples. Means and
    standard deviations of count, sum, avg, min and max are exact. Distributions of count, min and
    max are exact, as are distributions of sum and avg with at most 4,096 states, and of quantile
    for small windows. Other distributions are sampled from `samples` worlds, drawn from (seed,
    index of the tuple in its group), and have an `error`. Outcomes rarer than 1e-15 may be omitted,
    and sums within 1e-12 are treated as equal. Answers do not depend on how arrivals are split into
    calls, nor on snapshot and restore.

    Cost per arrival: O(sqrt(rows)) amortised for sum, count and avg; O(c^2 + c sqrt(rows)) for min
    and max, where c, a few dozen, is the number of most extreme values down to a probability of
    1e-17 (see `slide_extremes`); O(held * rows * g) for avg while g tuples with a NaN are held.
    Distributions cost O(rows) for count, O(held * 4,096) for an exact sum, at most 4 million cell
    updates for a quantile, and O(samples log samples) in sampled worlds.
    A call visits all held tuples of its groups. Derived state is rebuilt for short windows, and
    cached for long windows of the groups with the latest arrivals, in at most MAX_CACHE_BYTES.
    Source: Dallachiesa et al. (2015), sections 4 and 7.3, for windows and boundary_sum.

    >>> total = CountWindowAggregate(2, 0.7, [Aggregate("sum", 0)])
    >>> answers = total.process([0, 0, 0], [0, 1, 2, 3], [1.0, 0.5, 1.0], [[8.0], [4.0], [2.0]])
    >>> answers.results[0].mean.tolist(), answers.results[0].stddev.tolist()
    ([8.0, 10.0, 8.0], [0.0, 2.0, 2.0])
    """

    kind, version = "count_window_aggregate", 8
    config: CountWindowConfig
    flattened_records = ("options",)
    state = {"overflow": Value(low=0), "store": Part()}

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.rows, self.options = self.config.rows, self.config.options
        self.aggregates = self.config.aggregates
        # Number of used columns of `values`.
        self.attributes = checked_aggregates(self.aggregates, None)
        self.overflow = 0  # tuples of all groups evicted so far only because of `max_tuples`
        self._limit = min(self.rows, self.config.max_tuples or self.rows)
        self._plan(list(dict.fromkeys(self.aggregates)))
        self._middles = len(self._sums) + len(self._extremes)
        integers = self._middles + len(self._bounds) + len(self._distributions)
        self._plain = self.config.plain
        sizes = (0, 0) if self._plain else (integers, self._middles)
        self.store = GroupStore(self.attributes, *sizes)
        self._scratch = self._new_cache()
        self._caches: dict[int, GroupCache] = {}  # cache by group, latest arrival last
        self._cached_bytes = 0

    def _plan(self, asked: list[Aggregate]) -> None:
        """Choose the required sums or counts, extremes and distributions, without duplicates."""
        distributions = self.options.has_distributions
        self._averages = [Aggregate("sum", a.attribute) for a in asked if a.function == "avg"]
        counted = [a for a in asked if a.function in ("sum", "count")]
        sums = [a for a in counted if a.attribute is not None] + self._averages
        # Every sum also counts the tuples, so count(*) is needed only if there is no sum.
        self._sums = list(dict.fromkeys(sums if sums else counted))
        self._counts = distributions and any(a.function == "count" for a in asked)
        self._extremes = [a for a in asked if a.function in EXTREMES]
        self._bounds = [a for a in asked if a.function == "boundary_sum"]
        large = ("sum", "avg", "count") if distributions else ()
        self._distributions = [
            WindowDistributions(a, self.rows, self._limit, self.options)
            for a in asked
            if a.function in LISTED or (a.function in large and a.attribute is not None)
        ]

    def process(
        self,
        codes: npt.ArrayLike,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
    ) -> WindowAnswers:
        """Process n tuples in order. Returns the answer of the group's window after each tuple.

        codes : int64[n] >= 0, the tuples' groups; offsets : int64[n + 1], start of each tuple's
        alternatives; prob : float64[m]; values : float64[m, a], NaN for no value
        Every tuple has alternatives, whose probabilities sum to at most 1 + 1e-9.
        Raises TypeError or ValueError, with state unchanged, for inconsistent arrays.
        """
        group_of = np.require(codes, np.int64, ["C", "W"])
        n = group_of.size
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        if self._plain:
            check_certain(n, prob)
        batch = PackedTuples(offsets, np.minimum(prob, 1.0), table)
        if not n:
            nothing = [self.options.no_results() for _ in self.aggregates]
            return WindowAnswers(group_of, nothing, group_of)
        order, starts, present = grouped(group_of)
        slots = self.store.slots(present.tolist())
        groups = self.store.join(slots, batch, order, starts)
        sizes = np.diff(starts)
        by_group, before = np.arange(1, n + 1), groups.first + np.diff(groups.begin) - starts[1:]
        by_group += before if present.size == 1 else np.repeat(before, sizes)
        numbers = by_group
        if present.size > 1:  # otherwise the tuples are in order
            numbers = np.empty(n, np.int64)
            numbers[order] = by_group
        first = np.repeat(groups.first, sizes)
        if self._plain:
            heads = np.maximum(by_group - self.rows, 0) - first
            self.store.keep(slots, groups, heads[starts[1:] - 1])
            held = np.minimum(numbers, self.rows)
            return WindowAnswers(held, self._plain_results(groups, order, heads, held), numbers)
        heads, measured = self._move(slots, groups, present.tolist())
        self.store.keep(slots, groups, heads[starts[1:] - 1])
        held = by_group - first - heads
        if present.size > 1:
            back = np.empty(n, np.int64)
            back[order] = np.arange(n)
            held = held[back]
            measured = {of: result.take(back) for of, result in measured.items()}
        return WindowAnswers(held, [measured[of] for of in self.aggregates], numbers)

    def forget(self, codes: npt.ArrayLike) -> None:
        """Delete groups whose input has ended; unknown codes are ignored."""
        self.store.forget(codes)
        for code in np.asarray(codes).tolist():
            self._cached_bytes -= self._caches.pop(code, self._scratch).size

    def _plain_results(
        self, groups: Groups, order: Ints, heads: Ints, held: Ints
    ) -> list[AggregateResult]:
        totals: dict[tuple[float, int | None], tuple[Floats, Ints]] = {}
        results = []
        for of in self.aggregates:
            if of.attribute is None:
                mean = held.astype(np.float64)
            else:
                what = EXTREMES.get(of.function, 0.0), of.attribute
                if what not in totals:
                    values = groups.tuples.values[of.attribute]
                    totals[what] = self._certain_totals(groups, values, what[0], order, heads)
                mean = plain_result(of, *totals[what])
            results.append(self.options.certain_results(mean))
        return results

    def _certain_totals(
        self, groups: Groups, values: Floats, sign: float, order: Ints, heads: Ints
    ) -> tuple[Floats, Ints]:
        """Return totals and numbers of values, by `move_totals`; the windows have equal sizes, so
        front stacks end at multiples of the size."""
        found = np.empty(order.size), np.empty(order.size, np.int64)
        arrived = groups.first + np.diff(groups.begin) - np.diff(groups.arrivals)
        middle = np.maximum(arrived - 1, 0) // self._limit * self._limit
        move_totals(groups, values, sign, order, heads, middle, *found)
        return found

    def _move(
        self, slots: Ints, groups: Groups, codes: list[int]
    ) -> tuple[Ints, dict[Aggregate, AggregateResult]]:
        """Return the window start and answers after each arrival, by group."""
        n, store, config = int(groups.arrivals[-1]), self.store, self.config
        status = np.ascontiguousarray(store.status[slots, 1:])
        integers = np.ascontiguousarray(store.integers[:, slots])
        triples = np.ascontiguousarray(store.triples[:, slots])
        overflow, heads = status[:, 0].sum(), np.empty(n, np.int64)
        rule = self.rows, float(config.confidence), config.max_tuples or NO_LIMIT
        sizes, out = (self.rows, self._limit), np.empty((len(self._sums), n), MOMENTS)
        wanted = [(self._counts and k == 0) or k >= len(out) for k in range(self._middles)]
        distributions = [
            Distributions(np.zeros(n + 1 if each else 0, np.int64), np.empty(0), np.empty(0))
            for each in wanted
        ]
        columns = [column(groups, of) for of in (*self._sums, *self._extremes)]
        for span, cache, fresh in self._group_ranges(slots, groups, codes):
            cache.boundary = move_boundaries(
                cache.boundary, groups, span, fresh, rule, status, heads
            )
            for k, value in enumerate(columns):
                given = groups, value, span, fresh, sizes, heads, integers[k], triples[k]
                cache.states[k], distributions[k] = (
                    move_sums(cache.states[k], *given, out[k], distributions[k])
                    if k < len(out)
                    else move_extremes(cache.states[k], *given, distributions[k])
                )
        store.status[slots, 1:] = status
        self.overflow += int(status[:, 0].sum() - overflow)
        measured = self._results(groups, heads, codes, integers, out, distributions)
        store.integers[:, slots], store.triples[:, slots] = integers, triples
        return heads, measured

    def _results(
        self, groups: Groups, heads: Ints, codes: list[int], integers: Ints, out: np.ndarray,
        found: list[Distributions],
    ) -> dict[Aggregate, AggregateResult]:  # fmt: skip
        n, one, exact = heads.size, np.ones(heads.size), np.full(heads.size, np.nan)
        moments: dict[Aggregate, Moments] = {}
        distributions: dict[Aggregate, Iterable[DiscreteDistributions]] = {}
        for of, row in zip(self._sums, out, strict=True):
            moments[of] = row["sum_mean"], np.sqrt(row["sum_variance"]), one
            if self.config.certain and of.function == "sum":  # exact for integers
                given = groups, column(groups, of), 0.0, np.arange(n), heads
                moments[of] = self._certain_totals(*given)[0], np.zeros(n), one
            moments[Aggregate("count")] = row["count"], np.sqrt(row["count_variance"]), one
            if of in self._averages:
                average = row["average"], np.sqrt(row["average_variance"])
                moments[Aggregate("avg", of.attribute)] = *average, row["average_existence"]
        listed = [
            DiscreteDistributions(places, prob[: places[-1]], value[: places[-1]], exact)
            for places, prob, value in found
            if places.size
        ]
        number = listed.pop(0) if self._counts else None
        if number is not None:
            distributions[Aggregate("count")] = [number]
        distributions |= {of: [own] for of, own in zip(self._extremes, listed, strict=True)}
        for k, of in enumerate(self._bounds, self._middles):
            per_tuple = np.empty((3, groups.existence.size))
            tuple_moments(groups.tuples.offsets, groups.tuples.prob, column(groups, of), per_tuple)
            total, counts = np.empty(n), np.empty(n, np.int64)
            move_totals(groups, per_tuple[1], 0.0, np.arange(n), heads, integers[k], total, counts)
            moments[of] = total, np.zeros(n), one
            distributions[of] = [DiscreteDistributions(np.arange(n + 1), one, total, exact)]
        for k, distribution in enumerate(self._distributions, self._middles + len(self._bounds)):
            known = number if distribution.of.function == "count" else None
            distributions[distribution.of] = distribution.distributions(
                groups, heads, integers[k], known, lambda j: self._cache(codes[j]).worlds
            )
        return {
            of: self.options.summarise(moments.get(of), distributions.get(of))
            for of in dict.fromkeys(self.aggregates)
        }

    def _group_ranges(
        self, slots: Ints, groups: Groups, codes: list[int]
    ) -> Iterator[tuple[tuple[int, int], GroupCache, bool]]:
        """Yield (range of groups, cache, whether to rebuild it); short windows share one cache."""
        alone = np.diff(groups.begin) > SHORT_HELD
        if self.rows > SHORT_ROWS:
            alone[:] = True
        places = np.flatnonzero(alone)
        cuts = np.unique(np.concatenate([[0, alone.size], places, places + 1]))
        for first, end in pairwise(cuts.tolist()):
            if not alone[first]:
                yield (first, end), self._scratch, True
                continue
            cache, arrived = self._cache(codes[first]), int(self.store.status[slots[first], 0])
            if cache.arrived < 0:
                cache.states = self._new_cache().states
            fresh = cache.arrived != arrived
            cache.arrived = arrived + int(groups.arrivals[end] - groups.arrivals[first])
            yield (first, end), cache, fresh

    def _new_cache(self) -> GroupCache:
        sums = [empty_stacks(self.rows, of in self._averages) for of in self._sums]
        signs = [EXTREMES[of.function] for of in self._extremes]
        return GroupCache(
            empty_boundary(), [*sums, *(empty_extremes(self.rows, sign) for sign in signs)]
        )

    def _cache(self, code: int) -> GroupCache:
        """Return a group's cache and mark it as the latest; evict the oldest caches."""
        cache = self._caches.pop(code, None) or GroupCache(empty_boundary(), [])
        self._cached_bytes += next(reversed(self._caches.values()), cache).recount_bytes()
        while self._cached_bytes > MAX_CACHE_BYTES and self._caches:
            self._cached_bytes -= self._caches.pop(next(iter(self._caches))).size
        self._caches[code] = cache
        return cache
