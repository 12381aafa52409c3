"""Array helpers that several concepts share."""

import numpy as np

from sfumato.kernels.compile import compiled, lean

INSERTION_RUN = 16  # length of the runs that `stable_order` sorts by insertion


def integers(names: str) -> np.dtype:
    """Return a structured dtype of int64 fields with these names."""
    return np.dtype([(name, np.int64) for name in names.split()])


def reals(names: str) -> np.dtype:
    """Return a structured dtype of float64 fields with these names."""
    return np.dtype([(name, np.float64) for name in names.split()])


def integers_and_reals(integer_names: str, real_names: str) -> np.dtype:
    """Return a structured dtype of int64 fields, then float64 fields."""
    return np.dtype([*integers(integer_names).descr, *reals(real_names).descr])


@lean
def first_at_least(ascending, low, high, value):
    """Return the first index of ascending[low:high] whose value is >= `value`, or high."""
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] >= value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def number_codes(codes, count):
    """Number codes by first occurrence; return each code's number and each number's first index.

    codes : int64[n] in [0, count).  Returns int64[n] and int64[numbers].  O(n + count).
    """
    number, found = np.full(count, -1), 0
    out, first = np.empty(codes.size, np.int64), np.empty(min(codes.size, count), np.int64)
    for i in range(codes.size):
        if number[codes[i]] < 0:
            number[codes[i]] = found
            first[found] = i
            found += 1
        out[i] = number[codes[i]]
    return out, first[:found]


@lean
def sort_slots(slots, n):
    """Sort slots[:n] in place by Shell sort, which compiles fast and suits hundreds of entries."""
    sort_pairs(slots, slots, n)


@lean
def sort_pairs(value, mass, n):
    """Sort value[:n] like `sort_slots`, and reorder mass[:n] in the same way."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            x, m, j = value[i], mass[i], i
            while j >= gap and value[j - gap] > x:
                value[j], mass[j] = value[j - gap], mass[j - gap]
                j -= gap
            value[j], mass[j] = x, m
        gap //= 3


@compiled
def precedes(heap, a, b):
    """Return whether entry a of a heap precedes entry b: compare row 0, then row 1.

    Each column of a min-heap is an entry. A heap has two or three rows.
    """
    return heap[0, a] < heap[0, b] or (heap[0, a] == heap[0, b] and heap[1, a] < heap[1, b])


@compiled
def swap(heap, a, b):
    heap[0, a], heap[0, b] = heap[0, b], heap[0, a]
    heap[1, a], heap[1, b] = heap[1, b], heap[1, a]
    if heap.shape[0] > 2:
        heap[2, a], heap[2, b] = heap[2, b], heap[2, a]


@compiled
def sift_up(heap, place):
    """Restore the order of a min-heap whose entry at `place` may be too small. O(log n)."""
    while place > 0:
        parent = (place - 1) >> 1
        if not precedes(heap, place, parent):
            break
        swap(heap, place, parent)
        place = parent


@compiled
def sift_down(heap, size, place):
    """Restore the order of a min-heap whose entry at `place` may be too large. O(log n)."""
    child = 2 * place + 1
    while child < size:
        if child + 1 < size and precedes(heap, child + 1, child):
            child += 1
        if not precedes(heap, child, place):
            break
        swap(heap, child, place)
        place = child
        child = 2 * place + 1


@lean
def kth_smallest(values, n, k):
    """Return the value that sorting values[:n] would put at index k. Reorders values[:n]. O(n)."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@compiled
def stable_order(values):
    """Return the indices that sort `values` stably in ascending order, NaN last.  O(n log n).

    The result equals np.argsort(values, kind="stable"). Numba takes much longer to compile
    np.argsort, and compiles it again in every kernel and for every dtype.
    """
    n, numbers = values.size, 0
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        if values[i] == values[i]:
            order[numbers] = i
            numbers += 1
    last = numbers
    for i in range(n if numbers < n else 0):
        if values[i] != values[i]:
            order[last] = merged[last] = i
            last += 1
    for begin in range(0, numbers, INSERTION_RUN):
        for i in range(begin + 1, min(begin + INSERTION_RUN, numbers)):
            place, j = order[i], i
            while j > begin and values[place] < values[order[j - 1]]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = place
    width = INSERTION_RUN
    while width < numbers:
        for begin in range(0, numbers, 2 * width):
            middle, end = min(begin + width, numbers), min(begin + 2 * width, numbers)
            i, j, k = begin, middle, begin
            while i < middle and j < end:
                if values[order[j]] < values[order[i]]:
                    merged[k] = order[j]
                    j += 1
                else:
                    merged[k] = order[i]
                    i += 1
                k += 1
            for rest in range(i, middle):
                merged[k + rest - i] = order[rest]
            for rest in range(j, end):
                merged[k + rest - j] = order[rest]
        order, merged = merged, order
        width *= 2
    return order


@compiled
def sorted_values(values):
    """Return the values in ascending order, NaN last."""
    return values[stable_order(values)]


@compiled
def distinct_values(values):
    """Return the distinct values in ascending order."""
    ascending, found = sorted_values(values), 0
    for i in range(ascending.size):
        if i == 0 or ascending[i] != ascending[found - 1]:
            ascending[found] = ascending[i]
            found += 1
    return ascending[:found]


@lean
def write_at(target, at, source):
    """Write `source` to `target`, starting at index `at`; compiles faster than a slice."""
    for i in range(source.size):
        target[at + i] = source[i]


@compiled
def with_room(array, size):
    """Return `array`, or a longer copy padded with zeros if it has fewer than `size` entries."""
    if array.size >= size:
        return array
    longer = np.zeros(size * 5 // 4, array.dtype)
    write_at(longer, 0, array)
    return longer
