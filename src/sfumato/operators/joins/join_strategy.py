"""How an arrival finds its candidates in the opposing window: nested, index or sort.

A strategy keeps whatever index it needs beside the join's store, and hears when tuples move.
Answers do not depend on the strategy: all end in the same test of a candidate.
"""

from sfumato.kernels.joins.grid_index import empty_indexed, move_indexed, new_grid, rebuild_all
from sfumato.kernels.joins.match_probability import Criterion
from sfumato.kernels.joins.regions import summarise, summary_columns
from sfumato.kernels.joins.similarity_grid import join_grid
from sfumato.kernels.joins.similarity_nested import join_nested
from sfumato.kernels.joins.similarity_sort import (
    empty_sorted,
    join_sorted,
    move_sorted,
    new_trees,
    sort_all,
)
from sfumato.kernels.joins.tuple_store import Batch, Store
from sfumato.operators.arrays import Ints, Records
from sfumato.operators.joins.join_store import StoreIndex


class Nested(StoreIndex):
    """Every held tuple, every pair of samples: nothing to keep."""

    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion

    def written(self, store: Store, batch: Batch) -> None:
        """Tuples were written to their slots; they are not in their windows yet."""

    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        """Match the batch, arrival by arrival, and move the windows; as `join_nested`."""
        found: Records = join_nested(store, batch, self.criterion, counts)
        return found


class Index(Nested):
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


class Sort(Nested):
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
