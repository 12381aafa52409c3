"""The similarity join that also emits the tuples without a partner."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sfumato.kernels.distributions.tuples import existences, reaches_all
from sfumato.kernels.joins.match_probability import exclude_partners, match_probabilities
from sfumato.kernels.joins.tuple_store import Batch, held_slots
from sfumato.kernels.tolerances import SIFT_SLACK, UNDERFLOW
from sfumato.operators.arguments import one_of
from sfumato.operators.arrays import Bools, Floats, Ints, Records, ranges_of
from sfumato.operators.joins.answers import JoinAnswers, Unmatched
from sfumato.operators.joins.similarity_join import SimilarityJoin, SimilarityJoinConfig
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Offsets, Part, Record
from sfumato.operators.state.stateful import Stateful

INNER = "inner"  # no side is kept
KEPT_SIDES = {"left": (0,), "right": (1,), "full": (0, 1)}
HOWS = tuple(KEPT_SIDES)


@dataclass(frozen=True)
class LoneTuples(Columns, flat=("prob", "alone"), begins="offsets"):
    """Tuples of one side that may have no partner, by ascending number.

    number, key, time : int64[n]    over : bool[n], whether the key cannot receive further tuples
    offsets : int64[n + 1]    prob, alone : float64[m], alone: Pr(no partner so far | the sample)
    """

    number: Annotated[Ints, Array(int, "tuples", low=0)]
    key: Annotated[Ints, Array(int, "tuples", low=0)]
    time: Annotated[Ints, Array(int, "tuples")]
    over: Annotated[Bools, Array(bool, "tuples")]
    offsets: Annotated[Ints, Offsets("tuples", "samples")]
    prob: Annotated[Floats, Array(float, "samples", low=0)]
    alone: Annotated[Floats, Array(float, "samples", low=0)]

    @property
    def probability(self) -> Floats:
        """Pr(the tuple exists and has no partner so far), float64[n]."""
        return existences(self.offsets, self.prob * self.alone)


class LoneSide(Stateful):
    """The tuples of one side that may have no partner. least : smallest probability of an answer"""

    state = {"tuples": Record(LoneTuples)}

    def __init__(self, least: float) -> None:
        self.least = least
        self.tuples = LoneTuples.empty()

    def add(self, fresh: LoneTuples) -> None:
        self.tuples = LoneTuples.concat([self.tuples, fresh]) if len(fresh.number) else self.tuples

    def places(self, number: Ints) -> tuple[Ints, Ints]:
        """Return which of these numbers are held, and the places of their first samples."""
        known = self.tuples.number
        at = np.searchsorted(known, number)
        held = np.flatnonzero(np.append(known, -1)[at] == number)
        return held, self.tuples.offsets[at[held]]

    def drop_paired(self) -> None:
        """Drop tuples that can no longer be answers, because probabilities only decrease."""
        wanted = reaches_all(self.tuples.probability, self.least)
        if not wanted.all():
            self.tuples = self.tuples.take(wanted)

    def release(self, over: Bools) -> Unmatched:
        """Remove the tuples where `over` is true, and return them as answers."""
        found = self.tuples.take(over)
        self.tuples = self.tuples.take(~over) if over.any() else self.tuples
        prob = found.prob * found.alone
        return Unmatched(found.number, found.probability, found.offsets, prob)

    def after_loading(self) -> None:
        number = self.tuples.number
        if (np.diff(number) <= 0).any() or (self.tuples.alone > 1.0).any():
            raise ValueError("tuple numbers must ascend, and probabilities must be at most 1")


@dataclass(frozen=True)
class OuterJoinConfig(SimilarityJoinConfig):
    """The arguments of `OuterJoin`."""

    how: str = "left"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("how", self.how, HOWS)
        if any(window.rows is not None or window.span is None for window in self.windows):
            raise ValueError(
                f'how="{self.how}" needs time windows, like sf.Range("10 minutes"), because a '
                "tuple may leave a row window in some worlds and not in others; got "
                f"{list(self.windows)}"
            )
        if self.output != "append" or self.tasks != 1:
            raise ValueError(
                f'how="{self.how}" needs output="append" and one task; got output='
                f'"{self.output}" and {self.tasks} tasks'
            )


class OuterJoin(SimilarityJoin):
    """`SimilarityJoin` that also emits the tuples of one or both sides without a partner.

    Accepts the arguments of `SimilarityJoin`, with time windows, output="append" and one task, and
    how : "left", "right" or "full", the sides whose tuples are emitted

    A partner of u is a tuple that exists and is near u, and that was held in the opposite window
    when u arrived, or arrived while u was held. Once no partner can still arrive, u is emitted iff
        Pr(u exists, no partner) = sum over k of Pr(u_k) * product over v of (1 - Pr(v near u_k))
    is at least `probability`. The product is over all possible partners v in order of arrival.

    Results depend on when `release` is called, but not on how arrivals are split into calls. They
    are exact up to rounding. Every near pair is examined, even if its probability is negligible.
    Source: pairs as in Dallachiesa et al. (2015), section 8.1.
    """

    kind, version = "outer_join", 4
    config: OuterJoinConfig
    state = {"lone_left": Part(), "lone_right": Part()}

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.kept_sides = KEPT_SIDES[self.config.how]
        self.lone_left, self.lone_right = self.lone = [
            LoneSide(self.config.probability) for _ in range(2)
        ]
        self.answer_criterion = self.criterion  # for answers; candidates are all near pairs
        self.criterion = self.criterion._replace(probability=UNDERFLOW, least=UNDERFLOW)

    def live_numbers(self, side: int) -> Ints:
        return np.union1d(super().live_numbers(side), self.lone[side].tuples.number)

    def max_live_count(self, side: int) -> int:
        return super().max_live_count(side) + len(self.lone[side].tuples.number)

    def forget(self, keys: Ints) -> None:
        super().forget(keys)
        for side in self.lone:
            side.tuples.over[np.isin(side.tuples.key, keys)] = True

    def release(self, reached: int | None, end: bool = False) -> list[tuple[int, Unmatched]]:
        """Remove the tuples that can have no further partners; return them by side.

        reached : earliest time of later arrivals, or None if unknown    end : no arrivals follow
        """
        found = []
        for side in self.kept_sides:
            tuples = self.lone[side].tuples
            passed = self.clock[tuples.key]
            if reached is not None:
                passed = np.maximum(passed, reached)
            over = tuples.over | (tuples.time + self.store.span[side] <= passed) | end
            found.append((side, self.lone[side].release(over)))
        return found

    def after_loading(self) -> None:
        super().after_loading()
        tuples, streams = self.store.tuples, self.streams
        slots, code = held_slots(self.store.windows)
        for side, lone in enumerate(self.lone):
            of = slots[code % streams == side]
            mine, (held, _) = lone.tuples, lone.places(tuples.number[of])
            places = np.searchsorted(mine.number, tuples.number[of[held]])
            if not np.array_equal(np.diff(mine.offsets)[places], tuples.samples[of[held]]):
                raise ValueError("a tuple must have the same number of samples everywhere")
            known = (mine.number < self.tuple_counts[side]).all()
            known = known and (mine.key < self.clock.size).all()
            if not known or (mine.number.size and side not in self.kept_sides):
                raise ValueError("tuples without a partner must be known tuples of a kept side")

    def _answers(self, batch: Batch, found: Records) -> JoinAnswers:
        tuples = self.store.tuples
        arriving, held = batch.slots[found["arrival"]], found["held"].copy()
        arrived_left = batch.code[found["arrival"]] % 2 == 0
        for side in self.kept_sides:
            lone, fresh = self.lone[side], np.flatnonzero(batch.code % 2 == side)
            lone.add(self._fresh(batch, fresh))
            mine = arrived_left == (side == 0)
            slots, partners = np.where(mine, arriving, held), np.where(mine, held, arriving)
            here, places = lone.places(tuples.number[slots])
            exclude_partners(
                tuples, slots[here], partners[here], places, lone.tuples.alone, self.criterion
            )
            lone.drop_paired()
        criterion = self.answer_criterion
        likely = found["total"] >= criterion.probability * (1.0 - 4.0 * SIFT_SLACK)
        found = found[likely]
        found["total"] = match_probabilities(tuples, arriving[likely], held[likely], criterion)
        return super()._answers(batch, found[found["total"] >= 0.0])

    def _fresh(self, batch: Batch, places: Ints) -> LoneTuples:
        """Return arrivals as tuples without a partner so far."""
        offsets, at = ranges_of(batch.offsets[places], np.diff(batch.offsets)[places])
        return LoneTuples(
            batch.number[places], batch.code[places] // 2, batch.time[places],
            np.zeros(places.size, np.bool_), offsets, batch.prob[at], np.ones(at.size),
        )  # fmt: skip
