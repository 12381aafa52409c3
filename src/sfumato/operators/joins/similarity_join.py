"""Joins of uncertain tuples by the similarity of their values.

A strategy (nested, index or sort) says how an arrival finds its candidates in the opposing window.
It keeps the index that it needs in addition to the join's store, and hears when tuples move.
Answers do not depend on the strategy: all end in the same test of a candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from sfumato.kernels.joins.grid import empty_indexed, join_grid, move_indexed, new_grid, rebuild_all
from sfumato.kernels.joins.match_probability import Criterion, criterion
from sfumato.kernels.joins.regions import summarise, summary_columns
from sfumato.kernels.joins.similarity_nested import JOIN_COUNTS, join_nested
from sfumato.kernels.joins.similarity_sort import (
    empty_sorted,
    join_sorted,
    move_sorted,
    new_trees,
    sort_all,
)
from sfumato.kernels.joins.tuple_store import Batch, Store, held_slots, read_tuples
from sfumato.operators.arguments import OUTPUTS, distance, one_of, share, whole
from sfumato.operators.arrays import Floats, Ints, Records
from sfumato.operators.joins.answers import Answers
from sfumato.operators.joins.arrivals import ALONE, Arrivals, Task, Window, pair_of
from sfumato.operators.joins.join_store import StoreIndex
from sfumato.operators.joins.pair_join import HELD_STATE, PAIR_CHUNK, PairJoin
from sfumato.operators.state.declared import Array, Record
from sfumato.windows import JoinWindow


class NestedStrategy(StoreIndex):
    """Every held tuple, every pair of samples: nothing to keep."""

    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion

    def written(self, store: Store, batch: Batch) -> None:
        """Tuples were written to their slots; they are not in their windows yet."""

    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        """Match the batch, arrival by arrival, and move the windows; as `join_nested`."""
        found: Records = join_nested(store, batch, self.criterion, counts)
        return found


class GridStrategy(NestedStrategy):
    """Regions of tuples in a grid, pruned by object and by sample; scanned where it is cheaper."""

    def __init__(self, criterion: Criterion) -> None:
        super().__init__(criterion)
        self.columns = summary_columns(criterion.d)
        self.grid = new_grid(0, 0)

    def rebuild(self, store: Store) -> None:
        self.grid = new_grid(store.tuples.at.size, store.windows.head.size)
        rebuild_all(self.grid, store, self.criterion.d, self.criterion.within)

    def move(self, store: Store, moves: Records) -> None:
        move_indexed(self.grid, store, moves, self.criterion.d, self.criterion.within)

    def empty(self, store: Store, windows: Ints) -> None:
        empty_indexed(self.grid, store, windows)

    def written(self, store: Store, batch: Batch) -> None:
        summarise(store.tuples, batch.slots, self.criterion.d, self.criterion.least)

    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        found: Records = join_grid(store, self.grid, batch, self.criterion, counts)
        return found


class SortStrategy(NestedStrategy):
    """All samples of a window in order of value; one dimension only."""

    def __init__(self, criterion: Criterion) -> None:
        super().__init__(criterion)
        self.trees = new_trees(0, 0)

    def rebuild(self, store: Store) -> None:
        self.trees = new_trees(store.tuples.blocks.size, store.windows.head.size)
        sort_all(self.trees, store)

    def move(self, store: Store, moves: Records) -> None:
        move_sorted(self.trees, store, moves)

    def empty(self, store: Store, windows: Ints) -> None:
        empty_sorted(self.trees, store, windows)

    def blocks_moved(self, store: Store) -> None:
        self.rebuild(store)

    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        found: Records = join_sorted(store, self.trees, batch, self.criterion, counts)
        return found


__all__ = ["Answers", "Arrivals", "SimilarityJoin", "SimilarityJoinConfig"]

STRATEGIES = ("auto", "nested", "index", "sort")


class HeldSamples(NamedTuple):
    """All tuples held, window after window, oldest first.

    code, number, time : int64[n], of the window, in the stream, microseconds
    existence : float64[n]    offsets : int64[n + 1], of the samples of those that are owned:
    prob : float64[m]    points : float64[m, d]
    """

    code: Ints
    number: Ints
    time: Ints
    existence: Floats
    offsets: Ints
    prob: Floats
    points: Floats


@dataclass(frozen=True)
class SimilarityJoinConfig:
    """The arguments of `SimilarityJoin`, one window for each side."""

    dimensions: int
    within: float
    probability: float
    windows: tuple[JoinWindow, JoinWindow]
    strategy: str = "auto"
    output: str = "append"
    alternatives: bool = True
    task: Task = ALONE

    def __post_init__(self) -> None:
        whole("dimensions", self.dimensions)
        distance("within", self.within)
        share("probability", self.probability)
        one_of("strategy", self.strategy, STRATEGIES)
        one_of("output", self.output, OUTPUTS)
        if len(self.windows) != 2:
            raise ValueError(f"`windows` must be those of two sides; got {len(self.windows)}")
        if self.strategy == "sort" and self.dimensions > 1:
            raise ValueError(
                f'`strategy`="sort" orders numbers, it needs one dimension; got {self.dimensions}: '
                'use "index"'
            )


class SimilarityJoin(PairJoin):
    """Pairs of a left and a right tuple that are similar with enough probability.

    dimensions : int >= 1, coordinates of a sample
    within : float > 0, samples match at a Euclidean distance of at most this
    probability : float in (0, 1], beta: a pair is an answer iff Pr(match) >= beta
    window : of each side and key, or a pair for left and right: `Rows`, as for `UncertainWindow`
        with beta as its probability, or `Range`, the tuples of the last `length`: what is as old
        as that, or older, when a tuple of its key comes is gone
    strategy : "nested" looks at every held tuple, "index" prunes by regions of tuples in a grid,
        "sort" orders samples (one dimension only), "auto" is "index": it scans by itself where
        a scan is cheaper than cells. Answers are the same, to the last bit
    output : "append", answers as they are found; "changes", also their leaving
    alternatives : whether answers come with their pairs of samples
    task : which part of the work this operator does, where several share it: see `Task`

    An arrival u is matched with the tuples v_j of its key that the opposing window holds then:
        Pr(match) = T_j * sum of Pr(u_k) Pr(v_l) over the samples with |u_k - v_l| <= within
    where T_j is the probability that v_j, if it exists, is among the `rows` newest existing
    tuples of its window (1 where windows go by time). Then u enters its own window, from which the
    oldest may be evicted. Under "changes" the answers of an evicted tuple leave, unchanged, after
    those that came with u. A tuple without samples never enters and never matches, but has a
    number.

    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Tuples have numbers: the i-th ever given of a side, over all keys, from 0.

    Guarantee: answers are exact, up to the rounding of the defining sum.
    Raises ValueError for arguments outside these ranges, and for "sort" in several dimensions.
    Source: A, sections 5, 6 and 8.1; B.

    >>> join = SimilarityJoin(1, 1.0, 0.5, Rows(10))
    >>> answers = join.process(Arrivals(
    ...     side=np.array([0, 1], np.uint8), key=np.zeros(2, np.int64), offsets=np.array([0, 2, 3]),
    ...     prob=np.array([0.5, 0.5, 1.0]), points=np.array([[3.0], [9.0], [4.0]])))
    >>> answers.left.tolist(), answers.right.tolist(), answers.probability.tolist()
    ([0], [0], [0.5])
    """

    kind, version = "similarity_join", 3
    config: SimilarityJoinConfig
    state = {
        "tuples": Record(HeldSamples, {**HELD_STATE, "existence": Array(float, "held", low=0)}),
        "counted": Array(int, len(JOIN_COUNTS.names or ()), low=0),
    }
    strategies: ClassVar[dict[str, type[NestedStrategy]]] = {
        "nested": NestedStrategy,
        "sort": SortStrategy,
    }  # else GridStrategy

    def __init__(
        self,
        dimensions: int,
        within: float,
        probability: float,
        window: Window | Sequence[Window],
        *,
        strategy: str = "auto",
        output: str = "append",
        alternatives: bool = True,
        task: Task = ALONE,
    ) -> None:
        left, right = pair_of(window)
        within = distance("within", within)
        self.config = SimilarityJoinConfig(
            dimensions, within, probability, (left, right), strategy, output, alternatives, task
        )
        about = criterion(dimensions, within, probability)
        self._strategy = self.strategies.get(strategy, GridStrategy)(about)
        super().__init__(about, self.config.windows, output, alternatives, self._strategy, task)
        self._counts = np.zeros(1, JOIN_COUNTS)

    def process(self, arrivals: Arrivals) -> Answers:
        """Match arrivals, in order, and let them enter; the answers, or changes, they cause.

        Answers are ordered by arrival; of one arrival first those found (by the number of the
        other tuple), then those that leave (by left, then right number).
        Raises TypeError or ValueError, with nothing taken, for arrays of wrong dtype or shape.
        """
        arrivals = arrivals.checked(self.config.dimensions)
        n, step = arrivals.side.size, PAIR_CHUNK
        if n <= 2 * step:
            return self._process(arrivals)
        parts = []
        for begin in range(0, n, step):
            part = self._process(arrivals.part(begin, min(begin + step, n)))
            parts.append(replace(part, arrival=part.arrival + begin))
        return Answers.joined(parts)

    def _process(self, arrivals: Arrivals) -> Answers:
        side = arrivals.side.astype(np.int64)
        time = self._times(arrivals.key, arrivals.time)
        numbers, places = self.given.next(side), None
        if (arrivals.offsets[1:] == arrivals.offsets[:-1]).any():
            places = np.flatnonzero(np.diff(arrivals.offsets))
            arrivals, side, numbers = arrivals.take(places), side[places], numbers[places]
            time = time[places]
        samples = (arrivals.offsets, arrivals.prob, arrivals.points)
        batch = self._batch(2 * arrivals.key + side, numbers, time, samples)
        self.store.admit(batch)
        store, heads = self.store.store, self._heads()
        self._strategy.written(store, batch)
        found = self._strategy.join(store, batch, self._counts)
        answers = self._changes(batch, heads, self._answers(batch, found))
        self.store.drop_foreign(batch)
        if places is not None:
            answers = replace(answers, arrival=places[answers.arrival])
        return answers

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start.

        tuples given; held now; answers found; overflow (evicted only by `max_tuples`); pairs of an
        arrival and a tuple held opposite; visited of these (samples, under "sort"); candidates,
        left after pruning, whose samples were paired. Of several tasks each counts all tuples and
        pairs, and what itself visited.
        """
        tuples = int(self.given.given.sum())
        return {"tuples": tuples, "overflow": self.overflow, **super().counters}

    @property
    def tuples(self) -> HeldSamples:
        """The tuples held."""
        tuples = self.store.store.tuples
        slots, code = held_slots(self.store.store.windows)
        samples = read_tuples(tuples, slots, self.config.dimensions)
        lines = tuples.number[slots], tuples.time[slots], tuples.existence[slots]
        return HeldSamples(code, *lines, *samples)

    @tuples.setter
    def tuples(self, held: HeldSamples) -> None:
        self._check_held(held)
        owned = np.flatnonzero(self.store.owned(held.number))
        foreign = np.delete(held.offsets[1:] - held.offsets[:-1], owned)
        batch = self._batch(held.code, held.number, held.time, held[4:])
        if foreign.any() or (batch.existence[owned] != held.existence[owned]).any():
            raise ValueError("samples must be those of the tuples that are owned")
        if (np.diff(held.offsets)[owned] == 0).any() or (held.prob > 1.0).any():
            raise ValueError("held tuples must have samples with probabilities in (0, 1]")
        if not ((held.existence > 0.0) & (held.existence <= 1.0)).all():
            raise ValueError("existences must be in (0, 1]")
        batch = batch._replace(existence=held.existence)
        self.store.load(batch)
        batch = batch._replace(slots=batch.slots[owned])
        self._strategy.written(self.store.store, batch)
        self._strategy.rebuild(self.store.store)
