"""A quantile of a count window in sampled worlds, kept up with every arrival.

All worlds share one order of the alternatives by value, in which a world has some inside. It keeps
the place of its quantile and how many of its inside values come before: one that enters or leaves
moves the quantile to the next inside value, or the one before, at most. To find that, the order is
walked along, past the alternatives that are not inside in this world.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.order_statistics import rank_of
from sfumato.kernels.laws.sampled_worlds import take_all, taken

# Columns of the state. HEAD: stream index from which on all that exists is inside; COUNT, VALUES:
# of inside tuples, and of those with a value; BELOW: inside values before the quantile;
# OWNER, WHICH: the quantile's tuple (stream index) and alternative (from 0).
HEAD, COUNT, VALUES, BELOW, OWNER, WHICH, COLUMNS = range(7)


@compiled
def _next_inside(offsets, prob, hashes, order, owner, r, step, head, newest, s):
    """Rank of the next inside alternative from rank r on (step 1), or of the one before (-1)."""
    r += step
    while True:
        i = owner[r]
        if head <= i <= newest and taken(offsets, prob, hashes, i, s) == order[r]:
            return r
        r += step


@compiled
def slide_quantiles(
    state, offsets, prob, value, hashes, order, owner, first, begin, heads, w, q, out
):  # fmt: skip
    """Let the tuples at positions begin, begin + 1, ... enter every world.

    state : int64[worlds, COLUMNS]
    offsets, prob, value, hashes, first, heads, w : as in `slide_totals`
    order : int64[r], the alternatives with a value, by value, equal ones in order of arrival;
        owner : int64[r], position of the tuple of each
    q : float64 in [0, 1]
    out : float64[k, worlds], written unless it has no rows: the smallest inside value that at
        least q of the inside values do not exceed, NaN where there is none

    Cost: O(1 + a) amortised an arrival and world, a alternatives in `order` to one inside.
    Error: none.
    """
    rank, places = np.full(value.size, -1), np.empty(heads.size, np.int64)
    for r in range(order.size):
        rank[order[r]] = r
    for s in range(state.shape[0]):
        world = state[s]
        head, count, values, below = world[HEAD] - first, world[COUNT], world[VALUES], world[BELOW]
        at = np.int64(0)
        if values > 0:
            at = rank[offsets[world[OWNER] - first] + world[WHICH]]
        take_all(offsets, prob, hashes, begin, begin + heads.size, s, places)
        for t in range(heads.size):
            i, a = begin + t, places[t]
            if a >= 0:
                count += 1
                if rank[a] >= 0:
                    if values == 0:
                        at, below = rank[a], 0
                    elif rank[a] < at:
                        below += 1
                    values += 1
            while count > w or head < heads[t]:
                a = taken(offsets, prob, hashes, head, s)
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
                    at = _next_inside(offsets, prob, hashes, order, owner, at, step, head, i, s)
            if values > 0:
                wanted = rank_of(q, values) - 1
                while below != wanted:
                    step = 1 if below < wanted else -1
                    at = _next_inside(offsets, prob, hashes, order, owner, at, step, head, i, s)
                    below += step
            if out.shape[0] > 0:
                out[t, s] = value[order[at]] if values > 0 else np.nan
        world[HEAD], world[COUNT], world[VALUES], world[BELOW] = first + head, count, values, below
        if values > 0:
            i = owner[at]
            world[OWNER], world[WHICH] = first + i, order[at] - offsets[i]
