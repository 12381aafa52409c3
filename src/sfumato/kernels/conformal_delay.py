"""The conformal measure (first version)."""

from __future__ import annotations

import math

from numba import njit

from sfumato.kernels.disorder_state import (
    AREA_OF,
    CHOSEN,
    COUNT,
    EXPERT,
    FED,
    LAST_ARRIVAL,
    LATE,
    LATE_OF,
    LISTED,
    NEVER,
    NEWEST,
    SELECTED,
    SIZE,
    SLACK_OF,
    THINNING,
)

EXPERTS = 6
LONGEST_LIST = 256
LARGEST_SAMPLE = 1024
FIRST = 16  # rows before the first punctuation


@njit(cache=True)
def insert_descending(values, numbers, size, capacity, value, number):
    """Insert into a descending list that keeps the `capacity` largest; its new length."""
    if size == capacity:
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


@njit(cache=True)
def above(sample, size, time):
    """How many of the ascending sample[:size] are later than `time`. O(log n)."""
    low = 0
    high = size
    while low < high:
        middle = (low + high) >> 1
        if sample[middle] > time:
            high = middle
        else:
            low = middle + 1
    return size - low


@njit(cache=True)
def conformal_step(tau, t, drop_ratio, ints, reals, area):
    """First version."""
    capacity = (area.size) // (4 + 2 * EXPERTS)
    sample = area[: 4 * capacity]
    i = ints[FED] - 1
    d = drop_ratio
    if ints[FED] == 1:
        ints[NEWEST] = NEVER
        ints[THINNING] = 1
        for e in range(EXPERTS):
            ints[EXPERT + e] = NEVER
    previous = ints[LAST_ARRIVAL]
    sc = ints[SIZE]
    if i > 0 and t > previous:
        gap = float(t - previous)
        for e in range(EXPERTS):
            reals[AREA_OF + e] += gap * above(sample, sc, ints[EXPERT + e])
    reals[SELECTED] += 1.0
    for e in range(EXPERTS):
        if tau <= ints[EXPERT + e]:
            reals[LATE_OF + e] += 1.0
    if i > 0:
        r = above(sample, sc, tau - 1)
        for e in range(EXPERTS):
            if e % 3 == 0:
                L = ints[NEWEST] - tau
            elif e % 3 == 1:
                L = previous - tau
            else:
                L = r - 1
            at = (4 + 2 * e) * capacity
            cap = min(LONGEST_LIST, 64 if e < 3 else 256)
            ints[LISTED + e] = insert_descending(
                area[at : at + capacity], area[at + capacity : at + 2 * capacity], ints[LISTED + e], cap, L, i
            )
    if tau > ints[NEWEST]:
        ints[NEWEST] = tau
    if sc == LARGEST_SAMPLE:
        half = LARGEST_SAMPLE // 2
        for j in range(half):
            sample[j] = sample[j + half]
        sc = half
    j = sc
    while j > 0 and sample[j - 1] > tau:
        j -= 1
    if not (j == 0 and sc >= LARGEST_SAMPLE // 2):
        for q in range(sc, j, -1):
            sample[q] = sample[q - 1]
        sample[j] = tau
        sc += 1
    ints[SIZE] = sc
    if i % 16 == 0 or i < 64:
        n = i + 1.0
        dd = d * 0.99
        H = max(10.0 / d, 0.1 * n)
        B = ints[LATE] - dd * n + 1.0
        alpha = min(max(dd - B / H, 0.0), 2.0 * d)
        for e in range(EXPERTS):
            W = (16.0 if e < 3 else 64.0) / d
            at = (4 + 2 * e) * capacity
            vals = area[at : at + capacity]
            nums = area[at + capacity : at + 2 * capacity]
            if i % 64 == 0:
                k = 0
                for j in range(ints[LISTED + e]):
                    if nums[j] >= i - W:
                        vals[k] = vals[j]
                        nums[k] = nums[j]
                        k += 1
                ints[LISTED + e] = k
            cnt = ints[LISTED + e]
            k = alpha * min(n, W)
            f = int(k)
            if cnt == 0:
                continue
            if f >= cnt - 1:
                s = float(vals[cnt - 1] + 1)
            else:
                s = vals[f] + 1 - (k - f) * (vals[f] - vals[f + 1])
            if e % 3 != 1 and s < 0:
                s = 0.0
            reals[SLACK_OF + e] = s
        if i % 64 == 0 and i > 0:
            best = 1e300
            be = 0
            for e in range(EXPERTS):
                ex = max(reals[LATE_OF + e] / (dd * reals[SELECTED] + 1.0), 1.0)
                cost = (reals[AREA_OF + e] + 1.0) * math.sqrt(ex)
                if e == ints[CHOSEN]:
                    cost *= 0.9
                if cost < best:
                    best = cost
                    be = e
            ints[CHOSEN] = be
            fade = max(0.0, 1 - 64 * d / 60)
            for e in range(EXPERTS):
                reals[AREA_OF + e] *= fade
                reals[LATE_OF + e] *= fade
            reals[SELECTED] *= fade
    p = NEVER
    if i >= FIRST - 1:
        for e in range(EXPERTS):
            s = reals[SLACK_OF + e]
            if e % 3 == 0:
                c = ints[NEWEST] - int(s)
            elif e % 3 == 1:
                c = t - int(s)
            else:
                k = int(math.ceil(s))
                c = sample[sc - 1 - k] if k < sc else NEVER
            if c > ints[EXPERT + e]:
                ints[EXPERT + e] = c
            if e == ints[CHOSEN]:
                p = c
    return p


def make_room(area, rows):
    """The area with room for `rows` rows in all."""
    import numpy as np

    capacity = len(area) // (4 + 2 * EXPERTS)
    wanted = min(LONGEST_LIST, 1 << max(rows, 16).bit_length())
    if capacity >= wanted:
        return area
    wider = np.zeros((4 + 2 * EXPERTS, wanted), np.int64)
    wider[4:, :capacity] = area.reshape(-1, capacity)[4:] if capacity else 0
    flat = wider.reshape(-1)
    flat[: 4 * capacity] = area[: 4 * capacity]
    return flat
