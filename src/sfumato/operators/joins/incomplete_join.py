"""Join of two streams with missing values: imputation and join at once, without an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.incomplete.incomplete_join import COMPLETED, COUNTERS, join_incomplete
from sfumato.kernels.joins.incomplete.lazy_completion import refill
from sfumato.kernels.joins.incomplete.objects import COARSE, KEPT, WHOLE, Match, squares_of
from sfumato.kernels.joins.match_probability import SLACK, distance_limit
from sfumato.kernels.joins.tuple_store import read_tuples
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share, whole
from sfumato.operators.imputation.imputer import REASONS, Imputer
from sfumato.operators.joins.answer_set import Answers, AnswerSet, concatenate
from sfumato.operators.joins.arrivals import IncompleteArrivals, Numbers
from sfumato.operators.joins.object_pool import ObjectPool
from sfumato.operators.state.snapshot import Snapshot, SnapshotError, pack, unpack

__all__ = ["IncompleteArrivals", "IncompleteJoin"]

KIND, VERSION = "incomplete_join", 1
MOST_STREAMS = 256
CHUNK = 8192  # arrivals taken at once

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class IncompleteJoin:
    """Pairs of objects of different streams, attributes missing, that are similar enough (JoiniDS).

    imputer : `Imputer`; its `attributes` are the coordinates of an object
    within : float > 0, the Euclidean distance of a match: of the values themselves, or with
        scaled=True of attributes scaled as the imputer does
    probability : float in (0, 1]: a pair is an answer iff Pr(dist <= within) >= probability
    rows : int >= 1, each window holds the newest `rows` objects of its side and key
    output : "append", answers as they are found; "changes", also their leaving
    alternatives : whether answers come with their pairs of samples, numbered as in `Imputed`
    streams : int >= 2, each pair of which is joined; an answer's left object is of the lower one

    Answers are those of imputing every object (`Imputer.impute`) and joining the results by
    `SimilarityJoin` with windows of `rows` tuples, to the last bit in what is an answer and to
    1e-12 in its probability. An object that cannot be imputed has a number and a reason but
    enters no window. Objects have numbers: the i-th ever given of a side, over all keys, from 0;
    of more than two streams, streams * i + stream, so that a number says which stream it is of.
    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.

    Cost: only objects that come within reach of another one are imputed in full (`counters` tells
    how many); the others cost the choice of a rule and a scan of the boxes held opposite.
    Raises ValueError for arguments outside these ranges.
    Source: E, sections 4 and 5; boxes are scanned in SIMD in place of the grid's cells, which pays
    up to windows of some ten thousands.
    """

    def __init__(
        self,
        imputer: Imputer,
        within: float,
        probability: float,
        rows: int,
        *,
        scaled: bool = False,
        output: str = "append",
        alternatives: bool = False,
        streams: int = 2,
    ) -> None:
        self.imputer = imputer
        self.within = distance("within", within)
        self.probability, self.rows = share("probability", probability), whole("rows", rows)
        self.output = one_of("output", output, OUTPUTS)
        if isinstance(streams, bool) or streams not in range(2, MOST_STREAMS + 1):
            raise ValueError(f"`streams` must be from 2 to {MOST_STREAMS}; got {streams!r}")
        self.streams = int(streams)
        self.scaled, self.alternatives = bool(scaled), bool(alternatives)
        self.dimensions = len(imputer.attributes)
        self._match = self._units(imputer)
        self._pool = ObjectPool(self.rows, len(imputer.names), self.dimensions, self.streams)
        self._answers = AnswerSet()
        self._numbers = Numbers(self.streams)
        self._counted = np.zeros(COUNTERS, np.int64)
        self._reasons = np.zeros(len(REASONS), np.int64)
        self._found = 0

    def process(self, arrivals: IncompleteArrivals) -> tuple[Answers, npt.NDArray[np.uint8]]:
        """Match arrivals, in order, and let them enter.

        Returns the answers, or changes, they cause, ordered as those of `SimilarityJoin`, and for
        each arrival what became of it: a place in `imputation.REASONS`, uint8[n].
        Raises TypeError or ValueError, with nothing taken, for arrays of wrong dtype or shape.
        """
        arrivals = arrivals.checked(self.streams, len(self.imputer.names))
        parts, reasons = [Answers.none()], [np.empty(0, np.uint8)]
        for begin in range(0, arrivals.side.size, CHUNK):
            answers, reason = self._process(arrivals.part(begin, begin + CHUNK))
            parts.append(replace(answers, arrival=answers.arrival + begin))
            reasons.append(reason)
        return concatenate(parts), np.concatenate(reasons)

    def _process(self, arrivals: IncompleteArrivals) -> tuple[Answers, npt.NDArray[np.uint8]]:
        side, pool, imputer = arrivals.side.astype(np.int64), self._pool, self.imputer
        code = self.streams * arrivals.key + side
        pool.reserve(code)
        numbers = self._numbers.next(side)
        rule, reason, low, high = imputer.judge(arrivals.values, boxes=True)
        low, high = ((ends - self._match.shift) / self._match.span for ends in (low, high))
        (
            blocks, pool.used, found, totals, left, offsets, prob, arriving, held,
        ) = join_incomplete(
            imputer.prepared, pool.tuples, pool.rings, pool.objects, self._match,
            code, arrivals.values, rule, reason, low, high, numbers,
            self.streams, self.rows, imputer.joint, imputer.most,
            self.alternatives, pool.used, self._counted,
        )  # fmt: skip
        pool.tuples = pool.tuples._replace(blocks=blocks)
        self._reasons += np.bincount(reason, minlength=len(REASONS))
        self._found += totals.size
        arrival, own, other = found[:, 0].copy(), numbers[found[:, 0]], found[:, 2]
        on_left = side[arrival] < found[:, 1]
        by_left = np.repeat(on_left, np.diff(offsets))
        answers = Answers(
            arrival=arrival,
            change=np.ones(arrival.size, np.int8),
            left=np.where(on_left, own, other),
            right=np.where(on_left, other, own),
            probability=totals,
            offsets=offsets,
            prob=prob,
            left_sample=np.where(by_left, arriving, held),
            right_sample=np.where(by_left, held, arriving),
        )
        if self.output == "changes" and (len(answers) or len(left)):
            answers = self._answers.update(answers, self._leaving(left))
        return answers, reason

    def _leaving(self, left: Ints) -> tuple[Ints, Ints, Ints]:
        """(arrival, side, number) of objects that left; of many streams, on either side."""
        arrival, stream, number = left[:, 0].copy(), left[:, 1] % self.streams, left[:, 2].copy()
        if self.streams == 2:
            return arrival, stream, number
        return np.tile(arrival, 2), np.repeat([0, 1], arrival.size), np.tile(number, 2)

    def replace_imputer(self, imputer: Imputer) -> None:
        """Impute later arrivals by another imputer; objects already held stay as they arrived.

        Held objects that are not imputed yet are imputed now, by the old one.
        Raises ValueError for other names or attributes, or, if `scaled`, another scaling.
        """
        same = (imputer.names, imputer.attributes) == (self.imputer.names, self.imputer.attributes)
        if not same or (self.scaled and imputer.scaling != self.imputer.scaling):
            raise ValueError(
                "`imputer` must have the same names and attributes as the one it replaces, and the "
                "same scaling where distances are of scaled attributes"
            )
        pool = self._pool
        held = pool.slots()
        state = pool.objects.state[held]
        self._counted[COMPLETED] += np.count_nonzero(state == COARSE)
        pool.objects.state[held] = np.where(state == COARSE, WHOLE, state)
        kept = held[state == KEPT]
        self._refill(kept, *read_tuples(pool.tuples, kept, self.dimensions))
        pool.objects.state[held] = KEPT
        self.imputer = imputer

    def live(self, side: int) -> Ints:
        """Numbers of the objects of a side that may still be named: held, or in current answers."""
        held = self._pool.numbers(side)
        if self.output == "append":
            return held
        return np.union1d(held, self._answers.named(side, self.streams))

    def answers(self) -> Answers:
        """The current answers, by arrival. Raises ValueError unless `output` is "changes"."""
        return self._answers.asked(self.output)

    @property
    def counters(self) -> dict[str, int]:
        """What was done so far.

        objects given, which are complete + imputed + those of each reason not to be; held now;
        answers found; completed: how many of the imputed ones had to be imputed in full; pairs of
        an arrival and an object held opposite; candidates: of these, with boxes within reach;
        certain: accepted by their boxes alone; refined: those whose samples were paired.
        """
        pairs, candidates, certain, refined, _, completed = self._counted.tolist()
        return {
            "objects": int(self._numbers.given.sum()),
            **dict(zip(REASONS, self._reasons.tolist(), strict=True)),
            "held": int(self._pool.rings.held.sum()),
            "answers": self._found,
            "completed": completed,
            "pairs": pairs,
            "candidates": candidates,
            "certain": certain,
            "refined": refined,
        }

    def snapshot(self) -> bytes:
        """Settings, held objects and current answers as versioned bytes; not the repository.

        Samples are saved only for objects imputed by an imputer that was replaced since.
        """
        pool = self._pool
        slots = pool.slots()
        state = pool.objects.state[slots]
        kept = slots[state == KEPT]
        offsets, prob, points = read_tuples(pool.tuples, kept, self.dimensions)
        values: dict[str, Any] = {
            "within": self.within,
            "probability": self.probability,
            "rows": self.rows,
            "scaled": self.scaled,
            "output": self.output,
            "alternatives": self.alternatives,
            "streams": self.streams,
            "found": self._found,
            "imputer": self.imputer.fingerprint,
        }
        arrays = {
            "code": np.repeat(np.arange(pool.rings.held.size), pool.rings.held),
            "number": pool.tuples.number[slots],
            "state": state,
            "raw": pool.objects.raw[slots],
            "offsets": offsets,
            "prob": prob,
            "points": points,
            "given": self._numbers.given,
            "counted": self._counted,
            "reasons": self._reasons,
            **self._answers.arrays(),
        }
        return pack(KIND, VERSION, Snapshot(values=values, arrays=arrays))

    @classmethod
    def restore(cls, data: bytes, imputer: Imputer) -> IncompleteJoin:
        """The join of a snapshot: it goes on as the one that was saved.

        imputer : the one it had; for another one, call `replace_imputer` then
        Raises SnapshotError for bytes that are damaged or not of a join, or of another imputer.
        """
        saved = unpack(data, KIND, VERSION)
        values, arrays = dict(saved.values), saved.arrays
        found, fingerprint = values.pop("found"), values.pop("imputer")
        if fingerprint != imputer.fingerprint:
            raise SnapshotError(
                "the snapshot was made with another repository or other dependencies: restore it "
                "with those, then call `replace_imputer`"
            )
        join = cls(imputer, **values)
        pool = join._pool
        rule, _, low, high = imputer.judge(arrays["raw"], boxes=True)
        low, high = ((ends - join._match.shift) / join._match.span for ends in (low, high))
        pool.load(arrays["code"], arrays["number"], arrays["state"], arrays["raw"], rule, low, high)
        kept = pool.slots()[arrays["state"] == KEPT]
        join._refill(kept, arrays["offsets"], arrays["prob"], arrays["points"])
        join._answers, join._found = AnswerSet.of(arrays), found
        join._numbers.given, join._counted = arrays["given"], arrays["counted"]
        join._reasons = arrays["reasons"]
        return join

    def _units(self, imputer: Imputer) -> Match:
        bound, sure = squares_of(self.within, self.probability, self.alternatives)
        numbers = [
            self.within, distance_limit(self.within, self.dimensions),
            self.probability * (1.0 - SLACK), self.probability, bound, sure,
        ]  # fmt: skip
        units = [
            imputer.scaling[name] if self.scaled else (0.0, 1.0) for name in imputer.attributes
        ]
        shift, span = (np.array(column) for column in zip(*units, strict=True))
        return Match(np.array(numbers), shift, span)

    def _refill(self, kept: Ints, offsets: Ints, prob: Floats, points: Floats) -> None:
        """Write the samples of all imputed objects; those of state KEPT, in `kept`, are given."""
        pool, imputer = self._pool, self.imputer
        blocks, pool.used = refill(
            imputer.prepared, pool.tuples, pool.rings, pool.objects, self._match,
            kept, offsets, prob, points, imputer.joint, imputer.most, 0,
        )  # fmt: skip
        pool.tuples = pool.tuples._replace(blocks=blocks)
