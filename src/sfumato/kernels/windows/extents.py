"""Time extents: assign rows, complete extents, and aggregate over shared panes.

With slide s and length n, extent j (numbered by its end) holds the rows of [j s - n, j s), so a row
at time t is in extents t // s + 1 ... (t + n) // s. The extent is complete when the punctuation, up
to which all rows in order have arrived, is at least j s - 1.

A row may be late, with its source's punctuation at or above its time. Such a row is still part of
the extents that contain it and end after its punctuation. These extents cannot be complete, however
fast other sources are read. The row is missing from the other extents.

    slide      |--------|--------|--------|      time units of s, aligned to time 0
    panes      |-----|--|-----|--|-----|--|      cut where extents start (b) and where they end
    extent j            |-----------|            b = -n mod s; one pane per slide if s divides n

So there are at most two panes per slide, for any n and s, and every extent is the same number K of
consecutive panes. A late row is in only some of the extents that contain its time, so it has a
separate partial, which is merged last.

Partials of panes (see `mergeable_moments`) are merged in blocks of K panes, aligned to pane 0. An
extent is a suffix of one block and a prefix of the next, so a pane costs two merges and an extent
one, for any overlap. Results are the same, bit for bit, however rows are divided into calls.

    blocks of K = 4     |. . . .|. . . .|
    an extent               |. .|. .|        suffix of 2 panes, prefix of 2

Source: the extents, Kim et al. (2006), equation (6.1); panes as paired windows, Krishnamurthy, Wu &
Franklin (2006); prefixes and suffixes of blocks, van Herk (1992).
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import first_at_least, integers, stable_order, with_room
from sfumato.kernels.compile import compiled, compiled_ieee, inlined, lean
from sfumato.kernels.distributions.discrete_distribution import distribution_moments
from sfumato.kernels.distributions.extreme_distribution import (
    PassedValues,
    cut_alternatives,
    extreme_distribution,
)
from sfumato.kernels.distributions.mergeable_moments import (
    FIRST_SET,
    MomentPartials,
    add_tuple,
    clear_set,
    copy_set,
    measure,
    merge_set,
    new_set,
)
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.totals import merge_prefix, total_extent

NO_EXTENT = -(2**61)  # a punctuation or extent number below all; its double fits in int64
NO_INDEX = np.int64(-1)  # no tuple, pane, group or alternative

# Verdicts on a row. TAKEN: in all extents that contain it. JOINED: only in the later extents.
# TOO_LATE: in none, because it was late. OUTSIDE: no extent contains it. ABSENT: no alternatives.
# OUTDATED: a version at least as new arrived earlier. UNEQUAL: weights unlike its shared outcome's.
TAKEN, JOINED, TOO_LATE, OUTSIDE, ABSENT, OUTDATED, UNEQUAL = range(7)

# Punctuation and the previous one, last completed extent, time of the newest taken row; first of
# its non-empty groups.
SCOPE = integers("punctuation before closed newest groups")
# Scope; next index of a tuple, last extent that holds a tuple, last emitted extent; newest pane,
# the scope's next non-empty group, and 1 if this group is listed.
GROUP = integers("scope arrived reach previous pane following listed")
# Punctuation `at` completes a scope's extents (after, up_to]; turn: order of completion.
COMPLETION = integers("turn scope after up_to at")
# A tuple that is late for some extents, and the extents that include it; or, with tuple NO_INDEX, a
# row and the extents that do not include it; and the pane of the tuple.
LATE_ROW = integers("group first last tuple pane")
# Alternatives [begin, end), and its pane's next tuple; alive: 0 if no longer needed.
TUPLE = integers("index group time number begin end following alive")
# The group's previous pane, or the next free place; its first and last tuple; state: 1 if complete,
# 2 if its partial includes the rest of its block.
PANE = integers("number previous first last state")
# The newest version of an id, the first extent that may have it, and its row: group, number
# (NO_INDEX if in no extent) and last extent. The id is kept until extent `until` is complete. For a
# shared outcome, the version is a hash of its weights, and no row is recorded.
ID = integers("group version since number last until")
# The row that a newer version replaces (or NO_INDEX), and the last extent that still includes it.
REPLACED = integers("number last")
POOL = integers("free panes tuples alternatives dead")  # first free pane; numbers in use or dead
EXTENT = integers("group number completion held late low high")


class ReleasedRows(NamedTuple):
    """Rows in order of release.

    group, scope, time, number : int64[n]
    offsets : int64[n + 1], prob : float64[m], values : float64[attributes, m], alternatives
    punctuation : int64[n], late : bool[n]; or empty: each row brings a punctuation of its time - 1
    """

    group: np.ndarray
    scope: np.ndarray
    time: np.ndarray
    number: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    punctuation: np.ndarray
    late: np.ndarray


class Versions(NamedTuple):
    """Ids and versions of rows; all arrays are empty if rows have none.

    id : int64[n], codes, NO_INDEX for a row without an id    version : int64[n]
    ids : ID[], updated    replaced : REPLACED[n], written
    shared : bool, ids identify shared outcomes, and versions are hashes of their weights
    """

    id: np.ndarray
    version: np.ndarray
    ids: np.ndarray
    replaced: np.ndarray
    shared: bool


class PaneGrid(NamedTuple):
    """Microseconds of an extent and of a slide; panes per slide and per extent; the start of
    extents within a slide, or 0."""

    length: int
    slide: int
    per_slide: int
    width: int
    cut: int


class Gaps(NamedTuple):
    """The listed extents without a tuple.

    most : int, list the empty extents of gaps of at most this length, together with the next
        extent; -1 for no empty extents
    around : bool, instead list the first `most` empty extents after each extent with a tuple, once
        they are complete, and the last `most` before a group's first extent, from `first` onwards
    """

    most: int
    around: bool
    first: int


class PooledTuples(NamedTuple):
    """Tuples in order of arrival, with room at the end.

    pool : POOL[1]    at : TUPLE[room]    rest : float64[room], all 1    owner : int64[m], tuples
    prob : float64[m]    values : float64[attributes, m]
    below : int64[extremes, m], the pane's next alternative by descending sign * value
    """

    pool: np.ndarray
    at: np.ndarray
    rest: np.ndarray
    owner: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    below: np.ndarray


class Partials(NamedTuple):
    """Partials of each pane, and of its block up to and including the pane; the first alternatives
    of each extreme."""

    own: MomentPartials
    prefix: MomentPartials
    top: np.ndarray


class ExtentScratch(NamedTuple):
    """Working memory: int64 and float64 per alternative, and int64 per pane."""

    order: np.ndarray
    distribution: np.ndarray
    chance: np.ndarray
    begins: np.ndarray
    first: np.ndarray
    counts: np.ndarray


class LateSweep(NamedTuple):
    """The late rows of a group, while its extents are visited in ascending order.

    by_first : int64[n], places of the rows, by first extent and arrival
    inside : int64[n], places of the rows of the current extent, by arrival
    at : int64[2], numbers of rows in `inside`, and of rows of `by_first` that have been visited
    """

    by_first: np.ndarray
    inside: np.ndarray
    at: np.ndarray


class ChannelMeasures(NamedTuple):
    """The channel or list of values of each of r aggregates.

    what, channel : int64[r], function and its channel; what < 0 for MIN, MAX or nothing
    extreme : int64[r], index of the extreme for a MIN or MAX, otherwise -1
    sign : float64[x], 1 for a MAX, -1 for a MIN; attribute : int64[x], of each extreme
    """

    what: np.ndarray
    channel: np.ndarray
    extreme: np.ndarray
    sign: np.ndarray
    attribute: np.ndarray


@compiled
def last_complete(punctuation, slide):
    """Return the last extent that a punctuation completes: j s - 1 <= punctuation."""
    return NO_EXTENT if punctuation <= NO_EXTENT else (punctuation + 1) // slide


@lean
def _close(scopes, c, up_to, at, turn, completions, found):
    """Record that a scope's extents up to `up_to` are complete; return the number of records."""
    scope = scopes[c]
    if up_to <= scope.closed:
        return found
    note = completions[found]
    note.turn, note.scope, note.after, note.up_to, note.at = turn, c, scope.closed, up_to, at
    scope.closed = up_to
    return found + 1


@lean
def advance_scope(scopes, c, time, p, slide, row, completions, found):
    """Advance a scope to a row's punctuation; record the extents that are complete before the row.

    Rows released together are ordered by time: no earlier row follows.
    Returns the number of records, and whether an earlier punctuation had excluded the row.
    """
    scope = scopes[c]
    if p > scope.punctuation:
        # All rows released by the previous punctuation have arrived, except rows of the same time,
        # which a higher punctuation releases first.
        done = last_complete(min(scope.punctuation, time - 1), slide)
        found = _close(scopes, c, done, scope.punctuation, 2 * row, completions, found)
        scope.before, scope.punctuation = scope.punctuation, p
    excluded = p < scope.punctuation or time < scope.before
    done = last_complete(min(scope.punctuation, time - 1), slide)
    found = _close(scopes, c, done, scope.punctuation, 2 * row + 1, completions, found)
    return found, excluded


@lean
def _list_group(scopes, groups, g):
    if groups[g].listed == 0:
        scope = scopes[groups[g].scope]
        groups[g].following, groups[g].listed = scope.groups, 1
        scope.groups = g


@lean
def _record_late(late_rows, found, g, first, last, of):
    if first > last:
        return found
    row = late_rows[found]
    row.group, row.first, row.last, row.tuple, row.pane = g, first, last, of, NO_INDEX
    return found + 1


@lean
def _take_version(versions, i, number, g, first, last, verdict, closed):
    """Make row i, which is in extents from `first` to `last`, the newest version of its id."""
    newest, replaced = versions.ids[versions.id[i]], versions.replaced[i]
    until = last if verdict in (TAKEN, JOINED, ABSENT) else NO_EXTENT
    replaced.number = NO_INDEX
    if newest.until > closed:
        until = max(until, newest.until)
        if newest.number != NO_INDEX and newest.last >= first:
            replaced.number, replaced.last = newest.number, first - 1
    newest.group, newest.version, newest.since = g, versions.version[i], first
    newest.number = number if verdict in (TAKEN, JOINED) else NO_INDEX
    newest.last, newest.until = last, until


@lean
def _has_weights(versions, i, g, last, closed):
    """Return whether row i, whose last extent is `last`, has the weights of its shared outcome."""
    of = versions.ids[versions.id[i]]
    if of.until > closed:
        if versions.version[i] != of.version:
            return False
        last = max(last, of.until)
    of.group, of.version, of.until = g, versions.version[i], last
    return True


@compiled
def assign_rows(rows, grid, scopes, groups, index, verdicts, completions, late_rows, versions):
    """Assign rows to extents, in order, and record the extents that they complete.  O(n).

    scopes : SCOPE[], groups : GROUP[], updated;  verdicts : int8[n], written: TAKEN to UNEQUAL
    index : int64[n], written: index of each stored row in its group, NO_INDEX for others; restarts
        at 0 when all extents of earlier rows are complete, so that an empty group is like a new one
    completions : COMPLETION[2 n], late_rows : LATE_ROW[2 n], written; `tuple` is a place among
        the rows stored in this call. If versions are replaced, all stored rows are late rows
    Returns the numbers of rows that a punctuation had excluded, of completions, and of late rows.
    """
    length, slide, ordered = grid.length, grid.slide, rows.punctuation.size == 0
    excluded, found, late_count, stored = 0, 0, 0, 0
    versioned = versions.id.size > 0 and not versions.shared
    for i in range(rows.time.size):
        g, c, time = rows.group[i], rows.scope[i], rows.time[i]
        scope, group, j = scopes[c], groups[g], time // slide
        last = j + grid.width if grid.cut == 0 else (time + length) // slide
        p = time - 1 if ordered else max(rows.punctuation[i], NO_EXTENT)
        group.scope, index[i] = c, NO_INDEX
        if not ordered and rows.late[i]:
            # The punctuation is only the source's, and does not advance the scope.
            first = max(last_complete(p, slide), scope.closed) + 1
        else:
            found, early = advance_scope(scopes, c, time, p, slide, i, completions, found)
            excluded += early and not ordered
            first = scope.closed + 1
        has_id = versioned and versions.id[i] != NO_INDEX
        if has_id:
            newest = versions.ids[versions.id[i]]
            if newest.until > scope.closed:
                if versions.version[i] <= newest.version:
                    verdicts[i] = OUTDATED
                    continue
                first = max(first, newest.since)  # an extent has one version of each id
        missed_from, missed_to = max(j, scope.closed) + 1, min(first - 1, last)
        if last <= j:
            verdict = OUTSIDE
        elif first > last:
            verdict = TOO_LATE
        elif rows.offsets[i] == rows.offsets[i + 1]:
            verdict = ABSENT
        elif (
            versions.shared
            and versions.id[i] != NO_INDEX
            and not _has_weights(versions, i, g, last, scope.closed)
        ):
            verdict = UNEQUAL
        else:
            verdict = TAKEN if first <= j + 1 else JOINED
            scope.newest = max(scope.newest, time)
            if scope.closed >= group.reach:
                group.arrived = 0
            index[i], group.arrived = group.arrived, group.arrived + 1
            group.reach = max(group.reach, last)
            _list_group(scopes, groups, g)
            if verdict == JOINED or versioned:
                begin = max(first, j + 1)
                late_count = _record_late(late_rows, late_count, g, begin, last, stored)
            stored += 1
        verdicts[i] = verdict
        if has_id:
            _take_version(versions, i, rows.number[i], g, first, last, verdict, scope.closed)
        if verdict in (JOINED, TOO_LATE):
            before = late_count
            late_count = _record_late(late_rows, late_count, g, missed_from, missed_to, NO_INDEX)
            if late_count > before:
                _list_group(scopes, groups, g)
    return excluded, found, late_count


@lean
def list_groups(scopes, groups, used):
    """Link the groups `used` to their scopes."""
    for g in used:
        _list_group(scopes, groups, g)


@compiled
def close_all(wanted, grid, scopes, completions):
    """Record as complete all extents of some scopes that hold a row; return the number of records.

    wanted : int64[], scopes. Later rows are missing from these extents, but are assigned by the
        scope's punctuation, which does not change.
    """
    found = 0
    for c in wanted:
        scope, slide = scopes[c], grid.slide
        at = scope.punctuation
        found = _close(scopes, c, last_complete(at, slide), at, found, completions, found)
        if scope.newest > NO_EXTENT:
            up_to = (scope.newest + grid.length) // slide
            at = max(at, up_to * slide - 1)
            found = _close(scopes, c, up_to, at, found, completions, found)
    return found


@compiled
def _new_pane(panes, pool, number):
    s = pool.free
    if s == NO_INDEX:
        s = pool.panes
        panes = with_room(panes, s + 1)
        pool.panes = s + 1
    else:
        pool.free = panes[s].previous
    pane = panes[s]
    pane.number, pane.previous, pane.state = number, NO_INDEX, 0
    pane.first = pane.last = NO_INDEX
    return s, panes


@inlined
def _find_pane(panes, pool, group, number, apart):
    """Return the place of a group's pane, which may be new, and `panes`, grown if needed.

    apart : bool, use a separate pane, for a late row
    """
    if apart:
        return _new_pane(panes, pool, number)
    above, s = NO_INDEX, group.pane
    while s != NO_INDEX and panes[s].number > number:
        above, s = s, panes[s].previous
    if s == NO_INDEX or panes[s].number < number:
        before = s
        s, panes = _new_pane(panes, pool, number)
        panes[s].previous = before
        if above == NO_INDEX:
            group.pane = s
        else:
            panes[above].previous = s
    return s, panes


@compiled
def place_rows(rows, index, late, grid, groups, panes, pools, to):
    """Write the panes int64[n] of rows with an index to `to`; NO_INDEX for other rows.

    late : bool[], for each row with an index, whether it has a separate pane
    Returns `panes`, grown if needed.  O(n) if rows of a group are ordered by time.
    """
    pool, stored = pools[0], 0
    for i in range(index.size):
        to[i] = NO_INDEX
        if index[i] == NO_INDEX:
            continue
        g, time = rows.group[i], rows.time[i]
        s = NO_INDEX if late[stored] else groups[g].pane  # most rows are in the newest pane
        inside = time - panes[s].number * grid.slide if s != NO_INDEX and grid.cut == 0 else -1
        if not 0 <= inside < grid.slide:
            number = time // grid.slide
            if grid.cut > 0:
                number = 2 * number + (1 if time - number * grid.slide >= grid.cut else 0)
            s, panes = _find_pane(panes, pool, groups[g], number, late[stored])
        to[i], stored = s, stored + 1
    return panes


@compiled
def store_rows(rows, index, to, per_tuple, panes, tuples, own):
    """Append the rows with an index to `tuples`, and add them to their panes `to`.  O(m)

    per_tuple : float64[channels, 3, n], see `tuple_moments`, added to the MomentPartials `own`; or
        without rows
    """
    pool, prob, values = tuples.pool[0], rows.prob, rows.values
    for i in range(index.size):
        s, n, m = to[i], pool.tuples, pool.alternatives
        if s == NO_INDEX:
            continue
        begin, end = rows.offsets[i], rows.offsets[i + 1]
        if panes[s].first == NO_INDEX:
            panes[s].first = n
            if per_tuple.shape[2] > 0:
                clear_set(own, s)
        else:
            tuples.at[panes[s].last].following = n
        panes[s].last, of = n, tuples.at[n]
        of.index, of.group = index[i], rows.group[i]
        of.time, of.number = rows.time[i], rows.number[i]
        of.begin, of.end, of.following, of.alive = m, m + end - begin, NO_INDEX, 1
        for k in range(begin, end):
            tuples.prob[m], tuples.owner[m] = prob[k], n
            for a in range(values.shape[0]):
                tuples.values[a, m] = values[a, k]
            m += 1
        pool.tuples, pool.alternatives = n + 1, m
        if per_tuple.shape[2] > 0:
            add_tuple(per_tuple, i, own, s)


@compiled_ieee
def _rank_alternatives(s, panes, tuples, measures, partials, room):
    """Link a pane's alternatives that an extreme may need, most extreme first."""
    for x in range(measures.sign.size):
        value, n, t = tuples.values[measures.attribute[x]], 0, panes[s].first
        while t != NO_INDEX:
            for k in range(tuples.at[t].begin, tuples.at[t].end):
                room.order[n], room.distribution[n] = k, -measures.sign[x] * value[k]
                n += 1
            t = tuples.at[t].following
        order = room.order[:n]
        if n > 1:
            order = order[stable_order(room.distribution[:n])]  # NaN at the end
        of = PassedValues(value, tuples.prob, tuples.owner, tuples.rest)
        kept, below = cut_alternatives(0, n, of, order), tuples.below[x]
        partials.top[x, s] = order[0] if kept > 0 else NO_INDEX
        for i in range(kept):
            below[order[i]] = order[i + 1] if i + 1 < kept else NO_INDEX


@lean
def _free_pane(s, panes, tuples):
    """Free an unused pane and its tuples."""
    pool, t = tuples.pool[0], panes[s].first
    while t != NO_INDEX:
        tuples.at[t].alive = 0
        pool.dead += 1
        t = tuples.at[t].following
    panes[s].first, panes[s].last, panes[s].state = NO_INDEX, NO_INDEX, 0
    panes[s].previous, pool.free = pool.free, s


@lean
def _empty_extents(j, previous, after, last, gaps):
    """Return the range of a group's empty extents to list before extent j, and the number skipped.

    previous : the group's last extent with a tuple    after : last extent that was complete before
    last : bool, j is not an extent with a tuple, but the end of the complete extents
    """
    if previous <= NO_EXTENT:
        before = gaps.around and not last
        return (min(max(j - gaps.most, gaps.first), j) if before else j), j, 0
    missing = j - previous - 1
    if gaps.around:
        end = min(previous + gaps.most + 1, j)
        return min(max(previous, after) + 1, end), end, 0 if last else max(j - end, 0)
    if last or missing > gaps.most:
        return j, j, missing if gaps.most >= 0 and not last else 0
    return j - missing, j, 0


@compiled
def drop_rows(gone, panes, tuples):
    """Free the panes int64[] of late rows that no further extent includes, and their tuples."""
    for s in gone:
        _free_pane(s, panes, tuples)


@compiled
def _sweep_of(late_rows):
    first = np.empty(late_rows.size, np.int64)
    for i in range(first.size):
        first[i] = late_rows[i].first
    return LateSweep(stable_order(first), first, np.zeros(2, np.int64))


@lean
def _restart(sweep):
    sweep.at[0], sweep.at[1] = 0, 0


@compiled
def _rows_inside(sweep, late_rows, number):
    """Move a sweep to an extent; return the places of the extent's late rows, by arrival.

    Cost: O(r) per first extent of the visited rows; r late rows are in this or the previous extent.
    """
    of, inside, left, begin = sweep.by_first, sweep.inside, np.int64(0), sweep.at[1]
    for i in range(sweep.at[0]):
        if late_rows[inside[i]].last >= number:
            inside[left] = inside[i]
            left += 1
    while begin < of.size and late_rows[of[begin]].first <= number:
        end, first, fresh = begin, late_rows[of[begin]].first, 0
        while end < of.size and late_rows[of[end]].first == first:
            if late_rows[of[end]].last >= number:
                fresh += 1
            end += 1
        older, to = left - 1, left + fresh - 1
        left += fresh
        for k in range(end - 1, begin - 1, -1):  # merge by place, from the end
            if late_rows[of[k]].last >= number:
                while older >= 0 and inside[older] > of[k]:
                    inside[to] = inside[older]
                    older, to = older - 1, to - 1
                inside[to] = of[k]
                to -= 1
        begin = end
    sweep.at[0], sweep.at[1] = left, begin
    return inside[:left]


@compiled
def _list_extents(group, completions, numbers, late_rows, sweep, grid, gaps, found, extents):
    """List a group's complete extents: (`extents`, grown if needed; their number; skipped extents).

    Empty extents are skipped in gaps of more than `gaps.most` (-1 skips all, uncounted).
    completions : of the group's scope, ascending    numbers : int64[], of the group's panes
    late_rows, sweep : of the group
    """
    after, by_first = completions[0].after, sweep.by_first
    low, high, c, skipped, j, n, ahead, reached = 0, 0, 0, 0, after + 1, 0, 0, NO_EXTENT
    while True:
        following = completions[-1].up_to + 1
        while low < numbers.size and numbers[low] < j * grid.per_slide - grid.width:
            low += 1
        if low < numbers.size:
            following = min(following, max(j, numbers[low] // grid.per_slide + 1))
        while n < by_first.size and late_rows[by_first[n]].first <= j:
            if late_rows[by_first[n]].tuple != NO_INDEX:
                reached = max(reached, late_rows[by_first[n]].last)
            n += 1
        ahead = max(ahead, n)
        while ahead < by_first.size and late_rows[by_first[ahead]].tuple == NO_INDEX:
            ahead += 1
        if reached >= j:
            following = j
        elif ahead < by_first.size:
            following = min(following, late_rows[by_first[ahead]].first)
        last, fresh = following > completions[-1].up_to, group.previous <= NO_EXTENT
        j = min(following, completions[-1].up_to + 1)
        begin, end, left_out = _empty_extents(j, group.previous, after, last, gaps)
        skipped += left_out
        if not last:
            high = first_at_least(numbers, max(low, high), numbers.size, j * grid.per_slide)
        extents = with_room(extents, found + end - begin + 1)
        for place in range(begin, end + 1):
            k = place if place < end else j
            if k == j and last:
                return extents, found, skipped
            while completions[c].up_to < (k if gaps.around and not fresh else j):
                c += 1
            extent = extents[found]
            extent.number, extent.completion, extent.late = k, c, 0
            extent.low, extent.high = (low, high) if k == j else (low, low)
            for i in _rows_inside(sweep, late_rows, k):
                extent.late += late_rows[i].tuple == NO_INDEX
            found += 1
        group.previous = j
        j += 1


@lean
def _merge_extent(
    extent, slots, numbers, inside, late_rows, grid, panes, partials, per_tuple, total
):  # fmt: skip
    """Merge the partials of an extent's panes and late tuples into set 0 of `total`.

    inside : int64[], places of the extent's late rows
    """
    low, high, own = extent.low, extent.high, partials.own
    start, middle = extent.number * grid.per_slide - grid.width, low
    if start % grid.width != 0:
        middle = first_at_least(numbers, low, high, (start // grid.width + 1) * grid.width)
        if middle > low and panes[slots[low]].state < 2:  # build suffixes of the block's end
            for i in range(middle - 1, low - 1, -1):
                if panes[slots[i]].state < 2:
                    panes[slots[i]].state = 2
                    if i + 1 < middle:
                        merge_set(own, slots[i + 1], own, slots[i])
    clear_set(total, FIRST_SET)
    if middle > low:
        copy_set(own, slots[low], total, FIRST_SET)
    if middle < high:
        merge_set(partials.prefix, slots[high - 1], total, FIRST_SET)
    for i in inside:
        if late_rows[i].tuple == NO_INDEX:
            continue
        if per_tuple.shape[2] > 0:
            add_tuple(per_tuple, late_rows[i].tuple, total, FIRST_SET)
        else:
            merge_set(own, late_rows[i].pane, total, FIRST_SET)


@inlined
def _answer_extremes(
    x, extents, slots, late_rows, sweep, tuples, partials, measures, room, answers
):  # fmt: skip
    """Write mean, standard deviation and existence of extreme x, for the aggregates that need it.

    slots : int64[panes and late rows]    answers : float64[extents * aggregates * 3], written
    O(K + r log K) per extent of K panes for r reached alternatives.
    """
    below, value, many = tuples.below[x], tuples.values[measures.attribute[x]], measures.what.size
    begins, panes, n, steps = room.begins, slots.size - late_rows.size, 0, np.int64(0)
    for i in range(slots.size):
        begins[i] = n
        k = partials.top[x, slots[i]] if slots[i] != NO_INDEX else NO_INDEX
        while k != NO_INDEX:
            room.order[n] = k - begins[i]
            n, k = n + 1, below[k]
    begins[slots.size] = n
    of = PassedValues(value, tuples.prob, tuples.owner, tuples.rest)
    first, counts, distribution, chance = room.first, room.counts, room.distribution, room.chance
    for e in range(extents.size):
        extent, lists = extents[e], 0
        for i in range(extent.low, extent.high):
            first[lists], counts[lists] = begins[i], begins[i + 1] - begins[i]
            lists += 1
        for i in _rows_inside(sweep, late_rows, extent.number):
            first[lists] = begins[panes + i]
            counts[lists] = begins[panes + i + 1] - first[lists]
            lists += 1
        steps = after_signals(steps + 64 * lists)
        sign = measures.sign[x]
        found = extreme_distribution(
            sign, first[:lists], counts[:lists], room.order, of, distribution, chance
        )
        moments = distribution_moments(chance[:found], distribution[:found])
        for r in range(many):
            if measures.extreme[r] == x:
                at = 3 * (e * many + r)
                answers[at], answers[at + 1], answers[at + 2] = moments


@inlined
def _ready_panes(group, closed, late_rows, panes, grid):
    """Return the places of a group's complete panes, then of its late rows; and pane numbers."""
    n, s = 0, group.pane
    while s != NO_INDEX:
        n += panes[s].number // grid.per_slide < closed
        s = panes[s].previous
    slots, numbers, s = np.empty(n + late_rows.size, np.int64), np.empty(n, np.int64), group.pane
    while s != NO_INDEX:
        if panes[s].number // grid.per_slide < closed:
            n -= 1
            slots[n], numbers[n] = s, panes[s].number
        s = panes[s].previous
    for i in range(late_rows.size):
        slots[numbers.size + i] = late_rows[i].pane
    return slots, numbers


@lean
def _prepare_panes(slots, numbers, panes, tuples, measures, partials, grid, room):
    """Build the prefixes and ranks of panes at their first use."""
    for i in range(slots.size):
        s = slots[i]
        if s == NO_INDEX or panes[s].state > 0:
            continue
        panes[s].state = 1
        _rank_alternatives(s, panes, tuples, measures, partials, room)
        if i < numbers.size:
            block = numbers[i] // grid.width
            if i > 0 and numbers[i - 1] // grid.width == block:
                copy_set(partials.prefix, slots[i - 1], partials.prefix, s)
                merge_set(partials.own, s, partials.prefix, s)
            else:
                copy_set(partials.own, s, partials.prefix, s)


@lean
def _drop_unneeded(group, closed, late_rows, panes, tuples, grid, gaps):
    """Drop what a group's further extents do not need; return whether nothing is left."""
    keep, above, s = (closed + 1) * grid.per_slide - grid.width, NO_INDEX, group.pane
    while s != NO_INDEX and panes[s].number >= keep:
        above, s = s, panes[s].previous
    if above == NO_INDEX:
        group.pane = NO_INDEX
    else:
        panes[above].previous = NO_INDEX
    while s != NO_INDEX:
        before = panes[s].previous
        _free_pane(s, panes, tuples)
        s = before
    out = closed  # extents without a tuple are emitted with the next extent that has a tuple
    if gaps.most >= 0 and not gaps.around and group.previous > NO_EXTENT:
        out = min(closed, max(group.previous, closed - gaps.most - 1))
    left = 0
    for i in range(late_rows.size):
        row = late_rows[i]
        if row.last > (out if row.tuple == NO_INDEX else closed):
            left += 1
            continue
        if row.tuple != NO_INDEX:
            _free_pane(row.pane, panes, tuples)
        row.group = NO_INDEX
    more = gaps.around and group.previous > NO_EXTENT and group.previous + gaps.most > closed
    return group.pane == NO_INDEX and left == 0 and not more


@lean
def _list_pane(pane, at, members, listed):
    """Append the places of a pane's tuples, and return the new number of members."""
    t = pane.first
    while t != NO_INDEX:
        members[listed] = t
        listed, t = listed + 1, at[t].following
    return listed


@compiled
def _list_tuples(extent, slots, inside, late_rows, panes, at, members, listed):
    """Append the places of an extent's tuples to `members[:listed]`."""
    members = with_room(members, listed + extent.held)
    for i in range(extent.low, extent.high):
        listed = _list_pane(panes[slots[i]], at, members, listed)
    for i in inside:
        if late_rows[i].tuple != NO_INDEX:
            listed = _list_pane(panes[late_rows[i].pane], at, members, listed)
    return members, listed


@compiled_ieee
def complete_extents(
    completions, scopes, groups, late_rows, panes, tuples, partials, per_tuple, totals, signs, grid,
    measures, gaps, listing,
):  # fmt: skip
    """List and measure the complete extents, and drop what further extents do not need.

    completions : COMPLETION[], by scope, then ascending
    late_rows : LATE_ROW[], by group; group NO_INDEX is written to rows that are no longer needed
    per_tuple : float64[channels, 3, tuples], see `tuple_moments`; empty if late rows have partials
    totals, signs : see `totals`; if there are fields, extents have totals instead of moments
    gaps : Gaps, the listed extents without a tuple;  listing : bool, list the tuples of extents
    Returns (EXTENT[m]; float64[m * r * 3]: mean, standard deviation and existence of aggregates, or
    float64[m * fields]; int64[]: places of the extents' tuples, by pane and arrival, late ones
    last; and the number of extents skipped in longer gaps).
    Cost: two merges per pane, one per extent and late row; a sort of each pane for MIN and MAX.
    """
    extents, found, answers = np.empty(16, EXTENT), np.int64(0), np.empty(0)
    members, listed, skipped, steps = np.empty(0, np.int64), np.int64(0), 0, np.int64(0)
    total, many, late_group = new_set(partials.own), measures.what.size, late_rows.group.copy()
    fields = signs.size
    size = 3 * many if fields == 0 else fields
    m, p = tuples.owner.size, panes.size + late_rows.size + 1
    room = ExtentScratch(
        np.empty(m, np.int64), np.empty(m), np.empty(m), np.empty(p, np.int64),
        np.empty(p, np.int64), np.empty(p, np.int64),
    )  # fmt: skip
    begin, no_sweep = 0, _sweep_of(late_rows[:0])
    while begin < completions.size:
        end, c = begin + 1, completions[begin].scope
        while end < completions.size and completions[end].scope == c:
            end += 1
        above, g, closed = NO_INDEX, scopes[c].groups, scopes[c].closed
        while g != NO_INDEX:
            group, start = groups[g], found
            low = first_at_least(late_group, 0, late_group.size, g)
            own_late = late_rows[low : first_at_least(late_group, low, late_group.size, g + 1)]
            slots, numbers = _ready_panes(group, closed, own_late, panes, grid)
            if fields == 0:
                _prepare_panes(slots, numbers, panes, tuples, measures, partials, grid, room)
            else:
                for i in range(numbers.size):
                    merge_prefix(i, slots, numbers, panes, totals, signs, grid.width)
            sweep = no_sweep if own_late.size == 0 else _sweep_of(own_late)
            extents, found, more = _list_extents(
                group, completions[begin:end], numbers, own_late, sweep, grid, gaps, found, extents
            )
            skipped += more
            answers = with_room(answers, size * found)
            _restart(sweep)
            for e in range(start, found):
                extent = extents[e]
                inside = _rows_inside(sweep, own_late, extent.number)
                steps = after_signals(steps + 64 + inside.size)
                extent.group, extent.completion = g, extent.completion + begin
                if fields > 0:
                    out = answers[size * e : size * e + size]
                    total_extent(
                        extent, slots, numbers, inside, own_late, grid, panes, totals, signs, out
                    )  # fmt: skip
                    extent.held = np.int64(out[0])
                    continue
                _merge_extent(
                    extent, slots, numbers, inside, own_late, grid, panes, partials, per_tuple,
                    total,
                )  # fmt: skip
                extent.held = np.int64(total.sums[0, -1].tuples)
                for r in range(many):
                    at, what = 3 * (e * many + r), measures.what[r]
                    answers[at] = answers[at + 1] = answers[at + 2] = np.nan
                    if what >= 0:
                        answers[at], answers[at + 1], answers[at + 2] = measure(
                            what, total, FIRST_SET, measures.channel[r]
                        )
                if listing:
                    members, listed = _list_tuples(
                        extent, slots, inside, own_late, panes, tuples.at, members, listed
                    )
            if found > start:
                for x in range(measures.sign.size):
                    _restart(sweep)
                    _answer_extremes(
                        x, extents[start:found], slots, own_late, sweep, tuples, partials, measures,
                        room, answers[3 * many * start :],
                    )  # fmt: skip
            following = group.following
            if _drop_unneeded(group, closed, own_late, panes, tuples, grid, gaps):
                group.listed = 0
                if above == NO_INDEX:
                    scopes[c].groups = following
                else:
                    groups[above].following = following
            else:
                above = g
            g = following
        begin = end
    return extents[:found], answers[: size * found], members[:listed], skipped
