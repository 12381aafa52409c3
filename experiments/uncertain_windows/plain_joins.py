"""Joins of Dallachiesa et al. (2015) in one dimension: nested loops, and Index-Match."""

from typing import Any

import numpy as np

from sfumato.kernels.arrays import sort_pairs, sort_slots
from sfumato.kernels.compile import compiled, lean_inline
from sfumato.kernels.joins.grid import evict_expired, insert_arrival, opposite_window, search
from sfumato.kernels.joins.match_probability import defining_sum
from sfumato.kernels.joins.similarity_join import JOIN_COUNTS, MATCHED_PAIR, add_pair
from sfumato.kernels.joins.tuple_store import Batch, padded, widest_window
from sfumato.kernels.tolerances import SIFT_SLACK
from sfumato.operators.arrays import Ints, Records
from sfumato.operators.joins.similarity_join import SimilarityJoin

MOST_SAMPLES = 50  # per tuple, the largest number in the paper's Table 2
# Columns of a tuple's summary. The grid reads the first four.
CENTRE, RADIUS, LOWEST, HIGHEST = range(4)
RADII = 4  # distances of the samples to the centre, ascending
MASSES = RADII + MOST_SAMPLES  # probability within each of these distances


@compiled
def join_plainly(store: Any, batch: Any, criterion: Any, counts: Any) -> Any:
    """Join like `join_tuples` in one dimension, with plain loops over the pairs of samples.

    Source: Dallachiesa et al. (2015), section 5 (the baseline).
    """
    found, n, tuples = np.empty(64, MATCHED_PAIR), 0, store.tuples
    for i in range(batch.code.size):
        u, o = batch.slots[i], opposite_window(store, batch.code[i])
        evict_expired(store, o, batch.time[i])
        begin, end = store.windows.head[o], store.windows.tail[o]
        for v in range(begin, end):
            total = defining_sum(tuples, u, v, criterion)
            if total >= criterion.probability:
                found = add_pair(found, n, i, o, v, end, total)
                n += 1
        counts[0].candidates += end - begin
        counts[0].pairs += end - begin
        counts[0].visited += end - begin
        insert_arrival(store, batch, i)
    return found[:n]


@compiled
def write_balls(tuples: Any, slots: Any) -> None:
    """Write centroid, extremes, and the balls around the centroid to each slot's summary.

    Source: Lian and Chen (2009), section 5: the ball of radius r holds the samples within r of the
    centroid.
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

    If two balls are farther apart than the distance, only the mass outside one of them can match.
    Cost: O(samples).  Source: Lian and Chen (2009), Lemmas 5.1 to 5.4; Dallachiesa et al. (2015),
    section 6.2.1.
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
def join_by_balls(store: Any, batch: Any, criterion: Any, counts: Any) -> Any:
    """Join like `join_plainly`, only with the tuples that the grid and the balls do not rule out.

    The grid is the library's; its cells contain tuples by centroid.
    Source: Dallachiesa et al. (2015), section 6.2.1 (Index-Match); Lian and Chen (2009), sections 5
    and 6 (Grid, r_max).
    """
    found, n, tuples = np.empty(64, MATCHED_PAIR), 0, store.tuples
    summary, windows = tuples.summary, store.windows
    visited = np.empty(widest_window(windows), np.int64)
    for i in range(batch.code.size):
        u, o = batch.slots[i], opposite_window(store, batch.code[i])
        evict_expired(store, o, batch.time[i])
        begin, end = windows.head[o], windows.tail[o]
        store.grid.centre[0] = summary[u, CENTRE]
        reached, left = search(store, o, criterion.within + summary[u, RADIUS], visited), 0
        for k in range(reached):
            if not balls_prune(tuples, u, visited[k], criterion):
                visited[left] = visited[k]
                left += 1
        sort_slots(visited, left)
        for k in range(left):
            if k > 0 and visited[k] == visited[k - 1]:
                continue  # cells may share a bucket, whose tuples are then found twice
            total = defining_sum(tuples, u, visited[k], criterion)
            if total >= criterion.probability:
                found = add_pair(found, n, i, o, visited[k], end, total)
                n += 1
        counts[0].pairs += end - begin
        counts[0].visited += reached
        counts[0].candidates += left
        insert_arrival(store, batch, i)
    return found[:n]


class PlainNestedJoin(SimilarityJoin):
    """`SimilarityJoin` in one dimension that compares arrivals with every tuple, pair by pair."""

    def _match(self, batch: Batch) -> Records:
        found: Records = join_plainly(
            self.store, batch, self.criterion, self.pair_counts.view(JOIN_COUNTS)
        )
        return found


class IndexMatchJoin(SimilarityJoin):
    """A join that skips tuples ruled out by a grid and by balls around part of the samples."""

    columns = MASSES + MOST_SAMPLES

    def _describe(self, slots: Ints) -> None:
        tuples = self.store.tuples
        most = int(tuples.samples[slots].max(initial=0))
        if most > MOST_SAMPLES:
            raise ValueError(
                f"Index-Match takes up to {MOST_SAMPLES} samples per tuple; got {most}"
            )
        write_balls(tuples, slots)

    def _match(self, batch: Batch) -> Records:
        found: Records = join_by_balls(
            self.store, batch, self.criterion, self.pair_counts.view(JOIN_COUNTS)
        )
        return found
