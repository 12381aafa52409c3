"""The guard against wrong clocks: it decides which delays are credible.

A row is **ahead** if its delay (arrival minus event time) is too small to be credible. It is
buffered and released in order, but it is not fed to the estimator and does not advance the
punctuation. A row is **far** ahead or behind if its delay differs from the others by more than even
the heaviest tail explains.

- A row *far behind* and below the newest event time is stale and is emitted immediately, as late.
  If a row far behind is at or above the newest event time, no row overtook it. Such a row is
  buffered and released in order.
- A row *far ahead* is buffered until later rows contradict or confirm it. A later row with an
  earlier event time contradicts the row far ahead, which is then emitted as late. PLAUSIBLE_ROWS
  consecutive far rows are accepted if none is more than MAX_CLOCK_SKEW_US ahead of its arrival (a
  device set its clock). Otherwise, LASTING_ROWS consecutive far rows are accepted.

A lasting change is accepted. Rows ahead are accepted once they are a quarter of the last RECENT
rows. Far rows are accepted after LASTING_ROWS consecutive rows. The guard also learns a lasting
**mode**: far rows that keep arriving between other rows, with event times within the stream's
lifetime. From then on, the delays of the mode are credible. The estimator is reset when a mode is
learned.
"""

from sfumato.kernels.arrays import sorted_values
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.disorder.state import END_OF_TIME, FIXED, NO_TIME, RECENT

GUARD_WARM_UP_ROWS = 16  # rows before the first bounds, and between their first renewals
RENEWAL_ROWS = 32  # rows between later renewals
FAR_BOUND_US = 1 << 59  # microseconds: saturation of the far bounds, above any real spread
MAX_CLOCK_SKEW_US = 600_000_000  # microseconds: no row within ten minutes is far
LASTING_ROWS = 1024  # number of consecutive far rows that are accepted as a lasting change
PLAUSIBLE_ROWS = 16  # the same if no row is more than MAX_CLOCK_SKEW_US ahead of its arrival
NEAR, FUTURE, STALE, LEARNED = 0, -1, 1, 2
RUNS, SPREAD = 16, 16  # a mode: RUNS groups of far rows spread over at least delay / SPREAD,
FEW_RUNS, LONG_SPREAD = 4, 2  # or FEW_RUNS groups spread over at least delay * LONG_SPREAD
SLOW_SHARE = 0.05  # minimum share of rows in a slow mode, as a multiple of the drop ratio
FAST_SHARE = 1 / 16  # minimum share of rows in a fast mode
SLOW_MARGIN, FAST_MARGIN = 4, 64  # learned bounds are 1 / margin beyond the farthest delay


@compiled
def observe(tau, t, control, key):
    """Add the delay of a row to the last RECENT delays; renew the bounds every RENEWAL_ROWS rows.

    Let q, m, r be the quartiles of the last RECENT delays, and T the time in which these rows
    arrived. A row is ahead if its delay is below q - 16 (m - q) - T / 2, and far if it is beyond
    m -+ max(k u, MAX_CLOCK_SKEW_US), where u = min(m - q, r - m) + T / RECENT and k = 100 / drop
    ratio (10,000 without one). For delays with a 1/x tail, one hundredth of the drop ratio lies
    beyond this bound. The bounds derive from quartiles, so fewer than a quarter of the rows cannot
    move them.
    O(1), and a sort of RECENT numbers every RENEWAL_ROWS rows.
    """
    key.observed += 1
    count = key.observed
    place = (count - 1) % RECENT
    key.delays[place], key.arrivals[place] = t - tau, t
    if count % RENEWAL_ROWS > 0 and (count >= RECENT or count % GUARD_WARM_UP_ROWS > 0):
        return
    known = min(count, RECENT)
    delays = sorted_values(key.delays[:known])
    span = t - key.arrivals[0 if count <= RECENT else count % RECENT]
    low, middle, high = delays[known // 4], delays[known // 2], delays[3 * known // 4]
    unit = float(min(middle - low, high - middle) + span // known)
    reach = int(min(100.0 / control.drop_ratio * unit, float(FAR_BOUND_US)))
    reach = max(reach, MAX_CLOCK_SKEW_US)
    key.far_behind, key.far_ahead = middle + reach, middle - reach
    key.bound = low - 16 * min(middle - low, FAR_BOUND_US // 16) - span // 2
    if control.estimator == FIXED:  # max_delay defines lateness
        key.bound -= control.max_delay
        key.far_behind = END_OF_TIME
    # If there are few rows, a quarter of them may be wrong; then q is also wrong, but m is not.
    key.bound = max(key.bound, key.far_ahead)
    key.guarded = 1


@compiled
def side_of(delay, key):
    """Return STALE (far behind), FUTURE (far ahead), LEARNED (in a learned mode) or NEAR."""
    if delay > key.far_behind:
        return LEARNED if delay <= key.slow_bound else STALE
    if delay < key.far_ahead:
        return LEARNED if delay >= key.fast_bound else FUTURE
    return NEAR


@compiled
def horizon(t, key):
    """Return the largest credible event time at arrival `t`, or END_OF_TIME without bounds."""
    return END_OF_TIME if key.guarded == 0 else t - min(key.bound, key.fast_bound)


@compiled
def restart_guard(key):
    """Reset the guard so that it accepts the consecutive far rows."""
    key.observed = key.guarded = key.fed = key.far_rows = key.pending = 0
    key.slow.rows = key.fast.rows = 0
    key.slow_bound, key.fast_bound = NO_TIME, END_OF_TIME


@inlined
def begin_guard(key):
    """Set `earliest` and `latest` from the first rows once the bounds are known."""
    key.earliest, key.latest = END_OF_TIME, NO_TIME
    for i in range(GUARD_WARM_UP_ROWS):
        tau = key.arrivals[i] - key.delays[i]
        if side_of(key.delays[i], key) == NEAR:
            key.earliest = min(key.earliest, tau)
            if key.delays[i] >= key.bound:
                key.latest = max(key.latest, tau)


@compiled
def _is_lasting(delay, sign, t, share, key, mode):
    """Count a far row as evidence of a mode; return True once the evidence suffices.

    sign : 1 for rows far behind, -1 for rows far ahead    share : minimum share of rows in a mode
    """
    if mode.rows < share * (key.count - mode.since):  # too rare to be a mode
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


@inlined
def learn_slow(tau, t, control, key):
    """Count a stale row as evidence of a mode, and learn the mode once the evidence suffices.

    Rows older than the stream's first rows contain no information about delays and are ignored.
    """
    share = SLOW_SHARE * control.drop_ratio
    if tau >= key.earliest and _is_lasting(t - tau, 1, t, share, key, key.slow):
        # The mode's rows are late until their event times are above the present punctuation.
        key.forgiven = max(key.forgiven, key.punctuation, key.floor)
        key.forgiven_until = key.forgiven + key.slow.delay
        key.slow_bound = key.slow.delay + key.slow.delay // SLOW_MARGIN
        key.slow.rows = key.fed = 0


@inlined
def learn_fast(tau, t, key):
    """Count a row far ahead as evidence of a mode, unless it is also far ahead of its arrival."""
    near = tau <= t + MAX_CLOCK_SKEW_US
    if near and _is_lasting(t - tau, -1, t, FAST_SHARE, key, key.fast):
        key.fast_bound = key.fast.delay - (key.far_ahead - key.fast.delay) // FAST_MARGIN
        key.fast.rows = key.fed = key.pending = 0


@inlined
def hold_pending(tau, t, key):
    """Count a row far ahead as pending; return whether the pending rows are now credible."""
    if key.pending == 0:
        key.pending_first, key.pending_top, key.pending_early = key.count - 1, tau, 0
    key.pending += 1
    key.pending_top = max(key.pending_top, tau)
    key.pending_early += tau > t + MAX_CLOCK_SKEW_US
    return key.pending >= (LASTING_ROWS if key.pending_early > 0 else PLAUSIBLE_ROWS)
