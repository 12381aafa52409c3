"""Law of the count of a window's inside tuples, from the laws of its two parts."""

from sfumato.kernels.compile import compiled
from sfumato.kernels.windows.count.moments_state import LEAD, NEWER, OLDER

RAREST = 1e-17  # entries below this are left out: they are differences of numbers near 1


@compiled
def write_count_law(state, row, w, newer, to_prob, to_count, at):
    """Law of min(N, w), N the number of existing tuples held, with `row` the depth of the head.

    state : MomentsState; newer : float64[w + 1], scratch; to_prob, to_count : float64[...],
        written from place `at` on, counts ascending, with room for w + 1 entries
    Returns where the entries end.
    The newer part's law is the differences of C[l] = Pr(l + B >= w); the older part's is plane S.
    Cost: O(band of the older part * band of the newer).  Error: about 1e-16 an entry.
    """
    marks, front = state.marks[0], state.front[NEWER.c]
    least, most = w - marks.high, w - marks.low  # counts of the newer part
    for b in range(least, most + 1):
        before = front[w - b - 1] if b < most else 0.0
        newer[b] = max(front[w - b] - before, 0.0)
    low, high = state.bands[row, 0], state.bands[row, 1]
    older = state.rows[row, OLDER.s, low - state.extent[marks.block].base + LEAD :]
    begin = min(low + least, w)
    law = to_prob[at : at + w + 1 - begin]  # of counts begin ... w
    law[:] = 0.0
    full = state.row_facts[row].s_w
    for x in range(high - low):
        p, shift = older[x], low + x + least - begin
        count = min(most + 1, w - low - x) - least
        some = newer[least : least + max(count, 0)]
        target = law[shift : shift + max(count, 0)]
        for b in range(some.size):
            target[b] += p * some[b]
        full += p * front[low + x]
    law[w - begin] += full
    kept = at
    for n in range(law.size):
        if law[n] >= RAREST:
            to_prob[kept], to_count[kept] = law[n], begin + n
            kept += 1
    return kept
