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
must not be an alarm (m counts as at most 1 + d n / 100). Half of the largest clump so far is kept
in reserve: c is at least that over T. While d n is below some 120, d' is up to 0.1 d less: a short
stream has few late rows to give away. The experts of the
whole stream may owe more, T + 0.06 d n: what hurries after every burst waits for the next one in
vain. The threshold is the one that makes s + price * (share of remembered rows it would drop)
smallest, log price = slope of the tail at d (smoothed) + 1.5 x, or up to 2.3 x while d n is below
some 120: late rows raise the price, hence the threshold; rows in time lower it. This is online
conformal inference (Gibbs & Candes 2021: the threshold follows the errors, not a model) with a
price in place of the quantile's level, because tails have gaps, at which a level jumps to and fro
and a price stays. Beyond x = 3 thresholds go on beyond the largest lateness remembered, by up to
half of what lies between it and the tail's foot.

**Caution.** Three things that no threshold can know hold the punctuation back: a start, a stream
younger than its delays, a flurry of late rows; see `conformal_caution`.

**Following.** Each expert steers itself by what would have been late for it, so all are compared at
one drop ratio: by rows held times time (Little's law: the mean wait), with what they dropped too
much as a penalty. The cheapest is followed; to its own debt is added what other experts, followed
before, were late more, in units of T + 0.01 d n.

**What is guaranteed.** Nothing is assumed of the delays. While one expert that forgets is followed,
late rows are, by definition of x, at most d' n + (X - c) T for as long as x stays at most X, so the
drop ratio is at most (0.98 + 0.07 (X - c)) d + 4 (X - c) / n. The greater allowances, for experts
of the whole stream and for what others were late, loosen that: 0.13 in place of 0.07, and more
when the expert followed had itself been late less than allowed.
At x = 3 the price is at least 90-fold and the threshold near the largest lateness in memory:
from there on a row is late only if it is later than nearly all in memory, or at or below a
punctuation given out before, which cannot be taken back. No method can exclude these two for every
sequence: of rows each later than all before, any finite wait loses some.

**What was measured**, at d = 1%, on 59 families of fresh streams in two lengths each, 2,000 to
40,000 rows (benchmarks/fresh_traces.py). On the 826 that were looked at only once all constants
were chosen: 56 are counted apart, by the trace alone, because the stream lasts less than three
times the lateness that hindsight waits for, or because even waiting for the largest lateness seen
so far loses more than 1.05 d; 26 of them dropped more than that. Of the 574 others that are not of
a family named below, 2 did (1.06 and 1.3 d); of the 196 that are, 54, up to 2.1 d: 23 with stalls,
15 with storms or uploads, 10 with a step of the delays in the last tenth, 6 that last two minutes
with delays of 1 to 20 s; 40 with 10,000 rows or fewer. Half of all waited at most 1.08 times as
long as with the best of three kinds of fixed slack chosen with hindsight. Of 12 real traces none
drops more than d.
**Where it fails**: a stall, a storm or an upload that makes more rows late than the budget allows,
before one like it was seen: nothing short of waiting for it from the first row on helps. A burst
looks like what came before it until its first row is there; with B rows of it passed by then, the
bound is B more. Of what comes after that, mostly what is longer than all before is late: rows wait
up to 7 times (storms: 17 times) as long as with a fixed slack that knows what will come. A step of
the delays in the last tenth of 10,000 rows: up to 1.2 d. Dense streams of heavy tails, of which
hundreds of late rows are under way when the stream ends: up to 1.8 d, waiting up to twenty times as
long as hindsight. Clocks or delays that jump back by
more than the thresholds, so that thousands of rows are overtaken at once (8 d, 31 d in 10,000
rows). A drop ratio of 0.1% in fewer than 200,000 rows: a few late rows are then the whole budget.
"""

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_caution import EARLY, held_back, learn_delay
from sfumato.kernels.disorder.conformal_experts import (
    BEHIND_CLOCK,
    BEHIND_EARLIER,
    BEHIND_NEWEST,
    FIRST,
    FORGETFUL,
    IN_ROWS,
    MEASURES,
    tail_of,
)
from sfumato.kernels.disorder.conformal_sample import (
    LARGEST_SAMPLE,
    insert_time,
    later,
    sampled,
    shrink,
    still_later,
)
from sfumato.kernels.disorder.conformal_steering import STEP, count_clumps, steer
from sfumato.kernels.disorder.conformal_tail import insert
from sfumato.kernels.disorder.state import EXPERTS, NEVER

HASTE = 8  # if none was late
JOLT = 0.1  # pauses that added this share to what had been waited are reason to choose anew


@compiled
def start_experts(tau, key):
    """The state at the first row. O(1)."""
    key.newest = key.newest_before = key.first_time = tau
    key.newest_at = key.largest_lateness = 0
    key.thinning = key.stride = 1
    key.size = key.chosen = key.steady = 0
    key.counted = 1
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
    """What a row shows each expert: time passed with rows held, a row late, a lateness.

    Returns whether pauses were a jolt to the expert followed since it was chosen.  O(log sample).
    """
    sample = area[: min(key.level, LARGEST_SAMPLE)]
    size = key.size
    previous = key.last_arrival
    before = later(sample, size, tau) * key.thinning
    if t > previous:
        key.newest_before = key.newest
    key.recent_rows += 1.0
    listed = EXPERTS if sampled(key.fed, key.stride) else FORGETFUL
    for e in range(EXPERTS):
        if t > previous:
            waited = float(t - previous) * (key.held_of[e] * key.thinning)
            key.waited_of[e] += waited
        if key.forgiven <= tau < key.punctuation_of[e]:
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
        values, numbers = tail_of(e, key, area)
        key.listed[e] = insert(values, numbers, key.listed[e], lateness, key.fed)
    waited = key.waited_of[key.chosen]
    return waited > (1.0 + JOLT) * key.waited_then and key.fed > 4 * STEP


@compiled
def observe_late(tau, d, key):
    """What a row shows of the punctuation in force, before it is among the newest. O(1)."""
    lateness = key.newest - tau
    key.largest_lateness = max(key.largest_lateness, lateness)
    if key.forgiven <= tau < key.punctuation:
        key.late_by[key.late_fed % 3] = lateness
        key.late_fed += 1
    count_clumps(d, key)


@compiled
def remember_time(tau, key, area):
    """The row among the newest event times."""
    if tau > key.newest:
        key.newest = tau
        key.newest_at = key.fed
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
def conformal_step(tau, t, drop_ratio, key, area):
    """The punctuation wanted after a row, or NEVER; see the head of this file.

    tau, t : int64 microseconds; t is not below the row's before     drop_ratio : float64 in (0, 1)
    O(1) amortised, some 300 ns.
    Source: Gibbs & Candes, Adaptive conformal inference under distribution shift (NeurIPS 2021),
    for the feedback; the measures, prices and experts are ours.
    """
    jolt = False
    if key.fed == 1:
        start_experts(tau, key)
    else:
        jolt = observe_lateness(tau, t, key, area)
    key.counted += key.fed > 1 and key.newest >= key.forgiven_until
    if key.counted * drop_ratio < EARLY:
        learn_delay(float(t - tau), key)
    observe_late(tau, drop_ratio, key)
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
    return held_back(wanted, t, drop_ratio, key, area)
