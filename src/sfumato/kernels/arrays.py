"""What several concepts do with arrays, each thing once."""

from __future__ import annotations

from sfumato.kernels.compile import lean


@lean
def sort_slots(slots, n):
    """Sort slots[:n] in place: Shell sort, short to compile and quick for hundreds."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            s, j = slots[i], i
            while j >= gap and slots[j - gap] > s:
                slots[j] = slots[j - gap]
                j -= gap
            slots[j] = s
        gap //= 3
