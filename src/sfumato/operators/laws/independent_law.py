"""Laws, quantiles and distributions of aggregates over independent tuples that all are inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.kernels.laws.discrete_law import quantiles_of_law, reduce_law
from sfumato.kernels.laws.extreme_law import SURE, cut_alternatives, extreme_law, moments_of_law
from sfumato.kernels.laws.poisson_binomial import law_of_sum
from sfumato.kernels.laws.set_law import absence, quantile_law, sampled, sum_law
from sfumato.operators.laws.aggregate import Aggregate, Floats, Ints, Measured

STATES = 4096  # sums, or pairs (count, sum), that an exact law may tell apart
STEPS = 4_000_000  # of the exact law of a quantile
CERTAINTY = 0.99  # with which a sampled distribution function is within `error`
UNDERFLOW = 1e-300


@dataclass(frozen=True)
class LawOptions:
    """What is wanted of each result beside mean and standard deviation.

    quantiles : shares in [0, 1]    distribution : values at most, or None for no distribution
    seed, samples : of laws that are sampled, because they have too many states
    Raises ValueError for values out of range.
    """

    quantiles: tuple[float, ...] = ()
    distribution: int | None = None
    seed: int = 0
    samples: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantiles", tuple(float(q) for q in self.quantiles))
        if not all(0.0 <= q <= 1.0 for q in self.quantiles):
            raise ValueError(f"`quantiles` must lie in [0, 1]; got {self.quantiles}")
        if self.distribution is not None and _whole(self.distribution) < 1:
            raise ValueError(
                f"`distribution` must be None or a number of values of at least 1; "
                f"got {self.distribution!r}"
            )
        if _whole(self.samples) < 1:
            raise ValueError(f"`samples` must be a number of at least 1; got {self.samples!r}")
        if not -(2**63) <= _whole(self.seed, -(2**64)) < 2**63:
            raise ValueError(f"`seed` must be a whole number of 64 bits; got {self.seed!r}")

    @property
    def error(self) -> float:
        """Distance of a sampled distribution function, with probability CERTAINTY (Dvoretzky,
        Kiefer & Wolfowitz; Massart's constant)."""
        return float(np.sqrt(np.log(2.0 / (1.0 - CERTAINTY)) / (2.0 * self.samples)))

    def law_wanted(self, aggregate: Aggregate) -> bool:
        """Whether moments alone do not answer `aggregate`."""
        everything = bool(self.quantiles) or self.distribution is not None
        return everything or aggregate.function == "quantile"


@dataclass(frozen=True)
class Law:
    """A law on ascending values; the probabilities sum to that of being defined."""

    values: Floats
    prob: Floats
    sampled: bool = False


@dataclass(frozen=True)
class Members:
    """The tuples of one window: offsets, prob, values as in `TupleBatch`, and their indices."""

    offsets: Ints
    prob: Floats
    values: Floats
    index: Ints


def law_of(aggregate: Aggregate, members: Members, options: LawOptions) -> Law:
    """Law of an aggregate over independent tuples.

    Exact for count, min, max and boundary_sum; for sum and avg while there are at most STATES
    states, for quantile up to STEPS steps, or if all tuples are certain; else sampled.
    """
    values = (
        np.zeros(members.prob.size)
        if aggregate.attribute is None
        else np.ascontiguousarray(members.values[aggregate.attribute])
    )
    function = aggregate.function
    if function == "count":
        e = np.clip(1.0 - _absent(members, values), 0.0, 1.0)
        law = law_of_sum(e, UNDERFLOW)
        used = np.flatnonzero(law > 0.0)
        return Law(used.astype(np.float64), law[used])
    if function == "boundary_sum":
        return Law(np.array([_sum_of_means(members, values)]), np.ones(1))
    if function in ("min", "max"):
        return _extreme(1.0 if function == "max" else -1.0, members, values)
    if function == "quantile":
        return _quantile(float(aggregate.argument or 0.0), members, values, options)
    done, at, prob = sum_law(members.offsets, members.prob, values, function == "avg", STATES)
    return Law(at, prob) if done else _sampled(function == "avg", np.nan, members, values, options)


def _absent(members: Members, values: Floats) -> Floats:
    """Probability of each tuple to have no value."""
    n = members.offsets.size - 1
    return np.array([absence(members.offsets, members.prob, values, i) for i in range(n)])


def _sum_of_means(members: Members, values: Floats) -> float:
    there = ~np.isnan(values)
    owner = np.repeat(np.arange(members.index.size), np.diff(members.offsets))[there]
    prob, n = members.prob[there], members.index.size
    weight = np.bincount(owner, prob, n)
    total = np.bincount(owner, prob * values[there], n)
    return float((total[weight > 0.0] / weight[weight > 0.0]).sum())


def _extreme(sign: float, members: Members, values: Floats) -> Law:
    n = members.prob.size
    owner = np.repeat(np.arange(members.index.size), np.diff(members.offsets))
    rest, order = np.ones(members.index.size), np.argsort(-sign * values, kind="stable")
    kept = cut_alternatives(0, n, values, members.prob, owner, rest, order)
    at, prob = np.empty(kept), np.empty(kept)
    begins, counts = np.zeros(1, np.int64), np.array([kept])
    found = extreme_law(sign, begins, counts, order, values, members.prob, owner, rest, at, prob)
    step = -1 if sign > 0 else 1
    return Law(np.ascontiguousarray(at[:found][::step]), np.ascontiguousarray(prob[:found][::step]))


def _quantile(share: float, members: Members, values: Floats, options: LawOptions) -> Law:
    there = values[~np.isnan(values)]
    n = members.index.size
    if not there.size:
        return Law(np.empty(0), np.empty(0))
    if n == members.prob.size == there.size and members.prob.min() > 1.0 - SURE:
        rank = max(int(np.ceil(share * n - 1e-9)), 1)
        return Law(np.partition(there, rank - 1)[rank - 1 : rank], np.ones(1))
    distinct = np.unique(there)
    if distinct.size * n * (n + 1) ** 2 // 2 <= STEPS:
        prob = quantile_law(share, members.offsets, members.prob, values, distinct)
        return Law(distinct[prob > 0.0], prob[prob > 0.0])
    return _sampled(False, share, members, values, options)


def _sampled(
    averaged: bool, share: float, members: Members, values: Floats, options: LawOptions
) -> Law:
    worlds = sampled(
        averaged, share, options.seed, members.index, members.offsets, members.prob, values,
        options.samples,
    )  # fmt: skip
    worlds = worlds[~np.isnan(worlds)]
    at, times = np.unique(worlds, return_counts=True)
    existence = 1.0
    if averaged or not np.isnan(share):
        existence = 1.0 - float(np.prod(_absent(members, values)))
    return Law(at, times * (existence / max(worlds.size, 1)), True)


class Answers:
    """Results of one aggregate, as they are found."""

    def __init__(self, aggregate: Aggregate, options: LawOptions, moments: Floats) -> None:
        """moments : float64[3, r], mean, standard deviation, existence; kept and corrected."""
        self._options = options
        self._from_law = aggregate.function == "quantile"
        self._moments = moments
        r = moments.shape[1]
        self._quantiles = np.full((r, len(options.quantiles)), np.nan)
        self._error, self._moved = np.full(r, np.nan), np.zeros(r)
        self._laws: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))] * r

    def put(self, row: int, law: Law) -> None:
        """The law of a row."""
        options = self._options
        if self._from_law:
            self._moments[:, row] = moments_of_law(law.values, law.prob, law.values.size)
        if law.sampled:
            self._error[row] = options.error
        if options.quantiles:
            shares = np.array(options.quantiles)
            self._quantiles[row] = quantiles_of_law(law.values, law.prob, shares)
        if options.distribution is not None:
            values, prob, moved = reduce_law(law.values, law.prob, options.distribution)
            self._laws[row], self._moved[row] = (values, prob), moved

    def measured(self, order: Ints) -> Measured:
        """The results, rows in another order."""
        mean, stddev, existence = (np.ascontiguousarray(self._moments[k][order]) for k in range(3))
        plain = Measured(mean, stddev, existence, self._quantiles[order], self._error[order])
        if self._options.distribution is None:
            return plain
        laws = [self._laws[row] for row in order.tolist()]
        offsets = np.zeros(len(laws) + 1, np.int64)
        np.cumsum([values.size for values, _ in laws], out=offsets[1:])
        return Measured(
            mean, stddev, existence, plain.quantiles, plain.error, offsets,
            _end_to_end([prob for _, prob in laws]), _end_to_end([values for values, _ in laws]),
            self._moved[order],
        )  # fmt: skip


def _end_to_end(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.empty(0), *parts])


def checked_aggregates(aggregates: Sequence[Aggregate], attributes: int | None) -> int:
    """How many attributes `aggregates` need, or `attributes` if that is given.

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


def _whole(value: object, least: int = 0) -> int:
    """A whole number, or one below `least` for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else least - 1
