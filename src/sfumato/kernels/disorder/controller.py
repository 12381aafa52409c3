"""The disorder controller: punctuations after each arrival, of one controller or many."""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.clock_guard import (
    FUTURE,
    LASTING,
    LEARNED,
    MAX_CLOCK_SKEW_US,
    STALE,
    WARM_UP,
    begin_guard,
    decide_pending,
    hold_pending,
    horizon,
    learn_fast,
    learn_slow,
    observe,
    restart_guard,
    side_of,
)
from sfumato.kernels.disorder.conformal_delay import conformal_step
from sfumato.kernels.disorder.estimators import (
    bound_buffer,
    expel,
    fixed_step,
    hold,
    largest_step,
    normal_step,
    release_held,
    slack_forget,
    slack_step,
)
from sfumato.kernels.disorder.state import (
    AVERAGED,
    CONFORMAL,
    END_OF_TIME,
    FIXED,
    FULL,
    NO_TIME,
    NORMAL,
    SLACK,
)

NO_ROW = -1  # no row is expelled


@compiled
def reached(key):
    """The event time below which no row is accepted any more; NO_TIME while there is none."""
    return max(key.punctuation, key.floor)


@compiled
def feed(tau, t, control, key, area):
    """One credible row to the estimator: the punctuation it asks for, or NO_TIME."""
    key.fed += 1
    key.latest = max(key.latest, tau)
    if control.estimator == SLACK:
        if tau <= reached(key):
            wanted = NO_TIME
        else:
            wanted = slack_step(tau, control.slack, key, area)
    elif control.estimator == FULL:
        wanted = NO_TIME
    elif control.estimator == FIXED:
        wanted = fixed_step(tau, control.max_delay, key)
    elif control.estimator == NORMAL:
        wanted = normal_step(tau, t, control, key, area)
    elif control.estimator == CONFORMAL:
        wanted = conformal_step(tau, t, control.drop_ratio, key, area)
    else:
        wanted = largest_step(tau, t, control.estimator == AVERAGED, key)
    key.last_arrival = t
    return wanted


@compiled
def feed_unguarded(tau, t, control, key, area):
    """A row before the guard knows what is credible: most estimators wait until it does, and all
    for rows that are far ahead of their arrival."""
    if (control.estimator == SLACK or control.estimator == FIXED) and tau <= t + MAX_CLOCK_SKEW_US:
        return feed(tau, t, control, key, area)
    return NO_TIME


@compiled
def feed_warm_up(t, control, key, area):
    """Feed the first WARM_UP rows, now that the guard knows which of them are credible."""
    wanted = NO_TIME
    begin_guard(key)
    for i in range(WARM_UP):
        arrival = key.arrivals[i]
        delay = key.delays[i]
        if delay < key.bound:
            key.future += 1
        elif (
            control.estimator == SLACK or control.estimator == FIXED
        ) and delay >= -MAX_CLOCK_SKEW_US:
            continue  # it has been fed
        elif delay <= key.far_behind:
            wanted = max(wanted, feed(arrival - delay, arrival, control, key, area))
    if control.estimator == SLACK:  # some rows that it was fed are not credible
        slack_forget(NO_TIME, horizon(t, key), key, area)
    return wanted


@compiled
def unguarded_step(tau, t, control, key, area):
    """One row before the guard knows what is credible; the punctuation wanted."""
    wanted = NO_TIME
    observe(tau, t, control, key)
    if key.guarded == 0 or (control.estimator == SLACK and tau <= horizon(t, key)):
        wanted = feed_unguarded(tau, t, control, key, area)
    if key.guarded == 1:
        wanted = max(wanted, feed_warm_up(t, control, key, area))
    return wanted


@compiled
def credible_step(tau, t, side, control, key, area):
    """One row that is not far from what is credible; the punctuation wanted."""
    if side != LEARNED:
        observe(tau, t, control, key)
    if tau > horizon(t, key):
        key.future += 1
        return NO_TIME
    key.credible_number, key.credible_time = key.count - 1, tau
    return feed(tau, t, control, key, area)


@compiled
def note_far(side, tau, t, control, key):
    """A far row as evidence: after LASTING of them, or once they are a mode, they are right."""
    if side == STALE:
        if key.far_rows >= LASTING:
            restart_guard(key)
        else:
            learn_slow(tau, t, control, key)
    else:
        key.future += 1
        if hold_pending(tau, t, key):
            restart_guard(key)
        else:
            learn_fast(tau, t, key)


@compiled
def guarded_step(tau, t, control, key, area):
    """One row to guard and estimator, once the guard knows what is credible.

    Returns the punctuation wanted, and the number of the first row that is expelled, or NO_ROW:
    from this one to the row before, those that are held.
    """
    side = side_of(t - tau, key)
    key.far_rows = key.far_rows + 1 if side == key.far_side else 1
    key.far_side = side
    if side == FUTURE:
        note_far(side, tau, t, control, key)
        return NO_TIME, NO_ROW
    first = decide_pending(tau, key)
    if side == STALE:
        note_far(side, tau, t, control, key)
        return NO_TIME, first
    return credible_step(tau, t, side, control, key, area), first


@compiled
def is_stale(tau, t, control, key):
    """Whether a row comes out at once because it is incredibly far behind; see `clock_guard`."""
    if not control.guard or key.guarded == 0 or tau >= key.latest:
        return False
    return side_of(t - tau, key) == STALE


@compiled
def count_late(tau, t, control, key):
    """Whether a row that arrives is late, counted by its reason."""
    if is_stale(tau, t, control, key):
        key.stale += 1
        return True
    if tau < key.punctuation:
        key.late += 1
        return True
    if tau < key.floor:
        key.after_idle += 1
        return True
    return False


@compiled
def hold_bounded(tau, t, late, first, control, key, area, held):
    """Hold a row that is not late in a bounded buffer.

    Returns the first row that is expelled, and where the rows expelled end; NO_ROW: there are none.
    """
    credible = horizon(t, key)
    end = key.count - 1
    if first != NO_ROW:
        expel(first, end, key, held)
    if not late:
        hold(tau, key.count - 1, int(tau > credible), key, held)
    release_held(reached(key), key, held)
    before = key.punctuation
    number = bound_buffer(credible, t + MAX_CLOCK_SKEW_US, control.max_buffer, key, held)
    if control.estimator == SLACK and key.punctuation > before:
        slack_forget(key.punctuation, END_OF_TIME, key, area)
    return (first, end) if number == NO_ROW else (number, number + 1)


@compiled
def arrive(tau, t, control, key, area, held):
    """One row reaches its controller.

    Returns whether it is late, and the rows expelled: the first number, and where they end.
    """
    if t < key.clock:
        key.out_of_order += 1
        t = key.clock
    key.clock = t
    key.count += 1
    late = count_late(tau, t, control, key)
    first = NO_ROW
    if not control.guard:
        wanted = feed(tau, t, control, key, area)
    else:
        if key.guarded == 0:
            key.credible_number, key.credible_time = key.count - 1, tau
            wanted = unguarded_step(tau, t, control, key, area)
        else:
            wanted, first = guarded_step(tau, t, control, key, area)
        # Nothing is released by a punctuation beyond the newest event time, and in a stream in
        # order rows would be late.
        wanted = min(wanted, horizon(t, key), key.latest)
    key.punctuation = max(key.punctuation, wanted)
    if control.max_buffer > 0:
        first, end = hold_bounded(tau, t, late, first, control, key, area, held)
        return late, first, end
    return late, first, key.count - 1


@compiled
def begin_pending(t, control, key, held, numbers, found):
    """Decide on the rows far ahead among the first WARM_UP, now that the bounds are known.

    Those that a later row contradicts come out as late: numbers[found:]; the others are pending.
    Returns the end of the numbers.
    """
    least = END_OF_TIME  # event time of the rows after, which are not far
    pending = True
    key.pending = key.pending_early = key.far_rows = 0
    key.pending_top = NO_TIME
    key.far_side = FUTURE
    for i in range(WARM_UP - 1, -1, -1):
        tau = key.arrivals[i] - key.delays[i]
        if side_of(key.delays[i], key) != FUTURE:
            least = min(least, tau)
            pending = False
            continue
        number = key.count - WARM_UP + i
        if tau > least:
            if tau > reached(key):
                numbers[found] = number
                found += 1
                if control.max_buffer > 0:
                    expel(number, number + 1, key, held)
        elif pending:
            key.pending += 1
            key.far_rows += 1
            key.pending_top = max(key.pending_top, tau)
            key.pending_early += tau > t + MAX_CLOCK_SKEW_US
            key.pending_first = number
    return found


@compiled
def punctuate(event_time, arrival, starts, which, control, states, memory):
    """Punctuations after each arrival, of the row's controller, and which rows are late.

    A row is late if its event time is below its controller's punctuation (or floor) when it
    arrives, or if it is stale (see `clock_guard`).
    event_time, arrival : int64[n] microseconds, within +-2**58, the rows of a controller one after
    the other; where arrival decreases, the clock stands still, the row counts as out of order
    starts : int64[groups + 1], where the rows of a controller begin     which : int64[groups]
    control : `state.Control`     states : CONTROLLER[], changed in place
    memory : int64[], their areas, with room for the rows that come (see `state`)
    Returns punctuation int64[n] (NO_TIME while none is known), late bool[n], and the rows that are
    expelled, those of them that are held: the places (0..n-1) at which they come out as late, the
    first number in the controller, and where the numbers end.
    O(log m) a row for a sort buffer of m rows, else O(1) amortised.  Source: C sections 4 and 5.
    """
    n = event_time.size
    punctuation = np.empty(n, np.int64)
    late = np.empty(n, np.bool_)
    at = np.empty(n + WARM_UP * which.size, np.int64)
    first = np.empty(at.size, np.int64)
    end = np.empty(at.size, np.int64)
    expelled = 0
    for group in range(which.size):
        key = states[which[group]]
        area = memory[key.place : key.place + key.room]
        heap = memory[key.heap_place : key.heap_place + 3 * key.heap_room]
        held = heap.reshape(3, key.heap_room)
        for i in range(starts[group], starts[group + 1]):
            unguarded = key.guarded == 0
            late[i], number, until = arrive(event_time[i], arrival[i], control, key, area, held)
            punctuation[i] = reached(key)
            if number != NO_ROW:
                at[expelled], first[expelled], end[expelled] = i, number, until
                expelled += 1
            if unguarded and key.guarded == 1:
                found = begin_pending(key.clock, control, key, held, first, expelled)
                for k in range(expelled, found):
                    at[k], end[k] = i, first[k] + 1
                expelled = found
    return punctuation, late, at[:expelled], first[:expelled], end[:expelled]
