"""Values of tuples and of vectors of tuples in a ranking.

Tuples are valued by Pr_k, rank probabilities, expected ranks or ranking functions; vectors (U-Topk
of tuples with several alternatives) by a best-first search over sequences of tuples.

A vector is a sequence of tuples; its probability is that of the worlds in which just these, in this
order, are the top k, whichever alternatives they have. Let F(x) be the probability that the tuples
of a sequence exist in this order, the last one as item x. Adding tuple t gives

    F'(y) = Pr(y) * (sum of F(x) over the items x that rank above y)     for the items y of t

and the sequence is the top of a world iff no other tuple exists above its last item: the sum over x
of F(x) times the product, over the rules that the sequence has no member of, of 1 - the mass of the
rule above x. A longer sequence is the top of a subset of the same worlds, so that its probability
bounds what can follow, and the first complete vector that the search takes is the answer.

Source: this project; the definition is of Soliman, Ilyas and Chang (2007), named in D, section 2.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels.laws.tuples import reaches_all
from sfumato.kernels.ranking.best_of_columns import ranked_as
from sfumato.kernels.ranking.rank_law import (
    expected_rank_sums,
    exponential_ranks,
    likeliest_at_ranks,
    rank_laws,
    weigh_ranks,
)
from sfumato.kernels.ranking.top_k_probability import Tails, sum_by_tuple, top_k_tails
from sfumato.kernels.ranking.u_topk import likeliest_vector
from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.ranking.ranked_items import RankedItems, checked_k

SMALL_LEAF_K = 8  # from so many k on, smaller leaves of the tree are quicker
BLOCKS = (32, 16)


class Likeliest(NamedTuple):
    """Tuples with the probability that each of them answers the question."""

    indices: Ints
    probability: Floats


class Vector(NamedTuple):
    """A top-k vector: items in rank order, and the probability that just they are the top k."""

    indices: Ints
    probability: float
    log_probability: float


def probabilities(items: RankedItems, k: Any) -> Floats:
    """top_k_probabilities of checked items."""
    wanted = np.array([checked_k(each) for each in np.asarray(k).reshape(-1).tolist()], np.int64)
    if np.ndim(k) > 1 or not wanted.size:
        raise ValueError(f"`k` must be a whole number or a list of them; got {k!r:.80}")
    ks, column = np.unique(wanted, return_inverse=True)
    if items.single:  # straight into place: with many k, a copy takes longer than the kernel
        out = np.zeros((items.tuples, ks.size))
        _tails(items, ks, out)
    else:
        tuples, values = front_probabilities(items, ks)
        out = np.zeros((items.tuples, ks.size))
        out[tuples] = values
    if not np.array_equal(ks, wanted):
        out = out[:, column.reshape(-1)]
    return out[:, 0] if np.ndim(k) == 0 else out


def front_probabilities(items: RankedItems, ks: Ints) -> tuple[Ints, Floats]:
    """The tuples whose Pr_k is not negligible, by expected score, and float64[t, c] of their Pr_k.

    ks : int64[c], ascending, each at least 1.  There are at least min(k, all) such tuples.
    """
    order, tails = _tails(items, ks)
    if items.single:
        return order, tails
    tuples, values = sum_by_tuple(items.item_tuple[order], items.tuples, tails)
    by_score = np.lexsort((tuples, items.key_of(tuples)))
    return tuples[by_score], values[by_score]


def _tails(items: RankedItems, ks: Ints, out: Floats | None = None) -> tuple[Ints, Floats]:
    """The items whose Pr_k is not negligible, in rank order, and their Pr_k.

    out : float64[items, c] of zeros, filled and returned; None: a row for each of these only
    """
    ranked = items.factored(int(ks[0]), int(ks[-1]))
    block, end = BLOCKS[ks.size >= SMALL_LEAF_K], ranked.end
    place = ranked.order if out is not None else np.arange(end)
    out = np.zeros((end, ks.size)) if out is None else out
    top_k_tails(ranked.factors, ranked.begin, end, block, Tails(ks, place, out))
    return ranked.order[:end], out


def best(items: RankedItems, values: Floats, k: int, *, least: bool = False) -> Likeliest:
    """The k tuples of greatest (or least) value; ties, to 12 digits, by expected score."""
    worth = rounded(values if least else -values)
    near = np.arange(items.tuples)
    if k < items.tuples:
        near = np.flatnonzero(worth <= np.partition(worth, k - 1)[k - 1])
    tuples = items.in_rank_order(near)
    chosen = tuples[np.argsort(worth[tuples], kind="stable")[:k]]
    return Likeliest(chosen, values[chosen])


def at_least(tuples: Ints, values: Floats, probability: float) -> Likeliest:
    """Tuples in rank order whose value reaches a probability (see `reaches`), greatest
    first; ties, to within 1e-12, in that order."""
    enough = np.flatnonzero(reaches_all(values, probability))
    chosen = enough[np.argsort(-ranked_as.py_func(values[enough]), kind="stable")]
    return Likeliest(tuples[chosen], as_certain(values[chosen]))


def rounded(values: Floats) -> Floats:
    """Values to 12 significant digits: what is equal on paper is equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)


def as_certain(probability: Floats) -> Floats:
    """Probabilities, 1 where they miss it by roundings alone (see `reaches`)."""
    return np.where(reaches_all(probability, np.inf), 1.0, probability)


def vector(items: RankedItems, k: int, full: bool = False) -> Vector:
    """u_topk of checked items."""
    unit, units = items.units()
    order = items.order
    places, chance, log = likeliest_vector(items.prob[order], unit[order], units, k, full)
    return Vector(order[places], chance, log)


def likeliest_ranks(items: RankedItems, k: int) -> Likeliest:
    """u_kranks of checked items."""
    ranked = items.factored(1, k)
    laws = rank_laws(ranked.factors, ranked.end, k)
    tuples, begins, members = items.ordered_tuples(ranked.order[: ranked.end])
    place, chance = likeliest_at_ranks(*laws, begins, members, k)
    return Likeliest(np.where(place >= 0, tuples[place], -1) if tuples.size else place, chance)


def rank_means(items: RankedItems) -> Floats:
    """expected_ranks of checked items."""
    order = items.order
    return expected_rank_sums(
        items.prob[order], items.rule[order], items.rules, items.item_tuple[order], items.tuples
    )


def exponential(items: RankedItems, alpha: float) -> Floats:
    """prfe of checked items."""
    order = items.order
    values = exponential_ranks(items.prob[order], items.rule[order], items.rules, alpha)
    return items.by_tuple(values, order)


def weighed(items: RankedItems, omega: Floats) -> Floats:
    """prf of checked items and weights."""
    ranked = items.factored(1, omega.size)
    laws = rank_laws(ranked.factors, ranked.end, omega.size)
    return items.by_tuple(weigh_ranks(*laws, omega), ranked.order[: ranked.end])


MOST_SEQUENCES = 20_000  # looked at for one vector: about two seconds
EQUAL_DIGITS = 12  # probabilities that agree in so many are equal


class TooManyVectorsError(ValueError):
    """The most probable vector was not found among MOST_SEQUENCES sequences."""


class _Items:
    """Items in rank order as far as the top k can reach, and how the rules exclude them."""

    def __init__(self, items: RankedItems, k: int) -> None:
        ranked = items.factored(k, k)
        order = ranked.order[: ranked.end]
        units, _ = items.units()
        self.prob = items.prob[order]
        self.tuples, self.owner = np.unique(items.item_tuple[order], return_inverse=True)
        rules, self.unit = np.unique(units[order], return_inverse=True)
        self.unit_of = np.empty(self.tuples.size, np.int64)
        self.unit_of[self.owner] = self.unit
        own = np.zeros((rules.size, order.size))
        own[self.unit, np.arange(order.size)] = self.prob
        above = np.minimum(np.cumsum(own, axis=1) - own, 1.0)
        self.log, self.never = _logs(1.0 - above)
        self.all_log, self.all_never = self.log.sum(axis=0), self.never.sum(axis=0)
        # Of all items, also those behind: that a rule has no member at all.
        masses = np.minimum(np.bincount(units, items.prob), 1.0)
        log, never = _logs(1.0 - masses)
        self.absent_log, self.absent_never = log[rules], never[rules]
        self.rest = float(log.sum()), int(never.sum())
        self.place = _tie_places(items, self.tuples)

    def chances(self, sequence: tuple[int, ...]) -> tuple[Floats, Bools]:
        """Pr(the sequence and then this tuple are the top), of each tuple; and which may follow."""
        arrived = np.ones(self.prob.size)  # F summed over the items above each
        for t in sequence:
            last = np.where(self.owner == t, self.prob * arrived, 0.0)
            arrived = np.cumsum(last) - last
        taken = np.unique(self.unit_of[list(sequence)])
        free = ~np.isin(self.unit_of, taken)
        columns = np.arange(self.prob.size)
        log = self.all_log - self.log[taken].sum(axis=0)
        never = self.all_never - self.never[taken].sum(axis=0)
        counted = free[self.owner]  # of these the item's own rule is among the others: taken out
        log = log - np.where(counted, self.log[self.unit, columns], 0.0)
        never = never - np.where(counted, self.never[self.unit, columns], 0)
        worlds = self.prob * arrived * np.exp(log) * (never <= 0)
        found = np.zeros(self.tuples.size)
        np.add.at(found, self.owner, np.where(counted, worlds, 0.0))
        return found, free

    def alone(self, sequence: tuple[int, ...]) -> float:
        """Pr(just the tuples of a sequence exist, in this order)."""
        arrived, inside = np.ones(self.prob.size), 1.0
        for t in sequence:
            last = np.where(self.owner == t, self.prob * arrived, 0.0)
            arrived, inside = np.cumsum(last) - last, float(last.sum())
        taken = np.unique(self.unit_of[list(sequence)])
        log = self.rest[0] - float(self.absent_log[taken].sum())
        never = self.rest[1] - int(self.absent_never[taken].sum())
        return inside * math.exp(log) if never <= 0 else 0.0


def vector_of_tuples(items: RankedItems, k: int, full: bool = False) -> Vector:
    """The most probable top-k vector of tuples; its `indices` are tuples, in rank order.

    full : whether only vectors of k tuples count; else a world of fewer has all of them
    Of vectors that are equally probable, to 12 digits, the one whose tuples have the better places
    by expected score, first place first.
    Raises TooManyVectorsError where the answer is not found among MOST_SEQUENCES sequences.
    Cost: O(k items) for each sequence that is more probable than the answer.
    """
    about = _Items(items, k)
    # The most probable first; of equal ones sequences that may go on, as these may be as probable.
    waiting: list[tuple[float, bool, tuple[int, ...], float, tuple[int, ...]]] = []

    def put(chance: float, complete: bool, sequence: tuple[int, ...]) -> None:
        if chance > 0.0:
            places = tuple(about.place[t] for t in sequence)
            entry = (-float(f"{chance:.{EQUAL_DIGITS}g}"), complete, places, chance, sequence)
            heapq.heappush(waiting, entry)

    put(1.0, False, ())
    looked = 0
    while waiting:
        _, complete, _, chance, sequence = heapq.heappop(waiting)
        if complete:
            return Vector(about.tuples[list(sequence)], chance, math.log(chance))
        looked += 1
        if looked > MOST_SEQUENCES:
            raise TooManyVectorsError(
                f'"u_topk" with k = {k} over {items.tuples} tuples of several alternatives: the '
                f"most probable vector was not found among {MOST_SEQUENCES:,} sequences of tuples. "
                'Write semantics="pk_topk" or "u_kranks", a smaller k, or rank an expected score '
                "(one alternative per tuple)"
            )
        if not full:
            put(about.alone(sequence), True, sequence)
        chances, free = about.chances(sequence)
        for t in np.flatnonzero(free & (chances > 0.0)).tolist():
            longer = (*sequence, t)
            put(float(chances[t]), len(longer) == k, longer)
    return Vector(np.empty(0, np.int64), 0.0, -math.inf)


def _logs(chance: Floats) -> tuple[Floats, Ints]:
    """Logarithms, 0 where there is none, and where there is none: 1."""
    none = chance <= 0.0
    return np.log(np.where(none, 1.0, chance)), none.astype(np.int64)


def _tie_places(items: RankedItems, tuples: Ints) -> list[int]:
    """Each tuple's place in the order that decides ties."""
    order = items.in_rank_order(tuples)
    place = np.empty(tuples.size, np.int64)
    place[np.searchsorted(tuples, order)] = np.arange(tuples.size)
    return place.tolist()
