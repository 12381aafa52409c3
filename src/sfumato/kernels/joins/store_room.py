"""Room for what a join holds: windows that move on, and arrays copied to larger ones."""

from sfumato.kernels.compile import lean
from sfumato.kernels.joins.tuple_store import block_size


@lean
def compact_blocks(store, heads, d, blocks):
    """Copy the blocks of all tuples since `heads` into `blocks`; the place after them.

    heads : int64[windows], where each began.  With `blocks` empty only the place is computed.
    """
    used, tuples = 0, store.tuples
    for w in range(heads.size):
        for s in range(heads[w], store.windows.tail[w]):
            size = block_size(d, tuples.samples[s])
            if blocks.size > 0:
                at = tuples.at[s]
                for i in range(size):
                    blocks[used + i] = tuples.blocks[at + i]
                tuples.at[s] = used
            used += size
    return used


@lean
def copy_tuple(source, s, target, t):
    """Copy the line of slot s to slot t (not its block)."""
    target.at[t], target.samples[t] = source.at[s], source.samples[s]
    target.existence[t], target.number[t] = source.existence[s], source.number[s]
    target.time[t], target.rounding[t] = source.time[s], source.rounding[s]
    for c in range(source.summary.shape[1]):
        target.summary[t, c] = source.summary[s, c]


@lean
def room_for(held, arriving):
    """Slots to give a window, so that moving it again costs O(1) amortised an arrival."""
    return 2 * (held + arriving) + 8


@lean
def plan_moves(store, code, moves):
    """Which windows must move before arrivals can be written at the end of each.

    code : int64[n], windows of the arrivals
    moves : MOVE[n], written: of those that move, each once
    Returns (how many move, the first slot beyond all windows' room then). O(n).
    """
    windows, found, end = store.windows, 0, store.ends[0].slots
    for i in range(code.size):
        windows.arriving[code[i]] += 1
    for i in range(code.size):
        w = code[i]
        arriving = windows.arriving[w]
        windows.arriving[w] = 0
        if arriving == 0 or windows.tail[w] + arriving <= windows.base[w] + windows.capacity[w]:
            continue
        room = room_for(windows.tail[w] - windows.head[w], arriving)
        moves[found].window = w
        if room <= windows.capacity[w]:
            moves[found].base, moves[found].capacity = windows.base[w], windows.capacity[w]
        else:
            moves[found].base, moves[found].capacity = end, room
            end += room
        found += 1
    return found, end


@lean
def move_window(store, move):
    """Move one window as `plan_moves` says. O(tuples moved)."""
    windows, w, base = store.windows, move.window, move.base
    shift = base - windows.head[w]  # copies down, or to room of its own: never onto its rest
    store.rounding[w] = 0.0
    for s in range(windows.head[w], windows.tail[w]):
        store.rounding[w] = max(store.rounding[w], store.tuples.rounding[s])
        copy_tuple(store.tuples, s, store.tuples, s + shift)
    windows.head[w] += shift
    windows.tail[w] += shift
    windows.base[w], windows.capacity[w] = base, move.capacity


@lean
def move_windows(store, moves):
    """Move windows as `plan_moves` says. O(tuples moved)."""
    for i in range(moves.size):
        move_window(store, moves[i])


@lean
def repack(store, code, target):
    """Copy all windows' tuples into the lines of a new pool; the end of the room given out.

    code : int64[n], windows of the arrivals that are to have room as well
    With no lines in `target`, `Tuples`, only the end is computed. O(tuples held + windows).
    """
    windows, end = store.windows, 0
    for i in range(code.size):
        windows.arriving[code[i]] += 1
    for w in range(windows.head.size):
        held, arriving = windows.tail[w] - windows.head[w], windows.arriving[w]
        room = room_for(held, arriving) if held + arriving > 0 else 0
        if target.at.size > 0:
            for i in range(held):
                copy_tuple(store.tuples, windows.head[w] + i, target, end + i)
            windows.base[w], windows.capacity[w] = end, room
            windows.head[w], windows.tail[w] = end, end + held
        end += room
        windows.arriving[w] = 0
    return end
