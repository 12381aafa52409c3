"""The lateness that the experts of the conformal controller remember, in lists in one array.

An expert's number modulo 4 is its measure of lateness; the first four remember a short window of
rows, the next four a long one, the last four the whole stream, of which they list the tail of a
sample that gets thinner as the stream gets longer.
"""

import math

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import EXPERTS


@compiled
def insert(values, numbers, size, value, number):
    """Put a value into a descending list of at most `values.size`; the new length.

    numbers : of the row that each value is of.  O(1) for a value below a full list, else O(size).
    """
    if size == values.size:
        if value <= values[size - 1]:
            return size
        place = size - 1
    else:
        place = size
        size += 1
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        numbers[place] = numbers[place - 1]
        place -= 1
    values[place] = value
    numbers[place] = number
    return size


@compiled
def expire(values, numbers, size, oldest):
    """Remove the values of rows numbered below `oldest`; the new length. O(size)."""
    kept = 0
    for i in range(size):
        if numbers[i] >= oldest:
            values[kept] = values[i]
            numbers[kept] = numbers[i]
            kept += 1
    return kept


@compiled
def quantile(values, size, rank):
    """A threshold that about `rank` of the values reach, interpolated.

    values : int64[size], descending, size >= 1     rank : float64 >= 0, below 1: beyond the largest
    by up to the distance from there to the eleventh, as beyond it nothing is known.  O(1).
    """
    place = int(rank)
    if place >= size - 1:
        return float(values[size - 1] + 1)
    if rank < 1.0:
        beyond = values[0] - values[min(size - 1, 10)]
        return values[0] + 1 + (1.0 - rank) * beyond
    return values[place] + 1 - (rank - place) * (values[place] - values[place + 1])


@compiled
def priced(values, size, rows, price, least, most):
    """The threshold v that makes v + price * (share of rows that reach it) smallest.

    It lies on the lower convex hull of (share, threshold): where a gap in the values would make a
    quantile jump to and fro, the price has to change a lot first.
    rows : float64, in the window     price : float64, units of values for a share of 1
    least, most : float64, shares between which to look
    O(most * rows).  Source: Lagrange's multiplier.
    """
    first = min(int(least * rows), size - 1)
    last = min(int(most * rows) + 1, size - 1)
    step = price / rows
    best = math.inf
    chosen = first
    for place in range(first, last + 1):
        cost = values[place] + step * place
        if cost < best:
            best = cost
            chosen = place
    return float(values[chosen] + 1)


@compiled
def log_slope(values, size, rows, share):
    """Log of the threshold's fall, at least 1, a share of rows: share / 2 to 2 share.  O(1)."""
    high = values[min(int(0.5 * share * rows), size - 1)]
    low = values[min(int(2.0 * share * rows), size - 1)]
    return math.log(max(high - low, 1) / (1.5 * share))


LARGEST_SAMPLE = 1024


@compiled
def later(sample, size, time):
    """How many of the ascending sample[:size] are later than `time`. O(log size)."""
    return size - first_at_least(sample, 0, size, time + 1)


@compiled
def sampled(number, thinning):
    """Whether row `number` is one in `thinning` (a power of two): by Fibonacci hashing, so that no
    pattern of the stream meets one of the sample."""
    return (number * 7046029254386353131 >> 40) & (thinning - 1) == 0


@compiled
def shrink(sample, size, oldest, thinning):
    """Halve a full sample; returns (size, thinning).

    The older half goes if the rows later than `oldest` fit into the other; otherwise every second
    time goes and the sample is thinned. If the rows fit into an eighth, a thinned sample is made
    denser: the newest quarter, each time standing for two until newer rows replace it.
    O(size), once every size / 2 rows sampled.  Error: a thinned sample counts rows to within about
    thinning * sqrt(rows / thinning).
    """
    half = size // 2
    need = later(sample, size, oldest)
    if need > half:
        for i in range(half):
            sample[i] = sample[2 * i + 1]
        return half, 2 * thinning
    if thinning > 1 and need < size // 8:
        quarter = size // 4
        for i in range(half):
            sample[i] = sample[size - quarter + i // 2]
        return half, thinning // 2
    for i in range(half):
        sample[i] = sample[size - half + i]
    return half, thinning


@compiled
def insert_time(sample, size, time):
    """Put a time into the ascending sample, unless below one that is half full; the new size."""
    place = size
    while place > 0 and sample[place - 1] > time:
        place -= 1
    if place == 0 and size >= LARGEST_SAMPLE // 2:
        return size
    for i in range(size, place, -1):
        sample[i] = sample[i - 1]
    sample[place] = time
    return size + 1


@compiled
def still_later(sample, size, held, time):
    """How many of sample[:size] are later than `time`, at most `held`.  O(1) amortised, as time
    goes on."""
    while held > 0 and sample[size - held] <= time:
        held -= 1
    return held


LATENESS_MEASURES = 4
BEHIND_NEWEST, BEHIND_CLOCK, IN_ROWS, BEHIND_EARLIER = range(LATENESS_MEASURES)
FORGETFUL = (
    2 * LATENESS_MEASURES
)  # experts that forget; those from here on remember the whole stream
SHORT, LONG = 16.0, 96.0  # memories, in rows times drop ratio
SHORT_LIST, LONG_LIST = 64, 320  # the tail kept: up to three times the drop ratio
MOST_SHARE = 3.0  # the largest share of rows that is looked at, in drop ratios
LIST_ROOM = 1.25  # a list of the whole stream is longer than what is looked at by this factor
FIRST = 16  # rows before the first punctuation


@compiled
def list_place(e, level):
    """Where expert e's tail list starts in the area, and its capacity. O(1)."""
    short = min(level, SHORT_LIST)
    long = min(level, LONG_LIST)
    start = min(level, LARGEST_SAMPLE)
    if e < LATENESS_MEASURES:
        return start + 2 * e * short, short
    return start + 2 * LATENESS_MEASURES * short + 2 * (e - LATENESS_MEASURES) * long, long


@compiled
def tail_of(e, key, area):
    """Expert e's list: its lateness, descending, and the numbers of the rows. O(1)."""
    at, capacity = list_place(e, key.level)
    return area[at : at + capacity], area[at + capacity : at + 2 * capacity]


def make_room(area: np.ndarray, level: int, rows: int) -> tuple[np.ndarray, int]:
    """(area, level) with room for `rows` rows in all: the sample, then each expert's list.

    The area doubles as rows arrive, up to 6,656 numbers; what is in it does not depend on when.
    """
    wanted = min(LARGEST_SAMPLE, 1 << max(rows, 1).bit_length())
    if level >= wanted:
        return area, level
    start, capacity = list_place(EXPERTS - 1, wanted)
    wider = np.zeros(start + 2 * capacity, np.int64)
    wider[:level] = area[:level]
    for e in range(EXPERTS if level else 0):
        (old, had), (new, has) = list_place(e, level), list_place(e, wanted)
        for half in range(2):
            wider[new + half * has : new + half * has + had] = area[
                old + half * had : old + half * had + had
            ]
    return wider, wanted


@compiled
def rows_listed(e, d, key):
    """How many rows expert e's list is the tail of, as a float64. O(1)."""
    rows = float(key.fed)
    if e >= FORGETFUL:
        return rows / key.stride
    return min(rows, (SHORT if e < LATENESS_MEASURES else LONG) / d)


@compiled
def forget(d, key, area):
    """Remove lateness that is too old; thin the lists of the whole stream out if they overflow.

    Every second lateness of a sorted list stays, and from then on every second row is listed. The
    rows that follow fill the list up even with small lateness, of which older rows are not listed.
    With LIST_ROOM these places are not looked at.
    """
    for e in range(FORGETFUL):
        values, numbers = tail_of(e, key, area)
        oldest = key.fed - int((SHORT if e < LATENESS_MEASURES else LONG) / d)
        key.listed[e] = expire(values, numbers, key.listed[e], oldest)
    if LIST_ROOM * MOST_SHARE * d * rows_listed(EXPERTS - 1, d, key) <= LONG_LIST:
        return
    key.stride *= 2
    for e in range(FORGETFUL, EXPERTS):
        values, numbers = tail_of(e, key, area)
        key.listed[e] //= 2
        for i in range(key.listed[e]):
            values[i], numbers[i] = values[2 * i + 1], numbers[2 * i + 1]
