"""Items with scores, probabilities and generation rules: checked, ranked, ready for the kernels."""

import math
import operator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.laws.tuples import survey
from sfumato.kernels.ranking.best_of_columns import expected_keys
from sfumato.kernels.ranking.generation_rules import Factors, rule_factors, rule_masses, undecided
from sfumato.operators.arguments import EXCESS
from sfumato.operators.arrays import Floats, Ints, offsets_of
from sfumato.operators.laws.poisson_binomial import as_floats

SAMPLED = 8  # the limit of the front is guessed from one item in so many


class RuleMassError(ValueError):
    """The members of a rule, or the alternatives of a tuple, have more than probability 1."""


class Factored(NamedTuple):
    """The items in rank order as far as they matter for fewer than k above, and their factors."""

    order: Ints  # int64[m], the items' indices
    factors: Factors
    begin: int  # before it at least `least` items can only be above with negligible probability
    end: int  # from it on, fewer than `most` can


class RankedItems:
    """Items to rank: alternatives of tuples, or whole tuples of one alternative.

    scores : float array [n], finite. Higher ranks higher, unless `ascending`; equal scores rank
        in order of index (arrival)
    prob : float array [n] in (0, 1] (up to 1 + 1e-9, clipped)
    exclusive : int array [n] or None: items of one id >= 0 exclude each other (they are of one
        rule); negative: no rule
    tuples : int array [n] or None: the tuple each item is an alternative of, counted from 0 (every
        item its own). The alternatives of a tuple exclude each other, and share one rule if any

    Raises ValueError for arrays of other dimensions or lengths, scores that are not finite,
    probabilities outside (0, 1], a rule or tuple whose probabilities sum to more than 1 + 1e-9
    (it is named), and a tuple in two rules.
    """

    def __init__(
        self,
        scores: npt.ArrayLike,
        prob: npt.ArrayLike,
        exclusive: npt.ArrayLike | None = None,
        tuples: npt.ArrayLike | None = None,
        *,
        ascending: bool = False,
    ) -> None:
        self.scores, self.prob = as_floats("scores", scores), as_floats("prob", prob)
        self.items = self.scores.size
        _same_length("prob", self.prob, self.items)
        if not np.isfinite(self.scores).all():
            bad = int(np.flatnonzero(~np.isfinite(self.scores))[0])
            raise ValueError(
                f"`scores` must be finite; got {self.scores[bad]} at index {bad}: "
                "leave such items out"
            )
        self.prob = as_probabilities(self.prob)
        self.single = tuples is None  # every item is a tuple
        self.item_tuple, self.tuples = self._tuples(tuples)
        self.rule, self.rules = self._rules(exclusive)
        self._key = self.scores if ascending else -self.scores
        self._order: Ints | None = None
        self._mean: Floats | None = None

    @property
    def order(self) -> Ints:
        """Indices of all items, best rank first: int64[n]."""
        if self._order is None:
            self._order = np.argsort(self._key, kind="stable")
        return self._order

    def factored(self, least: int, most: int) -> Factored:
        """The items among which fewer than `most` may be above, with their factors.

        Cost: O(n + m log m) for the m items that matter: the others are not even sorted.
        """
        # Where Chernoff's bound cuts, were all probabilities their mean.
        enough = most + 40 + math.sqrt(80.0 * most + 1600.0)
        wanted = 1.4 * enough * self.items / max(self.prob.sum(), 1e-300) + 32
        while True:
            order = self._front(wanted)
            prob, rule = self.prob[order], self.rule[order]
            factors = rule_factors(prob, rule, self.rules)
            begin, end = undecided(factors, least, most)
            if end < order.size or order.size == self.items:
                return Factored(order, factors, begin, end)
            wanted *= 3  # improbable items in front, or an unlucky guess

    def by_tuple(self, values: Floats, order: Ints) -> Floats:
        """Sums over each tuple's items of `values`, float64[len(order), ...] of items `order`."""
        out = np.zeros((self.tuples, *values.shape[1:]))
        if self.single:
            out[order] = values
        else:
            np.add.at(out, self.item_tuple[order], values)
        return out

    def units(self) -> tuple[Ints, int]:
        """A rule for every item, those without one alone in theirs; and how many there are."""
        alone = self.rules + np.arange(self.items)
        return np.where(self.rule >= 0, self.rule, alone), self.rules + self.items

    def key_of(self, tuples: Ints) -> Floats:
        """Order of tuples that are equal in all else, the least first: the expected score, given
        that the tuple exists, to 12 digits (negative unless `ascending`)."""
        if self.single:
            return self._key[tuples]
        if self._mean is None:
            order = np.argsort(self.item_tuple, kind="stable")
            begin = offsets_of(np.bincount(self.item_tuple, minlength=self.tuples))
            self._mean = expected_keys(self._key[order], self.prob[order], begin)
        return self._mean[tuples]

    def ordered_tuples(self, order: Ints) -> tuple[Ints, Ints, Ints]:
        """Tuples with items among `order`, by expected score, then by number; and their items.

        Returns tuples int64[t], begins int64[t + 1] and members, places in `order`:
        members[begins[i] : begins[i + 1]] are those of tuples[i].
        """
        owner = self.item_tuple[order]
        tuples, place = np.unique(owner, return_inverse=True)
        by_rank = np.argsort(self.key_of(tuples), kind="stable")
        rank = np.empty_like(by_rank)
        rank[by_rank] = np.arange(by_rank.size)
        members = np.argsort(rank[place], kind="stable")
        counts = np.bincount(rank[place], minlength=tuples.size)
        return tuples[by_rank], np.concatenate([[0], np.cumsum(counts)]), members

    def in_rank_order(self, tuples: Ints) -> Ints:
        """The given tuples (ascending numbers), by their expected score, then by number."""
        return tuples[np.argsort(self.key_of(tuples), kind="stable")]

    def _front(self, wanted: float) -> Ints:
        """About `wanted` items of best rank, and all that tie with the last of them, in order."""
        if self._order is not None or wanted >= 0.6 * self.items:
            return self.order
        every = self._key[::SAMPLED]  # a guess at the limit: looking for it takes longer
        place = min(int(wanted / SAMPLED), every.size - 1)
        limit = np.partition(every, place)[place]
        front = np.flatnonzero(self._key <= limit)
        return front[np.argsort(self._key[front], kind="stable")]

    def _tuples(self, tuples: npt.ArrayLike | None) -> tuple[Ints, int]:
        if tuples is None:
            return np.arange(self.items), self.items
        owner = as_whole_numbers("tuples", tuples, self.items)
        count = int(owner.max(initial=-1)) + 1
        if owner.min(initial=0) < 0 or count > owner.size or not np.bincount(owner).all():
            raise ValueError(
                "`tuples` must number the tuples 0, 1, 2, ... without gaps; "
                f"got numbers from {owner.min()} to {owner.max()} for {owner.size} items"
            )
        return owner, count

    def _rules(self, exclusive: npt.ArrayLike | None) -> tuple[Ints, int]:
        """Every item's rule, numbered from 0 without large gaps; -1 for none."""
        if exclusive is None:
            if self.single:
                return np.full(self.items, -1), 0
            self._check_masses(self.item_tuple, self.tuples, None, "tuple")
            return self.item_tuple, self.tuples
        ids = as_whole_numbers("exclusive", exclusive, self.items)
        rule, names = _dense(ids)
        count = int(rule.max(initial=-1)) + 1
        self._check_masses(rule, count, names, "rule")
        if not self.single:
            self._check_one_rule(ids)
            rule = np.where(rule >= 0, rule, count + self.item_tuple)
            count += self.tuples
            self._check_masses(rule, count, None, "tuple", count - self.tuples)
        return rule, count

    def _check_masses(
        self, rule: Ints, count: int, names: Ints | None, what: str, base: int = 0
    ) -> None:
        masses = rule_masses(self.prob, rule, count)
        if masses.max(initial=0.0) > 1.0 + EXCESS:
            worst = int(masses.argmax())
            name = worst - base if names is None else names[worst]
            raise RuleMassError(
                f"the members of {what} {name} exclude each other, so their probabilities must "
                f"sum to at most 1; got {masses[worst]:.12g}: scale or split them"
            )

    def _check_one_rule(self, ids: Ints) -> None:
        ids = np.maximum(ids, -1)
        first = np.full(self.tuples, -2)
        first[self.item_tuple[::-1]] = ids[::-1]
        wrong = np.flatnonzero(first[self.item_tuple] != ids)
        if wrong.size:
            raise ValueError(
                f"tuple {self.item_tuple[wrong[0]]} has alternatives in different rules: "
                "all alternatives of a tuple need the same value of `exclusive`"
            )


def checked_k(k: Any) -> int:
    """`k` as an int of at least 1; ValueError for anything else."""
    try:
        number = operator.index(k)
    except TypeError:
        number = 0
    if isinstance(k, (bool, np.bool_)) or not 1 <= number < 2**31:
        raise ValueError(f"`k` must be a whole number of tuples, at least 1; got {k!r}")
    return number


def as_probabilities(prob: Floats) -> Floats:
    """`prob` if all lie in (0, 1], with values up to 1 + 1e-9 clipped; else ValueError."""
    bad, above, _, possible = survey(prob, 1.0 + EXCESS)
    if bad >= 0 or possible < prob.size:
        bad = bad if bad >= 0 else int(np.flatnonzero(prob <= 0.0)[0])
        raise ValueError(
            f"`prob` must hold probabilities in (0, 1]; got {prob[bad]} at index {bad}: "
            "reject or repair such items first"
        )
    return np.minimum(prob, 1.0) if above else prob


def as_whole_numbers(name: str, values: npt.ArrayLike, length: int) -> Ints:
    """`values` as int64[length], a copy; ValueError naming them if they are no such list."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"`{name}` must be whole numbers; got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension; got {array.ndim}")
    array = np.array(array, dtype=np.int64)
    _same_length(name, array, length)
    return array


def _same_length(name: str, array: np.ndarray, length: int) -> None:
    if array.size != length:
        raise ValueError(
            f"`{name}` must have {length} entries, as there are tuples; got {array.size}"
        )


def _dense(ids: Ints) -> tuple[Ints, Ints | None]:
    """Ids as numbers from 0 (-1 where negative), and the ids by number unless they are the same."""
    if ids.max(initial=-1) < 4 * ids.size + 1024:
        return np.maximum(ids, -1), None
    names, rule = np.unique(ids, return_inverse=True)
    negative = int(np.searchsorted(names, 0))
    return np.maximum(rule.reshape(-1) - negative, -1), names[negative:]
