"""Count windows of many groups whose tuples certainly exist, each with one value.

A window holds the w newest tuples, and every aggregate is a plain number. A group's stream is cut
into blocks of w tuples, and a window is a suffix of one block and a prefix of the next:

    blocks of w = 4     |. . . .|. . . .|
    a window                |. .|. .|        suffix of 2 tuples, prefix of 2

Nothing is subtracted, so sums do not cancel. Blocks depend only on a tuple's index in its group, so
answers are the same bit for bit however arrivals are divided into calls.
Source: prefixes and suffixes of blocks, van Herk (1992).
"""

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.totals import add_to_total


@compiled_ieee
def certain_totals(groups, value, sign, order, w, totals, counts):
    """Write the sum, maximum or minimum of a value in the window after each arrival.

    value : float64[n], of each tuple; NaN for no value    sign : 0 sum, 1 maximum, -1 minimum
    order : int64[arrivals], the arrivals of the groups one after another
    counts : int64[arrivals], written: the numbers of values
    totals : float64[arrivals], written; without a value 0 for a sum, otherwise NaN
    O(1) per arrival and held tuple.
    """
    total, count = np.empty(w + 1), np.empty(w + 1, np.int64)  # of the previous block's suffixes
    none = 0.0 if sign == 0.0 else np.nan
    total[w], count[w], steps = none, 0, np.int64(0)
    for j in range(groups.first.size):
        x = value[groups.begin[j] : groups.begin[j + 1]]
        first = groups.arrivals[j]
        arrived = x.size - (groups.arrivals[j + 1] - first)
        steps = after_signals(steps + x.size)
        newest, many, place, second = none, 0, groups.first[j] % w, False
        for i in range(x.size):
            if place == w:
                place = 0
            if place == 0:
                newest, many, second = none, 0, i > 0
                for k in range(min(w, i)):
                    older, at = x[i - 1 - k], w - 1 - k
                    total[at], count[at] = total[at + 1], count[at + 1]
                    if older == older:
                        total[at], count[at] = add_to_total(sign, total[at], older), count[at] + 1
            if x[i] == x[i]:
                newest, many = add_to_total(sign, newest, x[i]), many + 1
            place += 1
            if i >= arrived:
                t = order[first + i - arrived]
                totals[t] = add_to_total(sign, newest, total[place]) if second else newest
                counts[t] = many + count[place] if second else many
