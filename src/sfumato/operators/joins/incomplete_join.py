"""Joins of incomplete tuples, which are imputed on arrival."""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.dependency_choice import IMPUTED
from sfumato.kernels.joins.match_probability import criterion
from sfumato.kernels.joins.similarity_join import JOIN_COUNTS, certain_square, join_tuples
from sfumato.kernels.joins.tuple_store import Batch, held_slots
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share
from sfumato.operators.arrays import Floats, Ints, Records
from sfumato.operators.imputation.imputer import IMPUTATION_REASONS, Imputed, Imputer, ReasonCodes
from sfumato.operators.joins.answers import JoinAnswers, SampledTuples
from sfumato.operators.joins.arrivals import ArrivalBatch, IncompleteArrivals, window_pair
from sfumato.operators.joins.pair_join import PairJoin
from sfumato.operators.state.declared import Array, Record, Sizes
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.windows import JoinWindow

__all__ = ["IncompleteArrivals", "IncompleteJoin", "IncompleteJoinConfig"]

IMPUTED_CHUNK = 512  # arrivals imputed together: an object may have tens of thousands of samples


@dataclass(frozen=True)
class IncompleteJoinConfig:
    """The arguments of `IncompleteJoin`, and the imputer's fingerprint."""

    imputer: int
    within: float
    probability: float
    windows: tuple[JoinWindow, JoinWindow]
    output: str = "append"
    alternatives: bool = False
    units: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", distance("within", self.within))
        object.__setattr__(self, "windows", window_pair(self.windows))
        object.__setattr__(self, "units", tuple(self.units))
        share("probability", self.probability)
        one_of("output", self.output, OUTPUTS)
        for unit in self.units:
            distance("units", unit)


class HeldObjects(NamedTuple):
    """All held objects, window after window, oldest first. code, number, time : as in `HeldSamples`
    raw : float64[n, D], imputed again when loaded"""

    code: Annotated[Ints, Array(int, "held", low=0)]
    number: Annotated[Ints, Array(int, "held", low=0)]
    time: Annotated[Ints, Array(int, "held")]
    raw: Annotated[Floats, Array(float, "held", "names")]


class IncompleteJoin(PairJoin):
    """Similar pairs of objects with missing attributes, from two streams (JoiniDS).

    imputer : `Imputer`; its `attributes` are the coordinates of an object
    within : float > 0, largest Euclidean distance of a match
    units : for each of the imputer's attributes, the number by which its values are divided
    probability, windows, output : as for `SimilarityJoin`
    alternatives : whether to include each answer's sample pairs, numbered as in `Imputed`

    The answers are the same as if every object were imputed by `Imputer.impute` and joined by
    `SimilarityJoin` with the same windows; their probabilities differ by at most 1e-12. An object
    that cannot be imputed has a number and a reason but does not enter a window.

    Cost: each object is imputed on arrival and compared with the boxes of opposite objects.
    Source: Ren et al. (2019), sections 4 and 5, with a SIMD scan of boxes instead of grid cells,
    which is faster for windows of up to some ten thousand objects.
    """

    kind, version = "incomplete_join", 4
    config: IncompleteJoinConfig
    state = {
        "objects": Record(HeldObjects),
        "reasons": Array(int, len(IMPUTATION_REASONS), low=0),
    }

    def __init__(self, imputer: Imputer, *given: Any, **named: Any) -> None:
        super().__init__(imputer.fingerprint, *given, **named)
        self.imputer, d, of = imputer, len(imputer.attributes), self.config
        units = of.units
        if units and len(units) != d:
            raise ValueError(f"`units` must have {d} units, one per attribute; got {len(units)}")
        self._set_up(
            criterion(d, of.within, of.probability), ("pairs", "candidates", "certain", "refined"),
            rows=2 * d + len(imputer.names),
        )  # fmt: skip
        self._sure = certain_square(of.within, of.probability, of.alternatives)
        self._units = np.array(units) if units else np.ones(d)
        self.reasons = np.zeros(len(IMPUTATION_REASONS), np.int64)

    @classmethod
    def from_config(cls, config: IncompleteJoinConfig, **resources: Any) -> Self:
        """Create a join from a config. Raises SnapshotError for a different `imputer`."""
        if config.imputer != resources["imputer"].fingerprint:
            raise SnapshotError(
                "the snapshot was written with a different repository or different dependencies: "
                "restore the snapshot with the original repository and dependencies"
            )
        return super().from_config(config, **resources)

    def process(self, arrivals: IncompleteArrivals) -> tuple[JoinAnswers, npt.NDArray[np.uint8]]:
        """Match arrivals in order, and add them to their windows.

        Returns answers or changes, ordered as in `SimilarityJoin`, and each arrival's place in
        `IMPUTATION_REASONS`, uint8[n].
        Raises ValueError, with state unchanged, for event times that are too far from 1970.
        """
        reasons: list[ReasonCodes] = []

        def join(part: IncompleteArrivals) -> JoinAnswers:
            done = self.imputer.impute(part.values)
            samples = vars(self._samples(done))
            answers = self._join(
                ArrivalBatch(part.side, part.key, time=part.time, raw=part.values, **samples)
            )
            reasons.append(done.reason)
            self.reasons += np.bincount(done.reason, minlength=len(IMPUTATION_REASONS))
            return answers

        return self._in_parts(arrivals, IMPUTED_CHUNK, join), np.concatenate(reasons)

    def _match(self, batch: Batch) -> Records:
        counts = np.zeros(1, JOIN_COUNTS)
        found, certain = join_tuples(self.store, batch, self.criterion, self._sure, counts)
        pairs, near, left = counts[0]
        self.pair_counts += [pairs, near, certain, left - certain]
        return found

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start: `objects` (arrivals), the objects per reason, `held` (currently
        held objects), `answers`, `pairs` (of an arrival and a held opposite object), `candidates`
        (pairs with boxes within reach), `certain` (pairs accepted by their boxes alone) and
        `refined` (pairs whose samples were compared)."""
        return {
            "objects": int(self.tuple_counts.sum()),
            **dict(zip(IMPUTATION_REASONS, self.reasons.tolist(), strict=True)),
            **super().counters,
        }

    def lengths(self) -> Sizes:
        return {**super().lengths(), "names": len(self.imputer.names)}

    @property
    def objects(self) -> HeldObjects:
        tuples = self.store.tuples
        slots, code = held_slots(self.store.windows)
        raw = tuples.box[2 * self.criterion.d :, slots].T
        return HeldObjects(code, tuples.number[slots], tuples.time[slots], raw)

    @objects.setter
    def objects(self, held: HeldObjects) -> None:
        done = self.imputer.impute(held.raw)
        if (done.reason > IMPUTED).any():
            raise ValueError("every held object must have values that can be imputed")
        about, radii = (held.code, held.number, held.time), np.zeros(held.number.size)
        self._load(self._batch(*about, self._samples(done), radii), held.raw)

    def _samples(self, done: Imputed) -> SampledTuples:
        """Return the samples of imputed objects, in units of distances."""
        return SampledTuples(done.offsets, done.prob, done.values / self._units)
