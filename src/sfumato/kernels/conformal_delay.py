"""DRATIO with no assumption on the delays: thresholds on recent lateness, steered by what was late.

**Lateness.** How far behind a row comes is measured in four ways: behind the newest event time
(max tau - tau); behind the newest of earlier arrival stamps (rows of one stamp may then come in any
order); behind the arrival clock (t - tau); and in rows (how many with later event times came
before it). A threshold s on each gives a punctuation: max tau - s, likewise for the second; t - s,
but never beyond max tau; and the (s + 1)-th largest event time. Which of them makes rows wait least
depends on the stream. Eight **experts**, the measures with a short and with a long memory, keep the
tail of their recent lateness and try their own punctuation on the stream.

**Steering.** With l rows late among n, the debt is x = (l - d' n) / T + c, where d' = 0.98 d and
T = 4 m + 0.03 d n is about what may be owed: late rows come in clumps of m on average, and one
clump must not be an alarm (m counts as at most 1 + d n / 100). The threshold is the one that makes
s + price * (share of recent rows it would drop) smallest, log price = slope of the tail at d
(smoothed) + 1.5 x: late rows raise the price, hence the threshold; rows in time lower it. This is
online conformal inference (Gibbs & Candes 2021: the threshold follows the errors, not a model) with
a price in place of the quantile's level, because tails have gaps, at which a level jumps to and fro
and a price stays.

**Following.** Each expert steers itself by what would have been late for it, so all are compared at
one drop ratio: by rows held times time (Little's law: the mean wait), with what they dropped too
much as a penalty. The cheapest is followed, with the real debt in place of its own.

**What is guaranteed.** Nothing is assumed of the delays. By definition of x, late rows are at most
d' n + (X - c) T for as long as x stays at most X, so the drop ratio is at most
(0.98 + 0.07 (X - c)) d + 4 (X - c) / n. At x = 3 the price is 90-fold and the threshold near the
largest lateness in memory: from there on a row is late only if it is later than nearly all in
memory, or at or below a punctuation given out before, which cannot be taken back. No method can
exclude these two for every sequence: of rows each later than all before, any finite wait loses
some.

**What was measured**, at d = 1% on seeds that the constants below were not chosen on: with heavy
tails, drifts, steps up and down, several modes and cycles, 40,000 rows, the ratio ended between
about 0.9 d and 1.06 d, and rows waited 1.02-1.25 times as long as with the best fixed slack chosen
with hindsight (1.2-1.9 times where delays are correlated or a gap lies just at d), less than with
it where the delays' law shifts.
**Where it fails**: links that stall while others go on (the ratio ended up to 4 d in 10,000 rows
and 1.2 d in 40,000, waits up to 8 times the best fixed); one storm larger than the whole budget; a
stream shorter than its own delays (1.5 d); clocks or delays that jump back by more than the
thresholds, so that thousands of rows are overtaken at once (8 d).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.disorder_state import (
    CHOSEN,
    CLUMPS,
    EXPERTS,
    FED,
    FOLLOWED,
    HELD_OF,
    LAST_ARRIVAL,
    LAST_LATE,
    LATE,
    LATE_BEFORE,
    LATE_OF,
    LATE_STEERED,
    LEVEL,
    LISTED,
    NEVER,
    NEWEST,
    NEWEST_BEFORE,
    OLDEST,
    PUNCTUATION_OF,
    RECENT_LATE_OF,
    RECENT_ROWS,
    SIZE,
    SLOPE_OF,
    STRIDE,
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
    still_later,
)
from sfumato.kernels.tail_list import expire, insert, log_slope, priced, quantile

MEASURES = 4  # an expert's number modulo 4 is its measure; the first 4 have the short memory
BEHIND_NEWEST, BEHIND_CLOCK, IN_ROWS, BEHIND_EARLIER = range(MEASURES)
SHORT, LONG = 16.0, 96.0  # memories, in rows times drop ratio
SHORT_LIST, LONG_LIST = 64, 320  # the tail kept: up to three times the drop ratio
FIRST = 16  # rows before the first punctuation
STEP = 32  # rows from one steering to the next,
HASTE = 8  # if none was late
AIM = 0.98  # of the drop ratio: room for what comes late at the very end
OWED, OWED_SHARE = 4.0, 0.03  # T
GENTLE = 0.06
LEGACY = 0.1
CLUMP_GAP = 0.1  # late rows farther apart, in rows times drop ratio, are of different clumps
CLUMP_GROWTH = 100.0  # expected late rows after which clumps count one more
CENTRE = 0.6  # c: late rows are kept about c T below d' n
SETTLING = 2
UNSURE = 2.0  # expected late rows before slopes are trusted: until then plain quantiles
GAIN = 1.5  # from the debt to the log price
SMOOTH = 200.0  # slopes are smoothed over so many rows times drop ratio
LEAST, MOST = 0.15, 3.0  # shares looked at, in drop ratios
MEMORY = 200.0  # of the comparison, in rows times drop ratio
LOYALTY = 0.95  # the expert followed stays unless another is cheaper by this factor
JOLT = 0.1  # a pause that adds this share to what was waited so far is reason to choose anew


@njit(cache=True)
def list_place(e, level):
    """Where expert e's tail list starts in the area, and its capacity. O(1)."""
    short = min(level, SHORT_LIST)
    long = min(level, LONG_LIST)
    start = min(level, LARGEST_SAMPLE)
    if e < MEASURES:
        return start + 2 * e * short, short
    return start + 2 * MEASURES * short + 2 * (e - MEASURES) * long, long


@njit(cache=True)
def window(e, d, ints):
    """How many rows expert e's list stands for, as a float64. O(1)."""
    rows = float(ints[FED])
    if e >= 2 * MEASURES:
        return rows / ints[STRIDE]
    return min(rows, (SHORT if e < MEASURES else LONG) / d)


@njit(cache=True)
def thin_out(ints, area):
    """Keep every second lateness of the lists that forget nothing. O(lists), ever more rarely."""
    ints[STRIDE] *= 2
    for e in range(2 * MEASURES, EXPERTS):
        at, capacity = list_place(e, ints[LEVEL])
        ints[LISTED + e] //= 2
        for i in range(ints[LISTED + e]):
            area[at + i] = area[at + 2 * i + 1]
            area[at + capacity + i] = area[at + capacity + 2 * i + 1]


def make_room(area: np.ndarray, level: int, rows: int) -> tuple[np.ndarray, int]:
    """(area, level) with room for `rows` rows in all: the sample, then each expert's list.

    The area doubles as rows arrive, up to 4,096 numbers; what is in it does not depend on when.
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
def start_experts(tau, ints):
    """The state at the first row. O(1)."""
    ints[NEWEST] = ints[NEWEST_BEFORE] = ints[OLDEST] = tau
    ints[THINNING] = ints[STRIDE] = 1
    for e in range(EXPERTS):
        ints[PUNCTUATION_OF + e] = NEVER


@njit(cache=True)
def observe_lateness(tau, t, ints, reals, area):
    """What a row tells each expert: time passed with rows held, a row late, a lateness.

    Returns whether the pause before it was a jolt to the expert followed.
    Cost: O(log) of the sample, and of rare insertions.  Source: Little's law for what is held.
    """
    sample = area[: min(ints[LEVEL], LARGEST_SAMPLE)]
    size = ints[SIZE]
    previous = ints[LAST_ARRIVAL]
    before = later(sample, size, tau - 1) * ints[THINNING]
    jolt = False
    if t > previous:
        ints[NEWEST_BEFORE] = ints[NEWEST]
    reals[RECENT_ROWS] += 1.0
    listed = EXPERTS if sampled(ints[FED], ints[STRIDE]) else 2 * MEASURES
    for e in range(EXPERTS):
        if t > previous:
            waited = float(t - previous) * (ints[HELD_OF + e] * ints[THINNING])
            jolt |= e == ints[CHOSEN] and waited > JOLT * reals[WAITED_OF + e]
            reals[WAITED_OF + e] += waited
        if tau <= ints[PUNCTUATION_OF + e]:
            ints[LATE_OF + e] += 1
            reals[RECENT_LATE_OF + e] += 1.0
        if e >= listed:
            continue
        measure = e % MEASURES
        if measure == BEHIND_NEWEST:  # how far a row is ahead says nothing, hence -1
            lateness = max(ints[NEWEST] - tau, -1)
        elif measure == BEHIND_CLOCK:
            lateness = previous - tau
        elif measure == IN_ROWS:
            lateness = before - 1
        else:
            lateness = max(ints[NEWEST_BEFORE] - tau, -1)
        at, capacity = list_place(e, ints[LEVEL])
        ints[LISTED + e] = insert(
            area[at : at + capacity],
            area[at + capacity : at + 2 * capacity],
            ints[LISTED + e],
            capacity,
            lateness,
            ints[FED],
        )
    return jolt and ints[FED] > 4 * STEP


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
        for e in range(EXPERTS):
            ints[HELD_OF + e] = later(sample, ints[SIZE], ints[PUNCTUATION_OF + e])
    size = insert_time(sample, ints[SIZE], tau)
    if size > ints[SIZE]:
        ints[SIZE] = size
        for e in range(EXPERTS):
            ints[HELD_OF + e] += tau > ints[PUNCTUATION_OF + e]


@njit(cache=True)
def threshold(e, debt, d, ints, reals, area):
    """Expert e's threshold at a given debt x, in the units of its measure. O(list)."""
    at, capacity = list_place(e, ints[LEVEL])
    values = area[at : at + capacity]
    size = ints[LISTED + e]
    rows = window(e, d, ints)
    if ints[FED] * d < UNSURE:
        share = AIM * d / (1.0 + debt**1.5) if debt > 0.0 else AIM * d * (1.0 + (-debt) ** 1.5)
        s = quantile(values, size, min(share, MOST * d) * rows)
    else:
        price = math.exp(min(reals[SLOPE_OF + e] + GAIN * debt, 300.0))
        s = priced(values, size, rows, price, LEAST * d, MOST * d)
    # Clocks may be apart, so behind the clock s may be negative; elsewhere 0 releases everything.
    return s if e % MEASURES == BEHIND_CLOCK else max(s, 0.0)


@njit(cache=True)
def learn_slope(e, d, ints, reals, area):
    """Follow the slope of expert e's tail. O(1)."""
    at, capacity = list_place(e, ints[LEVEL])
    rows = window(e, d, ints)
    slope = log_slope(area[at : at + capacity], ints[LISTED + e], rows, d)
    weight = 1.0 if ints[FED] * d < UNSURE else STEP * d / SMOOTH
    reals[SLOPE_OF + e] += weight * (slope - reals[SLOPE_OF + e])


@njit(cache=True)
def choose(d, ints, reals):
    """Follow the expert whose rows wait least at the same drop ratio. O(1)."""
    best = math.inf
    chosen = ints[CHOSEN]
    for e in range(EXPERTS):
        recent = (reals[RECENT_LATE_OF + e] + 1.0) / (AIM * d * reals[RECENT_ROWS] + 1.0)
        always = ints[LATE_OF + e] / (d * ints[FED] + 5.0)
        cost = (reals[WAITED_OF + e] + 1.0) * math.sqrt(max(recent, 0.5)) * max(always, 1.0) ** 1.5
        if e == ints[CHOSEN]:
            cost *= LOYALTY
        if cost < best:
            best = cost
            chosen = e
    ints[CHOSEN] = chosen


@njit(cache=True)
def fade_memory(d, reals):
    """Let the past count less in the next comparison. O(1)."""
    fade = max(0.0, 1.0 - 4 * STEP * d / MEMORY)
    reals[RECENT_ROWS] *= fade
    for e in range(EXPERTS):
        reals[WAITED_OF + e] *= fade
        reals[RECENT_LATE_OF + e] *= fade


@njit(cache=True)
def count_clumps(d, ints):
    """Note whether the row just fed was late, and whether it began a clump of late rows. O(1)."""
    if ints[LATE] == ints[LATE_BEFORE]:
        return
    ints[LATE_BEFORE] = ints[LATE]
    if ints[CLUMPS] == 0 or ints[FED] - ints[LAST_LATE] > CLUMP_GAP / d:
        ints[CLUMPS] += 1
    ints[LAST_LATE] = ints[FED]


@njit(cache=True)
def debt_of(e, excess, owed, budget):
    """The debt x that expert e feels. O(1)."""
    if e < 2 * MEASURES:
        return excess / owed
    x = excess / (owed + GENTLE * budget)
    return x


@njit(cache=True)
def steer(d, jolt, ints, reals, area):
    """New thresholds; every 4 STEP rows also: forget old lateness, choose whom to follow.

    Cost: O(lists), every STEP rows.
    """
    fed = ints[FED]
    clump = ints[LATE] / ints[CLUMPS] if ints[CLUMPS] > 0 else 1.0
    owed = OWED * min(clump, 1.0 + d * fed / CLUMP_GROWTH) + OWED_SHARE * d * fed
    allowed = AIM * d * fed - CENTRE * owed
    if fed % (4 * STEP) == 0:
        for e in range(2 * MEASURES):
            at, capacity = list_place(e, ints[LEVEL])
            ints[LISTED + e] = expire(
                area[at : at + capacity],
                area[at + capacity : at + 2 * capacity],
                ints[LISTED + e],
                fed - int((SHORT if e < MEASURES else LONG) / d),
            )
        if MOST * d * window(EXPERTS - 1, d, ints) > LONG_LIST:
            thin_out(ints, area)
        choose(d, ints, reals)
        fade_memory(d, reals)
    elif jolt:
        choose(d, ints, reals)
    for e in range(EXPERTS):
        debt = debt_of(e, ints[LATE_OF + e] - allowed, owed, d * fed)
        if fed % STEP == 0 or fed < 4 * STEP:
            learn_slope(e, d, ints, reals, area)
        reals[THRESHOLD_OF + e] = threshold(e, debt, d, ints, reals, area)
    ints[LATE_STEERED] = ints[LATE]
    e = ints[CHOSEN]
    debt = debt_of(e, ints[LATE_OF + e] - allowed, owed, d * fed)
    debt += (ints[LATE] - ints[LATE_OF + e]) / (owed + LEGACY * d * fed)
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
    if measure == BEHIND_EARLIER:
        return ints[NEWEST_BEFORE] - int(s)
    rank = math.ceil(s / ints[THINNING])
    if rank >= ints[SIZE]:
        return NEVER
    return area[ints[SIZE] - 1 - rank]


@njit(cache=True)
def settled(punctuation, ints):
    """Whether the stream is old enough for a punctuation so far behind its newest event time.

    In a stream no older than its delays the longer ones are still to come: what has been seen of
    the tail is cut short. O(1).
    """
    span = ints[NEWEST] - ints[OLDEST]
    return ints[NEWEST] - punctuation <= span // SETTLING


@njit(cache=True)
def conformal_step(tau, t, drop_ratio, ints, reals, area):
    """The punctuation wanted after a row, or NEVER; see the head of this file.

    tau, t : int64 microseconds; t is not below the row's before     drop_ratio : float64 in (0, 1)
    ints, reals, area : the key's state, changed in place
    Cost: O(1) amortised, some 300 ns.  Error: none in what is late (integers); thresholds float64.
    Source: Gibbs & Candes, Adaptive conformal inference under distribution shift (NeurIPS 2021),
    for the feedback; the measures, prices and experts are ours.
    """
    jolt = False
    if ints[FED] == 1:
        start_experts(tau, ints)
    else:
        jolt = observe_lateness(tau, t, ints, reals, area)
    count_clumps(drop_ratio, ints)
    remember_time(tau, ints, area)
    fed = ints[FED]
    alarm = jolt or (fed % HASTE == 0 and ints[LATE] != ints[LATE_STEERED])
    if fed > 1 and (fed % STEP == 0 or fed < 4 * STEP or alarm):
        steer(drop_ratio, jolt, ints, reals, area)
    if fed < FIRST:
        return NEVER
    for e in range(EXPERTS):
        wanted = punctuation_of(e % MEASURES, reals[THRESHOLD_OF + e], t, ints, area)
        if wanted > ints[PUNCTUATION_OF + e] and settled(wanted, ints):
            ints[PUNCTUATION_OF + e] = wanted
            ints[HELD_OF + e] = still_later(area, ints[SIZE], ints[HELD_OF + e], wanted)
    wanted = punctuation_of(ints[CHOSEN] % MEASURES, reals[FOLLOWED], t, ints, area)
    return wanted if settled(wanted, ints) else NEVER
