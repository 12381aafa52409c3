"""The tuples that a ranking window holds."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.windows import NO_INSTANT as NO_INSTANT
from sfumato.operators.arguments import EXCESS, whole
from sfumato.operators.arrays import Bools, Floats, Ints, chosen
from sfumato.operators.laws.poisson_binomial import as_floats
from sfumato.operators.ranking.ranked_items import RankedItems, as_probabilities, as_whole_numbers
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.timetable import timetable
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import (
    Array,
    Declaration,
    Offsets,
    Optional,
    Part,
    Record,
    Value,
)
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.windows.uncertain_window import UncertainWindow

PK_TOPK = Semantics()


@dataclass(frozen=True)
class TopKWindowConfig:
    """The arguments of a `TopKWindow`, its queries as (name, k, every)."""

    queries: tuple[tuple[str, int, int], ...]
    length: int | None = None
    rows: int | None = None
    confidence: float | None = None
    max_tuples: int | None = None
    semantics: Semantics = PK_TOPK
    plan: str = "dp"
    start: int | None = None
    ascending: bool = False
    streams: bool = False
    strict: bool = False
    rescale: bool = False

    def __post_init__(self) -> None:
        named = [
            (str(name), *timetable([query], self.plan).queries[0]) for name, *query in self.queries
        ]
        object.__setattr__(self, "queries", tuple(named))
        if self.start is not None:
            object.__setattr__(self, "start", operator.index(self.start))
        if (self.length is None) == (self.rows is None):
            raise ValueError("give either `length` in microseconds or `rows`, and not both")
        for name in ("length", "rows"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.confidence is None and self.max_tuples is not None:
            raise ValueError("`max_tuples` bounds a window of `rows` with a `confidence`")
        if self.confidence is not None and self.rows is None:
            raise ValueError("`confidence` is that of a window of `rows`: give no `length`")
        if self.strict and self.rescale:
            raise ValueError("`strict` raises where `rescale` scales: give one of them")
        if self.streams and self.semantics.name != "pk_topk":
            raise ValueError(f'streams are ranked by "pk_topk"; got "{self.semantics.name}"')


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
        """Number of tuples."""
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
        """Tuples at some places, ascending, with their rules. Raises RuleMassError.

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
    """Select the tuples that a window can hold without a rule of probability above 1.

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


class WindowContent(Stateful):
    """The tuples that a window of some length, or of so many rows, may still need.

    latest : no instant up to here is open    held_tuples : in order of arrival
    """

    config: TopKWindowConfig
    state = {
        "count": Optional(Part("_new_count")),
        "reach": Value(low=0),
        "held_tuples": Record(HeldTuples),
        "latest": Value(),
    }

    def __init__(self, config: TopKWindowConfig) -> None:
        self.config, self.latest = config, NO_INSTANT
        self.count = self._new_count() if config.confidence is not None else None
        self._reach = np.zeros(1, np.int64)  # oldest tuple held: before a call, after each arrival
        self._ordered = True  # whether the tuples held have ascending times
        self.held_tuples = HeldTuples.none()

    def reach_of(self, fresh: HeldTuples) -> Ints:
        """int64[n]: the oldest tuple's number that a window of `rows` holds behind each arrival."""
        if self.config.rows is None:
            return np.zeros(fresh.size, np.int64)
        if self.count is not None:
            existence = np.add.reduceat(fresh.prob, fresh.begin[:-1]) if fresh.size else np.empty(0)
            return self.count.extend(np.minimum(existence, 1.0))
        # By arrival numbers: a tuple left out counts, whether it is dropped already or not.
        return np.maximum(fresh.row + 1 - self.config.rows, 0)

    def enter(self, fresh: HeldTuples, reach: Ints) -> None:
        """Take arrivals, and what `reach_of` them is."""
        self._reach = np.concatenate([self._reach[-1:], reach])
        if fresh.size:
            self.held_tuples = HeldTuples.joined([self.held_tuples, fresh])
            self._ordered = bool((np.diff(self.held_tuples.time) >= 0).all())

    def moved_on(self, held: HeldTuples, reach: int, ordered: bool) -> None:
        """Replace the contents by these tuples. ordered : whether all times ascend"""
        self.held_tuples, self.reach, self._ordered = held, reach, ordered

    def at(self, instant: int, before: int, reached: int) -> Ints:
        """Places of the held tuples that are in the window at `instant`, in order of arrival:
        those held `before` this call and the first `reached` of it are there already."""
        held, visible = self.held_tuples, before + reached
        if self.config.length is not None:
            return held.between(instant - self.config.length, instant, visible, self._ordered)
        return self._newest(visible, reached)

    def _newest(self, visible: int, reached: int) -> Ints:
        """Places of those that a window of `rows` holds after that arrival of this call."""
        held = self.held_tuples
        return np.flatnonzero(held.valid[:visible] & (held.row[:visible] >= self._reach[reached]))

    def is_over(self, instant: int, visible: int) -> bool:
        """True if no tuple that has arrived can be in a later window."""
        later = self.held_tuples.time[:visible] >= instant
        return self.config.length is not None and not later.any()

    def forget(self) -> None:
        """Drop the tuples that no window of a later instant can hold."""
        held = self.held_tuples
        if self.config.length is not None:
            live = held.valid & (held.time > self.latest - self.config.length)
            places = np.flatnonzero(live)
        else:
            places = self._newest(held.size, -1)
        if places.size < held.size:
            self.held_tuples = held.take(places)

    @property
    def reach(self) -> int:
        """Number of the oldest tuple that a window of `rows` holds."""
        return int(self._reach[-1])

    @reach.setter
    def reach(self, number: int) -> None:
        self._reach = np.array([number])

    def _new_count(self) -> UncertainWindow:
        rows, confidence = self.config.rows or 0, self.config.confidence or 0.0
        return UncertainWindow(rows, confidence, max_tuples=self.config.max_tuples)

    def after_loading(self) -> None:
        if (self.count is None) != (self.config.confidence is None):
            raise ValueError("a window with a confidence has an uncertain window, others none")
        self._ordered = bool((np.diff(self.held_tuples.time) >= 0).all())
