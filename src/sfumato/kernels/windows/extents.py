"""Time extents: which rows they hold, when they are complete, and the panes they share.

With slide s and length n, extent j (counted by its end) holds the rows of [j s - n, j s):

    slide      |--------|--------|--------|      time units of s, aligned to time 0
    panes      |-----|--|-----|--|-----|--|      cut where extents begin (b) and where they end
    extent j            |-----------|            b = -n mod s; one pane a slide where s divides n

So there are at most two panes a slide, whatever the greatest common divisor of n and s, and every
extent is the same number K of consecutive panes.

Source: the extents, C, equation (6.1); panes as paired windows, Krishnamurthy, Wu & Franklin
(2006).
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled

NEVER = -(2**61)  # a punctuation, or the number of an extent, before any; twice it fits in int64
# Places of a scope's state.
PUNCTUATION, LATE_THEN, LATE, CLOSED, NEWEST = 0, 1, 2, 3, 4
STATE = 5
# Verdicts on rows.
TAKEN, LATE_ROW, OUTSIDE, ABSENT_ROW = 0, 1, 2, 3
# Columns of closings: what a scope completed, and when.
ROW, SCOPE, AFTER, UP_TO, AT, LATE_SO_FAR = 0, 1, 2, 3, 4, 5
COLUMNS = 6


@compiled
def last_complete(punctuation, slide):
    """Number of the last extent that a punctuation completes: j s - 1 <= punctuation."""
    return NEVER if punctuation <= NEVER else (punctuation + 1) // slide


@compiled
def close(state, scope, up_to, row, closings, found):
    """Note that a scope's extents up to number `up_to` are complete; the number of notes."""
    if up_to <= state[scope, CLOSED]:
        return found
    closings[found, ROW], closings[found, SCOPE] = row, scope
    closings[found, AFTER], closings[found, UP_TO] = state[scope, CLOSED], up_to
    closings[found, AT] = state[scope, PUNCTUATION]
    closings[found, LATE_SO_FAR] = state[scope, LATE_THEN]
    state[scope, CLOSED] = up_to
    return found + 1


@compiled
def sweep(scope, time, ordered, punctuation, late, exists, slide, gap, state, verdict, closings):
    """Judge rows in order and note which extents they complete; how many notes.

    scope, time : int64[n]    exists : bool[n]
    ordered : no punctuations are given; each row brings one of its event time - 1
    punctuation : int64[n] and late : bool[n], or empty if `ordered`
    gap : rows less than this into a slide are in no extent (slide - length if that is positive)
    state : int64[scopes, STATE], updated    verdict : int64[n], written
    closings : int64[2 n, COLUMNS], written.  O(n).
    """
    found = 0
    for i in range(time.size):
        c, j = scope[i], time[i] // slide
        p = time[i] - 1 if ordered else max(punctuation[i], NEVER)
        if p > state[c, PUNCTUATION]:
            # All rows that the punctuation before let out have come.
            up_to = last_complete(state[c, PUNCTUATION], slide)
            found = close(state, c, up_to, i, closings, found)
            state[c, PUNCTUATION], state[c, LATE_THEN] = p, state[c, LATE]
        if not ordered and late[i]:
            verdict[i] = LATE_ROW
            state[c, LATE] += 1
            continue
        # Rows let out together come in order of time: none before this one follows.
        up_to = min(j, last_complete(state[c, PUNCTUATION], slide))
        found = close(state, c, up_to, i, closings, found)
        if time[i] - j * slide < gap:
            verdict[i] = OUTSIDE
        elif j < state[c, CLOSED]:
            verdict[i] = LATE_ROW
            state[c, LATE] += 1
        elif not exists[i]:
            verdict[i] = ABSENT_ROW
        else:
            verdict[i] = TAKEN
            state[c, NEWEST] = max(state[c, NEWEST], time[i])
    return found


@compiled
def close_all(scopes, settle, slide, length, state, closings):
    """Note the extents that scopes complete without a further row; how many notes.

    settle : only those at or below the punctuation; else all that hold a row, after which the
        punctuation is the last one's end - 1
    """
    found = 0
    for c in scopes:
        up_to = last_complete(state[c, PUNCTUATION], slide)
        found = close(state, c, up_to, 0, closings, found)
        if settle or state[c, NEWEST] == NEVER:
            continue
        up_to = (state[c, NEWEST] + length) // slide
        if up_to > state[c, CLOSED]:
            state[c, PUNCTUATION] = max(state[c, PUNCTUATION], up_to * slide - 1)
            state[c, LATE_THEN] = state[c, LATE]
            found = close(state, c, up_to, 0, closings, found)
    return found


@compiled
def extents_of_group(panes, first, last, closings, begin, per_slide, width, previous, fill, most):
    """The extents that a group's panes are in, or nearly: how many; `fill` says where they go.

    panes : int64[], ascending in [first, last), the panes that hold tuples
    closings : those of the group's scope from row `begin` on, ascending
    per_slide, width : panes a slide and an extent
    previous : number of the group's last extent so far; extents without a tuple between it and
        the next one are put out too, if they are at most `most`
    fill : int64[m, 4], written: number of the extent, first pane, end of panes (the first pane
        again if there is none), row of `closings`; [0, 4] only counts
    """
    scope, found = closings[begin, SCOPE], 0
    low, high = first, first
    for c in range(begin, closings.shape[0]):
        if closings[c, SCOPE] != scope:
            break
        j = closings[c, AFTER] + 1
        while low < last:
            while low < last and panes[low] < j * per_slide - width:
                low += 1
            if low == last:
                break
            j = max(j, panes[low] // per_slide + 1)
            if j > closings[c, UP_TO]:
                break
            high = max(high, low)
            while high < last and panes[high] < j * per_slide:
                high += 1
            if panes[low] < j * per_slide - width:
                continue
            missing = j - previous - 1 if previous > NEVER else 0
            for k in range(missing if missing <= most else 0):
                if fill.shape[0]:
                    fill[found, 0], fill[found, 1] = previous + 1 + k, low
                    fill[found, 2], fill[found, 3] = low, c
                found += 1
            if fill.shape[0]:
                fill[found, 0], fill[found, 1], fill[found, 2], fill[found, 3] = j, low, high, c
            found += 1
            previous = j
            j += 1
    return found


@compiled
def list_extents(starts, panes, begins, closings, per_slide, width, previous, most, fill):
    """`extents_of_group` for several groups: how many extents each has.

    starts : int64[g + 1], each group's panes    begins : int64[g], -1: the scope completed nothing
    previous : int64[g]    fill : int64[m, 4], written one group after the other, or [0, 4]
    """
    counts = np.zeros(begins.size, np.int64)
    done = 0
    for g in range(begins.size):
        if begins[g] >= 0:
            counts[g] = extents_of_group(
                panes, starts[g], starts[g + 1], closings, begins[g], per_slide, width,
                previous[g], fill[done:], most,
            )  # fmt: skip
        if fill.shape[0]:
            done += counts[g]
    return counts
