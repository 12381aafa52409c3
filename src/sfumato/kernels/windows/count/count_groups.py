"""Short count windows of many groups, each moved on by its arrivals: one call for all.

Between two calls a group is one array: what of it is saved. Where windows are short it costs less
to build the laws of a group again than to come to its kernels from Python one by one, so all
groups share the arrays of one, and each in turn is resumed, moved and packed.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.tuples import WindowTuples, existence_of
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.count.count_boundary import WINDOW_MARKS, CountWindow, renewed, slide
from sfumato.kernels.windows.count.count_moments import (
    CountLaws,
    Stacks,
    resume_moments,
    slide_moments,
)

PARTS = 9  # of a group: their sizes come first, then they


class PackedGroups(NamedTuple):
    """Groups at rest, one after the other: group j is array[begin[j] : begin[j + 1]], int64."""

    array: np.ndarray
    begin: np.ndarray


class SavedGroup(NamedTuple):
    """What of a group is saved, in the order in which it is packed.

    marks : int64[3], arrived, overflow, short    indices : int64[held], stream indices
    offsets : int64[held + 1], the alternatives of each tuple held
    memo : int64[...], where the older part of each sum ends, how many numbers of each average
        follow, and these: see `grown` of AverageState
    sums : float64[6], of a window by an approximate law    existence : float64[held]
    prob : float64[m], values : float64[m * a], of the alternatives
    numbers : float64[2 k], reference and ratio of each sum
    """

    marks: np.ndarray
    indices: np.ndarray
    offsets: np.ndarray
    memo: np.ndarray
    sums: np.ndarray
    existence: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    numbers: np.ndarray


@compiled
def unpacked(array):
    """The group that an array is: views."""
    ends = PARTS + np.cumsum(array[:PARTS])
    reals = array[ends[3] :].view(np.float64)
    ends[4:] -= ends[3]
    return SavedGroup(
        array[PARTS : ends[0]], array[ends[0] : ends[1]], array[ends[1] : ends[2]],
        array[ends[2] : ends[3]], reals[: ends[4]], reals[ends[4] : ends[5]],
        reals[ends[5] : ends[6]], reals[ends[6] : ends[7]], reals[ends[7] : ends[8]],
    )  # fmt: skip


@compiled
def pack(group, array, begin):
    """Write a group to `array` from `begin` on; where it ends."""
    whole = group.marks, group.indices, group.offsets, group.memo
    reals = group.sums, group.existence, group.prob, group.values, group.numbers
    end = begin + PARTS
    for i in range(4):
        array[begin + i] = whole[i].size
        array[end : end + whole[i].size] = whole[i]
        end += whole[i].size
    for i in range(5):
        array[begin + 4 + i] = reals[i].size
        array[end : end + reals[i].size].view(np.float64)[:] = reals[i]
        end += reals[i].size
    return end


class GroupScratch(NamedTuple):
    """The arrays that groups are moved in, one after the other.

    window.held has room for all tuples that a group holds before; plain : of sums whose average is
    not asked for; averaged : of the others
    """

    window: CountWindow
    plain: Stacks
    averaged: Stacks


class GroupPlan(NamedTuple):
    """What is the same of all groups.

    w, limit : int64, see `slide_moments`; target : float64 and max_tuples : int64, see `slide`
    attribute : int64[k], of each kept sum, -1 for none; counted : bool[k], whether it counts values
    average : int64[k], the number of the average made of each sum, -1 for none; averages : int64
    """

    w: int
    limit: int
    target: float
    max_tuples: int
    attribute: np.ndarray
    counted: np.ndarray
    average: np.ndarray
    averages: int


class GroupArrivals(NamedTuple):
    """The arrivals of g groups, group by group.

    begin : int64[g + 1], group j's are number begin[j] ... begin[j + 1] - 1
    tuple : int64[n], which of the tuples each one is
    offsets : int64[tuples + 1], prob : float64[m], values : float64[a, m], NaN for no value
    """

    begin: np.ndarray
    tuple: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray


class GroupAnswers(NamedTuple):
    """After each of n arrivals, written: tuples held, int64[n]; MOMENTS[k, n] of the kept sums."""

    held: np.ndarray
    moments: np.ndarray


@compiled
def _joined(group, arrivals, j):
    """The tuples that group j holds, then its arrivals: offsets, prob, values float64[a, m]."""
    before, begin, end = group.indices.size, arrivals.begin[j], arrivals.begin[j + 1]
    offsets = np.empty(before + end - begin + 1, dtype=np.int64)
    offsets[: before + 1] = group.offsets
    for t in range(begin, end):
        i, at = arrivals.tuple[t], before + t - begin
        offsets[at + 1] = offsets[at] + arrivals.offsets[i + 1] - arrivals.offsets[i]
    columns, old = arrivals.values.shape[0], group.prob.size
    prob, values = np.empty(offsets[-1]), np.empty((columns, offsets[-1]))
    prob[:old] = group.prob
    for a in range(old):
        for c in range(columns):
            values[c, a] = group.values[a * columns + c]
    for t in range(begin, end):
        at = offsets[before + t - begin]
        for a in range(
            arrivals.offsets[arrivals.tuple[t]], arrivals.offsets[arrivals.tuple[t] + 1]
        ):
            prob[at] = arrivals.prob[a]
            for c in range(columns):
                values[c, at] = arrivals.values[c, a]
            at += 1
    return offsets, prob, values


@compiled
def _column(asked, k, values):
    """The values that kept sum k is over; to count values is to sum ones, none being 0."""
    if asked.attribute[k] < 0:
        return np.zeros(values.shape[1])
    column = values[asked.attribute[k]]
    if not asked.counted[k]:
        return column
    ones = np.empty(column.size)
    for a in range(column.size):
        ones[a] = 0.0 if np.isnan(column[a]) else 1.0
    return ones


@compiled
def _heads(window, group, offsets, prob, asked):
    """Position of the oldest tuple held after each arrival; the CountWindow to go on with."""
    before = group.indices.size
    window.marks[0] = np.zeros(1, WINDOW_MARKS)[0]
    marks = window.marks[0]
    window.held[:before] = group.existence
    window.at[:before] = group.indices
    marks.tail, marks.arrived = before, group.marks[0]
    marks.overflow, marks.short = group.marks[1], group.marks[2]
    for i in range(before):
        marks.ones += group.existence[i] == 1.0
    existence = np.empty(offsets.size - 1 - before)
    for t in range(existence.size):
        existence[t] = existence_of(offsets, prob, before + t)
    starts = np.empty(existence.size, dtype=np.int64)
    given = asked.w, asked.target, asked.max_tuples
    done = slide(window, existence, np.int64(0), *given, starts)
    while done < existence.size:
        window = renewed(window, asked.w, asked.target)
        done = slide(window, existence, done, *given, starts)
    return starts - (group.marks[0] - before), window


@compiled
def _move_moments(front, back, average, tuples, heads, memo, grown, asked, out):
    """Answers of one sum from its memo (middle, reference, ratio) and `grown` on.

    front, back, average : of `Stacks`.  Returns the FrontStack to go on with.
    """
    marks, reals, (middle, reference, ratio) = front.marks[0], front.reals[0], memo
    marks.built = 0
    if middle >= 0:
        reals.reference, reals.ratio = reference, ratio
        offsets = tuples.offsets[: tuples.offsets.size - heads.size]
        held = WindowTuples(offsets, tuples.prob, tuples.value, tuples.first)
        position = max(middle - tuples.first, 0)
        front = resume_moments(front, back, average, held, position, asked.w, grown)
    laws = CountLaws(np.empty(0, np.int64), np.empty(0), np.empty(0))
    w, limit = asked.w, asked.limit
    return slide_moments(front, back, average, tuples, heads, w, limit, out, laws)[0]


@compiled
def _compacted(memo, head, sizes, room):
    """A memo without the places that its averages left free: `room` each, from `head` on."""
    end = head
    for j in range(sizes.size):
        for x in range(sizes[j]):
            memo[end] = memo[head + j * room + x]
            end += 1
    return memo[:end]


@compiled
def _kept(window, group, tuples, head, memo, numbers):
    """The group after its arrivals: of its tuples those from position `head` on."""
    marks, (offsets, prob, values, _) = window.marks[0], tuples
    begin, columns = offsets[head], values.shape[0]
    flat = np.empty((prob.size - begin) * columns)
    for a in range(begin, prob.size):
        for c in range(columns):
            flat[(a - begin) * columns + c] = values[c, a]
    return SavedGroup(
        np.array([marks.arrived, marks.overflow, marks.short]),
        window.at[marks.head : marks.tail], offsets[head:] - begin, memo, group.sums,
        window.held[marks.head : marks.tail], prob[begin:], flat, numbers,
    )  # fmt: skip


@compiled
def move_windows(scratch, asked, arrivals, old, new, answers):
    """Move all groups by their arrivals.

    old, new : PackedGroups, each group before and, written, after; at least one arrival comes to
    each
    answers : GroupAnswers, written, to the arrivals group by group
    Returns the GroupScratch to go on with, and how many tuples `max_tuples` evicted.
    Cost: that of `slide`, of `slide_moments` for each sum, and of building the distributions of all
    tuples held before: O(held * band) for each of them.
    Error, source: theirs; the answers are the same to the last bit.
    """
    overflow, steps = 0, np.int64(0)
    window, plain, averaged = scratch.window, scratch.plain.front, scratch.averaged.front
    plain_back, plain_average = scratch.plain.back, scratch.plain.average
    back, average = scratch.averaged.back, scratch.averaged.average
    sums, room, none = asked.attribute.size, average.grown.size, np.empty((0, 2), np.int64)
    head = sums + asked.averages  # of a memo: then come the numbers of each average
    for j in range(arrivals.begin.size - 1):
        steps = after_signals(steps + 4096)
        group = unpacked(old.array[old.begin[j] : old.begin[j + 1]])
        before, begin, end = group.indices.size, arrivals.begin[j], arrivals.begin[j + 1]
        offsets, prob, values = _joined(group, arrivals, j)
        heads, window = _heads(window, group, offsets, prob, asked)
        first, ends = group.marks[0] - before, np.cumsum(group.memo[sums:head]) + head
        memo, numbers = np.empty(head + asked.averages * room, np.int64), np.empty(2 * sums)
        for k in range(sums):
            of = WindowTuples(offsets, prob, _column(asked, k, values), first)
            known = group.memo[k], group.numbers[2 * k], group.numbers[2 * k + 1]
            out, own = answers.moments[k, begin:end], asked.average[k]
            if own < 0:
                plain = _move_moments(
                    plain, plain_back, plain_average, of, heads, known, none, asked, out
                )
                marks, reals = plain.marks[0], plain.reals[0]
            else:
                size = group.memo[sums + own]
                grown = group.memo[ends[own] - size : ends[own]].reshape(size // 2, 2)
                averaged = _move_moments(
                    averaged, back, average, of, heads, known, grown, asked, out
                )
                marks, reals = averaged.marks[0], averaged.reals[0]
                memo[sums + own] = 2 * average.marks[0].grown
                for x in range(memo[sums + own]):
                    memo[head + own * room + x] = average.grown[x // 2, x % 2]
            memo[k], numbers[2 * k], numbers[2 * k + 1] = marks.mid, reals.reference, reals.ratio
        memo = _compacted(memo, head, memo[sums:head], room)
        for t in range(heads.size):
            answers.held[begin + t] = before + 1 + t - heads[t]
        after = _kept(window, group, (offsets, prob, values, first), heads[-1], memo, numbers)
        new.begin[j + 1] = pack(after, new.array, new.begin[j])
        overflow += after.marks[1] - group.marks[1]
    return (
        GroupScratch(
            window,
            Stacks(plain, plain_back, plain_average),
            Stacks(averaged, back, average),
        ),
        overflow,
    )
