"""The conformal controller: a delay that keeps the drop ratio d.

**Lateness.** There are four measures of a row's lateness. A threshold s on a measure determines a
punctuation:

    NEWEST   time below the newest event time          max tau - s
    EARLIER  the same without rows of the latest       max tau - s, without these rows
             arrival time, which may be in any order
    CLOCK    delay in excess of the smallest delay     t - smallest delay - s, at most max tau
    ROWS     earlier rows with later event times       the (s + 1)-th largest event time

The measure with the shortest waits depends on the stream. Each measure has a histogram of lateness,
with geometric buckets and exponential forgetting. The punctuation of each measure is evaluated
on the stream.

**Steering.** If l of n rows were late, the debt is x = (l - d' n) / T + c, where d' is slightly
below d, and T = 4 m + 0.03 d n is the tolerated debt. Late rows arrive in bursts of m on average (m
is capped at 1 + d n / 100), and one burst must stay below T. The threshold minimises s + price *
(share of remembered rows that it drops), where log price = log slope of the tail at d (smoothed) +
1.5 x. Late rows raise the price and therefore the threshold; on-time rows lower both. This method
is online conformal inference (Gibbs & Candes 2021), in which the threshold follows the errors, not
a model. A price replaces the quantile level, because a level oscillates at gaps of the tail.

The tail is flat at d if, for example, devices send buffered rows after a fixed time. A much shorter
fixed wait would not keep the drop ratio. Such a wait would also make late all rows of that mode
that are still in transit. Therefore rows wait at least for the quantile.

**Following.** Each measure is steered by the rows that would have been late for it, so all measures
are compared at the same drop ratio. The cost of a measure is the number of held rows, summed over
time (by Little's law, the mean wait), with a penalty for excess drops. The cheapest measure is
followed, and is steered by the rows late for the actual punctuation. If the cost of the followed
measure rises by the share MIN_COST_RISE, for example after a pause, the measure is chosen again.

**Caution.** Thresholds are learned from arrived rows, not from rows in transit. Therefore rows wait
longer in two cases. At the start, they wait as normally distributed delays would require. They also
wait longer while less event time has passed than YOUNG_FACTOR times the 1 - d quantile of the
lateness.

Guarantees, measurements and failure cases: docs/research/conformal-delay.md.
"""

import math

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.disorder.state import MEASURES, NO_TIME

NEWEST, EARLIER, CLOCK, ROWS = np.arange(MEASURES)
BUCKETS_PER_OCTAVE = 4  # buckets per factor 2 of lateness: a threshold is at most 19% too long
LATENESS_BUCKETS = 46 * BUCKETS_PER_OCTAVE  # microseconds up to 2 years, or rows
SAMPLE_SIZE = 96  # event times; ranks of rows are accurate to about 1 in 10
# int64 entries per controller: float32 histograms, then the sample of event times
AREA_SIZE = MEASURES * LATENESS_BUCKETS // 2 + SAMPLE_SIZE
# Upper edges of the buckets.
BUCKET_EDGES = np.append(0.0, 2.0 ** (np.arange(1, LATENESS_BUCKETS) / BUCKETS_PER_OCTAVE))

FIRST_ROWS = 16  # rows before the first punctuation
STEERING_ROWS = 32  # rows between updates of the thresholds,
HURRIED_ROWS = 8  # or HURRIED_ROWS rows if a row was late
MEMORY_LATE_ROWS = 30.0  # expected number of late rows among the remembered rows
SMOOTHED_LATE_ROWS = 200.0  # rows times drop ratio over which slopes are smoothed
TARGET_SHARE = 0.98  # d' / d: leaves room for rows that arrive late at the very end,
# and EARLY_MARGIN more room until about EARLY_LATE_ROWS late rows are expected
EARLY_MARGIN, EARLY_LATE_ROWS = 0.1, 120.0
# T: number of bursts, and share of the expected late rows
TOLERATED_BURSTS, TOLERATED_SHARE = 4.0, 0.03
BURST_GAP = 0.1  # minimum distance between bursts, in rows times drop ratio
BURST_GROWTH = 100.0  # expected late rows per increment of the cap on burst sizes
TARGET_DEBT = 0.6  # c: the number of late rows is kept about c T below d' n
GAIN, EARLY_GAIN = 1.5, 0.8  # log price per debt; EARLY_GAIN is added until EARLY_LATE_ROWS
OTHER_MEASURES_SHARE = 0.01  # of expected late rows, added to T for drops due to other measures
MIN_PRICED_LATE_ROWS = 2.0  # expected late rows below which quantiles are used, not prices
# Flat tail: the quantile at d / FLAT_TAIL_PART is at most FLAT_TAIL_RATIO times the quantile at
# STEADY_SHARE d; rows then wait at least for the latter.
FLAT_TAIL_RATIO, FLAT_TAIL_PART = 1.25, 8.0
STEADY_SHARE = 0.9
LEAST_SHARE, MOST_SHARE = 0.05, 3.0  # shares of rows that a threshold may drop, divided by d
COMPARED_LATE_ROWS = 60.0  # rows remembered by the comparison, times drop ratio
FOLLOWED_COST_FACTOR = 0.95  # the followed measure stays unless another is cheaper by this factor
MIN_COST_RISE = 0.1  # rise of the followed measure's cost, as a share, that causes a new choice
# Expected late rows below which delays are treated as normal, and standard deviations to wait then.
START_LATE_ROWS, START_DEVIATIONS = 12.0, 3.3
NEWEST_DELAYS = 32  # delays used for mean and variance
YOUNG_FACTOR = 1.3  # see Caution; young streams wait this multiple of the largest lateness


@inlined
def bucket_of(lateness):
    """Return the bucket of a lateness: 0 below 1, otherwise 1 + the number of quarter octaves."""
    if lateness < 1:
        return 0
    return min(1 + int(BUCKETS_PER_OCTAVE * math.log2(float(lateness))), LATENESS_BUCKETS - 1)


@compiled
def quantile(histogram, wanted):
    """Return the lateness exceeded by `wanted` rows, interpolated in its bucket. O(buckets)."""
    above = 0.0
    for b in range(histogram.size - 1, -1, -1):
        if above + histogram[b] > wanted:
            low = BUCKET_EDGES[b - 1] if b > 1 else float(b)
            return BUCKET_EDGES[b] - (wanted - above) / histogram[b] * (BUCKET_EDGES[b] - low)
        above += histogram[b]
    return 0.0


@inlined
def threshold_at_price(histogram, rows, price, least, most):
    """Return the threshold s that minimises s + price * (share of rows that exceed it).

    The threshold lies on the lower convex hull of (share, threshold). At a gap in the lateness,
    where a quantile would oscillate, the price must change a lot before the threshold moves.
    rows : float64, total weight    least, most : range of shares to search    O(buckets)
    Source: Lagrange multipliers.
    """
    above, best, chosen = 0.0, math.inf, 0.0
    for b in range(histogram.size - 1, -1, -1):
        if above + histogram[b] > least * rows:
            if above > most * rows and best < math.inf:
                break
            cost = BUCKET_EDGES[b] + price * above / rows
            if cost < best:
                best, chosen = cost, BUCKET_EDGES[b]
        above += histogram[b]
    return chosen


@compiled
def count_later(sample, size, time):
    """Count the times of the ascending sample[:size] that are later than `time`. O(log size)."""
    return size - first_at_least(sample, 0, size, time + 1)


@inlined
def remember_time(tau, key, sample):
    """Insert one in `thinning` event times into the ascending sample of the newest event times.

    A full sample drops its older half if the rows above the punctuation fit into the other half;
    otherwise it drops every second time and doubles `thinning`. If these rows fit into an eighth, a
    thinned sample is made denser: each time of the newest quarter is stored twice.
    O(SAMPLE_SIZE).  Error: row counts deviate by about thinning * sqrt(rows / thinning).
    """
    # Fibonacci hashing, so that patterns of the stream and of the sample do not coincide.
    if (key.fed * 7046029254386353131 >> 40) & (key.thinning - 1) > 0:
        return
    if key.size == SAMPLE_SIZE:
        half, need = SAMPLE_SIZE // 2, count_later(sample, SAMPLE_SIZE, key.punctuation_of[ROWS])
        if need > half:
            for i in range(half):
                sample[i] = sample[2 * i + 1]
            key.thinning *= 2
        elif key.thinning > 1 and need < SAMPLE_SIZE // 8:
            for i in range(half):
                sample[i] = sample[SAMPLE_SIZE - half // 2 + i // 2]
            key.thinning //= 2
        else:
            for i in range(half):
                sample[i] = sample[half + i]
        key.size = half
    place = key.size - count_later(sample, key.size, tau)
    if place > 0 or key.size < SAMPLE_SIZE // 2:
        for i in range(key.size, place, -1):
            sample[i] = sample[i - 1]
        sample[place] = tau
        key.size += 1


@inlined
def start_measures(tau, t, key, area):
    area[:] = 0
    key.newest = key.newest_before = key.first_time = tau
    key.base = t - tau
    key.thinning = key.counted = 1
    key.size = key.late_fed = key.late_steered = key.bursts = key.last_late = key.measure = 0
    key.largest_lateness = 0
    key.mean = key.variance = key.followed = key.typical = 0.0
    key.rows = key.recent_rows = key.waited_then = 0.0
    key.weight = 1.0
    for m in range(MEASURES):
        key.punctuation_of[m] = NO_TIME
        key.late_of[m] = key.top_of[m] = 0
        key.threshold_of[m] = key.slope_of[m] = key.waited_of[m] = key.recent_late_of[m] = 0.0


@compiled
def add_to_histogram(measure, lateness, key, histograms):
    """Add the current row to a measure's histogram."""
    bucket = bucket_of(lateness)
    histograms[measure, bucket] += np.float32(key.weight)
    key.top_of[measure] = max(key.top_of[measure], bucket)


@compiled
def used_histogram(measure, key, histograms):
    """Return a measure's histogram without the empty buckets at its end."""
    return histograms[measure, : key.top_of[measure] + 1]


@inlined
def observe_lateness(tau, t, d, key, histograms, sample):
    """Record a row in each measure: elapsed time, late rows, lateness. O(log sample)."""
    passed = float(max(t - key.last_arrival, 0))
    key.recent_rows += 1.0
    key.weight /= 1.0 - min(d / MEMORY_LATE_ROWS, 0.5)  # older rows get less weight
    key.rows += key.weight
    for m in range(MEASURES):
        if passed > 0.0:
            held = count_later(sample, key.size, key.punctuation_of[m]) * key.thinning
            key.waited_of[m] += passed * float(held)
        if key.forgiven <= tau < key.punctuation_of[m]:
            key.late_of[m] += 1
            key.recent_late_of[m] += 1.0
    add_to_histogram(NEWEST, key.newest - tau, key, histograms)
    add_to_histogram(EARLIER, key.newest_before - tau, key, histograms)
    # A row at or above the newest event time is never late.
    add_to_histogram(
        CLOCK, key.last_arrival - key.base - tau if tau < key.newest else 0, key, histograms
    )
    add_to_histogram(ROWS, count_later(sample, key.size, tau) * key.thinning, key, histograms)
    if t > key.last_arrival:
        key.newest_before = key.newest
    key.base = min(key.base, t - tau)
    if key.weight > 1e30:  # float32 overflows at 3e38
        histograms /= np.float32(key.weight)
        key.rows /= key.weight
        key.weight = 1.0


@inlined
def observe_late(tau, d, key):
    """Record the lateness of a row under the actual punctuation, before `newest` is updated."""
    key.largest_lateness = max(key.largest_lateness, key.newest - tau)
    if key.forgiven <= tau < key.punctuation:
        key.late_fed += 1
        key.bursts += key.bursts == 0 or key.fed - key.last_late > BURST_GAP / d
        key.last_late = key.fed


@inlined
def choose_measure(d, allowed, tolerated, key):
    """Follow the measure with the shortest waits at the same drop ratio."""
    best, chosen = math.inf, key.measure
    for m in range(MEASURES):
        recent = (key.recent_late_of[m] + 1.0) / (TARGET_SHARE * d * key.recent_rows + 1.0)
        debt = (key.late_of[m] - allowed) / tolerated
        cost = (key.waited_of[m] + 1.0) * math.sqrt(max(recent, 0.5)) * max(debt, 1.0)
        cost *= FOLLOWED_COST_FACTOR if m == key.measure else 1.0
        if cost < best:
            best, chosen = cost, m
    key.measure = chosen


@inlined
def discount_past(d, key):
    """Discount the past in the next comparison."""
    share = max(0.0, 1.0 - 4 * STEERING_ROWS * d / COMPARED_LATE_ROWS)
    key.recent_rows *= share
    for m in range(MEASURES):
        key.waited_of[m] *= share
        key.recent_late_of[m] *= share


@compiled
def threshold(m, debt, gain, d, key, histograms):
    """Return a measure's threshold for a debt. O(buckets)."""
    histogram, rows = used_histogram(m, key, histograms), key.rows
    if key.counted * d < MIN_PRICED_LATE_ROWS:
        return quantile(histogram, min(d * math.exp(-debt), MOST_SHARE * d) * rows)
    price = math.exp(min(key.slope_of[m] + gain * debt, 300.0))
    s = threshold_at_price(histogram, rows, price, LEAST_SHARE * d, MOST_SHARE * d)
    if quantile(histogram, d / FLAT_TAIL_PART * rows) <= FLAT_TAIL_RATIO * quantile(
        histogram, STEADY_SHARE * d * rows
    ):
        s = max(s, quantile(histogram, min(STEADY_SHARE, math.exp(-debt)) * d * rows))
    return s


@inlined
def steer(d, cost_rose, key, histograms):
    """Update the thresholds; every 4 STEERING_ROWS rows, or if `cost_rose`, choose the measure."""
    expected = d * key.counted
    burst = key.late_fed / key.bursts if key.bursts > 0 else 1.0
    tolerated = (
        TOLERATED_BURSTS * min(burst, 1.0 + expected / BURST_GROWTH) + TOLERATED_SHARE * expected
    )
    early = 1.0 / (1.0 + (expected / EARLY_LATE_ROWS) ** 2)
    gain = GAIN + EARLY_GAIN * early
    allowed = (TARGET_SHARE - EARLY_MARGIN * early) * expected - TARGET_DEBT * tolerated
    due = key.fed % (4 * STEERING_ROWS) == 0
    if due or cost_rose:
        choose_measure(d, allowed, tolerated, key)
        if due:
            discount_past(d, key)
        key.waited_then = key.waited_of[key.measure]
    for m in range(MEASURES):
        if key.fed % STEERING_ROWS == 0 or key.fed < 4 * STEERING_ROWS:
            histogram = used_histogram(m, key, histograms)
            high = quantile(histogram, 0.5 * d * key.rows)
            low = quantile(histogram, 2.0 * d * key.rows)
            slope = math.log(max(high - low, 1.0) / (1.5 * d))
            smooth = (
                1.0
                if expected < MIN_PRICED_LATE_ROWS
                else min(STEERING_ROWS * d / SMOOTHED_LATE_ROWS, 1.0)
            )
            key.slope_of[m] += smooth * (slope - key.slope_of[m])
        debt = (key.late_of[m] - allowed) / tolerated
        key.threshold_of[m] = threshold(m, debt, gain, d, key, histograms)
        if m == key.measure:
            debt += (key.late_fed - key.late_of[m]) / (tolerated + OTHER_MEASURES_SHARE * expected)
            key.followed = threshold(m, debt, gain, d, key, histograms)
    key.typical = quantile(used_histogram(NEWEST, key, histograms), d * key.rows)
    key.late_steered = key.late_fed


@compiled
def punctuation_of(measure, s, t, key, sample):
    """Return the punctuation for a measure's threshold s, int64 microseconds."""
    if measure == NEWEST:
        return key.newest - int(s)
    if measure == EARLIER:
        return key.newest_before - int(s)
    if measure == CLOCK:
        return min(t - key.base - int(s), key.newest)
    rank = math.ceil(int(s) / key.thinning)
    return sample[key.size - 1 - rank] if rank < key.size else NO_TIME


@inlined
def conformal_step(tau, t, d, key, area):
    """Return the punctuation proposed after a row, or NO_TIME; see the module docstring.

    tau, t : int64 microseconds, t not decreasing    d : drop ratio, in (0, 1)
    area : int64[AREA_SIZE], zeros at the first row    O(1) amortised.
    Source: Gibbs & Candes (NeurIPS 2021), for the feedback; the measures and prices are new.
    """
    split = MEASURES * LATENESS_BUCKETS // 2
    histograms = area[:split].view(np.float32).reshape(MEASURES, LATENESS_BUCKETS)
    sample = area[split:]
    fed = key.fed
    if fed == 1:
        start_measures(tau, t, key, area)
    else:
        observe_lateness(tau, t, d, key, histograms, sample)
        key.counted += key.newest >= key.forgiven_until
    expected = d * key.counted
    if expected < START_LATE_ROWS:
        weight = 1.0 / min(fed, NEWEST_DELAYS)
        change = float(t - tau) - key.mean
        key.mean += weight * change
        key.variance = (1.0 - weight) * (key.variance + weight * change * change)
    observe_late(tau, d, key)
    key.newest = max(key.newest, tau)
    remember_time(tau, key, sample)
    hurry = fed % HURRIED_ROWS == 0 and key.late_fed != key.late_steered
    cost_rose = (
        key.waited_of[key.measure] > (1.0 + MIN_COST_RISE) * key.waited_then
        and fed > 4 * STEERING_ROWS
    )
    if fed > 1 and (fed % STEERING_ROWS == 0 or fed < 4 * STEERING_ROWS or hurry or cost_rose):
        steer(d, cost_rose, key, histograms)
    if fed < FIRST_ROWS:
        return NO_TIME
    for m in range(MEASURES):
        wanted = punctuation_of(m, key.threshold_of[m], t, key, sample)
        key.punctuation_of[m] = max(key.punctuation_of[m], wanted)
    wanted = punctuation_of(key.measure, key.followed, t, key, sample)
    if expected < START_LATE_ROWS:
        deviations = START_DEVIATIONS * min(1.0, 2.0 - 2.0 * expected / START_LATE_ROWS)
        wanted = min(wanted, t - math.ceil(key.mean + deviations * math.sqrt(key.variance)))
    if key.newest - key.first_time < YOUNG_FACTOR * key.typical:
        wanted = min(wanted, key.newest - int(YOUNG_FACTOR * key.largest_lateness))
    return wanted
