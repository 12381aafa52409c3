"""U-Topk of tuples with several alternatives: a best-first search over sequences of tuples.

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

import numpy as np

from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.ranking.ranked_items import RankedItems
from sfumato.operators.ranking.tuple_values import Vector

MOST_SEQUENCES = 20_000  # looked at for one vector: about two seconds
DIGITS = 12  # probabilities that agree in so many are equal


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
            entry = (-float(f"{chance:.{DIGITS}g}"), complete, places, chance, sequence)
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
