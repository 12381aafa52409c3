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
from sfumato.kernels.disorder.state import EXPERTS, NEVER

BEHIND_NEWEST, BEHIND_CLOCK, IN_ROWS, BEHIND_EARLIER = range(MEASURES)
STEP = 32  # rows from one steering to the next,
HASTE = 8  # if none was late
AIM = 0.98  # of the drop ratio: room for what comes late at the very end,
SHY, SHY_UNTIL = 0.12, 120.0  # and more of it before so many rows may have been late
OWED, OWED_SHARE = 4.0, 0.03  # T
GENTLE = 0.06  # what may be owed in addition, as OWED_SHARE, by those that forget nothing;
LEGACY = 0.01  # by the expert followed, of what others were late
CLUMP_GAP = 0.1  # late rows farther apart, in rows times drop ratio, are of different clumps
CLUMP_GROWTH = 100.0  # expected late rows after which clumps count one more
RESERVE = 1.0  # of the largest clump: so many late rows are kept for the next one
CENTRE = 0.6  # c: late rows are kept about c T below d' n
UNSURE = 2.0  # expected late rows before slopes are trusted: until then plain quantiles
GAIN = 1.5  # from the debt to the log price
SMOOTH = 200.0  # slopes are smoothed over so many rows times drop ratio
LEAST = 0.05  # the smallest share looked at, in drop ratios
MEMORY = 60.0  # of the comparison, in rows times drop ratio
LOYALTY = 0.95  # the expert followed stays unless another is cheaper by this factor
EARLY = 12.0  # expected late rows before the tails are known: until then, be cautious
CAUTION = 3.3  # standard deviations of the delays; from half of EARLY on it fades
NEWEST_DELAYS = 64  # of which these are taken
BEYOND = 3.0  # debt from which on thresholds lie beyond the largest lateness remembered,
FARTHER = 0.25  # by this share of it for each unit of debt,
AT_MOST = 0.5  # and at most by this share
JOLT = 0.1  # pauses that added this share to what had been waited are reason to choose anew


@compiled
def start_experts(tau, key):
    """The state at the first row. O(1)."""
    key.newest = key.newest_before = tau
    key.thinning = key.stride = 1
    key.size = key.chosen = 0
    key.late_fed = key.late_before = key.late_steered = key.clumps = key.last_late = 0
    key.followed = key.recent_rows = key.waited_then = 0.0
    key.clump = key.largest_clump = 0
    key.total = key.squares = 0.0
    for e in range(EXPERTS):
        key.punctuation_of[e] = NEVER
        key.listed[e] = key.late_of[e] = key.held_of[e] = 0
        key.threshold_of[e] = key.recent_late_of[e] = 0.0
        key.waited_of[e] = key.slope_of[e] = 0.0


@compiled
def observe_lateness(tau, t, key, area):
    """What a row tells each expert: time passed with rows held, a row late, a lateness.

    Returns whether pauses were a jolt to the expert followed since it was chosen.
    Cost: O(log) of the sample, and of rare insertions.  Source: Little's law for what is held.
    """
    sample = area[: min(key.level, LARGEST_SAMPLE)]
    size = key.size
    previous = key.last_arrival
    before = later(sample, size, tau - 1) * key.thinning
    if t > previous:
        key.newest_before = key.newest
    key.recent_rows += 1.0
    listed = EXPERTS if sampled(key.fed, key.stride) else FORGETFUL
    for e in range(EXPERTS):
        if t > previous:
            waited = float(t - previous) * (key.held_of[e] * key.thinning)
            key.waited_of[e] += waited
        if tau <= key.punctuation_of[e]:
            key.late_of[e] += 1
            key.recent_late_of[e] += 1.0
        if e >= listed:
            continue
        measure = e % MEASURES
        if measure == BEHIND_NEWEST:  # how far a row is ahead says nothing, hence -1
            lateness = max(key.newest - tau, -1)
        elif measure == BEHIND_CLOCK:
            lateness = previous - tau
        elif measure == IN_ROWS:
            lateness = before - 1
        else:
            lateness = max(key.newest_before - tau, -1)
        at, capacity = list_place(e, key.level)
        key.listed[e] = insert(
            area[at : at + capacity],
            area[at + capacity : at + 2 * capacity],
            key.listed[e],
            capacity,
            lateness,
            key.fed,
        )
    waited = key.waited_of[key.chosen]
    return waited > (1.0 + JOLT) * key.waited_then and key.fed > 4 * STEP


@compiled
def remember_time(tau, key, area):
    """The row among the newest event times."""
    key.newest = max(key.newest, tau)
    if not sampled(key.fed, key.thinning):
        return
    sample = area[: min(key.level, LARGEST_SAMPLE)]
    if key.size == LARGEST_SAMPLE:
        oldest = key.punctuation_of[0]
        for e in range(1, EXPERTS):
            oldest = min(oldest, key.punctuation_of[e])
        key.size, key.thinning = shrink(sample, key.size, oldest, key.thinning)
        for e in range(EXPERTS):
            key.held_of[e] = later(sample, key.size, key.punctuation_of[e])
    size = insert_time(sample, key.size, tau)
    if size > key.size:
        key.size = size
        for e in range(EXPERTS):
            key.held_of[e] += tau > key.punctuation_of[e]


@compiled
def threshold(e, debt, d, key, area):
    """Expert e's threshold at a given debt x, in the units of its measure. O(list)."""
    at, capacity = list_place(e, key.level)
    values = area[at : at + capacity]
    size = key.listed[e]
    rows = rows_listed(e, d, key)
    if key.fed * d < UNSURE:
        share = AIM * d / (1.0 + debt**1.5) if debt > 0.0 else AIM * d * (1.0 + (-debt) ** 1.5)
        s = quantile(values, size, min(share, MOST * d) * rows)
    else:
        price = math.exp(min(key.slope_of[e] + GAIN * debt, 300.0))
        s = priced(values, size, rows, price, LEAST * d, MOST * d)
    if debt > BEYOND and size > 0:
        beyond = min(FARTHER * (debt - BEYOND), AT_MOST)
        s += beyond * max(values[0] - values[min(int(4.0 * MOST * d * rows), size - 1)], 0)
    # Clocks may be apart, so behind the clock s may be negative; elsewhere 0 releases everything.
    return s if e % MEASURES == BEHIND_CLOCK else max(s, 0.0)


@compiled
def learn_slope(e, d, key, area):
    """Follow the slope of expert e's tail. O(1)."""
    at, capacity = list_place(e, key.level)
    rows = rows_listed(e, d, key)
    slope = log_slope(area[at : at + capacity], key.listed[e], rows, d)
    weight = 1.0 if key.fed * d < UNSURE else STEP * d / SMOOTH
    key.slope_of[e] += weight * (slope - key.slope_of[e])


@compiled
def choose(d, allowed, owed, key):
    """Follow the expert whose rows wait least at the same drop ratio. O(1)."""
    best = math.inf
    chosen = key.chosen
    for e in range(EXPERTS):
        recent = (key.recent_late_of[e] + 1.0) / (AIM * d * key.recent_rows + 1.0)
        debt = (key.late_of[e] - allowed) / owed
        cost = (key.waited_of[e] + 1.0) * math.sqrt(max(recent, 0.5)) * max(debt, 1.0)
        if e == key.chosen:
            cost *= LOYALTY
        if cost < best:
            best = cost
            chosen = e
    key.chosen = chosen


@compiled
def fade_memory(d, key):
    """Let the past count less in the next comparison. O(1)."""
    fade = max(0.0, 1.0 - 4 * STEP * d / MEMORY)
    key.recent_rows *= fade
    for e in range(EXPERTS):
        key.waited_of[e] *= fade
        key.recent_late_of[e] *= fade


@compiled
def count_clumps(d, key):
    """Note whether the row just fed was late, and whether it began a clump of late rows. O(1)."""
    if key.late_fed == key.late_before:
        return
    key.late_before = key.late_fed
    if key.clumps == 0 or key.fed - key.last_late > CLUMP_GAP / d:
        key.clumps += 1
        key.clump = 0
    key.clump += 1
    key.largest_clump = max(key.largest_clump, key.clump)
    key.last_late = key.fed


@compiled
def steer(d, jolt, key, area):
    """New thresholds; every 4 STEP rows also: forget old lateness, choose whom to follow.

    Cost: O(lists), every STEP rows.
    """
    fed = key.fed
    clump = key.late_fed / key.clumps if key.clumps > 0 else 1.0
    owed = OWED * min(clump, 1.0 + d * fed / CLUMP_GROWTH) + OWED_SHARE * d * fed
    aim = AIM - SHY / (1.0 + (d * fed / SHY_UNTIL) ** 2)
    allowed = aim * d * fed - max(CENTRE * owed, RESERVE * key.largest_clump)
    if fed % (4 * STEP) == 0:
        forget(d, key, area)
        choose(d, allowed, owed, key)
        fade_memory(d, key)
    elif jolt:
        choose(d, allowed, owed, key)
    if jolt or fed % (4 * STEP) == 0:
        key.waited_then = key.waited_of[key.chosen]
    for e in range(EXPERTS):
        debt = (key.late_of[e] - allowed) / (owed + (GENTLE * d * fed if e >= FORGETFUL else 0.0))
        if fed % STEP == 0 or fed < 4 * STEP:
            learn_slope(e, d, key, area)
        key.threshold_of[e] = threshold(e, debt, d, key, area)
        if e == key.chosen:
            debt += (key.late_fed - key.late_of[e]) / (owed + LEGACY * d * fed)
            key.followed = threshold(e, debt, d, key, area)
    key.late_steered = key.late_fed


@compiled
def punctuation_of(measure, s, t, key, area):
    """The punctuation that a threshold on a measure gives now, int64 microseconds. O(1)."""
    if measure == BEHIND_NEWEST:
        return key.newest - int(s)
    if measure == BEHIND_CLOCK:
        # Not beyond the newest event time: nothing is released by that, and after a pause in
        # which only the clock went on, all that had been under way would be late.
        return min(t - int(s), key.newest)
    if measure == BEHIND_EARLIER:
        return key.newest_before - int(s)
    rank = math.ceil(s / key.thinning)
    if rank >= key.size:
        return NEVER
    return area[key.size - 1 - rank]


@compiled
def learn_delay(delay, key):
    """Follow mean and variance of the newest delays, until the tails are known. O(1)."""
    weight = 1.0 / min(key.fed, NEWEST_DELAYS)
    change = delay - key.total
    key.total += weight * change
    key.squares = (1.0 - weight) * (key.squares + weight * change * change)


@compiled
def cautious(expected, t, key):
    """The punctuation of normal delays, for a start: `expected` late rows have been allowed. O(1).

    A stream that is younger than its delays has only seen the short ones."""
    share = min(1.0, 2.0 - 2.0 * expected / EARLY)
    return t - math.ceil(key.total + share * CAUTION * math.sqrt(key.squares))


@compiled
def conformal_step(tau, t, drop_ratio, key, area):
    """The punctuation wanted after a row, or NEVER; see the head of this file.

    tau, t : int64 microseconds; t is not below the row's before     drop_ratio : float64 in (0, 1)
    key, area : the controller, changed in place
    Cost: O(1) amortised, some 300 ns.  Error: none in what is late (integers); thresholds float64.
    Source: Gibbs & Candes, Adaptive conformal inference under distribution shift (NeurIPS 2021),
    for the feedback; the measures, prices and experts are ours.
    """
    jolt = False
    if key.fed == 1:
        start_experts(tau, key)
    else:
        jolt = observe_lateness(tau, t, key, area)
    if key.fed * drop_ratio < EARLY:
        learn_delay(float(t - tau), key)
    key.late_fed += tau <= key.punctuation
    count_clumps(drop_ratio, key)
    remember_time(tau, key, area)
    fed = key.fed
    alarm = jolt or (fed % HASTE == 0 and key.late_fed != key.late_steered)
    if fed > 1 and (fed % STEP == 0 or fed < 4 * STEP or alarm):
        steer(drop_ratio, jolt, key, area)
    if fed < FIRST:
        return NEVER
    for e in range(EXPERTS):
        wanted = punctuation_of(e % MEASURES, key.threshold_of[e], t, key, area)
        if wanted > key.punctuation_of[e]:
            key.punctuation_of[e] = wanted
            key.held_of[e] = still_later(area, key.size, key.held_of[e], wanted)
    wanted = punctuation_of(key.chosen % MEASURES, key.followed, t, key, area)
    if fed * drop_ratio < EARLY:
        wanted = min(wanted, cautious(fed * drop_ratio, t, key))
    return wanted
