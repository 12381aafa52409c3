"""The number of near tuples in the opposite window of each arrival, and their near samples."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import with_room
from sfumato.kernels.compile import compiled_ieee, inlined
from sfumato.kernels.distributions.poisson_binomial import count_one
from sfumato.kernels.joins.grid import evict_expired, insert_arrival, opposite_window, search
from sfumato.kernels.joins.match_probability import is_near, limit_of, near_mass, widest_reach
from sfumato.kernels.joins.regions import ball_of
from sfumato.kernels.joins.similarity_join import filter_regions
from sfumato.kernels.joins.tuple_store import padded, widest_window
from sfumato.kernels.signals import after_signals

NEGLIGIBLE_NEIGHBOURS = 1e-15  # counts with a lower probability are left out
NEGLIGIBLE_ROW = 1e-20  # the same for numbers of newer existing tuples


class NearSamples(NamedTuple):
    """The t neighbours of the samples of arrivals, with m near samples.

    of : int64[t], ascending, the place of the arrival's sample in the batch
    number : int64[t], the neighbour's number in its stream, ascending per sample
    begins : int64[t + 1], start of the neighbour's near samples in `sample`
    sample : int64[m], index of each near sample within its tuple
    """

    of: np.ndarray
    number: np.ndarray
    begins: np.ndarray
    sample: np.ndarray


@compiled_ieee
def _count_newest(existence, slots, near, n, begin, end, rows, weight, cells, distribution):
    """Count the neighbours among the `rows` newest existing tuples of [begin, end).

    slots : ascending, the n tuples of `near`
    cells : working memory, float64[rows, n + 1]; entry (e, m) is Pr(e newer tuples exist and m are
        near); counting stops at a world's `rows`-th existing tuple
    """
    low, high, top, c = 0, 1, 1, n - 1
    cells[0, 0] = 1.0
    steps = np.int64(0)
    for v in range(end - 1, begin - 1, -1):
        both = 0.0
        if c >= 0 and slots[c] == v:
            both = min(near[c], existence[v])
            c -= 1
        far, none = max(existence[v] - both, 0.0), max(1.0 - existence[v], 0.0)
        if both > 0.0:
            for e in range(low, high):
                cells[e, top] = 0.0
            top += 1
        if high < rows:
            for m in range(top):
                cells[high, m] = 0.0
            high += 1
        elif high == rows:
            for m in range(top):
                distribution[m] += weight * far * cells[rows - 1, m]
                if m > 0:
                    distribution[m] += weight * both * cells[rows - 1, m - 1]
        steps = after_signals(steps + (high - low) * top)
        for e in range(high - 1, low - 1, -1):
            for m in range(top - 1, -1, -1):
                cell = none * cells[e, m]
                if e > low:
                    cell += far * cells[e - 1, m]
                    if m > 0:
                        cell += both * cells[e - 1, m - 1]
                cells[e, m] = cell
        while low < high and cells[low, :top].sum() < NEGLIGIBLE_ROW:
            low += 1
        while low < high and cells[high - 1, :top].sum() < NEGLIGIBLE_ROW:
            high -= 1
        if low == high:
            break
    for e in range(low, high):
        for m in range(top):
            distribution[m] += weight * cells[e, m]


@inlined
def _append(prob, value, n, distribution, top):
    """Append the counts of `distribution` at place n; return the arrays, or copies, and the end."""
    prob, value = with_room(prob, n + top), with_room(value, n + top)
    for m in range(top):
        if distribution[m] >= NEGLIGIBLE_NEIGHBOURS:
            prob[n], value[n] = distribution[m], m
            n += 1
    return prob, value, n


@compiled_ieee
def _list_near(tuples, u, k, slots, near, place, criterion, listed, counts):
    """Append the neighbours of sample k of slot u to `listed`; return `listed` or longer copies.

    slots, near : int64[n], float64[n], possible neighbours and the masses of their near samples
    place : of the sample in the batch    counts : int64[2], listed neighbours and near samples
    """
    blocks, d, (of, number, begins, sample), (t, m) = tuples.blocks, criterion.d, listed, counts
    x, x_length = tuples.at[u] + k, padded(tuples.samples[u])
    for c in range(slots.size):
        if near[c] > 0.0:
            v = slots[c]
            limit = limit_of(tuples, u, v, criterion)
            y, y_length = tuples.at[v], padded(tuples.samples[v])
            of, number = with_room(of, t + 1), with_room(number, t + 1)
            sample = with_room(sample, m + tuples.samples[v])
            for j in range(tuples.samples[v]):
                if is_near(blocks, x, x_length, y + j, y_length, d, limit):
                    sample[m] = j
                    m += 1
            begins = with_room(begins, t + 2)
            of[t], number[t], begins[t + 1] = place, tuples.number[v], m
            t += 1
    counts[0], counts[1] = t, m
    return NearSamples(of, number, begins, sample)


@compiled_ieee
def count_neighbours(store, batch, criterion, rows, listed, counts):
    """Return, per arrival, the distribution of the number of near tuples in the opposite window.

    The distribution is conditional on the arrival's existence. Given the arrival's sample, tuples
    are near independently of each other. If existences are uncertain in a full window, newer tuples
    are also counted.
    store, batch : as for `join_tuples`    criterion : with a negligible `least`
    rows : int64[streams], window sizes in existing tuples    counts : JOIN_COUNTS[1], updated
    listed : whether the near samples of arrivals of the first stream are returned
    Returns (offsets int64[n + 1], prob, value float64[m], counts ascending, NearSamples); the
    windows are moved to include the arrivals.
    Cost: per sample of an arrival O(candidates * (samples * d + near tuples)); with uncertain
    existences in a full window O(held tuples * rows * near tuples).
    Error: absolute, NEGLIGIBLE_NEIGHBOURS per count, and rounding.
    """
    widest, d = widest_window(store.windows), criterion.d
    slots, offsets = np.empty(widest, np.int64), np.zeros(batch.slots.size + 1, np.int64)
    prob, value, n, steps = np.empty(64), np.empty(64), 0, np.int64(0)
    near, part, distribution = np.empty(widest), np.empty(widest + 1), np.empty(widest + 1)
    cells, tuples, windows = np.empty((0, 0)), store.tuples, store.windows
    lists, ends = np.zeros((4, 64), np.int64), np.zeros(2, np.int64)
    found = NearSamples(lists[0], lists[1], lists[2], lists[3])
    for i in range(batch.slots.size):
        u, w, o = batch.slots[i], batch.code[i], opposite_window(store, batch.code[i])
        evict_expired(store, o, batch.time[i])
        begin, end, newest = windows.head[o], windows.tail[o], rows[o % rows.size]
        radius = widest_reach(criterion.within, windows.rounding[w] + windows.rounding[o])
        radius += tuples.radius[u] + ball_of(tuples.summary, u, d, store.grid.centre)
        reached = search(store, o, radius, slots)
        left = filter_regions(tuples, u, slots, reached, criterion)
        counts[0].pairs += end - begin
        counts[0].visited += reached
        counts[0].candidates += left
        crowded = end - begin > newest and left > 0
        if crowded:
            cells = np.empty((newest, left + 1))
        for c in range(left + 1):
            distribution[c] = 0.0
        for k in range(tuples.samples[u]):
            weight = tuples.blocks[tuples.at[u] + k] / tuples.existence[u]
            for c in range(left):
                steps = after_signals(steps + tuples.samples[slots[c]] + left)
                near[c] = near_mass(tuples, u, k, slots[c], criterion)
            if listed and w % rows.size == 0:
                place = batch.offsets[i] + k
                partners = slots[:left], near[:left]
                found = _list_near(tuples, u, k, *partners, place, criterion, found, ends)
            if crowded:
                held = tuples.existence, slots, near, left, begin, end
                _count_newest(*held, newest, weight, cells, distribution)
                continue
            low, high, part[0] = np.int64(0), np.int64(1), 1.0
            for c in range(left):
                come = near[c]
                if come > 0.0:
                    low, high = count_one(part, low, high, 1.0 - come, come, left + 1, 0.0)
            for number in range(high):
                distribution[number] += weight * part[number]
        prob, value, n = _append(prob, value, n, distribution, left + 1)
        offsets[i + 1] = n
        insert_arrival(store, batch, i)
    t, m = ends
    near_samples = NearSamples(
        found.of[:t], found.number[:t], found.begins[: t + 1], found.sample[:m]
    )
    return offsets, prob[:n], value[:n], near_samples
