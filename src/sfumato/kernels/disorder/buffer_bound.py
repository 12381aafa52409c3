"""BSIZE m: at most m rows are held; a heap of the rows held says which leave."""

from __future__ import annotations

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import ASIDE, EXPELLED, FORCED, HELD, PUNCTUATION


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
def take_out(held, place, ints):
    """Remove the entry at `place`. O(log n)."""
    ints[ASIDE] -= held[2, place]
    last = ints[HELD] - 1
    swap(held, place, last)
    ints[HELD] = last
    if place < last:
        sink(held, last, place)
        rise(held, place)


@compiled
def release_held(ints, held):
    """Remove all rows with an event time at or below the punctuation. O(log n) each."""
    while ints[HELD] > 0 and held[0, 0] <= ints[PUNCTUATION]:
        take_out(held, 0, ints)


@compiled
def hold(tau, number, aside, ints, held):
    """Add a row; `aside` (0 or 1): the guard set it aside. O(log n)."""
    place = ints[HELD]
    held[0, place] = tau
    held[1, place] = number
    held[2, place] = aside
    ints[HELD] = place + 1
    ints[ASIDE] += aside
    rise(held, place)


@compiled
def farthest(ints, held):
    """The place of the row that would leave last. O(n)."""
    place = 0
    for i in range(ints[HELD]):
        if before(held, place, i):
            place = i
    return place


@compiled
def bound_buffer(credible, max_buffer, ints, held):
    """Release rows until at most `max_buffer` are held; the number of a row expelled, or -1.

    The oldest leave and force the punctuation forward, but never beyond `credible`, the guard's
    horizon. Rows set aside may fill half of the buffer: if there are more, or nothing else is
    left, the one farthest in the future is expelled (it leaves as late, the punctuation stays).

    ints, held : the key's state, changed in place     max_buffer : rows, at least 1
    Cost: O(log m) a row, O(m) for a row expelled.  Error: none.  Source: C section 4, BSIZE.
    """
    if ints[HELD] <= max_buffer:
        return -1
    place = 0
    if held[0, 0] > credible or 2 * ints[ASIDE] > max_buffer:
        place = farthest(ints, held)
    if held[0, place] > credible:
        number = held[1, place]
        take_out(held, place, ints)
        ints[EXPELLED] += 1
        return number
    while ints[HELD] > max_buffer:
        ints[PUNCTUATION] = held[0, 0]
        release_held(ints, held)
    ints[FORCED] += 1
    return -1
