"""Joins of uncertain tuples by the similarity of their values."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from sfumato.kernels.joins.match_probability import criterion
from sfumato.kernels.joins.similarity_join import JOIN_COUNTS, NEVER_SURE, join_tuples
from sfumato.kernels.joins.similarity_sort import join_sorted
from sfumato.kernels.joins.tuple_store import Batch, held_slots, read_tuples
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share, whole
from sfumato.operators.arrays import Floats, Ints, Records
from sfumato.operators.joins.answers import JoinAnswers
from sfumato.operators.joins.arrivals import ArrivalBatch, windows_of
from sfumato.operators.joins.pair_join import PairJoin
from sfumato.operators.state.declared import Array, Offsets, Record
from sfumato.windows import JoinWindow

__all__ = ["ArrivalBatch", "JoinAnswers", "SimilarityJoin", "SimilarityJoinConfig"]

STRATEGIES = ("auto", "nested", "index", "sort")
PAIR_CHUNK = 8192  # arrivals per part; larger parts do not stay in the processor's cache


class HeldSamples(NamedTuple):
    """All held tuples, window after window, oldest first.

    code, number, time : int64[n], window, number in the stream, microseconds
    existence : float64[n]    offsets : int64[n + 1] of the samples of this task's tuples
    prob : float64[m]    points : float64[m, d]    radius : float64[n]; empty without radii
    """

    code: Annotated[Ints, Array(int, "held", low=0)]
    number: Annotated[Ints, Array(int, "held", low=0)]
    time: Annotated[Ints, Array(int, "held")]
    offsets: Annotated[Ints, Offsets("held", "samples")]
    prob: Annotated[Floats, Array(float, "samples", low=0)]
    points: Annotated[Floats, Array(float, "samples", "dimensions")]
    existence: Annotated[Floats, Array(float, "held", low=0)]
    radius: Annotated[Floats, Array(float, None, low=0)]


@dataclass(frozen=True)
class SimilarityJoinConfig:
    """The arguments of `SimilarityJoin`, with one window per stream."""

    dimensions: int
    within: float | None
    probability: float
    windows: tuple[JoinWindow, ...]
    strategy: str = "auto"
    output: str = "append"
    alternatives: bool = True
    task: int = 0
    tasks: int = 1
    sphere: float = 0.0

    def __post_init__(self) -> None:
        if self.within is not None:
            object.__setattr__(self, "within", distance("within", self.within))
        object.__setattr__(self, "windows", windows_of(self.windows, 1))
        whole("dimensions", self.dimensions)
        whole("tasks", self.tasks)
        if type(self.task) is not int or not 0 <= self.task < self.tasks:
            raise ValueError(f"`task` must be from 0 to {self.tasks - 1}; got {self.task!r}")
        if not 0.0 <= self.sphere < np.inf:
            raise ValueError(f"`sphere` must be a radius of at least 0; got {self.sphere}")
        share("probability", self.probability)
        one_of("strategy", self.strategy, STRATEGIES)
        one_of("output", self.output, OUTPUTS)
        if self.strategy == "sort" and self.dimensions > 1:
            raise ValueError(
                f'`strategy`="sort" needs one dimension; got {self.dimensions}. Use "index"'
            )


class SimilarityJoin(PairJoin):
    """Pairs of a left and a right tuple that are similar with enough probability.

    dimensions : int >= 1, number of coordinates of a sample
    within : float > 0, largest distance at which samples match; None: the sum of both tuples' radii
    sphere : radius of the sphere on which points lie and distances are arcs; 0: Euclidean distances
    probability : float in (0, 1], beta: a pair is an answer iff Pr(match) >= beta
    windows : window of each side and key, or a pair for left and right. `Rows` is as for
        `UncertainWindow` with probability beta. With `Range`, an arriving tuple evicts tuples of
        its key that are older by at least `length`. A list of one window joins the stream with
        itself: each tuple, as the left, with earlier tuples, as the right
    strategy : "nested" examines every held tuple; "index" and "auto" prune by regions in a grid, or
        scan if that is cheaper; "sort" orders samples (one dimension only). Answers are
        bit-identical, because candidates are tested in the same way
    output : "append", answers when they are found; "changes", their removal as well
    alternatives : whether to include each answer's pairs of samples
    task, tasks : this operator is number `task`, from 0, of `tasks` operators that share the join.
        All receive all arrivals and maintain all windows. Each owns every `tasks`-th tuple of a
        stream: it keeps the tuple's samples, and returns the answers for pairs of an arrival and an
        owned tuple. Together they return the same answers as a single task

    An arrival u is matched with the tuples v_j of its key in the opposite window:
        Pr(match) = T_j * sum of Pr(u_k) Pr(v_l) over the samples with |u_k - v_l| <= within
    where T_j is the probability that v_j, if it exists, is among the `rows` newest existing
    tuples of its window (1 for time windows). Then u enters its own window, and old tuples may be
    evicted. Under "changes", an evicted tuple's answers are removed, unchanged, after the answers
    found for u. A tuple without samples never enters and never matches, but has a number.

    Tuples are numbered per side, over all keys, from 0. Results do not depend on how arrivals are
    split into calls. They are exact up to the rounding of the defining sum.
    Source: Dallachiesa et al. (2015), sections 5, 6 and 8.1; Lian and Chen (2009).
    """

    kind, version = "similarity_join", 7
    config: SimilarityJoinConfig
    state = {"tuples": Record(HeldSamples)}

    columns: ClassVar[int | None] = None  # of summaries, see `PairJoin`

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        of = self.config
        indexed = of.strategy in ("auto", "index")
        self._set_up(
            criterion(of.dimensions, of.within, of.probability, of.sphere), JOIN_COUNTS.names or (),
            columns=self.columns if indexed else 0, indexed=indexed, task=of.task, tasks=of.tasks,
        )  # fmt: skip

    def process(self, arrivals: ArrivalBatch) -> JoinAnswers:
        """Match arrivals in order, and add them to their windows. Returns answers, or changes.

        Answers and changes are ordered by arrival. For each arrival, found answers are first (by
        the number of the other tuple), then removed answers (by left, then right number).
        Raises ValueError, with state unchanged, for event times that are too far from 1970.
        """
        return self._in_parts(arrivals, PAIR_CHUNK, self._join)

    def _match(self, batch: Batch) -> Records:
        given, counts = (self.store, batch, self.criterion), self.pair_counts.view(JOIN_COUNTS)
        if self.config.strategy == "sort":
            found = join_sorted(*given, counts)
            return found[np.argsort(found["arrival"], kind="stable")]
        found, _ = join_tuples(*given, NEVER_SURE, counts)
        return found

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start: `tuples` (arrivals), `overflow` (tuples evicted only because of
        `max_tuples`), `held` (currently held tuples), `answers`, `pairs` (of an arrival and a held
        opposite tuple), `visited` (pairs or, under "sort", samples) and `candidates` (pairs whose
        samples were compared). Each of several tasks counts all tuples and pairs, but only its own
        visits and candidates."""
        tuples = int(self.tuple_counts.sum())
        return {"tuples": tuples, "overflow": self.overflow, **super().counters}

    @property
    def tuples(self) -> HeldSamples:
        tuples = self.store.tuples
        slots, code = held_slots(self.store.windows)
        offsets, prob, points = read_tuples(tuples, slots, self.config.dimensions)
        number, time, existence = tuples.number[slots], tuples.time[slots], tuples.existence[slots]
        radius = tuples.radius[slots] if self.criterion.radii else np.empty(0)
        return HeldSamples(code, number, time, offsets, prob, points, existence, radius)

    @tuples.setter
    def tuples(self, held: HeldSamples) -> None:
        n = held.number.size
        if held.radius.size != (n if self.criterion.radii else 0):
            raise ValueError("held tuples must have a radius if and only if `within` is None")
        radii = self._radii(n, held.radius if self.criterion.radii else None)
        batch = self._batch(held.code, held.number, held.time, held, radii)
        owned, lengths = self._local_rows(held.number), np.diff(held.offsets)
        if lengths[~owned].any() or (batch.existence[owned] != held.existence[owned]).any():
            raise ValueError("tuples of other tasks must not have samples")
        if (lengths[owned] == 0).any() or (held.prob > 1.0).any():
            raise ValueError("held tuples must have samples with probabilities in (0, 1]")
        if not ((held.existence > 0.0) & (held.existence <= 1.0)).all():
            raise ValueError("existences must be in (0, 1]")
        self._load(batch._replace(existence=held.existence))
