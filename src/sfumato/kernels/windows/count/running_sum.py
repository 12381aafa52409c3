"""Running sum of a number over the held tuples of a window, without subtractions."""

import numpy as np

from sfumato.kernels.compile import compiled


@compiled
def running_sums(x, first, mid, heads, begin, out):
    """Sum of x over the held tuples after each arrival; the new `mid`.

    x : float64[n], held tuples then arrivals from position `begin`; first : stream index of
    position 0; mid : int64, stream index where the older part ends; heads : int64[n - begin]
    out : float64[n - begin], written
    A queue as two stacks: suffix sums of the older part, one growing sum of the newer, so nothing
    is ever subtracted and no rounding stays behind.  Cost: O(1) amortised.
    """
    older = np.zeros(max(mid - first, 0) + 1)
    for i in range(older.size - 2, -1, -1):
        older[i] = older[i + 1] + x[i]
    newer = 0.0
    for i in range(max(mid - first, 0), begin):
        newer += x[i]
    start = 0  # position of older[0]
    for t in range(heads.size):
        i = begin + t
        if heads[t] > mid - first:
            mid, start, newer = first + i, heads[t], 0.0
            older = np.zeros(i - start + 1)
            for j in range(older.size - 2, -1, -1):
                older[j] = older[j + 1] + x[start + j]
        newer += x[i]
        out[t] = newer + older[heads[t] - start]
    return mid
