"""Joins of incomplete tuples: they are imputed as they come, and joined."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.dependency_choice import IMPUTED
from sfumato.kernels.joins.incomplete_join import (
    INCOMPLETE_COUNTS,
    Nearness,
    certain_square,
    join_incomplete,
)
from sfumato.kernels.joins.match_probability import criterion
from sfumato.kernels.joins.one_axis import Boxes
from sfumato.kernels.joins.regions import summarise, summary_columns
from sfumato.kernels.joins.tuple_store import Batch, Store, held_slots, move_windows, read_tuples
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share
from sfumato.operators.arrays import Floats, Ints, Records, spans
from sfumato.operators.imputation.imputer import IMPUTATION_REASONS, Imputer, Reasons
from sfumato.operators.joins.answers import Answers
from sfumato.operators.joins.arrivals import IncompleteArrivals, Window, windows_of
from sfumato.operators.joins.join_store import StoreIndex
from sfumato.operators.joins.pair_join import HELD_STATE, PairJoin
from sfumato.operators.state.declared import Array, Record, Sizes
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.windows import JoinWindow

IMPUTED_CHUNK = 512  # arrivals imputed at once: an object may have tens of thousands of samples
IMPUTABLE, FROZEN = 1, 2  # states of an object: its imputer's; imputed by one that was replaced


class BoxIndex(StoreIndex):
    """Attributes and boxes of the objects in the slots of a `Store`.

    names, dimensions : columns D of an object, and T of them joined
    raw : float64[slots, D], NaN = missing    state : uint8[slots]    boxes : `Boxes`
    """

    def __init__(self, names: int, dimensions: int) -> None:
        self.columns = summary_columns.py_func(dimensions)
        self.names, self.dimensions = names, dimensions
        self._make_room(0)

    def renumbered(self, store: Store, before: Ints, after: Ints) -> None:
        old = self.raw, self.state, self.boxes
        self._make_room(store.tuples.at.size)
        self._copy(*old, before, after)

    def move(self, store: Store, moves: Records) -> None:
        windows, moved = store.windows, moves["window"]
        before = spans(windows.head[moved], (windows.tail - windows.head)[moved])[1]
        move_windows(store, moves)
        after = spans(windows.head[moved], (windows.tail - windows.head)[moved])[1]
        self._copy(self.raw, self.state, self.boxes, before, after)

    def put(self, batch: Batch, raw: Floats, gap: Ints) -> None:
        """Write arrivals, with at least a sample each, to their slots."""
        slots, begins = batch.slots, batch.offsets[:-1]
        self.raw[slots], self.state[slots], self.boxes.gap[slots] = raw, IMPUTABLE, gap
        if slots.size:
            self.boxes.low[:, slots] = np.minimum.reduceat(batch.points, begins).T
            self.boxes.high[:, slots] = np.maximum.reduceat(batch.points, begins).T

    def _make_room(self, slots: int) -> None:
        d = self.dimensions
        self.raw, self.state = np.empty((slots, self.names)), np.empty(slots, np.uint8)
        self.boxes = Boxes(np.empty((d, slots)), np.empty((d, slots)), np.empty(slots, np.int64))

    def _copy(
        self, raw: Floats, state: npt.NDArray[np.uint8], boxes: Boxes, before: Ints, after: Ints
    ) -> None:
        self.raw[after], self.state[after] = raw[before], state[before]
        self.boxes.gap[after] = boxes.gap[before]
        self.boxes.low[:, after] = boxes.low[:, before]
        self.boxes.high[:, after] = boxes.high[:, before]


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

    Cost: an object is imputed when it comes, and held against the boxes of those opposite.
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
                **HELD_STATE,
                "offsets": Array(int, "held+1"),
                "prob": Array(float, None, low=0),
                "points": Array(float, None, "dimensions"),
                "state": Array(np.uint8, "held", high=FROZEN + 1),
                "raw": Array(float, "held", "names"),
            },
        ),
        "counted": Array(int, len(INCOMPLETE_COUNTS.names or ()), low=0),
        "reasons": Array(int, len(IMPUTATION_REASONS), low=0),
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
        self._index = BoxIndex(len(imputer.names), d)
        about = criterion(d, within, probability)
        super().__init__(about, windows, output, alternatives, self._index)
        sure = certain_square(within, probability, alternatives)
        self._nearness = Nearness(self.criterion, sure)
        pairs = [imputer.scaling[name] if scaled else (0.0, 1.0) for name in imputer.attributes]
        shift, span = (np.array(column) for column in zip(*pairs, strict=True))
        self._shift, self._span = shift, np.array(units) if units else span
        self._places = [imputer.names.index(name) for name in imputer.attributes]
        self._counts = np.zeros(1, INCOMPLETE_COUNTS)
        self.reasons = np.zeros(len(IMPUTATION_REASONS), np.int64)

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
        for begin in range(0, arrivals.side.size, IMPUTED_CHUNK):
            answers, reason = self._process(arrivals.part(begin, begin + IMPUTED_CHUNK))
            parts.append(replace(answers, arrival=answers.arrival + begin))
            reasons.append(reason)
        return Answers.joined(parts), np.concatenate(reasons)

    def _process(self, arrivals: IncompleteArrivals) -> tuple[Answers, Reasons]:
        side = arrivals.side.astype(np.int64)
        time, numbers = self._times(arrivals.key, arrivals.time), self.given.next(side)
        samples, reason = self._imputed(arrivals.values)
        self.reasons += np.bincount(reason, minlength=len(IMPUTATION_REASONS))
        self._counts["completed"] += np.count_nonzero(reason == IMPUTED)
        places = np.flatnonzero(reason <= IMPUTED)
        code = (self.streams * arrivals.key + side)[places]
        samples = (np.append(samples[0][places], samples[0][-1]), *samples[1:])
        batch = self._batch(code, numbers[places], time[places], samples)
        self.store.admit(batch)
        heads = self._heads()
        self._written(batch, arrivals.values[places])
        found = join_incomplete(
            self.store.store, self._index.boxes, self._nearness, batch, self._counts
        )
        answers = self._changes(batch, heads, self._answers(batch, found))
        return replace(answers, arrival=places[answers.arrival]), reason

    def replace_imputer(self, imputer: Imputer) -> None:
        """Impute later arrivals by another imputer; objects already held stay as they arrived.

        Raises ValueError for other names or attributes, or, if `scaled`, another scaling.
        """
        same = (imputer.names, imputer.attributes) == (self.imputer.names, self.imputer.attributes)
        if not same or (self.config.scaled and imputer.scaling != self.imputer.scaling):
            raise ValueError(
                "`imputer` must have the same names and attributes as the one it replaces, and the "
                "same scaling where distances are of scaled attributes"
            )
        held, _ = held_slots(self.store.store.windows)
        self._index.state[held] = FROZEN
        self.imputer = imputer
        self.config = replace(self.config, imputer=imputer.fingerprint)

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start.

        objects given, which are complete + imputed + those of each reason not to be; held now;
        answers found; completed: as imputed; pairs of
        an arrival and an object held opposite; candidates: of these, with boxes within reach;
        certain: accepted by their boxes alone; refined: those whose samples were paired.
        """
        return {
            "objects": int(self.given.given.sum()),
            **dict(zip(IMPUTATION_REASONS, self.reasons.tolist(), strict=True)),
            **super().counters,
        }

    def lengths(self) -> Sizes:
        """Lengths known before a snapshot is read."""
        return {"names": len(self.imputer.names), "dimensions": self.criterion.d}

    @property
    def objects(self) -> HeldObjects:
        """The objects held; samples only of those imputed by an imputer that was replaced since."""
        tuples, index = self.store.store.tuples, self._index
        slots, code = held_slots(self.store.store.windows)
        state = index.state[slots]
        offsets, prob, points = read_tuples(tuples, slots[state == FROZEN], self.criterion.d)
        lengths = np.zeros(slots.size + 1, np.int64)
        lengths[1:][state == FROZEN] = np.diff(offsets)
        return HeldObjects(
            code, tuples.number[slots], tuples.time[slots], np.cumsum(lengths), prob, points,
            state, index.raw[slots],
        )  # fmt: skip

    @objects.setter
    def objects(self, held: HeldObjects) -> None:
        self._check_held(held)
        frozen, lengths = held.state == FROZEN, np.diff(held.offsets)
        if ((lengths > 0) != frozen).any():
            raise ValueError("samples are those of objects of state FROZEN")
        (offsets, prob, points), reason = self._imputed(held.raw[~frozen])
        if (reason > IMPUTED).any():
            raise ValueError("an object is held that cannot be imputed")
        first = held.offsets[:-1] + prob.size
        first[~frozen], lengths[~frozen] = offsets[:-1], np.diff(offsets)
        offsets, places = spans(first, lengths)
        prob, points = np.append(prob, held.prob)[places], np.append(points, held.points, 0)[places]
        batch = self._batch(held.code, held.number, held.time, (offsets, prob, points))
        self.store.load(batch)
        self._written(batch, held.raw)
        self._index.state[batch.slots] = np.maximum(held.state, IMPUTABLE)

    def _imputed(self, values: Floats) -> tuple[tuple[Ints, Floats, Floats], Reasons]:
        """The samples of objects, in units of distances, and what became of the objects."""
        done = self.imputer.impute(values)
        points = (done.values - self._shift) / self._span
        return (done.offsets, done.prob, np.ascontiguousarray(points)), done.reason

    def _written(self, batch: Batch, raw: Floats) -> None:
        """Note what is known of arrivals that were written to their slots."""
        missing = np.isnan(raw[:, self._places])
        gap = np.where(missing.sum(axis=1) == 1, missing.argmax(axis=1), -1)
        self._index.put(batch, raw, gap)
        summarise(self.store.store.tuples, batch.slots, self.criterion.d, self.criterion.least)
