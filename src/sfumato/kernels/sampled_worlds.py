"""Seeded possible worlds of a count window: the sum, average or a quantile of the inside tuples."""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.capped_laws import rank_of

SUM, AVERAGE, QUANTILE = range(3)


@njit(cache=True, nogil=True)
def uniform(seed, tuple_index, world):
    """A number in [0, 1) that is a function of its three int64 arguments (SplitMix64's mixing)."""
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(tuple_index)
    for _ in range(2):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) + np.uint64(world) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def sampled_values(offsets, prob, value, head, end, first, w, function, q, seed, samples):
    """The aggregate's value in `samples` worlds, NaN where it is undefined; ascending, NaN last.

    first : int64, stream index of position 0: world s takes of each tuple what (seed, stream
        index, s) says, so it stays the same world from one arrival to the next
    function : SUM, AVERAGE or QUANTILE (then q in [0, 1])
    Cost: O(samples * held).
    """
    results, inside = np.empty(samples), np.empty(w)
    for s in range(samples):
        count, values, total = 0, 0, 0.0
        for i in range(end - 1, head - 1, -1):
            left = uniform(seed, first + i, s)
            for a in range(offsets[i], offsets[i + 1]):
                left -= prob[a]
                if left < 0.0:
                    count += 1
                    if not np.isnan(value[a]):
                        inside[values] = value[a]
                        values += 1
                        total += value[a]
                    break
            if count == w:
                break
        if function == SUM:
            results[s] = total
        elif values == 0:
            results[s] = np.nan
        elif function == AVERAGE:
            results[s] = total / values
        else:
            results[s] = np.sort(inside[:values])[rank_of(q, values) - 1]
    return np.sort(results)
