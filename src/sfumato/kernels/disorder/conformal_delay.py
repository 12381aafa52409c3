"""The conformal controller: a delay that keeps the promised drop ratio.

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

**Caution.** Thresholds are learned from rows that came, so they say nothing of what is still under
way, and a punctuation cannot be taken back. So rows wait longer

- *at the start*, for what delays would need if they were normal;
- while a stream is *young*: less event time has gone by than YOUNG times the 1 - d quantile of the
  lateness, so even the largest lateness seen has been cut off by the stream's own age.
  Then rows wait YOUNG times the largest lateness;
- in a *flurry*: late rows close together, while newer rows still come. Delays have changed, and
  every step on makes more of what is under way late. Until the flurry has been over for a while
  rows wait FREEZE times the middle one of the last three late rows' lateness. Not for rows much
  later than what is waited already: these come from an outage that is over;
- with a *lasting mode* of the delays, such as devices that send what they buffered a fixed time
  later: a shorter wait for a while would save little, as all rows of the mode that are under way
  then would be late. So rows wait at all times for the quantile of the lateness of the whole
  stream, at most the drop ratio. Either the guard has learned the mode (see `clock_guard`), or the
  largest lateness is flat (nearly the same for the share d and a part of it) and of rows from all
  over the stream. As it is flat, no fixed wait that holds the drop ratio is much shorter.

**Following.** Each expert steers itself by what would have been late for it, so all are compared at
one drop ratio: by rows held times time (Little's law: the mean wait), with what they dropped too
much as a penalty. The cheapest is followed; to its own debt is added what other experts, followed
before, were late more, in units of T + 0.01 d n.

What is guaranteed, what was measured and where it fails: docs/research/conformal-delay.md.
"""

import math

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_lateness import (
    BEHIND_CLOCK,
    BEHIND_EARLIER,
    BEHIND_NEWEST,
    FIRST,
    FORGETFUL,
    IN_ROWS,
    LARGEST_SAMPLE,
    LATENESS_MEASURES,
    MOST_SHARE,
    forget,
    insert,
    insert_time,
    later,
    log_slope,
    priced,
    quantile,
    rows_listed,
    sampled,
    shrink,
    still_later,
    tail_of,
)
from sfumato.kernels.disorder.state import EXPERTS, NO_TIME

EARLY = 12.0  # expected late rows before the tails are known: until then, be cautious
CAUTION = 3.3  # standard deviations of the delays; from half of EARLY on it fades
NEWEST_DELAYS = 32  # of which these are taken
YOUNG = 1.3  # also how much longer than anything seen rows wait then
FLURRY = 4  # late rows of one clump
FREEZE = 1.25  # times their middle lateness is waited,
NEARLY = 3.0  # if that is less than so many times what is waited: not for an upload,
CALM = 0.5  # until so many rows, times drop ratio, without a late one,
STEADY = 0.9  # with a lasting mode, the quantile waited for, in drop ratios,
DEAREST = 0.05  # and its least share of that, where more rows were late than that,
DEBT, DEBT_SHARE = 20.0, 0.1  # by so many, and this share of the expected ones
FLAT, STILL_FLAT = 0.05, 0.1  # the lateness of a mode differs by at most this share,
DELAY_PART = 8  # between the quantile for this part of the share and that for all of it
PERIODS = 4  # of the stream since the first row of the mode: each has at least
EVEN, STILL_EVEN = 0.5, 0.3  # this share of the rows of the mode that it would have on average
STEADY_LIFE = 60.0  # times the lateness: in a longer stream such rows are few
FEWEST = 32  # rows listed of a mode
LIVE = 4  # or until so many rows brought no newer event time: only stragglers come


@compiled
def learn_delay(delay, key):
    """Follow mean and variance of the newest delays, until the tails are known. O(1)."""
    weight = 1.0 / min(key.fed, NEWEST_DELAYS)
    change = delay - key.total
    key.total += weight * change
    key.squares = (1.0 - weight) * (key.squares + weight * change * change)


@compiled
def in_flurry(d, key):
    """Whether late rows just came close together, and newer rows as well. O(1)."""
    return (
        key.clump >= FLURRY
        and key.fed - key.last_late <= CALM / d
        and key.fed - key.newest_at <= LIVE
    )


@compiled
def middle(a, b, c):
    """The middle one of three."""
    return max(min(a, b), min(max(a, b), c))


@compiled
def look_for_mode(d, key, area):
    """Note whether the lateness of the whole stream shows a lasting mode. O(list)."""
    values, numbers = tail_of(FORGETFUL, key, area)
    rows = min(int(STEADY * d * rows_listed(FORGETFUL, d, key)), key.listed[FORGETFUL])
    if rows < FEWEST:
        return
    flat, even = (FLAT, EVEN) if key.steady == 0 else (STILL_FLAT, STILL_EVEN)
    key.steady = 0
    if values[rows // DELAY_PART] - values[rows - 1] > flat * values[rows - 1]:
        return
    first = numbers[:rows].min()
    counts = np.zeros(PERIODS, np.int64)
    for number in numbers[:rows]:
        counts[(number - first) * PERIODS // (key.fed - first + 1)] += 1
    key.steady = int(counts.min() >= even * rows / PERIODS)


@compiled
def steady_share(d, key):
    """The share of rows that may come later than what is waited for a lasting mode. O(1)."""
    expected = STEADY * d * key.counted
    left = (expected - key.late_fed) / (DEBT + DEBT_SHARE * expected)
    return STEADY * d * min(max(1.0 + left, DEAREST), 1.0)


@compiled
def held_back(wanted, t, d, key, area):
    """The punctuation the experts ask for after a row that arrived at t, or an earlier one. O(1).

    d : drop ratio
    """
    expected = d * key.counted
    if expected < EARLY:
        share = min(1.0, 2.0 - 2.0 * expected / EARLY)
        wanted = min(wanted, t - math.ceil(key.total + share * CAUTION * math.sqrt(key.squares)))
    wait = 0.0
    if in_flurry(d, key):
        late = key.late_by
        lateness = middle(late[0], late[1], late[2])
        if lateness < NEARLY * (key.newest - key.punctuation):
            wait = max(wait, FREEZE * lateness)
    values, _ = tail_of(FORGETFUL, key, area)  # of the whole stream, behind the newest event time
    size = key.listed[FORGETFUL]
    asked = quantile(values, size, d * rows_listed(FORGETFUL, d, key)) if size > 0 else 0.0
    if key.newest - key.first_time < YOUNG * asked:
        wait = max(wait, YOUNG * key.largest_lateness)
    steady = key.steady == 1 and key.newest - key.first_time < STEADY_LIFE * asked
    if size > 0 and (steady or key.slow_bound != NO_TIME):
        rank = steady_share(d, key) * rows_listed(FORGETFUL, d, key)
        wait = max(wait, quantile(values, size, rank))
    return min(wanted, key.newest - int(wait)) if wait > 0.0 else wanted


STEERING_ROWS = 32  # rows from one steering to the next,
AIM = 0.98  # of the drop ratio: room for what comes late at the very end,
SHY, SHY_UNTIL = 0.1, 120.0  # and more of it before so many rows may have been late;
OWED, OWED_SHARE = 4.0, 0.03  # T
GENTLE = 0.06  # what may be owed in addition, as OWED_SHARE, by those that forget nothing;
LEGACY = 0.01  # by the expert followed, of what others were late
CLUMP_GAP = 0.1  # late rows farther apart, in rows times drop ratio, are of different clumps
CLUMP_GROWTH = 100.0  # expected late rows after which clumps count one more
RESERVE = 0.5  # of the largest clump: so many late rows are kept for the next one
CENTRE = 0.6  # c: late rows are kept about c T below d' n
UNSURE = 2.0  # expected late rows before slopes are trusted: until then plain quantiles
GAIN, SHY_GAIN = 1.5, 0.8  # from the debt to the log price, and more until SHY_UNTIL
SMOOTH = 200.0  # slopes are smoothed over so many rows times drop ratio
LEAST_SHARE = 0.05  # the smallest share looked at, in drop ratios
MEMORY = 60.0  # of the comparison, in rows times drop ratio
LOYALTY = 0.95  # the expert followed stays unless another is cheaper by this factor
BEYOND = 3.0  # debt from which on thresholds lie beyond the largest lateness remembered,
FARTHER = 0.25  # by this share of it for each unit of debt,
AT_MOST = 0.5  # and at most by this share


@compiled
def threshold(e, debt, gain, d, key, area):
    """Expert e's threshold at a given debt x, in the units of its measure. O(list)."""
    values, _ = tail_of(e, key, area)
    size = key.listed[e]
    rows = rows_listed(e, d, key)
    if key.counted * d < UNSURE:
        share = AIM * d / (1.0 + debt**1.5) if debt > 0.0 else AIM * d * (1.0 + (-debt) ** 1.5)
        s = quantile(values, size, min(share, MOST_SHARE * d) * rows)
    else:
        price = math.exp(min(key.slope_of[e] + gain * debt, 300.0))
        s = priced(values, size, rows, price, LEAST_SHARE * d, MOST_SHARE * d)
    if debt > BEYOND and size > 0:
        beyond = min(FARTHER * (debt - BEYOND), AT_MOST)
        s += beyond * max(values[0] - values[min(int(4.0 * MOST_SHARE * d * rows), size - 1)], 0)
    # Clocks may be apart, so behind the clock s may be negative; elsewhere 0 releases everything.
    return s if e % LATENESS_MEASURES == BEHIND_CLOCK else max(s, 0.0)


@compiled
def learn_slope(e, d, key, area):
    """Follow the slope of expert e's tail. O(1)."""
    values, _ = tail_of(e, key, area)
    slope = log_slope(values, key.listed[e], rows_listed(e, d, key), d)
    weight = 1.0 if key.counted * d < UNSURE else STEERING_ROWS * d / SMOOTH
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
    fade = max(0.0, 1.0 - 4 * STEERING_ROWS * d / MEMORY)
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
    """New thresholds; every 4 STEERING_ROWS rows also: forget old lateness, choose whom to
    follow."""
    fed, expected = key.fed, d * key.counted
    clump = key.late_fed / key.clumps if key.clumps > 0 else 1.0
    owed = OWED * min(clump, 1.0 + expected / CLUMP_GROWTH) + OWED_SHARE * expected
    shy = 1.0 / (1.0 + (expected / SHY_UNTIL) ** 2)
    aim, gain = AIM - SHY * shy, GAIN + SHY_GAIN * shy
    allowed = aim * expected - max(CENTRE * owed, RESERVE * key.largest_clump)
    if fed % (4 * STEERING_ROWS) == 0:
        forget(d, key, area)
        look_for_mode(d, key, area)
        choose(d, allowed, owed, key)
        fade_memory(d, key)
    elif jolt:
        choose(d, allowed, owed, key)
    if jolt or fed % (4 * STEERING_ROWS) == 0:
        key.waited_then = key.waited_of[key.chosen]
    for e in range(EXPERTS):
        debt = (key.late_of[e] - allowed) / (owed + (GENTLE * expected if e >= FORGETFUL else 0.0))
        if fed % STEERING_ROWS == 0 or fed < 4 * STEERING_ROWS:
            learn_slope(e, d, key, area)
        key.threshold_of[e] = threshold(e, debt, gain, d, key, area)
        if e == key.chosen:
            debt += (key.late_fed - key.late_of[e]) / (owed + LEGACY * expected)
            key.followed = threshold(e, debt, gain, d, key, area)
    key.late_steered = key.late_fed


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
        key.punctuation_of[e] = NO_TIME
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
        measure = e % LATENESS_MEASURES
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
    return waited > (1.0 + JOLT) * key.waited_then and key.fed > 4 * STEERING_ROWS


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
        return NO_TIME
    return area[key.size - 1 - rank]


@compiled
def conformal_step(tau, t, drop_ratio, key, area):
    """The punctuation wanted after a row, or NO_TIME; see the head of this file.

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
    if fed > 1 and (fed % STEERING_ROWS == 0 or fed < 4 * STEERING_ROWS or alarm):
        steer(drop_ratio, jolt, key, area)
    if fed < FIRST:
        return NO_TIME
    for e in range(EXPERTS):
        wanted = punctuation_of(e % LATENESS_MEASURES, key.threshold_of[e], t, key, area)
        if wanted > key.punctuation_of[e]:
            key.punctuation_of[e] = wanted
            key.held_of[e] = still_later(area, key.size, key.held_of[e], wanted)
    wanted = punctuation_of(key.chosen % LATENESS_MEASURES, key.followed, t, key, area)
    return held_back(wanted, t, drop_ratio, key, area)
