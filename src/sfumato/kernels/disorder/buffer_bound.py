"""BSIZE m: at most m rows are held; a heap of the rows held says which leave."""

from sfumato.kernels.compile import compiled


@compiled
def before(held, a, b):
    """Whether entry a leaves before entry b: by event time, then by arrival."""
    return held[0, a] < held[0, b] or (held[0, a] == held[0, b] and held[1, a] < held[1, b])


@compiled
def swap(held, a, b):
    """Exchange two entries."""
    for row in range(3):
        held[row, a], held[row, b] = held[row, b], held[row, a]


@compiled
def rise(held, place):
    """Restore the order of the heap whose entry at `place` may be too small. O(log n)."""
    while place > 0:
        parent = (place - 1) >> 1
        if not before(held, place, parent):
            break
        swap(held, place, parent)
        place = parent


@compiled
def sink(held, size, place):
    """Restore the order of the heap whose entry at `place` may be too large. O(log n)."""
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and before(held, child + 1, child):
            child += 1
        if not before(held, child, place):
            break
        swap(held, place, child)
        place = child


@compiled
def take_out(held, place, key):
    """Remove the entry at `place`. O(log n)."""
    key.aside -= held[2, place]
    last = key.held - 1
    swap(held, place, last)
    key.held = last
    if place < last:
        sink(held, last, place)
        rise(held, place)


@compiled
def release_held(time, key, held):
    """Remove all rows with an event time at or below `time`. O(log n) each."""
    while key.held > 0 and held[0, 0] <= time:
        take_out(held, 0, key)


@compiled
def expel(first, end, key, held):
    """Remove the rows numbered from `first` to before `end` that are held. O(n) each."""
    found = True
    while found:  # a removal moves entries, perhaps to places that have been looked at
        found = False
        for place in range(key.held - 1, -1, -1):
            if place < key.held and first <= held[1, place] < end:
                take_out(held, place, key)
                found = True


@compiled
def hold(tau, number, aside, key, held):
    """Add a row; `aside` (0 or 1): the guard set it aside. O(log n)."""
    place = key.held
    held[0, place] = tau
    held[1, place] = number
    held[2, place] = aside
    key.held = place + 1
    key.aside += aside
    rise(held, place)


@compiled
def farthest(time, number, key, held):
    """The place of the row that would leave last of those set aside that are beyond `time` and
    numbered below `number`; -1 for none. O(n)."""
    place = -1
    for i in range(key.held):
        wanted = held[2, i] == 1 and held[0, i] > time and held[1, i] < number
        if wanted and (place < 0 or before(held, place, i)):
            place = i
    return place


@compiled
def bound_buffer(credible, plausible, max_buffer, key, held):
    """Release rows until at most `max_buffer` are held; the number of a row expelled, or -1.

    The oldest leave and force the punctuation forward. Rows set aside that are beyond `credible`,
    the horizon of the guard, may fill half of the buffer: if there are more, or nothing else is
    left, the one farthest in the future is expelled (it leaves as late, the punctuation stays). It
    must have been contradicted, by a later credible row, or lie beyond `plausible` where nothing
    else is left; otherwise it is right as far as anyone knows, and the oldest leave.
    held : int64[3, room], the controller's heap: event times, arrival numbers, marks
    O(log m) a row, O(m) where rows are set aside.  Source: C section 4, BSIZE.
    """
    if key.held <= max_buffer:
        return -1
    if held[0, 0] > credible or 2 * key.aside > max_buffer:
        contradicted = max(credible, key.credible_time)
        place = farthest(contradicted, key.credible_number, key, held)
        if place < 0 and held[0, 0] > credible:
            place = farthest(max(credible, plausible), key.count, key, held)
        if place >= 0:
            number = held[1, place]
            take_out(held, place, key)
            return number
    while key.held > max_buffer:
        key.punctuation = held[0, 0]
        release_held(key.punctuation, key, held)
    key.forced += 1
    return -1
