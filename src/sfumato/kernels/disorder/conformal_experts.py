"""The experts' lists of lateness, one behind the other in one array, and what each remembers.

An expert's number modulo 4 is its measure of lateness; the first four remember a short window of
rows, the next four a long one, the last four the whole stream, of which they list the tail of a
sample that gets thinner as the stream gets longer.
"""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_sample import LARGEST_SAMPLE
from sfumato.kernels.disorder.conformal_tail import expire
from sfumato.kernels.disorder.state import EXPERTS

MEASURES = 4
BEHIND_NEWEST, BEHIND_CLOCK, IN_ROWS, BEHIND_EARLIER = range(MEASURES)
FORGETFUL = 2 * MEASURES  # experts that forget; those from here on remember the whole stream
SHORT, LONG = 16.0, 96.0  # memories, in rows times drop ratio
SHORT_LIST, LONG_LIST = 64, 320  # the tail kept: up to three times the drop ratio
MOST = 3.0  # the largest share of rows that is looked at, in drop ratios
ROOM = 1.25  # a list of the whole stream is longer than what is looked at by this factor
FIRST = 16  # rows before the first punctuation


@compiled
def list_place(e, level):
    """Where expert e's tail list starts in the area, and its capacity. O(1)."""
    short = min(level, SHORT_LIST)
    long = min(level, LONG_LIST)
    start = min(level, LARGEST_SAMPLE)
    if e < MEASURES:
        return start + 2 * e * short, short
    return start + 2 * MEASURES * short + 2 * (e - MEASURES) * long, long


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
    return min(rows, (SHORT if e < MEASURES else LONG) / d)


@compiled
def forget(d, key, area):
    """Remove lateness that is too old; thin the lists of the whole stream out if they overflow.

    Every second lateness of a sorted list stays, and from then on every second row is listed. The
    rows that follow fill the list up even with small lateness, of which older rows are not listed.
    With ROOM these places are not looked at.
    """
    for e in range(FORGETFUL):
        values, numbers = tail_of(e, key, area)
        oldest = key.fed - int((SHORT if e < MEASURES else LONG) / d)
        key.listed[e] = expire(values, numbers, key.listed[e], oldest)
    if ROOM * MOST * d * rows_listed(EXPERTS - 1, d, key) <= LONG_LIST:
        return
    key.stride *= 2
    for e in range(FORGETFUL, EXPERTS):
        values, numbers = tail_of(e, key, area)
        key.listed[e] //= 2
        for i in range(key.listed[e]):
            values[i], numbers[i] = values[2 * i + 1], numbers[2 * i + 1]
