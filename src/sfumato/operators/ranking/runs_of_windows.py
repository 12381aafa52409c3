"""The runs of several windows of one timetable, window by window."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sfumato.operators.arrays import Bools, Ints, offsets_of, spans
from sfumato.operators.ranking.schedule import Due, Schedule

MANY = 16  # runs an arrival: of more most find nothing, and are skipped one gap after the other


class Runs(NamedTuple):
    """r runs of w windows.

    begin : int64[w + 1], window j's are those at begin[j] ... begin[j + 1], in order of time
    owner, time : int64[r];  place : int64[r], which of `dues` it is, whatever time that has
    after : int64[w], when each window's next run comes behind these
    """

    begin: Ints
    owner: Ints
    time: Ints
    place: Ints
    after: Ints
    dues: list[Due]


def few(schedules: Sequence[Schedule], last: Ints, arrivals: Ints) -> Bools:
    """bool[w]: of which schedules, all alike, few runs come up to `last` (int64[w]), beside so many
    arrivals."""
    begin, end = _numbers(schedules, last)
    return end - begin <= MANY * (arrivals + 16)


def runs_of(schedules: Sequence[Schedule], last: Ints) -> Runs:
    """Their runs up to `last`, none of them taken yet, where schedules are alike."""
    table = schedules[0].table
    assert table is not None
    begin, end = _numbers(schedules, last)
    origin = np.array([schedule.origin for schedule in schedules])
    sizes = end - begin
    _, numbers = spans(begin, sizes)
    times, groups = table.runs_at(numbers)
    present = np.flatnonzero(np.bincount(groups))
    dues = [schedules[0].live_of(group) for group in present.tolist()]
    return Runs(
        begin=offsets_of(sizes),
        owner=np.repeat(np.arange(sizes.size), sizes),
        time=np.repeat(origin, sizes) + times,
        place=np.searchsorted(present, groups),
        after=origin + table.runs_at(end)[0],
        dues=[due for due in dues if due],  # all: a steady timetable has no run for nobody
    )


def _numbers(schedules: Sequence[Schedule], last: Ints) -> tuple[Ints, Ints]:
    table = schedules[0].table
    assert table is not None
    origin = np.array([schedule.origin for schedule in schedules])
    clock = np.array([schedule.clock for schedule in schedules])
    return table.count_until(clock - origin), table.count_until(np.maximum(last, clock) - origin)
