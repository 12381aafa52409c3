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
def expel(number, key, held):
    """Remove the row of this number, if it is held. O(n)."""
    for place in range(key.held):
        if held[1, place] == number:
            take_out(held, place, key)
            return


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
def farthest(key, held):
    """The place of the row that would leave last. O(n)."""
    place = 0
    for i in range(key.held):
        if before(held, place, i):
            place = i
    return place


@compiled
def bound_buffer(credible, max_buffer, key, held):
    """Release rows until at most `max_buffer` are held; the number of a row expelled, or -1.

    The oldest leave and force the punctuation forward, but never beyond `credible`, the guard's
    horizon. Rows set aside may fill half of the buffer: if there are more, or nothing else is left,
    the one farthest in the future is expelled (it leaves as late, the punctuation stays).
    held : int64[3, room], the controller's heap: event times, arrival numbers, marks
    O(log m) a row, O(m) for a row expelled.  Source: C section 4, BSIZE.
    """
    if key.held <= max_buffer:
        return -1
    place = 0
    if held[0, 0] > credible or 2 * key.aside > max_buffer:
        place = farthest(key, held)
    if held[0, place] > credible:
        number = held[1, place]
        take_out(held, place, key)
        key.expelled += 1
        return number
    while key.held > max_buffer:
        key.punctuation = held[0, 0]
        release_held(key.punctuation, key, held)
    key.forced += 1
    return -1
