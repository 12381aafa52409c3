"""DRATIO with no assumption on the delays: thresholds on recent lateness, steered by what was late.

**Lateness.** How far behind a row comes is measured in three ways: behind the newest event time
(max tau - tau), behind the arrival clock (t - tau), and in rows (how many rows with later event
times came before it). A threshold s on each gives a punctuation: max tau - s; t - s, but never
beyond max tau; and the (s + 1)-th largest event time. Which of them makes rows wait least depends
on the stream. Six **experts**, three measures with a short and a long memory, each keep the tail
of their recent lateness and try their own punctuation on the stream.

**Steering.** With l rows late among n, the debt is x = (l - d' n + c T) / T, where T = 3 + 0.03 d n
is what may be owed. The threshold is the one that makes s + price * (share of recent rows it would
drop) smallest, with log price = (slope of the tail at d, smoothed) + 1.5 x: late rows raise the
price, hence the threshold; rows in time lower it. This is online conformal inference (Gibbs &
Candes 2021: the threshold follows the errors, not a model) with the quantile's level replaced by a
price, because tails have gaps, in which a level jumps from one side to the other and a price stays.

**Following.** Each expert steers itself by what would have been late for it, so all are compared at
the same drop ratio: by rows held times time (Little's law: the mean wait), with what they dropped
too much as a penalty. The cheapest is followed, with the real debt in place of its own.

**What is guaranteed.** Nothing about delays is assumed. While x is at most X, at most
d' n - c T + X T rows are late, by definition of x. Beyond x = 3 the price has grown 90-fold and the
threshold is near the largest lateness in memory, so further rows are late only if they come later
than nearly all in memory, or at or below a punctuation given out before (it never moves back). No
method can exclude either for every sequence: a long run of rows, each later than all before, is
late whatever was held. On stationary, shifting and bursty streams the share of late rows was
measured to end between 0.9 and 1.05 of d; a first large pile near the end of a short stream can
exceed it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.disorder_state import (
    CHOSEN,
    EXPERTS,
    FED,
    FOLLOWED,
    LAST_ARRIVAL,
    LATE,
    LATE_OF,
    LEVEL,
    LISTED,
    NEVER,
    NEWEST,
    PATIENCE_OF,
    PUNCTUATION_OF,
    RECENT_LATE_OF,
    RECENT_ROWS,
    SIZE,
    SLOPE_OF,
    THINNING,
    THRESHOLD_OF,
    WAITED_OF,
)
from sfumato.kernels.newest_times import (
    LARGEST_SAMPLE,
    insert_time,
    later,
    sampled,
    shrink,
)
from sfumato.kernels.tail_list import expire, insert, log_slope, priced, quantile

BEHIND_NEWEST, BEHIND_CLOCK, IN_ROWS = range(3)  # measures: an expert's number modulo 3
SHORT, LONG = 16.0, 128.0  # memories, in rows times drop ratio
SHORT_LIST, LONG_LIST = 64, 512  # the tail kept: up to four times the drop ratio
FIRST = 16  # rows before the first punctuation
STEP = 16  # rows from one steering to the next
AIM = 0.98  # of the drop ratio: room for what comes late at the very end
OWED, OWED_SHARE = 3.0, 0.03  # T
CENTRE = 0.3  # c: the debt is kept around -c T
UNSURE = 4.0  # expected late rows before slopes are trusted: until then plain quantiles
GAIN, DRIFT = 1.5, 0.01  # of the price: from the debt, and its slow integral
SMOOTH = 200.0  # slopes are smoothed over so many rows times drop ratio
LEAST, MOST = 0.05, 3.0  # shares looked at, in drop ratios
MEMORY = 60.0  # of the comparison, in rows times drop ratio
LOYALTY = 0.95  # the expert followed stays unless another is cheaper by this factor


@njit(cache=True)
def list_place(e, level):
    """Where expert e's tail list starts in the area, and its capacity. O(1)."""
    short = min(level, SHORT_LIST)
    long = min(level, LONG_LIST)
    start = min(level, LARGEST_SAMPLE)
    if e < 3:
        return start + 2 * e * short, short
    return start + 6 * short + 2 * (e - 3) * long, long


def make_room(area: np.ndarray, level: int, rows: int) -> tuple[np.ndarray, int]:
    """(area, level) with room for `rows` rows in all: the sample, then each expert's list.

    The area doubles as rows arrive, up to 4,480 numbers; what is in it does not depend on when.
    """
    wanted = min(LARGEST_SAMPLE, 1 << max(rows, FIRST).bit_length())
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


@njit(cache=True)
def start_experts(ints):
    """The state before the first row."""
    ints[NEWEST] = NEVER
    ints[THINNING] = 1
    for e in range(EXPERTS):
        ints[PUNCTUATION_OF + e] = NEVER


@njit(cache=True)
def observe_lateness(tau, t, ints, reals, area):
    """What a row tells each expert: time passed with rows held, a row late, a lateness.

    Cost: O(log) of the sample, and of rare insertions.  Source: Little's law for what is held.
    """
    sample = area[: min(ints[LEVEL], LARGEST_SAMPLE)]
    size = ints[SIZE]
    previous = ints[LAST_ARRIVAL]
    before = later(sample, size, tau - 1) * ints[THINNING]
    reals[RECENT_ROWS] += 1.0
    for e in range(EXPERTS):
        if t > previous:
            held = later(sample, size, ints[PUNCTUATION_OF + e])
            reals[WAITED_OF + e] += float(t - previous) * (held * ints[THINNING])
        if tau <= ints[PUNCTUATION_OF + e]:
            ints[LATE_OF + e] += 1
            reals[RECENT_LATE_OF + e] += 1.0
        measure = e % 3
        if measure == BEHIND_NEWEST:
            lateness = ints[NEWEST] - tau
        elif measure == BEHIND_CLOCK:
            lateness = previous - tau
        else:
            lateness = before - 1
        at, capacity = list_place(e, ints[LEVEL])
        ints[LISTED + e] = insert(
            area[at : at + capacity],
            area[at + capacity : at + 2 * capacity],
            ints[LISTED + e],
            capacity,
            lateness,
            ints[FED],
        )


@njit(cache=True)
def remember_time(tau, ints, area):
    """The row among the newest event times."""
    ints[NEWEST] = max(ints[NEWEST], tau)
    if not sampled(ints[FED], ints[THINNING]):
        return
    sample = area[: min(ints[LEVEL], LARGEST_SAMPLE)]
    if ints[SIZE] == LARGEST_SAMPLE:
        oldest = ints[PUNCTUATION_OF]
        for e in range(1, EXPERTS):
            oldest = min(oldest, ints[PUNCTUATION_OF + e])
        ints[SIZE], ints[THINNING] = shrink(sample, ints[SIZE], oldest, ints[THINNING])
    ints[SIZE] = insert_time(sample, ints[SIZE], tau)


@njit(cache=True)
def threshold(e, debt, d, ints, reals, area):
    """Expert e's threshold at a given debt x, in the units of its measure. O(list)."""
    at, capacity = list_place(e, ints[LEVEL])
    values = area[at : at + capacity]
    size = ints[LISTED + e]
    rows = min(float(ints[FED]), (SHORT if e < 3 else LONG) / d)
    if ints[FED] * d < UNSURE:
        share = AIM * d / (1.0 + debt**1.5) if debt > 0.0 else AIM * d * (1.0 + (-debt) ** 1.5)
        s = quantile(values, size, min(share, MOST * d) * rows)
    else:
        price = math.exp(reals[SLOPE_OF + e] + reals[PATIENCE_OF + e] + GAIN * debt)
        s = priced(values, size, rows, price, LEAST * d, MOST * d)
    # Clocks may be apart, so behind the clock s may be negative; elsewhere 0 releases everything.
    return s if e % 3 == BEHIND_CLOCK else max(s, 0.0)


@njit(cache=True)
def learn_price(e, debt, d, ints, reals, area):
    """Follow the slope of expert e's tail, and a lasting debt. O(1)."""
    at, capacity = list_place(e, ints[LEVEL])
    rows = min(float(ints[FED]), (SHORT if e < 3 else LONG) / d)
    slope = log_slope(area[at : at + capacity], ints[LISTED + e], rows, d)
    if ints[FED] * d < UNSURE:
        reals[SLOPE_OF + e] = slope
        return
    reals[SLOPE_OF + e] += STEP * d / SMOOTH * (slope - reals[SLOPE_OF + e])
    pull = min(max(debt, -2.0), 2.0)
    reals[PATIENCE_OF + e] += DRIFT * STEP * d * pull
    reals[PATIENCE_OF + e] = min(max(reals[PATIENCE_OF + e], -3.0), 3.0)


@njit(cache=True)
def choose(d, ints, reals):
    """Follow the expert whose rows wait least at the same drop ratio; then fade the memory. O(1)."""
    best = math.inf
    for e in range(EXPERTS):
        recent = (reals[RECENT_LATE_OF + e] + 1.0) / (AIM * d * reals[RECENT_ROWS] + 1.0)
        always = ints[LATE_OF + e] / (d * ints[FED] + 5.0)
        cost = (reals[WAITED_OF + e] + 1.0) * math.sqrt(max(recent, 0.5)) * max(always, 1.0) ** 4
        if e == ints[CHOSEN]:
            cost *= LOYALTY
        if cost < best:
            best = cost
            chosen = e
    ints[CHOSEN] = chosen
    fade = max(0.0, 1.0 - 4 * STEP * d / MEMORY)
    reals[RECENT_ROWS] *= fade
    for e in range(EXPERTS):
        reals[WAITED_OF + e] *= fade
        reals[RECENT_LATE_OF + e] *= fade


@njit(cache=True)
def steer(d, ints, reals, area):
    """New thresholds; every 4 STEP rows also: forget old lateness, choose whom to follow."""
    fed = ints[FED]
    owed = OWED + OWED_SHARE * d * fed
    allowed = AIM * d * fed - CENTRE * owed
    if fed % (4 * STEP) == 0:
        for e in range(EXPERTS):
            at, capacity = list_place(e, ints[LEVEL])
            ints[LISTED + e] = expire(
                area[at : at + capacity],
                area[at + capacity : at + 2 * capacity],
                ints[LISTED + e],
                fed - int((SHORT if e < 3 else LONG) / d),
            )
        choose(d, ints, reals)
    for e in range(EXPERTS):
        debt = (ints[LATE_OF + e] - allowed) / owed
        learn_price(e, debt, d, ints, reals, area)
        reals[THRESHOLD_OF + e] = threshold(e, debt, d, ints, reals, area)
    debt = (ints[LATE] - allowed) / owed
    reals[FOLLOWED] = threshold(ints[CHOSEN], debt, d, ints, reals, area)


@njit(cache=True)
def punctuation_of(measure, s, t, ints, area):
    """The punctuation that a threshold on a measure gives now, int64 microseconds. O(1)."""
    if measure == BEHIND_NEWEST:
        return ints[NEWEST] - int(s)
    if measure == BEHIND_CLOCK:
        # Not beyond the newest event time: nothing is released by that, and after a pause in
        # which only the clock went on, all that had been under way would be late.
        return min(t - int(s), ints[NEWEST])
    rank = int(math.ceil(s) / ints[THINNING])
    if rank >= ints[SIZE]:
        return NEVER
    return area[ints[SIZE] - 1 - rank]


@njit(cache=True)
def conformal_step(tau, t, drop_ratio, ints, reals, area):
    """The punctuation wanted after a row, or NEVER; see the head of this file.

    tau, t : int64 microseconds; t is not below the row's before     drop_ratio : float64 in (0, 1)
    ints, reals, area : the key's state, changed in place
    Cost: O(1) amortised, some 300 ns.  Error: none in what is late (integers); thresholds float64.
    Source: Gibbs & Candes, Adaptive conformal inference under distribution shift (NeurIPS 2021),
    for the feedback; the measures, prices and experts are ours.
    """
    if ints[FED] == 1:
        start_experts(ints)
    else:
        observe_lateness(tau, t, ints, reals, area)
    remember_time(tau, ints, area)
    fed = ints[FED]
    if fed > 1 and (fed % STEP == 0 or fed < 4 * STEP):
        steer(drop_ratio, ints, reals, area)
    if fed < FIRST:
        return NEVER
    for e in range(EXPERTS):
        wanted = punctuation_of(e % 3, reals[THRESHOLD_OF + e], t, ints, area)
        ints[PUNCTUATION_OF + e] = max(ints[PUNCTUATION_OF + e], wanted)
    return punctuation_of(ints[CHOSEN] % 3, reals[FOLLOWED], t, ints, area)
