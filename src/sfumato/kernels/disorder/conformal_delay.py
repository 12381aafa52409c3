"""DRATIO with no assumption on the delays: thresholds on recent lateness, steered by what was late.

**Lateness.** How far behind a row comes is measured in four ways: behind the newest event time
(max tau - tau); behind the newest of earlier arrival stamps (rows of one stamp may then come in any
order); behind the arrival clock (t - tau); and in rows (how many with later event times came
before it). A threshold s on each gives a punctuation: max tau - s, likewise for the second; t - s,
but never beyond max tau; and the (s + 1)-th largest event time. Which of them makes rows wait least
depends on the stream. Twelve **experts**, the measures with a short memory, a long one, and one of
the whole stream, keep the tail of the lateness they remember and try their own punctuation on the
stream. Where delays shift, short memories win; where late rows come in rare bursts, only the whole
stream shows how rare they are.

**Steering.** With l rows late among n, the debt is x = (l - d' n) / T + c, where d' = 0.98 d and T
= 4 m + 0.03 d n is about what may be owed: late rows come in clumps of m on average, and one clump
must not be an alarm (m counts as at most 1 + d n / 100). While d n is below some 120, d' is up to
0.1 d less: the few late rows of a short stream leave no room for one more clump. The experts of the
whole stream may owe more, T + 0.06 d n: what hurries after every burst waits for the next one in
vain. The threshold is the one that makes s + price * (share of remembered rows it would drop)
smallest, log price = slope of the tail at d (smoothed) + 1.5 x: late rows raise the price, hence
the threshold; rows in time lower it. This is online conformal inference (Gibbs & Candes 2021: the
threshold follows the errors, not a model) with a price in place of the quantile's level, because
tails have gaps, at which a level jumps to and fro and a price stays.

**Following.** Each expert steers itself by what would have been late for it, so all are compared at
one drop ratio: by rows held times time (Little's law: the mean wait), with what they dropped too
much as a penalty. The cheapest is followed; to its own debt is added what other experts, followed
before, were late more, in units of T + 0.01 d n.

**What is guaranteed.** Nothing is assumed of the delays. While one expert that forgets is followed,
late rows are, by definition of x, at most d' n + (X - c) T for as long as x stays at most X, so the
drop ratio is at most (0.98 + 0.07 (X - c)) d + 4 (X - c) / n. The greater allowances, for experts
of the whole stream and for what others were late, loosen that: 0.13 in place of 0.07, and more
when the expert followed had itself been late less than allowed.
At x = 3 the price is 90-fold and the threshold near the largest lateness in memory:
from there on a row is late only if it is later than nearly all in memory, or at or below a
punctuation given out before, which cannot be taken back. No method can exclude these two for every
sequence: of rows each later than all before, any finite wait loses some.

**What was measured**, at d = 1%: a trace counts as good if at most 1.05 d were late and rows waited
at most 1.15 times (1.6 times in 10,000 rows) as long as with the best of three kinds of fixed
slack chosen with hindsight. Good were, on seeds the constants were not chosen on, 69 of 72 traces
of eight families (drifting mixtures of tails, bursts, offsets, retries, queues, uploads, days and
nights, varying scale; 10,000 to 200,000 rows) and 69 of 90 of `benchmarks/traces.py`. Other seeds
of both, and all real traces, were looked at while choosing; of 12 real ones 11 are good (one waits
1.156 times as long), one of them nearly in order and held shortly where a fixed slack need not.
**Where it fails**: links that stall while others go on (up to 4 d in 10,000 rows, 1.9 d in 40,000,
waits up to 10 times the best fixed); one storm larger than the whole budget; a stream shorter than
its own delays (1.8 d); clocks or delays that jump back by more than the thresholds, so that
thousands of rows are overtaken at once (8 d); machinery that uploads in batches, with all its late
rows in a few bursts (of 29 streams 10 good: up to 1.6 d where they come at the end, waits up to 8
times the best fixed slack, which knows that a burst need not be waited for); a drop ratio of 0.1%
in fewer than 200,000 rows (a few late rows are then the whole budget; 13 of 24 good).
"""

from __future__ import annotations

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_experts import (
    FIRST,
    FORGETFUL,
    MEASURES,
    MOST,
    forget,
    list_place,
    rows_listed,
)
from sfumato.kernels.disorder.conformal_sample import (
    LARGEST_SAMPLE,
    insert_time,
    later,
    sampled,
    shrink,
    still_later,
)
from sfumato.kernels.disorder.conformal_tail import insert, log_slope, priced, quantile
from sfumato.kernels.disorder.state import (
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
    PUNCTUATION_OF,
    RECENT_LATE_OF,
    RECENT_ROWS,
    SIZE,
    SLOPE_OF,
    STRIDE,
    THINNING,
    THRESHOLD_OF,
    WAITED_OF,
    WAITED_THEN,
)

BEHIND_NEWEST, BEHIND_CLOCK, IN_ROWS, BEHIND_EARLIER = range(MEASURES)
STEP = 32  # rows from one steering to the next,
HASTE = 8  # if none was late
AIM = 0.98  # of the drop ratio: room for what comes late at the very end,
SHY, SHY_UNTIL = 0.1, 120.0  # and more of it before so many rows may have been late
OWED, OWED_SHARE = 4.0, 0.03  # T
GENTLE = 0.06  # what may be owed in addition, as OWED_SHARE, by those that forget nothing;
LEGACY = 0.01  # by the expert followed, of what others were late
CLUMP_GAP = 0.1  # late rows farther apart, in rows times drop ratio, are of different clumps
CLUMP_GROWTH = 100.0  # expected late rows after which clumps count one more
CENTRE = 0.6  # c: late rows are kept about c T below d' n
UNSURE = 2.0  # expected late rows before slopes are trusted: until then plain quantiles
GAIN = 1.5  # from the debt to the log price
SMOOTH = 200.0  # slopes are smoothed over so many rows times drop ratio
LEAST = 0.05  # the smallest share looked at, in drop ratios
MEMORY = 60.0  # of the comparison, in rows times drop ratio
LOYALTY = 0.95  # the expert followed stays unless another is cheaper by this factor
JOLT = 0.1  # pauses that added this share to what had been waited are reason to choose anew


@compiled
def start_experts(tau, ints):
    """The state at the first row. O(1)."""
    ints[NEWEST] = ints[NEWEST_BEFORE] = tau
    ints[THINNING] = ints[STRIDE] = 1
    for e in range(EXPERTS):
        ints[PUNCTUATION_OF + e] = NEVER


@compiled
def observe_lateness(tau, t, ints, reals, area):
    """What a row tells each expert: time passed with rows held, a row late, a lateness.

    Returns whether pauses were a jolt to the expert followed since it was chosen.
    Cost: O(log) of the sample, and of rare insertions.  Source: Little's law for what is held.
    """
    sample = area[: min(ints[LEVEL], LARGEST_SAMPLE)]
    size = ints[SIZE]
    previous = ints[LAST_ARRIVAL]
    before = later(sample, size, tau - 1) * ints[THINNING]
    if t > previous:
        ints[NEWEST_BEFORE] = ints[NEWEST]
    reals[RECENT_ROWS] += 1.0
    listed = EXPERTS if sampled(ints[FED], ints[STRIDE]) else FORGETFUL
    for e in range(EXPERTS):
        if t > previous:
            waited = float(t - previous) * (ints[HELD_OF + e] * ints[THINNING])
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
    waited = reals[WAITED_OF + ints[CHOSEN]]
    return waited > (1.0 + JOLT) * reals[WAITED_THEN] and ints[FED] > 4 * STEP


@compiled
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


@compiled
def threshold(e, debt, d, ints, reals, area):
    """Expert e's threshold at a given debt x, in the units of its measure. O(list)."""
    at, capacity = list_place(e, ints[LEVEL])
    values = area[at : at + capacity]
    size = ints[LISTED + e]
    rows = rows_listed(e, d, ints)
    if ints[FED] * d < UNSURE:
        share = AIM * d / (1.0 + debt**1.5) if debt > 0.0 else AIM * d * (1.0 + (-debt) ** 1.5)
        s = quantile(values, size, min(share, MOST * d) * rows)
    else:
        price = math.exp(min(reals[SLOPE_OF + e] + GAIN * debt, 300.0))
        s = priced(values, size, rows, price, LEAST * d, MOST * d)
    # Clocks may be apart, so behind the clock s may be negative; elsewhere 0 releases everything.
    return s if e % MEASURES == BEHIND_CLOCK else max(s, 0.0)


@compiled
def learn_slope(e, d, ints, reals, area):
    """Follow the slope of expert e's tail. O(1)."""
    at, capacity = list_place(e, ints[LEVEL])
    rows = rows_listed(e, d, ints)
    slope = log_slope(area[at : at + capacity], ints[LISTED + e], rows, d)
    weight = 1.0 if ints[FED] * d < UNSURE else STEP * d / SMOOTH
    reals[SLOPE_OF + e] += weight * (slope - reals[SLOPE_OF + e])


@compiled
def choose(d, allowed, owed, ints, reals):
    """Follow the expert whose rows wait least at the same drop ratio. O(1)."""
    best = math.inf
    chosen = ints[CHOSEN]
    for e in range(EXPERTS):
        recent = (reals[RECENT_LATE_OF + e] + 1.0) / (AIM * d * reals[RECENT_ROWS] + 1.0)
        debt = (ints[LATE_OF + e] - allowed) / owed
        cost = (reals[WAITED_OF + e] + 1.0) * math.sqrt(max(recent, 0.5)) * max(debt, 1.0)
        if e == ints[CHOSEN]:
            cost *= LOYALTY
        if cost < best:
            best = cost
            chosen = e
    ints[CHOSEN] = chosen


@compiled
def fade_memory(d, reals):
    """Let the past count less in the next comparison. O(1)."""
    fade = max(0.0, 1.0 - 4 * STEP * d / MEMORY)
    reals[RECENT_ROWS] *= fade
    for e in range(EXPERTS):
        reals[WAITED_OF + e] *= fade
        reals[RECENT_LATE_OF + e] *= fade


@compiled
def count_clumps(d, ints):
    """Note whether the row just fed was late, and whether it began a clump of late rows. O(1)."""
    if ints[LATE] == ints[LATE_BEFORE]:
        return
    ints[LATE_BEFORE] = ints[LATE]
    if ints[CLUMPS] == 0 or ints[FED] - ints[LAST_LATE] > CLUMP_GAP / d:
        ints[CLUMPS] += 1
    ints[LAST_LATE] = ints[FED]


@compiled
def steer(d, jolt, ints, reals, area):
    """New thresholds; every 4 STEP rows also: forget old lateness, choose whom to follow.

    Cost: O(lists), every STEP rows.
    """
    fed = ints[FED]
    clump = ints[LATE] / ints[CLUMPS] if ints[CLUMPS] > 0 else 1.0
    owed = OWED * min(clump, 1.0 + d * fed / CLUMP_GROWTH) + OWED_SHARE * d * fed
    aim = AIM - SHY / (1.0 + (d * fed / SHY_UNTIL) ** 2)
    allowed = aim * d * fed - CENTRE * owed
    if fed % (4 * STEP) == 0:
        forget(d, ints, area)
        choose(d, allowed, owed, ints, reals)
        fade_memory(d, reals)
    elif jolt:
        choose(d, allowed, owed, ints, reals)
    if jolt or fed % (4 * STEP) == 0:
        reals[WAITED_THEN] = reals[WAITED_OF + ints[CHOSEN]]
    for e in range(EXPERTS):
        debt = (ints[LATE_OF + e] - allowed) / (
            owed + (GENTLE * d * fed if e >= FORGETFUL else 0.0)
        )
        if fed % STEP == 0 or fed < 4 * STEP:
            learn_slope(e, d, ints, reals, area)
        reals[THRESHOLD_OF + e] = threshold(e, debt, d, ints, reals, area)
        if e == ints[CHOSEN]:
            debt += (ints[LATE] - ints[LATE_OF + e]) / (owed + LEGACY * d * fed)
            reals[FOLLOWED] = threshold(e, debt, d, ints, reals, area)
    ints[LATE_STEERED] = ints[LATE]


@compiled
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


@compiled
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
        if wanted > ints[PUNCTUATION_OF + e]:
            ints[PUNCTUATION_OF + e] = wanted
            ints[HELD_OF + e] = still_later(area, ints[SIZE], ints[HELD_OF + e], wanted)
    return punctuation_of(ints[CHOSEN] % MEASURES, reals[FOLLOWED], t, ints, area)
