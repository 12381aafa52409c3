"""Which extents of a group hold tuples, from its panes and its late rows.

With slide s and length n, extent j (counted by its end) holds the rows of [j s - n, j s):

    slide      |--------|--------|--------|      time units of s, aligned to time 0
    panes      |-----|--|-----|--|-----|--|      cut where extents begin (b) and where they end
    extent j            |-----------|            b = -n mod s; one pane a slide where s divides n

So there are at most two panes a slide, whatever the greatest common divisor of n and s, and every
extent is the same number K of consecutive panes. A late row is in some of the extents that hold
its time only, so it is in no pane.

Source: panes as paired windows, Krishnamurthy, Wu & Franklin (2006).
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.extents import NEVER

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
            missing = j - previous - 1 if previous > NEVER else 0
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
