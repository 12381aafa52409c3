"""Extents: which rows and panes belong to which, and when each is complete.

With slide s and length n, extent j (counted by its end) holds the rows of [j s - n, j s), so a row
at time t is in extents t // s + 1 ... (t + n) // s. It is complete when the punctuation, up to
which all rows in order have come, is at least j s - 1.

A row may come late, its own punctuation (that of its source) at or above its time. It is still
part of the extents that contain it and end after its own punctuation: no pace of other sources
can have completed them. The others have missed it.

Which extents of a group hold tuples follows from its panes and its late rows:

    slide      |--------|--------|--------|      time units of s, aligned to time 0
    panes      |-----|--|-----|--|-----|--|      cut where extents begin (b) and where they end
    extent j            |-----------|            b = -n mod s; one pane a slide where s divides n

So there are at most two panes a slide, whatever the greatest common divisor of n and s, and every
extent is the same number K of consecutive panes. A late row is in some of the extents that hold
its time only, so it is in no pane.

Source: the extents, C, equation (6.1); panes as paired windows, Krishnamurthy, Wu & Franklin
(2006).
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled
from sfumato.kernels.signals import after_signals

NO_EXTENT = -(
    2**61
)  # a punctuation, or the number of an extent, before any; twice it fits in int64

# Verdicts on rows: in all extents that contain it; in those from `first` on; in none, because it
# came too late; because none contains it; because it has no alternatives.
TAKEN, JOINED, LATE, OUTSIDE, ABSENT = range(5)

# A scope's state: its punctuation and the one before that, the last extent completed, and the time
# of its newest row taken.
SCOPE = integers("punctuation before closed newest")

# Extents (after, up_to] of a scope are complete: at which row, and by which punctuation.
CLOSING = integers("row scope after up_to at")

# Of a row: the verdict, the first and last extent that take it, those that have missed it (none
# where the first is above the last), and the last extent that was complete when it came;
# 1 if it is in order and a punctuation had excluded it.
JUDGED = integers("verdict first last missed_from missed_to closed out_of_order")


class ReleasedRows(NamedTuple):
    """Rows in the order in which they were let out.

    scope, time : int64[n]    exists : bool[n], has alternatives
    punctuation : int64[n], late : bool[n]; or empty: each row brings one of its time - 1
    """

    scope: np.ndarray
    time: np.ndarray
    exists: np.ndarray
    punctuation: np.ndarray
    late: np.ndarray


@compiled
def last_complete(punctuation, slide):
    """Number of the last extent that a punctuation completes: j s - 1 <= punctuation."""
    return NO_EXTENT if punctuation <= NO_EXTENT else (punctuation + 1) // slide


@compiled
def _close(scopes, c, up_to, row, at, closings, found):
    """Note that the extents of a scope up to number `up_to` are complete by the punctuation `at`.

    Returns the number of notes.
    """
    scope = scopes[c]
    if up_to <= scope.closed:
        return found
    note = closings[found]
    note.row, note.scope, note.after, note.up_to, note.at = row, c, scope.closed, up_to, at
    scope.closed = up_to
    return found + 1


@compiled
def sweep(rows, length, slide, scopes, judged, closings):
    """Judge rows in order and note which extents they complete; how many notes.

    rows : ReleasedRows    scopes : SCOPE[], updated
    judged : JUDGED[n], written    closings : CLOSING[2 n], written.  O(n).
    """
    found, ordered = 0, rows.punctuation.size == 0
    for i in range(rows.time.size):
        c, time = rows.scope[i], rows.time[i]
        scope, j, last = scopes[c], time // slide, (time + length) // slide
        p = time - 1 if ordered else max(rows.punctuation[i], NO_EXTENT)
        excluded = False
        if not ordered and rows.late[i]:
            # Its punctuation is its own source's, and says nothing about the progress of all.
            first = max(last_complete(p, slide), scope.closed) + 1
        else:
            if p > scope.punctuation:
                # All rows that the punctuation before let out have come, but for those of its very
                # time, which a higher one releases before all others.
                done = last_complete(min(scope.punctuation, time - 1), slide)
                found = _close(scopes, c, done, i, scope.punctuation, closings, found)
                scope.before, scope.punctuation = scope.punctuation, p
            excluded = not ordered and (p < scope.punctuation or time < scope.before)
            # Rows let out together come in order of time: none before this one follows.
            done = min(j, last_complete(scope.punctuation, slide))
            found = _close(scopes, c, done, i, scope.punctuation, closings, found)
            first = scope.closed + 1
        of = judged[i]
        of.first, of.last, of.closed, of.out_of_order = first, last, scope.closed, excluded
        of.missed_from, of.missed_to = max(j, scope.closed) + 1, min(first - 1, last)
        if last <= j:
            of.verdict = OUTSIDE
        elif first > last:
            of.verdict = LATE
        elif not rows.exists[i]:
            of.verdict = ABSENT
        else:
            of.verdict = TAKEN if first <= j + 1 else JOINED
            scope.newest = max(scope.newest, time)
    return found


@compiled
def close_all(wanted, length, slide, scopes, closings):
    """Note all extents of some scopes that hold a row; how many notes.

    wanted : int64[], scopes. These extents miss later rows; the punctuation of the scope, by which
    later rows are judged, stays as it is.
    """
    found = 0
    for c in wanted:
        scope = scopes[c]
        at = scope.punctuation
        found = _close(scopes, c, last_complete(at, slide), 0, at, closings, found)
        if scope.newest == NO_EXTENT:
            continue
        up_to = (scope.newest + length) // slide
        found = _close(scopes, c, up_to, 0, max(at, up_to * slide - 1), closings, found)
    return found


@compiled
def number_tuples(group, judged, arrived, reach, index):
    """Index of each tuple in its group, from 0 again when all extents of those before are complete.

    So a group that holds nothing is as one that never had a tuple.
    group : int64[n]    judged : JUDGED[n], of rows taken    index : int64[n], written
    arrived : int64[groups], next index, and reach : int64[groups], last extent that holds a tuple
    of the group; updated
    """
    for i in range(group.size):
        g, of = group[i], judged[i]
        if of.closed >= reach[g]:
            arrived[g] = 0
        index[i] = arrived[g]
        arrived[g] += 1
        reach[g] = max(reach[g], of.last)


# An extent: its number, its first pane, the end of its panes (the first again if it has none), and
# the row of the closings that completed it.
EXTENT = integers("number low high closing")


class PaneGrid(NamedTuple):
    """per_slide, width : int, panes a slide, and an extent."""

    per_slide: int
    width: int


class Groups(NamedTuple):
    """Groups with panes or late rows, g of them.

    starts : int64[g + 1], where each one's panes are in `panes` : int64[], ascending numbers
    late_starts : int64[g + 1], where its late rows are in
    first, reach : int64[], the first extent that takes a late row, ascending, and the largest of
        the last ones of the group's late rows up to this one
    begins : int64[g], where the closings of its scope begin, -1: there are none
    previous : int64[g], number of its last extent so far
    most : int, extents without a tuple between two with one are listed if they are at most so
        many, else none of them is; -1: none is wanted
    """

    starts: np.ndarray
    panes: np.ndarray
    late_starts: np.ndarray
    first: np.ndarray
    reach: np.ndarray
    begins: np.ndarray
    previous: np.ndarray
    most: int


@compiled
def _note(fill, found, number, low, high, closing):
    if fill.size:
        extent = fill[found]
        extent.number, extent.low, extent.high, extent.closing = number, low, high, closing


@compiled
def _of_group(groups, g, grid, closings, fill):
    """The extents of group g that some closings complete: how many; `fill` says where they go.

    And how many without a tuple lie in gaps that are too long for them to be listed.
    """
    skipped = 0
    begin, width, per_slide = groups.begins[g], grid.width, grid.per_slide
    panes, last = groups.panes, groups.starts[g + 1]
    late, late_end = groups.late_starts[g], groups.late_starts[g + 1]
    scope, previous, found = closings[begin].scope, groups.previous[g], 0
    low, high = groups.starts[g], groups.starts[g]
    for c in range(begin, closings.size):
        if closings[c].scope != scope:
            break
        j = closings[c].after + 1
        while True:
            while low < last and panes[low] < j * per_slide - width:
                low += 1
            while late < late_end and groups.reach[late] < j:
                late += 1
            if low == last and late == late_end:
                break
            following = closings[c].up_to + 1
            if low < last:
                following = min(following, panes[low] // per_slide + 1)
            if late < late_end:
                following = min(following, groups.first[late])
            j = max(j, following)
            if j > closings[c].up_to:
                break
            high = max(high, low)
            while high < last and panes[high] < j * per_slide:
                high += 1
            while low < last and panes[low] < j * per_slide - width:
                low += 1
            high = max(high, low)
            covered = late < late_end and groups.first[late] <= j and groups.reach[late] >= j
            if low == high and not covered:
                continue
            missing = j - previous - 1 if previous > NO_EXTENT else 0
            if missing > groups.most:
                skipped += missing if groups.most >= 0 else 0
                missing = 0
            for k in range(missing):
                _note(fill, found, previous + 1 + k, low, low, c)
                found += 1
            _note(fill, found, j, low, high, c)
            found += 1
            previous = j
            j += 1
    return found, skipped


@compiled
def list_extents(groups, grid, closings, fill):
    """The extents that some closings complete: how many each group has, and how many without a
    tuple are in gaps that are too long, see `Groups.most`.

    closings : CLOSING[], those of a scope together, ascending
    fill : EXTENT[m], written one group after the other, or EXTENT[0] to count only
    """
    counts = np.zeros(groups.begins.size, np.int64)
    done, skipped = 0, 0
    for g in range(groups.begins.size):
        if groups.begins[g] >= 0:
            counts[g], more = _of_group(groups, g, grid, closings, fill[done:])
            skipped += more
        if fill.size:
            done += counts[g]
    return counts, skipped


@compiled
def late_of_extents(extents, starts, first, last, found):
    """The late rows that each extent holds: int64[m + 1], where each one's are in `found`.

    extents : EXTENT[m]    starts : int64[m, 2], where the late rows of its group are in
    first, last : int64[], the extents that take each late row
    found : int64[k], written: places of late rows, in their order; or int64[0] to count only
    """
    begins, done, steps = np.zeros(extents.size + 1, np.int64), 0, np.int64(0)
    for x in range(extents.size):
        steps = after_signals(steps + starts[x, 1] - starts[x, 0])
        for i in range(starts[x, 0], starts[x, 1]):
            if first[i] <= extents[x].number <= last[i]:
                if found.size:
                    found[done] = i
                done += 1
        begins[x + 1] = done
    return begins
