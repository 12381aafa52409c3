"""SLACK n: a sort buffer of n rows; the one that leaves it is the punctuation (Aurora)."""

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import NEVER


@compiled
def sift_up(heap, place):
    """Restore the order of a min-heap whose entry at `place` may be too small. O(log n)."""
    value = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= value:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = value


@compiled
def sift_down(heap, size):
    """Restore the order of a min-heap of `size` whose top may be too large. O(log n)."""
    value = heap[0]
    place = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = value


@compiled
def slack_step(tau, slack, key, area):
    """Put an on-time row into the sort buffer of `slack` rows; the event time that leaves it, or
    NEVER.

    area[:key.size] is the heap and has room for one more.  O(log slack).  Source: C section 4,
    after Aurora.
    """
    size = key.size
    area[size] = tau
    sift_up(area, size)
    if size < slack:
        key.size = size + 1
        return NEVER
    top = area[0]
    area[0] = area[size]
    sift_down(area, size)
    return top


@compiled
def slack_forget(low, high, key, area):
    """Keep only event times in (low, high] in the sort buffer: others left by other ways.  O(n log
    n)."""
    kept = 0
    for i in range(key.size):
        if low < area[i] <= high:
            area[kept] = area[i]
            sift_up(area, kept)
            kept += 1
    key.size = kept
