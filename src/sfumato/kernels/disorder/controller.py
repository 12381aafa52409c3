"""The disorder controller: punctuations after each arrival, for one or many controllers."""

import numpy as np

from sfumato.kernels.arrays import write_at
from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder import clock_guard as guard
from sfumato.kernels.disorder import estimators
from sfumato.kernels.disorder.conformal_delay import AREA, conformal_step
from sfumato.kernels.disorder.state import (
    AVERAGED,
    CONFORMAL,
    END_OF_TIME,
    FIXED,
    FULL,
    NO_TIME,
    NORMAL,
    SENT,
    SLACK,
    UNSEEN,
)

NO_ROW = -1  # no row is expelled


@compiled
def layout_of(control):
    """Return the parts of a controller's memory: numbers of the conformal estimator, lanes of the
    heap of buffered rows, and lanes of the sort buffer (SLACK) or of VSeq (NORMAL)."""
    numbers = AREA if control.estimator == CONFORMAL else 0
    ring = 2 if control.estimator == SLACK or control.estimator == NORMAL else 0
    return numbers, 3 if control.max_buffer > 0 else 0, ring


@compiled
def parts_of(key, control, memory):
    """Return (area int64[numbers], held and ring int64[lanes, room]), views of the memory."""
    numbers, held, ring = layout_of(control)
    begin = key.place + numbers
    middle = begin + held * key.room
    end = middle + ring * key.room
    return (
        memory[key.place : begin],
        memory[begin:middle].reshape(held, key.room),
        memory[middle:end].reshape(ring, key.room),
    )


@compiled
def with_room(rows, control, key, memory, usage):
    """Reserve memory for further rows of a controller; return the memory or a longer copy.

    usage : int64[2], numbers allocated, and how many of them are unused
    """
    numbers, held_lanes, ring_lanes = layout_of(control)
    wanted = 0
    if control.max_buffer > 0:
        wanted = min(control.max_buffer, key.held + rows) + 1
    if control.estimator == SLACK:
        wanted = max(wanted, min(control.slack, key.size + rows) + 1)
    elif control.estimator == NORMAL:
        # Rows buffered until the guard is ready are fed later: WARM_UP more.
        wanted = max(wanted, min(key.size + rows + guard.WARM_UP, estimators.LONGEST_VSEQ) + 1)
    if wanted <= key.room and (key.length > 0 or numbers == 0):
        return memory
    room = 16 if wanted > 0 else 0
    while room < wanted:
        room *= 2
    place, length, known = usage[0], numbers + (held_lanes + ring_lanes) * room, key.room
    if place + length > memory.size:
        wider = np.zeros(max(place + length, 2 * memory.size), np.int64)
        write_at(wider, np.int64(0), memory[:place])
        memory = wider
    for i in range(place, place + length):
        memory[i] = 0
    _, held, ring = parts_of(key, control, memory)
    usage[0] += length
    usage[1] += key.length
    key.place, key.room, key.length = place, room, length
    _, wider_held, wider_ring = parts_of(key, control, memory)
    for lane in range(held_lanes):
        write_at(wider_held[lane], np.int64(0), held[lane])
    for lane in range(ring_lanes):
        for i in range(known):  # VSeq begins at `head`, a sort buffer at 0
            wider_ring[lane, i] = ring[lane, (key.head + i) % known]
    key.head = 0
    return memory


@compiled
def reached(key):
    """Return the event time below which rows are late, or NO_TIME while there is none."""
    return max(key.punctuation, key.floor)


@compiled
def keep_slack(low, high, key, ring):
    """Keep only event times above `low` and below `high` in the sort buffer."""
    key.size = estimators.drop(ring, key.size, 0, NO_TIME, low + 1)
    key.size = estimators.drop(ring, key.size, 0, high, END_OF_TIME)


@compiled
def feed(tau, t, control, key, area, ring):
    """Feed a credible row to the estimator; return the punctuation it wants, or NO_TIME."""
    key.fed += 1
    key.latest = max(key.latest, tau)
    wanted = NO_TIME
    if control.estimator == SLACK:
        if tau > reached(key):
            wanted = estimators.slack_step(tau, control.slack, key, ring)
    elif control.estimator == FIXED:
        wanted = estimators.fixed_step(tau, control.max_delay, key)
    elif control.estimator == NORMAL:
        wanted = estimators.normal_step(tau, t, control, key, ring)
    elif control.estimator == CONFORMAL:
        wanted = conformal_step(tau, t, control.drop_ratio, key, area)
    elif control.estimator != FULL:
        wanted = estimators.largest_step(tau, t, control.estimator == AVERAGED, key)
    key.last_arrival = t
    return wanted


@compiled
def unguarded_step(tau, t, control, key, counts, area, ring):
    """Process a row while the guard is still learning; return the punctuation wanted.

    SLACK and FIXED are fed at once, except rows that are far ahead of their arrival. The other
    estimators get the credible ones of the first WARM_UP rows once the guard knows them.
    """
    wanted = NO_TIME
    at_once = control.estimator == SLACK or control.estimator == FIXED
    guard.observe(tau, t, control, key)
    if at_once and tau <= min(t + guard.MAX_CLOCK_SKEW_US, guard.horizon(t, key)):
        wanted = feed(tau, t, control, key, area, ring)
    if key.guarded == 0:
        return wanted
    guard.begin_guard(key)
    for i in range(guard.WARM_UP):
        arrival, delay = key.arrivals[i], key.delays[i]
        if delay < key.bound:
            counts.future += 1
        elif at_once and delay >= -guard.MAX_CLOCK_SKEW_US:
            continue  # already fed
        elif delay <= key.far_behind:
            wanted = max(wanted, feed(arrival - delay, arrival, control, key, area, ring))
    if control.estimator == SLACK:  # remove rows fed earlier that are not credible
        keep_slack(NO_TIME, guard.horizon(t, key) + 1, key, ring)
    return wanted


@compiled
def guarded_step(tau, t, control, key, counts, area, ring):
    """Process a row once the guard knows the credible delays.

    Returns the punctuation wanted, and the number of the first row expelled, or NO_ROW. Buffered
    rows from this number up to the previous row are expelled.
    """
    side = guard.side_of(t - tau, key)
    key.far_rows = key.far_rows + 1 if side == key.far_side else 1
    key.far_side = side
    if side == guard.FUTURE:
        counts.future += 1
        if guard.hold_pending(tau, t, key):
            guard.restart_guard(key)
        else:
            guard.learn_fast(tau, t, key)
        return NO_TIME, NO_ROW
    first = key.pending_first if key.pending > 0 and tau < key.pending_top else NO_ROW
    key.pending = 0
    if side == guard.STALE:
        if key.far_rows >= guard.LASTING:
            guard.restart_guard(key)
        else:
            guard.learn_slow(tau, t, control, key)
        return NO_TIME, first
    if side != guard.LEARNED:
        guard.observe(tau, t, control, key)
    if tau > guard.horizon(t, key):
        counts.future += 1
        return NO_TIME, first
    key.credible_number, key.credible_time = key.count - 1, tau
    return feed(tau, t, control, key, area, ring), first


@compiled
def count_late(tau, t, control, key, counts):
    """Count an arriving row by its reason for being late; return True if it is late.

    For stale rows see `clock_guard`.
    """
    guarded = control.guard and key.guarded == 1
    if guarded and tau < key.latest and guard.side_of(t - tau, key) == guard.STALE:
        counts.stale += 1
    elif tau < key.punctuation:
        counts.late += 1
    elif tau < key.floor:
        counts.after_idle += 1
    else:
        return False
    return True


@compiled
def hold_bounded(tau, t, late, first, control, key, counts, held, ring):
    """Add a row that is not late to a bounded buffer.

    Returns the first row expelled, or NO_ROW, and the end of the expelled rows.
    """
    credible, end = guard.horizon(t, key), key.count - 1
    if first != NO_ROW:
        estimators.expel(first, end, key, held)
    if not late:
        estimators.hold(tau, end, int(tau > credible), key, held)
    estimators.release_held(reached(key), key, held)
    before = key.punctuation
    plausible = t + guard.MAX_CLOCK_SKEW_US
    number = estimators.bound_buffer(credible, plausible, control.max_buffer, key, counts, held)
    if control.estimator == SLACK and key.punctuation > before:
        keep_slack(key.punctuation, END_OF_TIME, key, ring)
    return (first, end) if number == NO_ROW else (number, number + 1)


@compiled
def arrive(tau, t, sent, control, key, counts, area, held, ring):
    """Process a row that carries the punctuation `sent`; return whether it is late, and the first
    and end number of expelled rows."""
    if t < key.clock:
        counts.out_of_order += 1
        t = key.clock
    key.clock = t
    key.count += 1
    late = count_late(tau, t, control, key, counts)
    first = NO_ROW
    if control.estimator == SENT:
        wanted = sent
    elif not control.guard:
        wanted = feed(tau, t, control, key, area, ring)
    else:
        if key.guarded == 0:
            key.credible_number, key.credible_time = key.count - 1, tau
            wanted = unguarded_step(tau, t, control, key, counts, area, ring)
        else:
            wanted, first = guarded_step(tau, t, control, key, counts, area, ring)
        # A punctuation above the newest event time releases nothing, and would make rows of an
        # ordered stream late.
        wanted = min(wanted, guard.horizon(t, key), key.latest)
    key.punctuation = max(key.punctuation, wanted)
    if control.max_buffer > 0:
        first, end = hold_bounded(tau, t, late, first, control, key, counts, held, ring)
        return late, first, end
    return late, first, key.count - 1


@compiled
def is_duplicate(slot, t, key, ids):
    """Return whether a row with the same id is remembered: the punctuation has not passed its event
    time, or it arrived less than `remember` ago."""
    kept = ids.kept[:, slot]
    return kept[0] != UNSEEN and (kept[1] >= reached(key) or t <= kept[2])


@compiled
def keep_id(i, slot, tau, t, late, ids):
    """Remember the id of a row; a late row only for `remember`."""
    if not late or ids.remember > 0:
        ids.kept[0, slot] = i
        ids.kept[1, slot] = NO_TIME if late else tau
        ids.kept[2, slot] = t + ids.remember if ids.remember > 0 else NO_TIME


@compiled
def is_beyond_clocks(tau, t, control, counts):
    """Return whether a row is too far ahead of or behind its arrival, and count it."""
    if tau > t + control.max_ahead:
        counts.future += 1
        counts.late += 1
    elif tau < t - control.max_behind:
        counts.stale += 1
    else:
        return False
    return True


@compiled
def begin_pending(t, control, key, held, numbers, found):
    """Decide on the rows far ahead among the first WARM_UP, once the bounds are known.

    Rows contradicted by a later row are emitted as late: numbers[found:]; others are pending.
    Returns the end of the numbers.
    """
    least = END_OF_TIME  # least event time of later rows that are not far ahead
    pending = True
    key.pending = key.pending_early = key.far_rows = 0
    key.pending_top, key.far_side = NO_TIME, guard.FUTURE
    for i in range(guard.WARM_UP - 1, -1, -1):
        tau, number = key.arrivals[i] - key.delays[i], key.count - guard.WARM_UP + i
        if guard.side_of(key.delays[i], key) != guard.FUTURE:
            least = min(least, tau)
            pending = False
        elif tau > least:
            if tau > reached(key):
                numbers[found] = number
                found += 1
                if control.max_buffer > 0:
                    estimators.expel(number, number + 1, key, held)
        elif pending:
            key.pending += 1
            key.far_rows += 1
            key.pending_top = max(key.pending_top, tau)
            key.pending_early += tau > t + guard.MAX_CLOCK_SKEW_US
            key.pending_first = number
    return found


@compiled
def punctuate(
    event_time, arrival, sent, groups, which, ids, control, states, counts, memory, usage
):
    """Compute the punctuation of the row's controller at each arrival, and which rows are late.

    A row is late if its event time is below its controller's punctuation (or floor) when it
    arrives, or if it is stale (see `clock_guard`). Duplicates and rows beyond `max_ahead` and
    `max_behind` are late too, and change no controller.
    event_time, arrival : int64[n] microseconds, within +-2**58, in order of arrival; if arrival
    decreases, the clock stands still and the row counts as out of order
    sent : int64[n] microseconds, punctuations that the rows carry (SENT), NO_TIME: none; else empty
    groups : (order int64[n], the rows by controller; starts int64[groups + 1])
    which : int64[groups], their places in states, CONTROLLER[]    ids : `RowIds`, `kept` is updated
    control : `state.Control`
    counts : a record of COUNTS    memory, usage : see `with_room`; all these change in place
    Returns the memory, times int64[2, n] (the punctuation before and after the row, NO_TIME while
    unknown), late bool[n], duplicate bool[n], number int64[n] (of the row in its controller), and
    the expelled rows: the places at which they are emitted as late, the first number, and the end.
    O(log m) per row for a sort buffer of m rows, else O(1) amortised.  Source: C sections 4 and 5.
    """
    order, starts = groups
    n = event_time.size
    times, number = np.empty((2, n), np.int64), np.empty(n, np.int64)
    late, duplicate = np.empty(n, np.bool_), np.zeros(n, np.bool_)
    at = np.empty(n + guard.WARM_UP * which.size, np.int64)
    first, end = np.empty_like(at), np.empty_like(at)
    expelled = 0
    for group in range(which.size):
        key = states[which[group]]
        memory = with_room(starts[group + 1] - starts[group], control, key, memory, usage)
        area, held, ring = parts_of(key, control, memory)
        for j in range(starts[group], starts[group + 1]):
            i = order[j]
            tau, t = event_time[i], max(arrival[i], key.clock)
            slot = ids.slot[i] if ids.slot.size > 0 else -1
            unguarded = key.guarded == 0
            times[0, i] = times[1, i] = reached(key)
            number[i] = key.count
            duplicate[i] = slot >= 0 and is_duplicate(slot, t, key, ids)
            late[i] = duplicate[i] or is_beyond_clocks(tau, t, control, counts)
            counts.duplicates += duplicate[i]
            one, until = NO_ROW, 0
            if not late[i]:
                carried = sent[i] if sent.size > 0 else NO_TIME
                late[i], one, until = arrive(
                    tau, arrival[i], carried, control, key, counts, area, held, ring
                )
                times[1, i] = reached(key)
            if slot >= 0 and not duplicate[i]:
                keep_id(i, slot, tau, t, late[i], ids)
            if one != NO_ROW:
                at[expelled], first[expelled], end[expelled] = i, one, until
                expelled += 1
            if unguarded and key.guarded == 1:
                found = begin_pending(key.clock, control, key, held, first, expelled)
                for x in range(expelled, found):
                    at[x], end[x] = i, first[x] + 1
                expelled = found
    return memory, times, late, duplicate, number, at[:expelled], first[:expelled], end[:expelled]


@compiled
def raise_floors(floors, which, control, states, memory):
    """Record that rows up to these times have been released: earlier rows are late from now on.

    floors, which : int64[k], times, and distinct places in states    O(log m) per row released.
    """
    for i in range(which.size):
        key = states[which[i]]
        if floors[i] > reached(key):
            key.floor = floors[i]
            _, held, ring = parts_of(key, control, memory)
            if control.max_buffer > 0:
                estimators.release_held(key.floor, key, held)
            if control.estimator == SLACK:
                keep_slack(key.floor, END_OF_TIME, key, ring)
