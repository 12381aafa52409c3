"""The disorder controller: punctuations after each arrival of one key."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.buffer_bound import bound_buffer, hold, release_held
from sfumato.kernels.disorder.conformal_delay import conformal_step
from sfumato.kernels.disorder.future_guard import WARM_UP, horizon, observe
from sfumato.kernels.disorder.largest_delay import largest_step
from sfumato.kernels.disorder.normal_delay import normal_step
from sfumato.kernels.disorder.sort_buffer import slack_forget, slack_step
from sfumato.kernels.disorder.state import (
    AVERAGED,
    BOUND,
    CLOCK,
    CONFORMAL,
    COUNT,
    FED,
    FUTURE,
    GUARDED,
    INTS,
    LAST_ARRIVAL,
    LATE,
    NEVER,
    NORMAL,
    OUT_OF_ORDER,
    PUNCTUATION,
    REALS,
    RECENT,
    SLACK,
    WINDOW,
)


def new_key() -> tuple[np.ndarray, np.ndarray]:
    """The fixed-size state (ints, reals) of a key that has seen nothing."""
    ints = np.zeros(INTS, np.int64)
    ints[PUNCTUATION] = ints[LAST_ARRIVAL] = ints[CLOCK] = NEVER
    return ints, np.zeros(REALS)


@compiled
def feed(tau, t, estimator, parameters, ints, reals, area):
    """One credible row to the estimator: the punctuation it asks for, or NEVER."""
    ints[FED] += 1
    if estimator == SLACK:
        if tau <= ints[PUNCTUATION]:
            wanted = NEVER
        else:
            wanted = slack_step(tau, int(parameters[0]), ints, area)
    elif estimator == NORMAL:
        wanted = normal_step(tau, t, parameters[0], parameters[1] != 0.0, ints, reals, area)
    elif estimator == CONFORMAL:
        wanted = conformal_step(tau, t, parameters[0], ints, reals, area)
    else:
        wanted = largest_step(tau, t, estimator == AVERAGED, ints, reals)
    ints[LAST_ARRIVAL] = t
    return wanted


@compiled
def feed_warm_up(t, estimator, parameters, ints, reals, area):
    """Feed the first WARM_UP rows, now that the guard knows which of them are credible."""
    wanted = NEVER
    for i in range(WARM_UP):
        arrival = ints[WINDOW + RECENT + i]
        tau = arrival - ints[WINDOW + i]
        if ints[WINDOW + i] < ints[BOUND]:
            ints[FUTURE] += 1
        elif estimator != SLACK:
            wanted = feed(tau, arrival, estimator, parameters, ints, reals, area)
    if estimator == SLACK:  # it has been fed: an unguarded sort buffer is safe for a start
        slack_forget(NEVER, horizon(t, ints), ints, area)
    return wanted


@compiled
def punctuate(
    event_time, arrival, estimator, parameters, guard, max_buffer, ints, reals, area, held
):
    """Punctuations of one key after each of its arrivals; a row is late if its event time is at or
    below the punctuation in force when it arrives.

    event_time, arrival : int64[n] microseconds, within +-2**58; where arrival decreases, the clock
        stands still, and the row is counted as out of order
    estimator : SLACK, NORMAL, LARGEST, AVERAGED or CONFORMAL     parameters : float64[2], its own
    guard : set incredible event times aside     max_buffer : rows held at most; 0: no bound
    ints, reals, area, held : the key's state, changed in place; area and held have room for n more
    Returns punctuation int64[n] (NEVER while none is known), late bool[n], and the rows expelled
    from a full buffer: the arrivals (0..n-1) at which, and their numbers among all of the key.
    Cost: O(log m) a row for a sort buffer of m rows, else O(1) amortised.
    Error: that of the estimator.   Source: C sections 4 and 5; the guard is ours.
    """
    n = event_time.size
    punctuation = np.empty(n, np.int64)
    late = np.empty(n, np.bool_)
    at = np.empty(n if max_buffer > 0 else 0, np.int64)
    numbers = np.empty(at.size, np.int64)
    expelled = 0
    for i in range(n):
        tau = event_time[i]
        t = arrival[i]
        if t < ints[CLOCK]:
            ints[OUT_OF_ORDER] += 1
            t = ints[CLOCK]
        ints[CLOCK] = t
        late[i] = tau <= ints[PUNCTUATION] and ints[PUNCTUATION] != NEVER
        if late[i]:
            ints[LATE] += 1
        ints[COUNT] += 1
        wanted = NEVER
        credible = -(NEVER + 1)
        if guard:
            observe(tau, t, ints)
            credible = horizon(t, ints)
            if ints[COUNT] == WARM_UP:
                if estimator == SLACK and tau <= credible:
                    wanted = feed(tau, t, estimator, parameters, ints, reals, area)
                wanted = max(wanted, feed_warm_up(t, estimator, parameters, ints, reals, area))
            elif ints[GUARDED] == 0:
                if estimator == SLACK:
                    wanted = feed(tau, t, estimator, parameters, ints, reals, area)
            elif tau > credible:
                ints[FUTURE] += 1
            else:
                wanted = feed(tau, t, estimator, parameters, ints, reals, area)
        else:
            wanted = feed(tau, t, estimator, parameters, ints, reals, area)
        wanted = min(wanted, credible)
        if wanted > ints[PUNCTUATION]:
            ints[PUNCTUATION] = wanted
        if max_buffer > 0:
            if not late[i]:
                hold(tau, ints[COUNT] - 1, int(tau > credible), ints, held)
            release_held(ints, held)
            before = ints[PUNCTUATION]
            number = bound_buffer(credible, max_buffer, ints, held)
            if number >= 0:
                at[expelled] = i
                numbers[expelled] = number
                expelled += 1
            if estimator == SLACK and ints[PUNCTUATION] > before:
                slack_forget(ints[PUNCTUATION], -(NEVER + 1), ints, area)
        punctuation[i] = ints[PUNCTUATION]
    return punctuation, late, at[:expelled], numbers[:expelled]
