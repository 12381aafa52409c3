"""Short count windows of many groups, each moved on by its arrivals: one call for all.

Between two calls a group is one array: what of it is saved. Where windows are short it costs less
to build the laws of a group again than to come to its kernels from Python one by one, so all
groups share the arrays of one, and each in turn is resumed, moved and packed.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.existence import existence_of
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.count.average_state import AverageState
from sfumato.kernels.windows.count.count_window import slide
from sfumato.kernels.windows.count.count_window_average import resume_average, slide_average
from sfumato.kernels.windows.count.count_window_moments import (
    CountLaws,
    resume_moments,
    slide_moments,
)
from sfumato.kernels.windows.count.count_window_state import MARKS, CountWindow
from sfumato.kernels.windows.count.moments_state import MomentsState
from sfumato.kernels.windows.count.packed_group import Group, pack, unpacked
from sfumato.kernels.windows.held_tuples import HeldTuples


class Scratch(NamedTuple):
    """The arrays that groups are moved in, one after the other; window.held has room for all
    tuples that a group holds before."""

    window: CountWindow
    moments: MomentsState
    average: AverageState


class Asked(NamedTuple):
    """What is the same of all groups.

    w, limit : int64, see `slide_moments`; target : float64 and max_tuples : int64, see `slide`
    attribute : int64[k], of each kept sum, -1 for none; counted : bool[k], whether it counts values
    own : int64[averages], the number of the sum that each average is made of
    """

    w: int
    limit: int
    target: float
    max_tuples: int
    attribute: np.ndarray
    counted: np.ndarray
    own: np.ndarray


class Arrivals(NamedTuple):
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


class Answers(NamedTuple):
    """After each of n arrivals, written: tuples held, int64[n]; MOMENTS[k, n] of the kept sums;
    float64[averages, n, 3], see `slide_average`."""

    held: np.ndarray
    moments: np.ndarray
    averages: np.ndarray


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
def _missing(offsets, value):
    """How many tuples before each position have an alternative without value: int64[n + 1]."""
    missing = np.zeros(offsets.size, dtype=np.int64)
    for i in range(offsets.size - 1):
        gap = False
        for a in range(offsets[i], offsets[i + 1]):
            gap = gap or np.isnan(value[a])
        missing[i + 1] = missing[i] + gap
    return missing


@compiled
def _heads(window, group, offsets, prob, asked):
    """Position of the oldest tuple held after each arrival; less of them for want of room."""
    before = group.indices.size
    window.marks[0] = np.zeros(1, MARKS)[0]
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
    done = slide(window, existence, np.int64(0), asked.w, asked.target, asked.max_tuples, starts)
    return starts[:done] - (group.marks[0] - before)


@compiled
def _before(tuples, arrivals):
    """The tuples without the last so many of them."""
    offsets = tuples.offsets[: tuples.offsets.size - arrivals]
    return HeldTuples(offsets, tuples.prob, tuples.value, tuples.first)


@compiled
def _move_moments(state, tuples, heads, memo, asked, out):
    """Answers of one sum from its memo (middle, reference, ratio) on; its next memo, whose middle
    is -1 for want of room."""
    marks, reals, (middle, reference, ratio) = state.marks[0], state.reals[0], memo
    marks.built = 0
    if middle >= 0:
        reals.reference, reals.ratio = reference, ratio
        held = _before(tuples, heads.size)
        if not resume_moments(state, held, max(middle - tuples.first, 0), asked.w):
            return -1, 0.0, 0.0
    laws = CountLaws(np.empty(0, np.int64), np.empty(0), np.empty(0))
    done = slide_moments(state, tuples, heads, np.int64(0), asked.w, asked.limit, out, laws)
    if done < heads.size:
        return -1, 0.0, 0.0
    return marks.mid, reals.reference, reals.ratio


@compiled
def _move_average(state, tuples, heads, memo, w, moved, out):
    """Answers of one average from its memo (middle and reference of its sum, grown) on; False for
    want of room. Its next memo is in `state`."""
    middle, reference, grown = memo
    state.marks[0].built = 0
    if middle >= 0:
        held, position = _before(tuples, heads.size), max(middle - tuples.first, 0)
        if not resume_average(state, held, position, reference, w, grown):
            return False
    missing = _missing(tuples.offsets, tuples.value)
    done = slide_average(state, tuples, heads, np.int64(0), w, missing, moved, out)
    return done == heads.size


@compiled
def _move_values(scratch, asked, group, tuples, heads, answers, begin):
    """Answers of all sums and averages of a group, and what their next memo is: memo and numbers
    of `Group`; no memo for want of room.

    tuples : (offsets, prob, values, stream index of position 0)
    answers : Answers, this group's from `begin` on
    """
    until = begin + heads.size
    offsets, prob, values, first = tuples
    sums, averages = asked.attribute.size, asked.own.size
    memo = np.empty(sums + averages + averages * scratch.average.grown.size, np.int64)
    numbers, none = np.empty(2 * sums), np.empty(0, np.int64)
    for k in range(sums):
        of = HeldTuples(offsets, prob, _column(asked, k, values), first)
        old = group.memo[k], group.numbers[2 * k], group.numbers[2 * k + 1]
        memo[k], numbers[2 * k], numbers[2 * k + 1] = _move_moments(
            scratch.moments, of, heads, old, asked, answers.moments[k, begin:until]
        )
        if memo[k] < 0:
            return none, numbers
    end, at = sums + averages, sums + averages
    for j in range(averages):
        k, size = asked.own[j], group.memo[sums + j]
        of = HeldTuples(offsets, prob, _column(asked, k, values), first)
        grown = group.memo[at : at + size].reshape(size // 2, 2)
        at += size
        state, old = scratch.average, (group.memo[k], group.numbers[2 * k], grown)
        moved, out = answers.moments[k, begin:until], answers.averages[j, begin:until]
        if not _move_average(state, of, heads, old, asked.w, moved, out):
            return none, numbers
        count = state.marks[0].grown
        memo[sums + j] = 2 * count
        for i in range(count):
            memo[end + 2 * i], memo[end + 2 * i + 1] = state.grown[i, 0], state.grown[i, 1]
        end += 2 * count
    return memo[:end], numbers


@compiled
def _kept(window, group, tuples, head, memo, numbers):
    """The group after its arrivals: of its tuples those from position `head` on."""
    marks, (offsets, prob, values, _) = window.marks[0], tuples
    begin, columns = offsets[head], values.shape[0]
    flat = np.empty((prob.size - begin) * columns)
    for a in range(begin, prob.size):
        for c in range(columns):
            flat[(a - begin) * columns + c] = values[c, a]
    return Group(
        np.array([marks.arrived, marks.overflow, marks.short]),
        window.at[marks.head : marks.tail], offsets[head:] - begin, memo, group.sums,
        window.held[marks.head : marks.tail], prob[begin:], flat, numbers,
    )  # fmt: skip


@compiled
def move_windows(scratch, asked, arrivals, old, new, answers, first):
    """Groups from number `first` on, moved by their arrivals, as far as `scratch` has room.

    old, new : Packed, each group before and, written, after; at least one arrival comes to each
    answers : Answers, written, to the arrivals group by group
    Returns the number of the group reached, all or the first one not done for want of room (sizes
    in the marks of `scratch`), and how many tuples `max_tuples` evicted from those done.
    Cost: that of `slide`, of `slide_moments` for each sum and of `slide_average` for each average,
    and of building the laws of all tuples held before: O(held * band) for each of them.
    Error, source: theirs; the answers are the same to the last bit.
    """
    groups, overflow, steps = arrivals.begin.size - 1, 0, np.int64(0)
    for j in range(first, groups):
        steps = after_signals(steps + 4096)
        group = unpacked(old.array[old.begin[j] : old.begin[j + 1]])
        before, begin = group.indices.size, arrivals.begin[j]
        offsets, prob, values = _joined(group, arrivals, j)
        heads = _heads(scratch.window, group, offsets, prob, asked)
        if before + heads.size < offsets.size - 1:
            return j, overflow
        tuples = offsets, prob, values, group.marks[0] - before
        memo, numbers = _move_values(scratch, asked, group, tuples, heads, answers, begin)
        if memo.size == 0:
            return j, overflow
        for t in range(heads.size):
            answers.held[begin + t] = before + 1 + t - heads[t]
        after = _kept(scratch.window, group, tuples, heads[-1], memo, numbers)
        new.begin[j + 1] = pack(after, new.array, new.begin[j])
        overflow += after.marks[1] - group.marks[1]
    return groups, overflow
