"""A quantile of a count window in sampled worlds, which move on with every arrival.

All worlds share one order of the alternatives by value, in which a world has some inside. It keeps
the place of its quantile and how many of its inside values come before: one that enters or leaves
moves the quantile to the next inside value, or the one before, at most. To find that, the order is
walked along, past the alternatives that are not inside in this world.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.laws.order_statistics import rank_of
from sfumato.kernels.laws.sampled_worlds import take_all, taken
from sfumato.kernels.signals import after_signals

# head : stream index from which on all that exists is inside; count, values : of inside tuples,
# and of those with a value; below : inside values before the quantile; owner, which : the
# quantile's tuple (stream index) and alternative (from 0)
WORLD = integers("head count values below owner which")


class Ranked(NamedTuple):
    """The alternatives with a value by value, equal ones in order of arrival.

    order : int64[r], the alternatives    owner : int64[r], position of the tuple of each
    """

    order: np.ndarray
    owner: np.ndarray


class Seen(NamedTuple):
    """What tuples were seen to take: the world in which each was looked at last, and the
    alternative it takes there; int64[tuples] each."""

    world: np.ndarray
    place: np.ndarray


@lean
def _taken(drawn, seen, i, s):
    """`taken`, found once for all alternatives of a tuple that are passed in a world."""
    if seen.world[i] != s:
        seen.world[i] = s
        seen.place[i] = taken(drawn.tuples, drawn.hashes, i, s)
    return seen.place[i]


@compiled
def _next_inside(drawn, ranked, r, step, span, s, seen):
    """Rank of the next inside alternative from rank r on (step 1), or of the one before (-1)."""
    head, newest = span
    r += step
    while True:
        i = ranked.owner[r]
        if head <= i <= newest and _taken(drawn, seen, i, s) == ranked.order[r]:
            return r
        r += step


@compiled
def slide_quantiles(state, drawn, ranked, arriving, share, out):
    """Let the arrivals enter every world.

    state : WORLD[worlds]; drawn, arriving, out : as in `slide_totals`; ranked : Ranked
    share : float64 in [0, 1]; out is the smallest inside value that at least this share of the
        inside values do not exceed, NaN where there is none
    Cost: O(1 + a) amortised an arrival and world, a alternatives in `order` to one inside.
    """
    offsets, value, order = drawn.tuples.offsets, drawn.tuples.value, ranked.order
    first, hashes, heads, w = drawn.first, drawn.hashes, arriving.heads, arriving.rows
    rank, places = np.full(value.size, -1), np.empty(heads.size, np.int64)
    for r in range(order.size):
        rank[order[r]] = r
    seen = Seen(np.full(offsets.size - 1, -1), np.empty(offsets.size - 1, np.int64))
    own, steps = value.size - offsets[arriving.begin], np.int64(0)
    for s in range(state.size):
        steps = after_signals(steps + own + 64 * heads.size)
        world = state[s]
        head, count, values, below = world.head - first, world.count, world.values, world.below
        at = np.int64(0)
        if values > 0:
            at = rank[offsets[world.owner - first] + world.which]
        take_all(drawn.tuples, hashes, arriving.begin, arriving.begin + heads.size, s, places)
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
                a = taken(drawn.tuples, hashes, head, s)
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
                    at = _next_inside(drawn, ranked, at, step, (head, i), s, seen)
            if values > 0:
                wanted = rank_of(share, values) - 1
                while below != wanted:
                    step = 1 if below < wanted else -1
                    at = _next_inside(drawn, ranked, at, step, (head, i), s, seen)
                    below += step
            if out.shape[0] > 0:
                out[t, s] = value[order[at]] if values > 0 else np.nan
        world.head, world.count, world.values, world.below = first + head, count, values, below
        if values > 0:
            i = ranked.owner[at]
            world.owner, world.which = first + i, order[at] - offsets[i]
