"""The tuples a top-k window holds: parallel arrays in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Bools, Floats, Ints, chosen
from sfumato.operators.laws.poisson_binomial import EXCESS, as_floats
from sfumato.operators.ranking.ranked_items import RankedItems, as_probabilities, as_whole_numbers
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Declaration, Offsets


@dataclass(frozen=True)
class HeldTuples(Columns, flat=("score", "prob"), begins="begin"):
    """n tuples with m alternatives in all; `valid` may be changed, the rest is not.

    row, time, rule, stream : int64[n], arrival number, microseconds, -1 for no rule or stream
    valid : bool[n], False for a tuple that overfilled its rule
    begin : int64[n + 1], tuple i's alternatives are score[begin[i] : begin[i + 1]], and prob
    """

    row: Ints
    time: Ints
    rule: Ints
    stream: Ints
    valid: Bools
    begin: Ints
    score: Floats
    prob: Floats

    layout: ClassVar[Mapping[str, Declaration]] = {
        **dict.fromkeys(("row", "time", "rule", "stream"), Array(int, "held")),
        "valid": Array(bool, "held"),
        "begin": Offsets("held", "items"),
        **dict.fromkeys(("score", "prob"), Array(float, "items")),
    }

    @property
    def size(self) -> int:
        """How many tuples."""
        return self.row.size

    @classmethod
    def of_arrivals(
        cls,
        time: npt.ArrayLike,
        scores: npt.ArrayLike,
        prob: npt.ArrayLike,
        offsets: npt.ArrayLike | None,
        exclusive: npt.ArrayLike | None,
        group: npt.ArrayLike | None,
    ) -> HeldTuples:
        """Checked arrivals, numbered from 0 (see TopKWindow.extend).

        Raises ValueError naming what is wrong.
        """
        score, chance = as_floats("scores", scores), as_floats("prob", prob)
        if chance.size != score.size:
            raise ValueError(f"`prob` must be as long as `scores`: {score.size}; got {chance.size}")
        if not np.isfinite(score).all():
            raise ValueError("`scores` must be finite: reject or repair such tuples first")
        chance = as_probabilities(chance)
        n = score.size if offsets is None else max(np.size(offsets) - 1, 0)
        begin = np.arange(n + 1)
        if offsets is not None:
            begin = _checked_offsets(as_whole_numbers("offsets", offsets, np.size(offsets)), score)
            existence = np.bincount(np.repeat(np.arange(n), np.diff(begin)), chance, n)
            if existence.max(initial=0.0) > 1.0 + EXCESS:
                worst = int(existence.argmax())
                raise ValueError(
                    "the alternatives of a tuple must have a probability of at most 1 in all; "
                    f"got {existence[worst]:.12g} at index {worst}"
                )
        none = np.full(n, -1)
        return cls(
            row=np.arange(n),
            time=as_whole_numbers("time", time, n),
            rule=none if exclusive is None else as_whole_numbers("exclusive", exclusive, n),
            stream=none if group is None else as_whole_numbers("group", group, n),
            valid=np.ones(n, dtype=np.bool_),
            begin=begin,
            score=score,
            prob=chance,
        )

    def between(self, begin: int, end: int, visible: int, in_order: bool) -> Ints:
        """Places, among the first `visible`, of the valid tuples with begin <= time < end.

        in_order : whether all times ascend
        """
        time, valid = self.time[:visible], self.valid[:visible]
        if not in_order:
            return np.flatnonzero(valid & (time >= begin) & (time < end))
        first, last = np.searchsorted(time, [begin, end])
        places, valid = np.arange(first, last), valid[first:last]
        return places if valid.all() else places[valid]

    def items(self, places: Ints) -> tuple[Floats, Floats, Ints, Ints | None]:
        """Alternatives of the tuples at ascending places: scores, probabilities, rules, and the
        tuple of each, numbered as in `places` (None if every tuple has one)."""
        if self.score.size == self.size:
            at: Ints | slice = places
            if places.size and places[-1] - places[0] + 1 == places.size:
                at = slice(int(places[0]), int(places[-1]) + 1)  # no copy is needed
            return self.score[at], self.prob[at], self.rule[at], None
        begins, of = chosen(self.begin, places)
        owner = np.repeat(np.arange(places.size), np.diff(begins))
        return self.score[of], self.prob[of], self.rule[places][owner], owner

    def ranked(self, places: Ints, ascending: bool, *, rescale: bool = False) -> RankedItems:
        """Those at some places, ascending, with their rules. Raises RuleMassError.

        rescale : divide the members of a rule of probability above 1 by their sum
        """
        scores, prob, rules, tuples = self.items(places)
        if rescale:
            prob = rescaled(prob, rules)
        some = rules if rules.max(initial=-1) >= 0 else None
        return RankedItems(scores, prob, some, tuples, ascending=ascending)


def rescaled(prob: Floats, rules: Ints) -> Floats:
    """Probabilities of items, divided by the sum of their rule where that is above 1.

    rules : int64[n], negative for none
    """
    names, rule = np.unique(rules, return_inverse=True)
    masses = np.maximum(np.bincount(rule, prob, names.size), 1.0)
    masses[names < 0] = 1.0
    return prob / masses[rule]


def check_restored(held: HeldTuples, arrived: int) -> None:
    """Raise ValueError for tuples that a window which `arrived` tuples entered cannot hold."""
    row, prob = held.row, held.prob
    known = not row.size or (row[0] >= 0 and row[-1] < arrived and (np.diff(row) > 0).all())
    if not known or (np.diff(held.begin) < 1).any():
        raise ValueError("the tuples of a window must be numbered in order of arrival")
    if not (np.isfinite(held.score).all() and (prob > 0.0).all() and (prob <= 1.0).all()):
        raise ValueError("scores must be finite and probabilities in (0, 1]")


def accepted_by_rules(held: HeldTuples, places: Ints) -> Bools:
    """Which tuples a window can hold without a rule of probability above 1.

    places : int64[], in order of arrival. A tuple with which its rule would exceed 1 is left out,
    and does not count for those after it.  Cost: O(n log n).
    """
    fine = np.ones(places.size, dtype=np.bool_)
    existence = np.add.reduceat(held.prob, held.begin[:-1])[places]
    mass: dict[int, float] = {}
    for i in np.flatnonzero(held.rule[places] >= 0):
        rule = int(held.rule[places[i]])
        total = mass.get(rule, 0.0) + existence[i]
        fine[i] = total <= 1.0 + 0.999 * EXCESS  # a kernel may add up in another order
        if fine[i]:
            mass[rule] = total
    return fine


def _checked_offsets(offsets: Ints, score: Floats) -> Ints:
    fits = offsets.size and offsets[0] == 0 and offsets[-1] == score.size
    if not fits or (np.diff(offsets) < 1).any():
        raise ValueError(
            "`offsets` must rise from 0 to the number of scores, by at least 1 for each tuple; "
            f"got {offsets.tolist()!r:.80} for {score.size} scores"
        )
    return offsets
