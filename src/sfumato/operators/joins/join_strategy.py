"""How an arrival finds its candidates in the opposing window: nested, index or sort.

A strategy keeps whatever index it needs beside the join's tuples and windows, and is told when
these move. Answers do not depend on the strategy: all end in the same test of a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.regions import summarise, summary_columns
from sfumato.kernels.joins.similarity_grid import (
    AXES,
    SMALL,
    Grid,
    join_grid,
    rebuild_all,
    relink_windows,
    unlink_windows,
)
from sfumato.kernels.joins.similarity_nested import join_nested
from sfumato.kernels.joins.similarity_sort import Ordered, join_sorted, rename_owners, sort_all
from sfumato.kernels.joins.tuple_store import Tuples, Windows

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Match:
    """What makes a match.

    within : the distance    limit : what the kernels compare with, see `distance_limit`
    probability : the threshold    least : the same, reduced by the kernels' SLACK
    """

    dimensions: int
    within: float
    limit: float
    probability: float
    least: float


@dataclass(frozen=True)
class Batch:
    """Arrivals that are written: window, slot, and where that window then begins; int64[n]."""

    code: Ints
    slots: Ints
    begins: Ints


class Strategy(Protocol):
    """What `SimilarityJoin` asks of a strategy. `columns`: of the tuples' summaries."""

    columns: int

    def written(self, tuples: Tuples, slots: Ints) -> None:
        """Tuples were written to these slots; they are not in their windows yet."""

    def resized(self, tuples: Tuples, windows: Windows) -> None:
        """Slots or windows were numbered anew or became more: build the index again."""

    def leaving(self, windows: Windows, moves: Ints) -> None:
        """These windows are about to move to other slots."""

    def moved(self, tuples: Tuples, windows: Windows, moves: Ints) -> None:
        """They have moved."""

    def repacked(self, tuples: Tuples, windows: Windows) -> None:
        """The blocks of samples have moved."""

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        """Match the batch, arrival by arrival, and move the windows; as `join_nested`."""


class Nested:
    """Every held tuple, every pair of samples: nothing to keep."""

    columns = 0

    def __init__(self, match: Match) -> None:
        self.match = match

    def written(self, tuples: Tuples, slots: Ints) -> None:
        pass

    def resized(self, tuples: Tuples, windows: Windows) -> None:
        pass

    def leaving(self, windows: Windows, moves: Ints) -> None:
        pass

    def moved(self, tuples: Tuples, windows: Windows, moves: Ints) -> None:
        pass

    def repacked(self, tuples: Tuples, windows: Windows) -> None:
        pass

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        m = self.match
        result: tuple[Ints, Floats] = join_nested(
            tuples, windows, batch.code, batch.slots, batch.begins,
            m.dimensions, m.limit, m.least, m.probability, counters,
        )  # fmt: skip
        return result


class Index(Nested):
    """Regions of tuples in a grid, pruned by object and by sample; scanned where it is cheaper."""

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self.columns = summary_columns(match.dimensions)
        self.grid = _empty_grid(0, 0)

    def written(self, tuples: Tuples, slots: Ints) -> None:
        summarise(tuples, slots, self.match.dimensions, self.match.least)

    def resized(self, tuples: Tuples, windows: Windows) -> None:
        self.grid = _empty_grid(tuples.at.size, windows.head.size)
        rebuild_all(self.grid, tuples, windows, self.match.dimensions, self.match.within)

    def leaving(self, windows: Windows, moves: Ints) -> None:
        unlink_windows(self.grid, windows, moves)

    def moved(self, tuples: Tuples, windows: Windows, moves: Ints) -> None:
        m = self.match
        relink_windows(self.grid, tuples, windows, moves, m.dimensions, m.within)

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        m = self.match
        result: tuple[Ints, Floats] = join_grid(
            tuples, windows, self.grid, batch.code, batch.slots, batch.begins,
            m.dimensions, m.within, m.limit, m.least, m.probability, counters,
        )  # fmt: skip
        return result


class Sort(Nested):
    """All samples of a window in order of value; one dimension only."""

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self.trees = _empty_trees(0, 0)

    def resized(self, tuples: Tuples, windows: Windows) -> None:
        self.trees = _empty_trees(tuples.blocks.size, windows.head.size)
        sort_all(self.trees, tuples, windows)

    def moved(self, tuples: Tuples, windows: Windows, moves: Ints) -> None:
        rename_owners(self.trees, tuples, windows, moves)

    def repacked(self, tuples: Tuples, windows: Windows) -> None:
        self.resized(tuples, windows)

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        m = self.match
        result: tuple[Ints, Floats] = join_sorted(
            tuples, windows, self.trees, batch.code, batch.slots, batch.begins,
            m.within, m.limit, m.least, m.probability, counters,
        )  # fmt: skip
        return result


def _empty_grid(slots: int, windows: int) -> Grid:
    buckets = 64
    while buckets < 2 * slots:
        buckets *= 2
    return Grid(
        buckets=np.full(buckets, -1, np.int64),
        after=np.empty(slots, np.int64),
        before=np.empty(slots, np.int64),
        cell=np.empty(slots, np.int64),
        queue=np.empty(slots, np.int64),
        front=np.zeros(windows, np.int64),
        back=np.zeros(windows, np.int64),
        side=np.zeros(windows),
        axes=np.zeros((windows, AXES), np.int64),
        due=np.full(windows, SMALL, np.int64),
    )


def _empty_trees(places: int, windows: int) -> Ordered:
    return Ordered(
        root=np.full(windows, -1, np.int64),
        left=np.empty(places, np.int64),
        right=np.empty(places, np.int64),
        value=np.empty(places),
        owner=np.empty(places, np.int64),
    )
