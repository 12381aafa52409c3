"""The disorder controllers: compute the punctuation of each controller after each arrival."""

import numpy as np

from sfumato.kernels.arrays import sift_down, sift_up, swap, write_at
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.disorder import clock_guard as guard
from sfumato.kernels.disorder import estimators
from sfumato.kernels.disorder.conformal_delay import AREA_SIZE, conformal_step
from sfumato.kernels.disorder.state import (
    AVERAGED,
    CARRIED,
    CONFORMAL,
    END_OF_TIME,
    FIXED,
    FULL,
    NO_TIME,
    NORMAL,
    SLACK,
    UNSEEN,
)

NO_ROW = -1  # no row is evicted as late


@compiled
def memory_layout(control):
    """Return the layout of a controller's memory: entries of the conformal estimator, lanes of the
    heap of buffered rows, and lanes of the sort buffer (SLACK) or of VSeq (NORMAL)."""
    numbers = AREA_SIZE if control.estimator == CONFORMAL else 0
    ring = 2 if control.estimator == SLACK or control.estimator == NORMAL else 0
    return numbers, 3 if control.max_buffer > 0 else 0, ring


@compiled
def memory_parts(key, control, memory):
    """Return views of a controller's memory: int64[entries] of the conformal estimator, and
    int64[lanes, room] of the buffered rows and of the sort buffer or VSeq."""
    numbers, held, ring = memory_layout(control)
    begin = key.place + numbers
    middle = begin + held * key.room
    end = middle + ring * key.room
    return (
        memory[key.place : begin],
        memory[begin:middle].reshape(held, key.room),
        memory[middle:end].reshape(ring, key.room),
    )


@inlined
def reserve_memory(rows, control, key, memory, usage):
    """Reserve memory for more rows of a controller; return the memory or a longer copy.

    usage : int64[2], the numbers of allocated and of unused entries
    """
    numbers, held_lanes, ring_lanes = memory_layout(control)
    wanted = 0
    if control.max_buffer > 0:
        wanted = min(control.max_buffer, key.held + rows) + 1
    if control.estimator == SLACK:
        wanted = max(wanted, min(control.slack, key.size + rows) + 1)
    elif control.estimator == NORMAL:
        # GUARD_WARM_UP_ROWS rows are buffered until the guard is ready, and are passed to the
        # estimator later.
        wanted = max(
            wanted, min(key.size + rows + guard.GUARD_WARM_UP_ROWS, estimators.LONGEST_VSEQ) + 1
        )
    if wanted <= key.room and (key.length > 0 or numbers == 0):
        return memory
    room = 16 if wanted > 0 else 0
    while room < wanted:
        room *= 2
    place, length, known = usage[0], numbers + (held_lanes + ring_lanes) * room, key.room
    if place + length > memory.size:
        wider = np.zeros(max(place + length, 2 * memory.size), np.int64)
        write_at(wider, 0, memory[:place])
        memory = wider
    for i in range(place, place + length):
        memory[i] = 0
    _, held, ring = memory_parts(key, control, memory)
    usage[0] += length
    usage[1] += key.length
    key.place, key.room, key.length = place, room, length
    _, wider_held, wider_ring = memory_parts(key, control, memory)
    for lane in range(held_lanes):
        write_at(wider_held[lane], 0, held[lane])
    for lane in range(ring_lanes):
        for i in range(known):  # VSeq starts at `head`, a sort buffer at 0
            wider_ring[lane, i] = ring[lane, (key.head + i) % known]
    key.head = 0
    return memory


@compiled
def reached(key):
    """Return the event time below which rows are late, or NO_TIME while no rows are late."""
    return max(key.punctuation, key.floor)


@compiled
def keep_slack(low, high, key, ring):
    """Keep only event times above `low` and below `high` in the sort buffer."""
    key.size = estimators.drop_range(ring, key.size, 0, NO_TIME, low + 1)
    key.size = estimators.drop_range(ring, key.size, 0, high, END_OF_TIME)


@compiled
def feed(tau, t, control, key, area, ring):
    """Feed a credible row to the estimator; return the estimator's punctuation, or NO_TIME."""
    key.fed += 1
    key.latest = max(key.latest, tau)
    wanted = NO_TIME
    if control.estimator == SLACK:
        if tau > reached(key):
            wanted = estimators.slack_step(tau, control.slack, key, ring)
    elif control.estimator == FIXED:
        key.newest = tau if key.fed == 1 else max(key.newest, tau)
        wanted = key.newest - control.max_delay
    elif control.estimator == NORMAL:
        wanted = estimators.normal_step(tau, t, control, key, ring)
    elif control.estimator == CONFORMAL:
        wanted = conformal_step(tau, t, control.drop_ratio, key, area)
    elif control.estimator != FULL:
        wanted = estimators.largest_step(tau, t, control.estimator == AVERAGED, key)
    key.last_arrival = t
    return wanted


@inlined
def unguarded_step(tau, t, control, key, counts, area, ring):
    """Process a row while the guard has no bounds; return the estimator's punctuation.

    SLACK and FIXED are fed every row immediately, unless the row is far ahead of its arrival. Other
    estimators are fed later, once the guard has bounds: they receive the credible rows among the
    first GUARD_WARM_UP_ROWS.
    """
    wanted = NO_TIME
    at_once = control.estimator == SLACK or control.estimator == FIXED
    guard.observe(tau, t, control, key)
    if at_once and tau <= min(t + guard.MAX_CLOCK_SKEW_US, guard.horizon(t, key)):
        wanted = feed(tau, t, control, key, area, ring)
    if key.guarded == 0:
        return wanted
    guard.begin_guard(key)
    for i in range(guard.GUARD_WARM_UP_ROWS):
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


@inlined
def guarded_step(tau, t, control, key, counts, area, ring):
    """Process a row once the guard has bounds.

    Returns the estimator's punctuation and the number of the first row evicted as late, or NO_ROW.
    Buffered rows from this number up to the row before the current row are evicted as late.
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
        if key.far_rows >= guard.LASTING_ROWS:
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


@inlined
def count_late(tau, t, control, key, counts):
    """Count an arriving row by its reason for being late; return whether the row is late."""
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


@inlined
def hold_bounded(tau, t, late, first, control, key, counts, held, ring):
    """Add a row to a bounded buffer unless the row is late; return the numbers [first, end) of the
    rows evicted as late, with `first` NO_ROW if there are none."""
    credible, end = guard.horizon(t, key), key.count - 1
    if first != NO_ROW:
        estimators.evict_rows(first, end, key, held)
    if not late:
        estimators.hold_row(tau, end, int(tau > credible), key, held)
    estimators.release_held(reached(key), key, held)
    before = key.punctuation
    plausible = t + guard.MAX_CLOCK_SKEW_US
    number = estimators.bound_buffer(credible, plausible, control.max_buffer, key, counts, held)
    if control.estimator == SLACK and key.punctuation > before:
        keep_slack(key.punctuation, END_OF_TIME, key, ring)
    return (first, end) if number == NO_ROW else (number, number + 1)


@inlined
def process_arrival(tau, t, sent, control, key, counts, area, held, ring):
    """Process a row, which may carry the punctuation `sent`; return whether the row is late, and
    the numbers [first, end) of the rows evicted as late, as `hold_bounded` does."""
    if t < key.clock:
        counts.out_of_order += 1
        t = key.clock
    key.clock = t
    key.count += 1
    late = count_late(tau, t, control, key, counts)
    first = NO_ROW
    if control.estimator == CARRIED:
        wanted = sent
    elif not control.guard:
        wanted = feed(tau, t, control, key, area, ring)
    else:
        if key.guarded == 0:
            key.credible_number, key.credible_time = key.count - 1, tau
            wanted = unguarded_step(tau, t, control, key, counts, area, ring)
        else:
            wanted, first = guarded_step(tau, t, control, key, counts, area, ring)
        # A punctuation above the newest event time would release nothing, and would make rows of
        # an ordered stream late.
        wanted = min(wanted, guard.horizon(t, key), key.latest)
    key.punctuation = max(key.punctuation, wanted)
    if control.max_buffer > 0:
        first, end = hold_bounded(tau, t, late, first, control, key, counts, held, ring)
        return late, first, end
    return late, first, key.count - 1


@inlined
def is_duplicate(slot, t, key, ids):
    """Return whether an earlier row with the same id is still remembered.

    A row is remembered until the punctuation exceeds its event time by `remember`, and at least
    until `remember` after its arrival.
    """
    kept = ids.kept[:, slot]
    return kept[0] != UNSEEN and (kept[1] >= reached(key) or t <= kept[2])


@inlined
def keep_id(i, slot, tau, t, late, key, ids):
    """Remember the id of a row; without `remember`, not the id of a late row.

    The event time of a late row may be far in the future, so it counts only up to the punctuation.
    """
    if not late or ids.remember > 0:
        ids.kept[0, slot] = i
        ids.kept[1, slot] = ids.remember + (min(tau, reached(key)) if late else tau)
        ids.kept[2, slot] = t + ids.remember if ids.remember > 0 else NO_TIME


@inlined
def is_beyond_clocks(tau, t, control, counts):
    """Return whether a row is too far ahead of or behind its arrival; if so, count the row."""
    if tau > t + control.max_ahead:
        counts.future += 1
        counts.late += 1
    elif tau < t - control.max_behind:
        counts.stale += 1
    else:
        return False
    return True


@compiled
def append_event(i, slot, first, end, states, events, count):
    """Append an event at row i, and return the number of events.

    An event is int64[5]: i, the controller's place, row numbers [first, end), and the punctuation.
    """
    events[0, count], events[1, count] = i, slot
    events[2, count], events[3, count] = first, end
    events[4, count] = reached(states[slot])
    return count + 1


@inlined
def begin_pending(i, slot, control, states, held, evicted_late, gone):
    """Decide on the rows far ahead among the first GUARD_WARM_UP_ROWS, once the bounds are known.

    Rows contradicted by a later row are evicted as late. Rows far ahead after all other rows are
    pending.
    Returns the number of `evicted_late` events.
    """
    least = END_OF_TIME  # smallest event time of later rows that are not far ahead
    pending, key = True, states[slot]
    key.pending = key.pending_early = key.far_rows = 0
    key.pending_top, key.far_side = NO_TIME, guard.FUTURE
    for j in range(guard.GUARD_WARM_UP_ROWS - 1, -1, -1):
        tau, number = key.arrivals[j] - key.delays[j], key.count - guard.GUARD_WARM_UP_ROWS + j
        if guard.side_of(key.delays[j], key) != guard.FUTURE:
            least = min(least, tau)
            pending = False
        elif tau > least:
            if tau > reached(key):
                gone = append_event(i, slot, number, number + 1, states, evicted_late, gone)
                if control.max_buffer > 0:
                    estimators.evict_rows(number, number + 1, key, held)
        elif pending:
            key.pending += 1
            key.far_rows += 1
            key.pending_top = max(key.pending_top, tau)
            key.pending_early += tau > key.clock + guard.MAX_CLOCK_SKEW_US
            key.pending_first = number
    return gone


@compiled
def add_top(slot, key, held, tops, listed, size):
    """Add a controller to the heap `tops` unless its oldest row is listed there.

    tops : int64[2, room], event times and places in states. An entry is valid if its time equals
        listed[slot], which is at or below the event time of the controller's oldest row.
    Returns the heap's size.
    """
    if key.held > 0 and held[0, 0] < listed[slot]:
        tops[0, size], tops[1, size] = held[0, 0], slot
        listed[slot] = held[0, 0]
        sift_up(tops, size)
        size += 1
    return size


@inlined
def bound_total(i, t, control, states, counts, memory, tops, listed, size, out):
    """Release the rows with the earliest event time of all controllers; see `bound_buffer`.

    tops, listed, size : see `add_top`    out : evicted_late and its number, forced and its number
    Returns the heap's size, the number of released rows, and the two counts.
    O(log n) per controller with such a row, and amortised per heap entry.
    """
    evicted_late, gone, forced, forces = out
    least, treated, last, left = END_OF_TIME, 0, tops.shape[1], np.int64(0)
    while size > 0 and tops[0, 0] <= least:
        time, slot = tops[0, 0], tops[1, 0]
        key = states[slot]
        _, held, ring = memory_parts(key, control, memory)
        if time == listed[slot] and key.held > 0 and held[0, 0] > time:
            tops[0, 0] = listed[slot] = held[0, 0]
            sift_down(tops, size, 0)
            continue
        size -= 1
        swap(tops, 0, size)
        sift_down(tops, size, 0)
        if time != listed[slot]:
            continue
        listed[slot] = END_OF_TIME
        if key.held == 0:
            continue
        least, before, rows = time, key.punctuation, key.held
        now = max(t, key.clock)
        credible, plausible = guard.horizon(now, key), now + guard.MAX_CLOCK_SKEW_US
        number = estimators.bound_buffer(credible, plausible, rows - 1, key, counts, held)
        left += rows - key.held
        if number != NO_ROW:
            gone = append_event(i, slot, number, number + 1, states, evicted_late, gone)
        elif key.punctuation > before:
            forces = append_event(i, slot, NO_ROW, NO_ROW, states, forced, forces)
            if control.estimator == SLACK:
                keep_slack(key.punctuation, END_OF_TIME, key, ring)
        treated += 1
        tops[1, last - treated] = slot  # the heap has no entries there
    for j in range(last - treated, last):
        key = states[tops[1, j]]
        _, held, _ = memory_parts(key, control, memory)
        size = add_top(tops[1, j], key, held, tops, listed, size)
    return size, left, gone, forces


@compiled
def punctuate(
    event_time, arrival, sent, groups, which, ids, control, states, counts, memory, usage
):
    """Compute the punctuation of each row's controller at the row's arrival, and find late rows.

    A row is late if its event time is below its controller's punctuation (or floor) when it
    arrives, or if it is stale (see `clock_guard`). Duplicates and rows beyond `max_ahead` and
    `max_behind` are also late, and do not change any controller.
    event_time, arrival : int64[n] microseconds, within +-2**58, in order of arrival; if arrival
    decreases, the clock does not advance and the row is counted as out of order
    sent : int64[n] microseconds, the punctuation that each row carries (CARRIED), or NO_TIME; or
        empty
    groups : (order int64[n], the rows by controller; starts int64[groups + 1])
    which : int64[groups], each group's place in states    ids : `RowIds`; `kept` is updated
    control : `state.Control`    states : CONTROLLER[]    counts : a record of COUNTS
    memory, usage : see `reserve_memory`; states, counts, memory and usage change in place
    Returns the memory, times int64[2, n] (the punctuation before and after the row, NO_TIME while
    unknown), late bool[n], duplicate bool[n], number int64[n] (of the row in its controller),
    evicted_late int64[5, e] (rows emitted as late) and forced int64[5, f] (punctuations forced by
    `max_buffer_total`), both events of `append_event`.
    O(log m) per row for a sort buffer of m rows, otherwise O(1) amortised; with `max_buffer_total`
    also O(controllers).  Source: Kim et al. (2006), sections 4 and 5.
    """
    order, starts = groups
    n, total = event_time.size, control.max_buffer_total
    times, number = np.empty((2, n), np.int64), np.empty(n, np.int64)
    late, duplicate = np.empty(n, np.bool_), np.zeros(n, np.bool_)
    slot_of, buffered = np.empty(n, np.int64), 0
    for group in range(which.size):
        rows = starts[group + 1] - starts[group]
        memory = reserve_memory(rows, control, states[which[group]], memory, usage)
        for j in range(starts[group], starts[group + 1]):
            slot_of[order[j]] = which[group]
    if total > 0:  # rows of all controllers, by arrival
        order = np.arange(n)
        for slot in range(states.size):
            buffered += states[slot].held
    room = n + buffered if total > 0 else 0
    tops, listed = np.empty((2, 2 * room), np.int64), np.empty(0, np.int64)
    size = gone = forces = np.int64(0)
    evicted_late = np.empty((5, n + guard.GUARD_WARM_UP_ROWS * which.size + room), np.int64)
    forced, slot = np.empty((5, room), np.int64), -1
    for j in range(n):
        i = order[j]
        if slot_of[i] != slot:
            slot = slot_of[i]
            key = states[slot]
            area, held, ring = memory_parts(key, control, memory)
        tau, t = event_time[i], max(arrival[i], key.clock)
        code = ids.slot[i] if ids.slot.size > 0 else -1
        unguarded, before = key.guarded == 0, key.held
        times[0, i], number[i] = reached(key), key.count
        duplicate[i] = code >= 0 and is_duplicate(code, t, key, ids)
        late[i] = duplicate[i] or is_beyond_clocks(tau, t, control, counts)
        counts.duplicates += duplicate[i]
        if not late[i]:
            carried = sent[i] if sent.size > 0 else NO_TIME
            late[i], first, end = process_arrival(
                tau, arrival[i], carried, control, key, counts, area, held, ring
            )
            if first != NO_ROW:
                gone = append_event(i, slot, first, end, states, evicted_late, gone)
        if code >= 0 and not duplicate[i]:
            keep_id(i, code, tau, t, late[i], key, ids)
        if unguarded and key.guarded == 1:
            gone = begin_pending(i, slot, control, states, held, evicted_late, gone)
        if total > 0:
            buffered += key.held - before
            if listed.size > 0:
                size = add_top(slot, key, held, tops, listed, size)
            if buffered > total:
                if listed.size == 0:
                    listed = np.full(states.size, END_OF_TIME)
                    for other in range(states.size):
                        _, rows_of, _ = memory_parts(states[other], control, memory)
                        size = add_top(other, states[other], rows_of, tops, listed, size)
                out = evicted_late, gone, forced, forces
                size, left, gone, forces = bound_total(
                    i, t, control, states, counts, memory, tops, listed, size, out
                )
                buffered -= left
        times[1, i] = reached(key)
    return memory, times, late, duplicate, number, evicted_late[:, :gone], forced[:, :forces]


@compiled
def raise_floors(floors, which, control, states, memory):
    """Record that rows up to the times `floors` have been released, so that earlier rows are late.

    floors : int64[k]    which : int64[k], distinct places in states    O(log m) per released row.
    """
    for i in range(which.size):
        key = states[which[i]]
        if floors[i] > reached(key):
            key.floor = floors[i]
            _, held, ring = memory_parts(key, control, memory)
            if control.max_buffer > 0:
                estimators.release_held(key.floor, key, held)
            if control.estimator == SLACK:
                keep_slack(key.floor, END_OF_TIME, key, ring)
