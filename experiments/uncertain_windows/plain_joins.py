"""A's own joins in one dimension: plain nested loops, and Index-Match by balls in a grid."""

from typing import Any

import numpy as np

from sfumato.kernels.arrays import sort_pairs, sort_slots
from sfumato.kernels.compile import compiled, lean_inline
from sfumato.kernels.joins.grid import (
    AXES,
    cells_around,
    empty_indexed,
    enter_indexed,
    move_indexed,
    new_grid,
    rebuild_all,
    search,
)
from sfumato.kernels.joins.match_probability import defining_sum
from sfumato.kernels.joins.similarity_nested import FOUND, add_found, enter_behind, opposite
from sfumato.kernels.joins.tuple_store import Batch, Store, first_in_time, padded, widest_window
from sfumato.kernels.tolerances import SIFT_SLACK
from sfumato.operators.arrays import Ints, Records
from sfumato.operators.joins.similarity_join import NestedStrategy, SimilarityJoin

MOST_SAMPLES = 50  # per tuple, the most of A's Table 2
# Columns of a tuple's summary. The first four are those that the grid reads.
CENTRE, RADIUS, LOWEST, HIGHEST = range(4)
RADII = 4  # distances of the samples to the centre, rising
MASSES = RADII + MOST_SAMPLES  # probability within each of these distances


@compiled
def join_plainly(store: Any, batch: Any, criterion: Any, counts: Any) -> Any:
    """Join as `join_nested` in one dimension, by plain loops over the pairs of samples.

    Source: A, section 5 (the baseline).
    """
    found, n, tuples = np.empty(64, FOUND), 0, store.tuples
    for i in range(batch.code.size):
        u = batch.slots[i]
        begin, end = opposite(store, batch, i)
        for v in range(begin, end):
            total = defining_sum(tuples, u, v, criterion)
            if total >= criterion.probability:
                found = add_found(found, n, i, batch.code[i] ^ 1, v, end, total)
                n += 1
        counts[0].candidates += end - begin
        counts[0].pairs += end - begin
        counts[0].visited += end - begin
        enter_behind(store, batch, i)
    return found[:n]


@compiled
def write_balls(tuples: Any, slots: Any) -> None:
    """Write centroid, extremes, and the balls around the centroid, to each slot's summary.

    Source: B, section 5: the ball of radius r holds the samples within r of the centroid.
    """
    value, mass = np.empty(MOST_SAMPLES), np.empty(MOST_SAMPLES)
    for s in slots:
        at, count, line = tuples.at[s], tuples.samples[s], tuples.summary[s]
        row = at + padded(count)
        values = tuples.blocks[row : row + count]
        centre = values.mean()
        for k in range(count):
            value[k], mass[k] = abs(values[k] - centre), tuples.blocks[at + k]
        sort_pairs(value, mass, count)
        inside = 0.0
        for k in range(count):
            inside += mass[k]
            line[RADII + k], line[MASSES + k] = value[k], inside
        line[CENTRE], line[RADIUS] = centre, value[count - 1]
        line[LOWEST], line[HIGHEST] = values.min(), values.max()


@lean_inline
def balls_prune(tuples: Any, u: Any, v: Any, criterion: Any) -> Any:
    """Return whether Lemma 5.1 or, for some pair of balls, Lemma 5.2 rules out a match.

    Two balls farther apart than the distance leave at most the mass outside of one of them.
    Cost: O(samples).  Source: B, Lemmas 5.1 to 5.4; A, section 6.2.1.
    """
    summary = tuples.summary
    apart = abs(summary[u, CENTRE] - summary[v, CENTRE]) - criterion.within
    radii = summary[u, RADIUS] + summary[v, RADIUS]
    slack = SIFT_SLACK * (abs(apart) + criterion.within + radii)
    pruned = apart > radii + slack
    if not pruned:
        x, x_last, y = 0, tuples.samples[u] - 1, tuples.samples[v] - 1
        whole = summary[u, MASSES + x_last] * summary[v, MASSES + y]
        while x <= x_last and not pruned:
            far = apart - slack - summary[u, RADII + x]
            while y >= 0 and summary[v, RADII + y] >= far:
                y -= 1
            if y < 0:
                break
            pruned = whole - summary[u, MASSES + x] * summary[v, MASSES + y] < criterion.least
            x += 1
    return pruned


@compiled
def join_by_balls(store: Any, grid: Any, batch: Any, criterion: Any, counts: Any) -> Any:
    """Join as `join_plainly`, only with the tuples that the grid and the balls leave.

    The grid is the library's; its cells hold the tuples by their centroids.
    Source: A, section 6.2.1 (Index-Match); B, sections 5 and 6 (Grid, r_max).
    """
    found, n, tuples = np.empty(64, FOUND), 0, store.tuples
    summary, windows = tuples.summary, store.windows
    visited, box = np.empty(widest_window(windows), np.int64), np.empty((AXES, 2), np.int64)
    extent = np.empty(1)
    for i in range(batch.code.size):
        u, o = batch.slots[i], batch.code[i] ^ 1
        begin, end = first_in_time(store, o, batch.time[i]), windows.tail[o]
        reached = -1
        if grid.side[o] > 0.0 and grid.front[o] < grid.back[o]:
            largest = summary[grid.queue[grid.front[o]], RADIUS]
            reach = criterion.within + summary[u, RADIUS] + largest
            if cells_around(grid, o, summary[u], 1, reach, box) < end - begin:
                reached = search(grid, o, windows, box, visited)
        if reached < 0:
            reached = end - begin
            for k in range(reached):
                visited[k] = begin + k
        left = 0
        for k in range(reached):
            if visited[k] >= begin and not balls_prune(tuples, u, visited[k], criterion):
                visited[left] = visited[k]
                left += 1
        sort_slots(visited, left)
        for k in range(left):
            if k > 0 and visited[k] == visited[k - 1]:
                continue  # two cells may share a bucket, whose tuples are then found twice
            total = defining_sum(tuples, u, visited[k], criterion)
            if total >= criterion.probability:
                found = add_found(found, n, i, o, visited[k], end, total)
                n += 1
        counts[0].pairs += end - begin
        counts[0].visited += reached
        counts[0].candidates += left
        enter_indexed(grid, store, batch, i, criterion, extent)
    return found[:n]


class _Plain(NestedStrategy):
    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        found: Records = join_plainly(store, batch, self.criterion, counts)
        return found


class _Balls(NestedStrategy):
    columns = MASSES + MOST_SAMPLES

    def __init__(self, criterion: Any) -> None:
        super().__init__(criterion)
        self.grid = new_grid(0, 0)

    def rebuild(self, store: Store) -> None:
        self.grid = new_grid(store.tuples.at.size, store.windows.head.size)
        rebuild_all(self.grid, store, 1, self.criterion.within)

    def move(self, store: Store, moves: Records) -> None:
        move_indexed(self.grid, store, moves, 1, self.criterion.within)

    def empty(self, store: Store, windows: Ints) -> None:
        empty_indexed(self.grid, store, windows)

    def written(self, store: Store, batch: Batch) -> None:
        most = int(store.tuples.samples[batch.slots].max(initial=0))
        if most > MOST_SAMPLES:
            raise ValueError(
                f"Index-Match takes up to {MOST_SAMPLES} samples per tuple; got {most}"
            )
        write_balls(store.tuples, batch.slots)

    def join(self, store: Store, batch: Batch, counts: Records) -> Records:
        found: Records = join_by_balls(store, self.grid, batch, self.criterion, counts)
        return found


class PlainNestedJoin(SimilarityJoin):
    """`SimilarityJoin` in one dimension that compares arrivals with every tuple, pair by pair.

    The library's own "nested" does the same four samples at a time.
    """

    strategies = {"nested": _Plain}


class IndexMatchJoin(SimilarityJoin):
    """The same, but for the tuples that a grid and balls around part of the samples rule out.

    The library's own "index" prunes by quantiles of the samples instead.
    """

    strategies = {"nested": _Balls}
