"""Join of streams with missing values: imputation and join at once, without an engine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.dependency_choice import COMPLETE, IMPUTED
from sfumato.kernels.joins.incomplete.incomplete_join import COUNTS, join_incomplete
from sfumato.kernels.joins.incomplete.lazy_completion import new_imputing, refill
from sfumato.kernels.joins.incomplete.objects import (
    COARSE,
    KEPT,
    WHOLE,
    Incoming,
    Nearness,
    certain_square,
    place_objects,
)
from sfumato.kernels.joins.match_probability import criterion
from sfumato.kernels.joins.tuple_store import held_slots, read_tuples
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.imputation.imputed import REASONS
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.joins.answer_set import Answers
from sfumato.operators.joins.arrivals import IncompleteArrivals
from sfumato.operators.joins.join_window import Window, windows_of
from sfumato.operators.joins.object_index import ObjectIndex
from sfumato.operators.joins.pair_join import CHUNK, HELD, PairJoin
from sfumato.operators.state.declared import Array, Record, Sizes
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.windows import JoinWindow

__all__ = ["IncompleteArrivals", "IncompleteJoin", "IncompleteJoinConfig"]

MOST_STREAMS = 256


@dataclass(frozen=True)
class IncompleteJoinConfig:
    """The arguments of `IncompleteJoin`, one window for each stream, and the imputer's print."""

    imputer: int
    within: float
    probability: float
    windows: tuple[JoinWindow, ...]
    scaled: bool = False
    output: str = "append"
    alternatives: bool = False
    units: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        distance("within", self.within)
        share("probability", self.probability)
        one_of("output", self.output, OUTPUTS)
        for unit in self.units:
            distance("units", unit)
        if self.units and self.scaled:
            raise ValueError("`units` and `scaled` both say what distances are of: give one")
        if not 2 <= len(self.windows) <= MOST_STREAMS:
            raise ValueError(
                f"there must be 2 to {MOST_STREAMS} streams, a window each; got {len(self.windows)}"
            )


class HeldObjects(NamedTuple):
    """All objects held, window after window, oldest first; the samples of those of state KEPT.

    state : uint8[n]    raw : float64[n, D]    the rest as of `Held`
    """

    code: Ints
    number: Ints
    time: Ints
    offsets: Ints
    prob: Floats
    points: Floats
    state: npt.NDArray[np.uint8]
    raw: Floats


class IncompleteJoin(PairJoin):
    """Pairs of objects of different streams, attributes missing, that are similar enough (JoiniDS).

    imputer : `Imputer`; its `attributes` are the coordinates of an object
    within : float > 0, the Euclidean distance of a match: of the values themselves, or with
        scaled=True of attributes scaled as the imputer does
    units : for each of the imputer's attributes, the number that its values are divided by
    probability : float in (0, 1]: a pair is an answer iff Pr(dist <= within) >= probability
    window : of both streams, or a list with one for each of two or more: `Rows`, the newest `rows`
        objects of the stream and key, or `Range`, those of the last `length`
    output : "append", answers as they are found; "changes", also their leaving
    alternatives : whether answers come with their pairs of samples, numbered as in `Imputed`

    Each pair of streams is joined; an answer's left object is of the lower one. Answers are those
    of imputing every object (`Imputer.impute`) and joining the results by `SimilarityJoin` with the
    same windows, to the last bit in what is an answer and to 1e-12 in its probability. An object
    that cannot be imputed has a number and a reason but enters no window. Objects have numbers:
    the i-th ever given of a side, over all keys, from 0; of more than two streams,
    streams * i + stream, so that a number says which stream it is of.
    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.

    Cost: only objects that come within reach of another one are imputed in full (`counters` says
    how many); the others cost the choice of a rule and a scan of the boxes held opposite.
    Raises ValueError for arguments outside these ranges.
    Source: E, sections 4 and 5; boxes are scanned in SIMD in place of the grid's cells, which pays
    up to windows of some ten thousands.
    """

    kind, version = "incomplete_join", 2
    config: IncompleteJoinConfig
    state = {
        "objects": Record(
            HeldObjects,
            {
                **HELD,
                "offsets": Array(int, "held+1"),
                "prob": Array(float, None, low=0),
                "points": Array(float, None, "dimensions"),
                "state": Array(np.uint8, "held", high=KEPT + 1),
                "raw": Array(float, "held", "names"),
            },
        ),
        "counted": Array(int, len(COUNTS.names or ()), low=0),
        "reasons": Array(int, len(REASONS), low=0),
    }

    def __init__(
        self,
        imputer: Imputer,
        within: float,
        probability: float,
        window: Window | Sequence[Window],
        *,
        scaled: bool = False,
        output: str = "append",
        alternatives: bool = False,
        units: Sequence[float] = (),
    ) -> None:
        within, windows = distance("within", within), windows_of(window)
        self.imputer, d = imputer, len(imputer.attributes)
        self.config = IncompleteJoinConfig(
            imputer.fingerprint, within, probability, windows, scaled, output, alternatives,
            tuple(units),
        )  # fmt: skip
        if units and len(units) != d:
            raise ValueError(f"`units` must have one for each of {d} attributes; got {len(units)}")
        self._index = ObjectIndex(len(imputer.names), d)
        about = criterion(d, within, probability)
        super().__init__(about, windows, output, alternatives, self._index)
        self._nearness = self._units()
        self._counts = np.zeros(1, COUNTS)
        self.reasons = np.zeros(len(REASONS), np.int64)

    @classmethod
    def of(cls, config: IncompleteJoinConfig, **resources: Any) -> Self:
        """The join of a config; `imputer`: that of the config. Raises SnapshotError for another."""
        if config.imputer != resources["imputer"].fingerprint:
            raise SnapshotError(
                "the snapshot was made with another repository or other dependencies: restore it "
                "with those, then call `replace_imputer`"
            )
        return super().of(config, **resources)

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
        return Answers.joined(parts), np.concatenate(reasons)

    def _process(self, arrivals: IncompleteArrivals) -> tuple[Answers, npt.NDArray[np.uint8]]:
        side = arrivals.side.astype(np.int64)
        time, numbers = self._times(arrivals.key, arrivals.time), self.given.next(side)
        incoming, reason = self._judged(arrivals.values)
        self.reasons += np.bincount(reason, minlength=len(REASONS))
        places = np.flatnonzero(reason <= IMPUTED)
        code = (self.streams * arrivals.key + side)[places]
        batch = self._batch(code, numbers[places], time[places], self._no_samples(places.size))
        self.store.admit(batch)
        heads = self._heads()
        chosen = Incoming(*(a[places] for a in incoming))
        place_objects(self.store.store, self._index.objects, batch, chosen)
        store, found = join_incomplete(
            self.store.store, self._index.objects, self._nearness, batch,
            reason[places] == COMPLETE, self._imputing(), self._counts,
        )  # fmt: skip
        self.store.store = store
        answers = self._changes(batch, heads, self._answers(batch, found))
        return replace(answers, arrival=places[answers.arrival]), reason

    def replace_imputer(self, imputer: Imputer) -> None:
        """Impute later arrivals by another imputer; objects already held stay as they arrived.

        Held objects that are not imputed yet are imputed now, by the old one.
        Raises ValueError for other names or attributes, or, if `scaled`, another scaling.
        """
        same = (imputer.names, imputer.attributes) == (self.imputer.names, self.imputer.attributes)
        if not same or (self.config.scaled and imputer.scaling != self.imputer.scaling):
            raise ValueError(
                "`imputer` must have the same names and attributes as the one it replaces, and the "
                "same scaling where distances are of scaled attributes"
            )
        held, _ = held_slots(self.store.store.windows)
        state = self._index.objects.state[held]
        self._counts["completed"] += np.count_nonzero(state == COARSE)
        self._index.objects.state[held] = np.where(state == COARSE, WHOLE, state)
        kept = held[state == KEPT]
        self._refill(kept, read_tuples(self.store.store.tuples, kept, self.criterion.d))
        self._index.objects.state[held] = KEPT
        self.imputer = imputer
        self.config = replace(self.config, imputer=imputer.fingerprint)

    @property
    def counters(self) -> dict[str, int]:
        """What was done so far.

        objects given, which are complete + imputed + those of each reason not to be; held now;
        answers found; completed: how many of the imputed ones had to be imputed in full; pairs of
        an arrival and an object held opposite; candidates: of these, with boxes within reach;
        certain: accepted by their boxes alone; refined: those whose samples were paired.
        """
        return {
            "objects": int(self.given.given.sum()),
            **dict(zip(REASONS, self.reasons.tolist(), strict=True)),
            **super().counters,
        }

    def lengths(self) -> Sizes:
        """Lengths known before a snapshot is read."""
        return {"names": len(self.imputer.names), "dimensions": self.criterion.d}

    @property
    def objects(self) -> HeldObjects:
        """The objects held; samples only of those imputed by an imputer that was replaced since."""
        tuples, objects = self.store.store.tuples, self._index.objects
        slots, code = held_slots(self.store.store.windows)
        state = objects.state[slots]
        offsets, prob, points = read_tuples(tuples, slots[state == KEPT], self.criterion.d)
        lengths = np.zeros(slots.size + 1, np.int64)
        lengths[1:][state == KEPT] = np.diff(offsets)
        return HeldObjects(
            code, tuples.number[slots], tuples.time[slots], np.cumsum(lengths), prob, points,
            state, objects.raw[slots],
        )  # fmt: skip

    @objects.setter
    def objects(self, held: HeldObjects) -> None:
        self._check_held(held)
        if ((np.diff(held.offsets) > 0) != (held.state == KEPT)).any():
            raise ValueError("samples are those of objects of state KEPT")
        incoming, reason = self._judged(held.raw)
        if (reason > IMPUTED).any():
            raise ValueError("an object is held that cannot be imputed")
        batch = self._batch(held.code, held.number, held.time, self._no_samples(held.code.size))
        self.store.load(batch)
        place_objects(self.store.store, self._index.objects, batch, incoming)
        self._index.objects.state[batch.slots] = held.state
        kept = np.flatnonzero(held.state == KEPT)
        offsets = np.append(held.offsets[kept], held.offsets[-1])
        self._refill(batch.slots[kept], (offsets, held.prob, held.points))

    def _judged(self, values: Floats) -> tuple[Incoming, npt.NDArray[np.uint8]]:
        """What is known of objects before they are imputed, and what will become of them."""
        rule, reason, low, high = self.imputer.judge(values, boxes=True)
        shift, span = self._nearness.shift, self._nearness.span
        return Incoming(values, rule, (low - shift) / span, (high - shift) / span), reason

    def _no_samples(self, n: int) -> tuple[Ints, Floats, Floats]:
        return np.zeros(n + 1, np.int64), np.empty(0), np.empty((0, self.criterion.d))

    def _imputing(self) -> Any:
        imputer = self.imputer
        return new_imputing(imputer.prepared, imputer.joint, imputer.most)

    def _units(self) -> Nearness:
        config, imputer = self.config, self.imputer
        units = [
            imputer.scaling[name] if config.scaled else (0.0, 1.0) for name in imputer.attributes
        ]
        shift, span = (np.array(column) for column in zip(*units, strict=True))
        if config.units:
            span = np.array(config.units)
        sure = certain_square(config.within, config.probability, config.alternatives)
        return Nearness(self.criterion, sure, shift, span)

    def _refill(self, kept: Ints, samples: tuple[Ints, Floats, Floats]) -> None:
        """Write the samples of all imputed objects; those of state KEPT, in `kept`, are given."""
        self.store.store = refill(
            self._imputing(), self.store.store, self._index.objects, self._nearness, kept, samples
        )
