"""Similarity join of two streams over uncertain count windows, without an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.match_probability import SLACK, distance_limit, matching_pairs
from sfumato.kernels.joins.similarity_nested import ARRIVAL, COUNTERS, HELD, NEWEST
from sfumato.kernels.joins.tuple_store import expired
from sfumato.kernels.laws.existence import existences
from sfumato.kernels.windows.position import positions
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share, whole
from sfumato.operators.joins.answer_set import Answers, AnswerSet, concatenate
from sfumato.operators.joins.arrivals import Arrivals, Numbers
from sfumato.operators.joins.join_strategy import Batch, Index, Match, Nested, Sort, Strategy
from sfumato.operators.joins.join_windows import JoinWindows
from sfumato.operators.state.snapshot import Snapshot, pack, unpack

__all__ = ["Answers", "Arrivals", "SimilarityJoin"]

KIND, VERSION = "similarity_join", 1
STRATEGIES = ("auto", "nested", "index", "sort")
CHUNK = 8192  # arrivals taken at once: more would leave the processor's cache between two steps

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class SimilarityJoin:
    """Pairs of a left and a right tuple that are similar with enough probability.

    dimensions : int >= 1, coordinates of a sample
    within : float > 0, samples match at a Euclidean distance of at most this
    probability : float in (0, 1], beta: a pair is an answer iff Pr(match) >= beta
    rows, confidence, max_tuples : the window W(rows, confidence, beta) of each side and key, as for
        `UncertainWindow`
    strategy : "nested" looks at every held tuple, "index" prunes by regions of tuples in a grid,
        "sort" orders samples (one dimension only), "auto" is "index": it scans by itself where
        a scan is cheaper than cells. Answers are the same, to the last bit
    output : "append", answers as they are found; "changes", also their leaving
    alternatives : whether answers come with their pairs of samples

    An arrival u is matched with the tuples v_j of its key that the opposing window holds then:
        Pr(match) = T_j * sum of Pr(u_k) Pr(v_l) over the samples with |u_k - v_l| <= within
    where T_j is the probability that v_j, if it exists, is among the `rows` newest existing
    tuples of its window. Then u enters its own window, from which the oldest may be evicted. Under
    "changes" the answers of an evicted tuple leave, unchanged, after those that came with u.
    A tuple without samples never enters and never matches, but has a number.

    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Tuples have numbers: the i-th ever given of a side, over all keys, from 0.

    Guarantee: answers are exact, up to the rounding of the defining sum.
    Raises ValueError for arguments outside these ranges, and for "sort" in several dimensions.
    Source: A, sections 5 and 6; B.

    >>> join = SimilarityJoin(1, 1.0, 0.5, rows=10, confidence=0.95)
    >>> answers = join.process(Arrivals(
    ...     side=np.array([0, 1], np.uint8), key=np.zeros(2, np.int64), offsets=np.array([0, 2, 3]),
    ...     prob=np.array([0.5, 0.5, 1.0]), points=np.array([[3.0], [9.0], [4.0]])))
    >>> answers.left.tolist(), answers.right.tolist(), answers.probability.tolist()
    ([0], [0], [0.5])
    """

    def __init__(
        self,
        dimensions: int,
        within: float,
        probability: float,
        rows: int,
        confidence: float,
        *,
        strategy: str = "auto",
        output: str = "append",
        max_tuples: int | None = None,
        alternatives: bool = True,
    ) -> None:
        self.dimensions = whole("dimensions", dimensions)
        self.within = distance("within", within)
        self.probability = share("probability", probability)
        self.rows = whole("rows", rows)
        self.confidence = share("confidence", confidence)
        self.max_tuples = None if max_tuples is None else whole("max_tuples", max_tuples)
        self.strategy = one_of("strategy", strategy, STRATEGIES)
        self.output = one_of("output", output, OUTPUTS)
        self.alternatives = alternatives
        self._match = Match(
            dimensions=self.dimensions,
            within=self.within,
            limit=distance_limit(self.within, self.dimensions),
            probability=self.probability,
            least=self.probability * (1.0 - SLACK),
        )
        self._windows = JoinWindows(
            self.dimensions,
            self.rows,
            self.confidence,
            self.probability,
            self.max_tuples,
            self._strategy(),
        )
        self._answers = AnswerSet()
        self._numbers = Numbers(2)
        self._counted = np.zeros(COUNTERS, np.int64)
        self._found = 0

    def process(self, arrivals: Arrivals) -> Answers:
        """Match arrivals, in order, and let them enter; the answers, or changes, they cause.

        Answers are ordered by arrival; of one arrival first those found (by the number of the
        other tuple), then those that leave (by left, then right number).
        Raises TypeError or ValueError, with nothing taken, for arrays of wrong dtype or shape.
        """
        arrivals = arrivals.checked(self.dimensions)
        n, step = arrivals.side.size, CHUNK
        if n <= 2 * step:
            return self._process(arrivals)
        parts = []
        for begin in range(0, n, step):
            part = self._process(arrivals.part(begin, min(begin + step, n)))
            parts.append(replace(part, arrival=part.arrival + begin))
        return concatenate(parts)

    def _process(self, arrivals: Arrivals) -> Answers:
        side = arrivals.side.astype(np.int64)
        numbers = self._numbers.next(side)
        existence = existences(arrivals.offsets, arrivals.prob)
        places = None
        if not existence.all():
            places = np.flatnonzero(existence)
            arrivals, side, numbers = arrivals.take(places), side[places], numbers[places]
            existence = existence[places]
        batch = self._windows.admit(
            2 * arrivals.key + side,
            numbers,
            existence,
            arrivals.offsets,
            arrivals.prob,
            arrivals.points,
        )
        tuples, windows = self._windows.tuples, self._windows.windows
        heads = windows.head.copy()
        found, totals = self._windows.strategy.join(tuples, windows, batch, self._counted)
        answers = self._certify(batch, found, totals)
        self._found += len(answers)
        if self.output == "changes":
            leaving = expired(tuples, heads, batch.code, batch.begins)
            if len(answers) or leaving[0].size:
                answers = self._answers.update(answers, leaving)
        if places is not None:
            answers = replace(answers, arrival=places[answers.arrival])
        return answers

    def live(self, side: int) -> Ints:
        """Numbers of the tuples of a side that may still be named: held, or in current answers."""
        held = self._windows.numbers(side)
        if self.output == "append":
            return held
        return np.union1d(held, self._answers.named(side))

    def answers(self) -> Answers:
        """The current answers, by arrival. Raises ValueError unless `output` is "changes"."""
        return self._answers.asked(self.output)

    @property
    def counters(self) -> dict[str, int]:
        """What was done so far.

        tuples given; held now; answers found; overflow (evicted only by `max_tuples`); pairs of an
        arrival and a tuple held opposite; visited of these (samples, under "sort"); candidates,
        left after pruning, whose samples were paired.
        """
        pairs, visited, candidates = self._counted.tolist()
        return {
            "tuples": int(self._numbers.given.sum()),
            "held": self._windows.size,
            "answers": self._found,
            "overflow": self._windows.overflow,
            "pairs": pairs,
            "visited": visited,
            "candidates": candidates,
        }

    def snapshot(self) -> bytes:
        """Settings, held tuples and current answers as versioned bytes."""
        held = self._windows.held()
        values: dict[str, Any] = {
            "dimensions": self.dimensions,
            "within": self.within,
            "probability": self.probability,
            "rows": self.rows,
            "confidence": self.confidence,
            "strategy": self.strategy,
            "output": self.output,
            "max_tuples": self.max_tuples,
            "alternatives": self.alternatives,
            "found": self._found,
            "overflow": self._windows.overflow,
        }
        arrays = {
            **held,
            **self._answers.arrays(),
            "given": self._numbers.given,
            "counted": self._counted,
        }
        return pack(KIND, VERSION, Snapshot(values=values, arrays=arrays))

    @classmethod
    def restore(cls, data: bytes) -> SimilarityJoin:
        """The join of a snapshot: it goes on as the one that was saved.

        Raises SnapshotError for bytes that are damaged or not of a join.
        """
        saved = unpack(data, KIND, VERSION)
        values, arrays = dict(saved.values), saved.arrays
        found, overflow = values.pop("found"), values.pop("overflow")
        join = cls(**values)
        join._windows.load(
            arrays["code"],
            arrays["numbers"],
            arrays["existence"],
            arrays["offsets"],
            arrays["prob"],
            arrays["points"],
        )
        join._windows.overflow = overflow
        join._answers, join._found = AnswerSet.of(arrays), found
        join._numbers.given, join._counted = arrays["given"], arrays["counted"]
        return join

    def _strategy(self) -> Strategy:
        if self.strategy == "nested":
            return Nested(self._match)
        if self.strategy != "sort":
            return Index(self._match)
        if self.dimensions > 1:
            raise ValueError(
                f'`strategy`="sort" orders numbers, it needs one dimension; got {self.dimensions}: '
                'use "index"'
            )
        return Sort(self._match)

    def _certify(self, batch: Batch, found: Ints, totals: Floats) -> Answers:
        """The answers among found pairs: multiplied by T_j and still probable enough."""
        tuples = self._windows.tuples
        inside = np.ones(totals.size)
        crowded = np.flatnonzero(found[:, NEWEST] - found[:, HELD] > self.rows)
        if crowded.size:
            first, last = found[crowded, HELD] + 1, found[crowded, NEWEST]
            inside[crowded] = positions(tuples.existence, first, last, self.rows)
            keep = np.flatnonzero(inside * totals >= self.probability)
            found, totals, inside = found[keep], totals[keep], inside[keep]
        arrival = found[:, ARRIVAL].copy()
        arriving, held = batch.slots[arrival], found[:, HELD].copy()
        on_left = batch.code[arrival] % 2 == 0
        one, other = tuples.number[arriving], tuples.number[held]
        if self.alternatives:
            offsets, prob, left_sample, right_sample = matching_pairs(
                tuples, arriving, held, on_left, inside, self.dimensions, self._match.limit
            )
        else:
            none = Answers.none()
            offsets = np.zeros(totals.size + 1, np.int64)
            prob, left_sample, right_sample = none.prob, none.left_sample, none.right_sample
        return Answers(
            arrival=arrival,
            change=np.ones(arrival.size, np.int8),
            left=np.where(on_left, one, other),
            right=np.where(on_left, other, one),
            probability=inside * totals,
            offsets=offsets,
            prob=prob,
            left_sample=left_sample,
            right_sample=right_sample,
        )
