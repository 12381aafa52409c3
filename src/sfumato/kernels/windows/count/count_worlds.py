"""Sampled worlds of a count window, updated with every arrival.

**Quantiles.** All worlds share one order of the alternatives by value; in each world, some
alternatives are inside. A world keeps the place of its quantile and the number of inside values
before the quantile. A value that enters or leaves moves the quantile by at most one inside value.
To find that value, the order is scanned past the alternatives that are not inside in this world.

**Sums and averages** take O(1) per arrival and world. Nothing is ever subtracted, so rounding
errors do not accumulate, and a total depends only on the held tuples and their stream indices, not
on the start of its world. The stream is cut into blocks of 2**b tuples by index. With the oldest
inside tuple in block h and the newest in block t,

    total = (values from the oldest to the end of h) + (blocks h + 1 ... t - 1) + (t so far)

where each term is one number per world. As the oldest tuple moves through a block, its part of the
total is read from a row of suffix sums, together with the place of the next existing tuple. The row
is written when the oldest tuple reaches the block; the blocks between are then summed again. With
blocks of about sqrt(w) tuples, both cost O(1) per arrival. Blocks have at most 64 tuples, so that
places fit into a byte.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, integers_and_reals
from sfumato.kernels.compile import compiled, inlined, lean
from sfumato.kernels.distributions.order_statistics import rank_of
from sfumato.kernels.distributions.sampled_worlds import alternative_in_world, draw_alternatives
from sfumato.kernels.signals import after_signals

# head : stream index from which all existing tuples are inside; count, values : numbers of inside
#   tuples and of inside values; below : number of inside values before the quantile; owner, which :
#   the quantile's tuple (stream index) and alternative (from 0)
QUANTILE_WORLD = integers("head count values below owner which")


class RankedAlternatives(NamedTuple):
    """The alternatives with a value, ordered by value, equal values in order of arrival.

    order : int64[r], the alternatives    owner : int64[r], position of each alternative's tuple
    """

    order: np.ndarray
    owner: np.ndarray


class CachedAlternatives(NamedTuple):
    """The last world evaluated for each tuple, and the tuple's alternative in it."""

    world: np.ndarray
    place: np.ndarray


@lean
def _alternative_taken(drawn, cached, i, s):
    """Return `alternative_in_world`, computed once per tuple and world."""
    if cached.world[i] != s:
        cached.world[i] = s
        cached.place[i] = alternative_in_world(drawn.tuples, drawn.hashes, i, s)
    return cached.place[i]


@compiled
def _next_inside(drawn, ranked, r, step, span, s, cached):
    """Return the rank of the next (step 1) or previous (step -1) inside alternative from rank r."""
    head, newest = span
    r += step
    while True:
        i = ranked.owner[r]
        if head <= i <= newest and _alternative_taken(drawn, cached, i, s) == ranked.order[r]:
            return r
        r += step


@compiled
def slide_quantiles(state, drawn, ranked, arriving, share, out):
    """Add the arrivals to every world.

    state : QUANTILE_WORLD[worlds]; drawn, arriving, out : as in `slide_totals`
    ranked : RankedAlternatives;  share : float64 in [0, 1]; `out` is the smallest inside value v
        such that at least this share of the inside values are <= v, NaN without a value
    Cost: O(1 + a) amortised per arrival and world, for a alternatives in `order` per inside
    alternative.
    """
    offsets, value, order = drawn.tuples.offsets, drawn.tuples.value, ranked.order
    first, hashes, heads, w = drawn.first, drawn.hashes, arriving.heads, arriving.rows
    rank, places = np.full(value.size, -1), np.empty(heads.size, np.int64)
    for r in range(order.size):
        rank[order[r]] = r
    cached = CachedAlternatives(np.full(offsets.size - 1, -1), np.empty(offsets.size - 1, np.int64))
    own, steps = value.size - offsets[arriving.begin], np.int64(0)
    for s in range(state.size):
        steps = after_signals(steps + own + 64 * heads.size)
        world = state[s]
        head, count, values, below = world.head - first, world.count, world.values, world.below
        at = np.int64(0)
        if values > 0:
            at = rank[offsets[world.owner - first] + world.which]
        draw_alternatives(
            drawn.tuples, hashes, arriving.begin, arriving.begin + heads.size, s, places
        )
        for t in range(heads.size):
            i, a = arriving.begin + t, places[t]
            if a >= 0:
                count += 1
                if rank[a] >= 0:
                    if values == 0:
                        at, below = rank[a], 0
                    elif rank[a] < at:
                        below += 1
                    values += 1
            while count > w or head < heads[t]:
                a = alternative_in_world(drawn.tuples, hashes, head, s)
                head += 1
                if a < 0:
                    continue
                count -= 1
                if rank[a] < 0:
                    continue
                values -= 1
                if rank[a] < at:
                    below -= 1
                elif rank[a] == at and values > 0:
                    step = 1 if below < values else -1
                    below -= step < 0
                    at = _next_inside(drawn, ranked, at, step, (head, i), s, cached)
            if values > 0:
                wanted = rank_of(share, values) - 1
                while below != wanted:
                    step = 1 if below < wanted else -1
                    at = _next_inside(drawn, ranked, at, step, (head, i), s, cached)
                    below += step
            if out.shape[0] > 0:
                out[t, s] = value[order[at]] if values > 0 else np.nan
        world.head, world.count, world.values, world.below = first + head, count, values, below
        if values > 0:
            i = ranked.owner[at]
            world.owner, world.which = first + i, order[at] - offsets[i]


# head, count, values : as in QUANTILE_WORLD; block : number of the block of `rest`; middle,
#   newest : sums of the blocks between, and of the newest block so far
TOTAL_WORLD = integers_and_reals("head count values block", "middle newest")


class WorldTotals(NamedTuple):
    """State of n worlds.

    worlds : TOTAL_WORLD[n]
    blocks : float64[n, 2**r], sums of whole blocks, block number c at c % 2**r
    rest : float64[n, 2**b + 1], suffix sums of the oldest tuple's block
    following : uint8[n, 2**b + 1], for each place in that block, twice the place of the first
        existing tuple from there onwards (2**b if there is none), plus 1 if it has a value
    """

    worlds: np.ndarray
    blocks: np.ndarray
    rest: np.ndarray
    following: np.ndarray


class WorldArrivals(NamedTuple):
    """Arrivals after the held tuples, and the contents of the window after each.

    begin : int64, position of the first arrival;  rows : int64, w
    heads : int64[k], position of the oldest held tuple after each
    """

    begin: int
    heads: np.ndarray
    rows: int


@inlined
def _enter_block(state, drawn, head, newest, s):
    """Write the state of the block of position `head`, starting there; return the middle sum."""
    blocks, rest, following = state.blocks[s], state.rest[s], state.following[s]
    value, size = drawn.tuples.value, rest.size - 1
    begin = ((drawn.first + head) & -size) - drawn.first
    places = np.empty(size, np.int64)
    draw_alternatives(drawn.tuples, drawn.hashes, head, begin + size, s, places)
    rest[size], following[size] = 0.0, 2 * size
    for x in range(size - 1, head - begin - 1, -1):
        a = places[x - (head - begin)]
        rest[x], following[x] = rest[x + 1], following[x + 1]
        if a >= 0:
            valued = not np.isnan(value[a])
            following[x] = 2 * x + valued
            if valued:
                rest[x] = value[a] + rest[x + 1]
    middle = 0.0
    for block in range(1 + (drawn.first + head) // size, newest):
        middle += blocks[block & (blocks.size - 1)]
    return middle


@lean
def _total(drawn, head, end, s):
    total, value = 0.0, drawn.tuples.value
    for i in range(head, end):
        a = alternative_in_world(drawn.tuples, drawn.hashes, i, s)
        if a >= 0 and not np.isnan(value[a]):
            total += value[a]
    return total


@compiled
def slide_totals(state, drawn, arriving, average, out):
    """Add the arrivals to every world.

    state : WorldTotals; the blocks of all held tuples must fit into state.blocks
    drawn : SampledWorlds, held tuples and arrivals; arriving : WorldArrivals
    average : bool, average instead of sum
    out : float64[k, worlds], written unless it has no rows; without a value, a sum is 0 and an
        average NaN
    Cost: O(1) amortised per arrival and world.  Error: as for adding the inside values once.
    """
    size, cells = state.rest.shape[1] - 1, state.blocks.shape[1] - 1
    first, value, heads, w = drawn.first, drawn.tuples.value, arriving.heads, arriving.rows
    shift, places, steps = np.int64(0), np.empty(heads.size, np.int64), np.int64(0)
    own = value.size - drawn.tuples.offsets[arriving.begin]
    while 1 << shift < size:
        shift += 1
    for s in range(state.worlds.size):
        steps = after_signals(steps + own + 64 * heads.size)
        world, blocks = state.worlds[s], state.blocks[s]
        rest, following = state.rest[s], state.following[s]
        head, count, values, block = world.head - first, world.count, world.values, world.block
        middle, newest = world.middle, world.newest
        draw_alternatives(
            drawn.tuples, drawn.hashes, arriving.begin, arriving.begin + heads.size, s, places
        )
        for t in range(heads.size):
            i, a = arriving.begin + t, places[t]
            last = (first + i) >> shift
            if last << shift == first + i:  # a new block, so the previous one is complete
                blocks[(last - 1) & cells] = newest
                middle += newest
                newest = 0.0
            if a >= 0:
                count += 1
                if not np.isnan(value[a]):
                    values += 1
                    newest += value[a]
            while True:
                oldest = (first + head) >> shift
                if oldest < last and oldest != block:
                    middle = _enter_block(state, drawn, head, last, s)
                    block = oldest
                if count <= w and head >= heads[t]:
                    break
                if oldest < last:
                    start = (oldest << shift) - first
                    after = np.int64(following[head - start])
                    leaving = start + (after >> 1)
                    if count <= w and leaving >= heads[t]:
                        head = heads[t]
                    elif after >> 1 == size:
                        head = leaving
                    else:
                        head, count, values = leaving + 1, count - 1, values - (after & 1)
                else:
                    a = alternative_in_world(drawn.tuples, drawn.hashes, head, s)
                    if a >= 0:
                        count, values = count - 1, values - (not np.isnan(value[a]))
                    head += 1
            if out.shape[0] == 0:
                continue
            if oldest < last:
                total = (rest[first + head - (oldest << shift)] + middle) + newest
            else:
                total = _total(drawn, head, i + 1, s)
            if not average:
                out[t, s] = total
            else:
                out[t, s] = total / values if values > 0 else np.nan
        world.head, world.count, world.values, world.block = first + head, count, values, block
        world.middle, world.newest = middle, newest
