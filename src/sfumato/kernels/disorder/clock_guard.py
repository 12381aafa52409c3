"""The guard against clocks that are wrong: which delays are credible.

A row is **ahead** if its delay (arrival less event time) is incredibly small: it is held and comes
out in its turn, but neither feeds the estimator nor moves the punctuation. A row is **far** ahead
or behind if its delay differs by so much more that not even the heaviest tail explains it.

- *Far behind* and before the newest event time: the row is stale and comes out at once, as late.
  At or after the newest event time it overtook nothing: it is held and comes out in its turn.
- *Far ahead*: the row is held until a later row decides. A row with an earlier event time
  contradicts it, and it comes out as late. If `PLAUSIBLE` of them come one after the other, at most
  MAX_CLOCK_SKEW_US ahead of their arrival (a device has set its clock), or `LASTING` others, they
  are right.

A lasting change is believed: for rows ahead once they make up a quarter of the last RECENT rows,
for far rows that come one after the other after LASTING of them. A lasting **mode** is learned,
too: far rows that keep coming in between the others, with event times within the stream's own life.
Their delays are credible from then on, and the estimator begins again.
"""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import END_OF_TIME, FIXED, NO_TIME, RECENT

WARM_UP = 16  # rows before anything is judged; for a start the bounds are renewed as often
RENEWAL = 32  # rows from one renewal to the next
WIDEST_BOUND_US = 1 << 55  # microseconds: saturation, far above any real spread
FAR_BOUND_US = 1 << 59  # likewise, for the far bounds
MAX_CLOCK_SKEW_US = 600_000_000  # microseconds: no row is far that is closer than ten minutes
LASTING = 1024  # consecutive far rows after which they are believed
PLAUSIBLE = 16  # the same of rows far ahead that are not ahead of their arrival
NEAR, FUTURE, STALE, LEARNED = 0, -1, 1, 2
RUNS, SPREAD = 16, 16  # a mode: so many groups of far rows within at least 1 / SPREAD of the delay,
FEW_RUNS, LONG_SPREAD = 4, 2  # or so few within at least so many times the delay
SLOW_SHARE = 0.05  # and at least this share of the rows, in drop ratios; of rows far ahead
FAST_SHARE = 1 / 16  # this share of all rows
SLOW_MARGIN, FAST_MARGIN = 4, 64  # a learned bound lies beyond the delays seen by 1 / so much


@compiled
def observe(tau, t, control, key):
    """Remember the delay of a row among the last RECENT and renew the bounds every RENEWAL rows.

    With q, m, r the quartiles of the last RECENT delays and T the time in which these rows arrived,
    a row is ahead below q - 16 (m - q) - T / 2, and far beyond m -+ max(k u, MAX_CLOCK_SKEW_US),
    where u = min(m - q, r - m) + T / RECENT and k = 100 / drop ratio (10,000 without one). For
    delays with a 1/x tail, about one hundredth of the drop ratio lies beyond this bound. Being
    quantiles, the bounds do not move for fewer than a quarter of the rows, however wrong these are.
    O(1), and a sort of RECENT numbers every RENEWAL rows.
    """
    key.observed += 1
    count = key.observed
    place = (count - 1) % RECENT
    key.delays[place] = t - tau
    key.arrivals[place] = t
    if count % RENEWAL == 0 or (count < RECENT and count % WARM_UP == 0):
        known = min(count, RECENT)
        delays = np.sort(key.delays[:known])
        span = t - key.arrivals[0 if count <= RECENT else count % RECENT]
        low, middle, high = delays[known // 4], delays[known // 2], delays[3 * known // 4]
        key.bound = low - 16 * min(middle - low, WIDEST_BOUND_US) - span // 2
        unit = float(min(middle - low, high - middle) + span // known)
        reach = max(
            int(min(100.0 / control.drop_ratio * unit, float(FAR_BOUND_US))), MAX_CLOCK_SKEW_US
        )
        key.far_behind = middle + reach
        key.far_ahead = middle - reach
        if control.estimator == FIXED:  # it knows itself what is too late
            key.bound -= control.max_delay
            key.far_behind = END_OF_TIME
        # Of few rows a quarter may be wrong, and q with them; m is not.
        key.bound = max(key.bound, key.far_ahead)
        key.guarded = 1


@compiled
def side_of(delay, key):
    """Return STALE or FUTURE for a delay that is far from credible, LEARNED for one of a mode that
    has been learned, else NEAR."""
    if delay > key.far_behind:
        return LEARNED if delay <= key.slow_bound else STALE
    if delay < key.far_ahead:
        return LEARNED if delay >= key.fast_bound else FUTURE
    return NEAR


@compiled
def horizon(t, key):
    """The largest credible event time of a row that arrives at `t`; END_OF_TIME before one is
    known."""
    if key.guarded == 0:
        return END_OF_TIME
    return t - min(key.bound, key.fast_bound)


@compiled
def restart_guard(key):
    """Begin again: the far rows that came one after the other are right. O(1)."""
    key.observed = key.guarded = key.fed = key.far_rows = key.pending = 0
    key.slow.rows = key.fast.rows = 0
    key.slow_bound, key.fast_bound = NO_TIME, END_OF_TIME


@compiled
def begin_guard(key):
    """Note what the first WARM_UP rows tell, now that the bounds are known. O(1)."""
    key.earliest = END_OF_TIME
    key.latest = NO_TIME
    for i in range(WARM_UP):
        tau = key.arrivals[i] - key.delays[i]
        if side_of(key.delays[i], key) == NEAR:
            key.earliest = min(key.earliest, tau)
            if key.delays[i] >= key.bound:
                key.latest = max(key.latest, tau)


@compiled
def _lasting_mode(delay, sign, t, share, key, mode):
    """Count a far row as evidence of a mode; whether that is enough. O(1).

    sign : 1 for rows far behind, -1 for rows far ahead    share : of the rows, at least
    """
    if mode.rows < share * (key.count - mode.since):  # too rare so far
        mode.rows = 0
    if mode.rows == 0:
        mode.runs = 0
        mode.since, mode.begin, mode.delay = key.count - 1, t, delay
    mode.rows += 1
    mode.runs += key.far_rows == 1
    mode.delay = sign * max(sign * mode.delay, sign * delay)
    lasts, size = float(t - mode.begin), abs(float(delay))
    return (mode.runs >= RUNS and lasts * SPREAD >= size) or (
        mode.runs >= FEW_RUNS and lasts >= LONG_SPREAD * size
    )


@compiled
def learn_slow(tau, t, control, key):
    """Take a stale row as evidence of a mode; whether the mode has just been learned. O(1).

    Rows from before the stream's life tell nothing of how long rows are under way.
    """
    if tau < key.earliest or not _lasting_mode(
        t - tau, 1, t, SLOW_SHARE * control.drop_ratio, key, key.slow
    ):
        return False
    # What the punctuation has passed is lost, until the mode's rows have event times beyond it.
    key.forgiven = max(key.forgiven, key.punctuation, key.floor)
    key.forgiven_until = key.forgiven + key.slow.delay
    key.slow_bound = key.slow.delay + key.slow.delay // SLOW_MARGIN
    key.slow.rows = key.fed = 0
    return True


@compiled
def learn_fast(tau, t, key):
    """Take a row far ahead, but not of its arrival, as evidence of a mode; whether the mode has
    just been learned. O(1)."""
    if tau > t + MAX_CLOCK_SKEW_US or not _lasting_mode(t - tau, -1, t, FAST_SHARE, key, key.fast):
        return False
    key.fast_bound = key.fast.delay - (key.far_ahead - key.fast.delay) // FAST_MARGIN
    key.fast.rows = key.fed = key.pending = 0
    return True


@compiled
def hold_pending(tau, t, key):
    """Hold a row that is far ahead until later rows decide; whether they have made it credible."""
    if key.pending == 0:
        key.pending_first, key.pending_top, key.pending_early = key.count - 1, tau, 0
    key.pending += 1
    key.pending_top = max(key.pending_top, tau)
    key.pending_early += tau > t + MAX_CLOCK_SKEW_US
    return key.pending >= (LASTING if key.pending_early > 0 else PLAUSIBLE)


@compiled
def decide_pending(tau, key):
    """A row that is not far ahead decides on those that are: the number of the first one that it
    contradicts, which ends before this row; or -1."""
    contradicted = key.pending > 0 and tau < key.pending_top
    key.pending = 0
    return key.pending_first if contradicted else -1
