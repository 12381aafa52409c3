"""The disorder controller: punctuations after each arrival, of one controller or many."""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.buffer_bound import bound_buffer, expel, hold, release_held
from sfumato.kernels.disorder.clock_guard import (
    CLOSE,
    LASTING,
    NEAR,
    STALE,
    WARM_UP,
    far_side,
    horizon,
    observe,
)
from sfumato.kernels.disorder.conformal_delay import conformal_step
from sfumato.kernels.disorder.largest_delay import fixed_step, largest_step
from sfumato.kernels.disorder.normal_delay import normal_step
from sfumato.kernels.disorder.sort_buffer import slack_forget, slack_step
from sfumato.kernels.disorder.state import ALWAYS, AVERAGED, CONFORMAL, FIXED, NEVER, NORMAL, SLACK


@compiled
def reached(key):
    """The event time up to which no row is accepted any more; NEVER while there is none."""
    return max(key.punctuation, key.floor)


@compiled
def feed(tau, t, control, key, area):
    """One credible row to the estimator: the punctuation it asks for, or NEVER."""
    key.fed += 1
    if control.estimator == SLACK:
        if tau <= reached(key):
            wanted = NEVER
        else:
            wanted = slack_step(tau, control.slack, key, area)
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
    """A row before the guard knows what is credible: most estimators wait until it does."""
    if control.estimator == SLACK or (control.estimator == FIXED and tau <= t + CLOSE):
        return feed(tau, t, control, key, area)
    return NEVER


@compiled
def feed_warm_up(t, control, key, area):
    """Feed the first WARM_UP rows, now that the guard knows which of them are credible."""
    wanted = NEVER
    for i in range(WARM_UP):
        arrival = key.arrivals[i]
        delay = key.delays[i]
        if delay < key.bound:
            key.future += delay >= key.far_ahead
        elif control.estimator == FIXED and delay >= -CLOSE:
            continue  # it has been fed
        elif control.estimator != SLACK and delay <= key.far_behind:
            wanted = feed(arrival - delay, arrival, control, key, area)
    if control.estimator == SLACK:  # it has been fed
        slack_forget(NEVER, horizon(t, key), key, area)
    return wanted


@compiled
def guarded_step(tau, t, control, key, area):
    """One row to guard and estimator; the punctuation wanted, and the guard's horizon."""
    unguarded = key.guarded == 0
    observe(tau, t, control, key)
    credible = horizon(t, key)
    wanted = NEVER
    if unguarded:
        if key.guarded == 0 or (control.estimator == SLACK and tau <= credible):
            wanted = feed_unguarded(tau, t, control, key, area)
        if key.guarded == 1:
            wanted = max(wanted, feed_warm_up(t, control, key, area))
    elif tau > credible:
        key.future += 1
    else:
        wanted = feed(tau, t, control, key, area)
    return min(wanted, credible), credible


@compiled
def set_apart(side, key):
    """A far row comes out as late; after LASTING of them guard and estimator begin anew."""
    if side == STALE:
        key.stale += 1
    else:
        key.premature += 1
    if key.far_rows >= LASTING:
        key.observed = key.guarded = key.fed = key.far_rows = 0


@compiled
def hold_bounded(tau, late, credible, control, key, area, held):
    """Hold a row that is not late in a bounded buffer; the number of the row expelled, or -1."""
    if not late:
        hold(tau, key.count - 1, int(tau > credible), key, held)
    release_held(reached(key), key, held)
    before = key.punctuation
    number = bound_buffer(credible, control.max_buffer, key, held)
    if control.estimator == SLACK and key.punctuation > before:
        slack_forget(key.punctuation, ALWAYS, key, area)
    return number


@compiled
def arrive(tau, t, control, key, area, held):
    """One row reaches its controller: (whether it is late, the row expelled, or -1)."""
    if t < key.clock:
        key.out_of_order += 1
        t = key.clock
    key.clock = t
    key.count += 1
    if control.guard:
        side = far_side(tau, t, key)
        if side != NEAR:
            set_apart(side, key)
            return True, -1
    late = tau <= reached(key)
    if tau <= key.punctuation:
        key.late += 1
    elif late:
        key.after_idle += 1
    if control.guard:
        wanted, credible = guarded_step(tau, t, control, key, area)
    else:
        wanted, credible = feed(tau, t, control, key, area), ALWAYS
    key.punctuation = max(key.punctuation, wanted)
    if control.max_buffer > 0:
        return late, hold_bounded(tau, late, credible, control, key, area, held)
    return late, -1


@compiled
def expel_premature(key, held, numbers, found):
    """Rows held while nothing was known that are far ahead come out as late: numbers[found:]; the
    end."""
    for i in range(WARM_UP):
        if key.delays[i] < key.far_ahead and key.arrivals[i] - key.delays[i] > reached(key):
            number = key.count - WARM_UP + i
            expel(number, key, held)
            key.future += 1
            key.expelled += 1
            numbers[found] = number
            found += 1
    return found


@compiled
def punctuate(event_time, arrival, starts, which, control, states, memory):
    """Punctuations after each arrival, of the row's controller, and which rows are late.

    A row is late if its event time is at or below its controller's punctuation (or floor) when it
    arrives, or if it is far (see `clock_guard`).
    event_time, arrival : int64[n] microseconds, within +-2**58, the rows of a controller one after
    the other; where arrival decreases, the clock stands still, the row counts as out of order
    starts : int64[groups + 1], where the rows of a controller begin     which : int64[groups]
    control : `state.Control`     states : CONTROLLER[], changed in place
    memory : int64[], their areas, with room for the rows that come (see `state`)
    Returns punctuation int64[n] (NEVER while none is known), late bool[n], and the rows that were
    held and come out as late: the places (0..n-1) at which, and their numbers in the controller.
    O(log m) a row for a sort buffer of m rows, else O(1) amortised.  Source: C sections 4 and 5.
    """
    n = event_time.size
    punctuation = np.empty(n, np.int64)
    late = np.empty(n, np.bool_)
    at = np.empty((n if control.max_buffer > 0 else 0) + WARM_UP * which.size, np.int64)
    numbers = np.empty(at.size, np.int64)
    expelled = 0
    for group in range(which.size):
        key = states[which[group]]
        area = memory[key.place : key.place + key.room]
        heap = memory[key.heap_place : key.heap_place + 3 * key.heap_room]
        held = heap.reshape(3, key.heap_room)
        for i in range(starts[group], starts[group + 1]):
            unguarded = key.guarded == 0
            late[i], number = arrive(event_time[i], arrival[i], control, key, area, held)
            punctuation[i] = reached(key)
            if number >= 0:
                at[expelled] = i
                numbers[expelled] = number
                expelled += 1
            if unguarded and key.guarded == 1:
                found = expel_premature(key, held, numbers, expelled)
                at[expelled:found] = i
                expelled = found
    return punctuation, late, at[:expelled], numbers[:expelled]
