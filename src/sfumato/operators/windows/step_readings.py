"""Readings whose values hold until the next reading, for time-weighted aggregates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sfumato.kernels.distributions.tuples import tuple_moments
from sfumato.kernels.windows import time_weighted
from sfumato.kernels.windows.extents import NO_EXTENT, NO_INDEX, ReleasedRows
from sfumato.kernels.windows.time_weighted import (
    READING_EXISTENCE,
    READING_FIRST_WINDOW,
    READING_SERIES,
    READING_TIME,
    TimeWindows,
)
from sfumato.limits import MAX_TIME_US
from sfumato.operators.arguments import MAX_ABS_VALUE
from sfumato.operators.arrays import Floats, Ints, Records, sorted_by
from sfumato.operators.distributions.aggregate import OVER_TIME, Aggregate
from sfumato.operators.distributions.discrete_distributions import Moments
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Record
from sfumato.operators.state.stateful import Stateful

MIN_FOLDED = 1024  # number of readings above which some are folded


@dataclass(frozen=True)
class Readings(Columns, axis=1):
    """Readings as columns, see `kernels.windows.time_weighted`."""

    columns: Annotated[Ints, Array(int, 4, "readings")]
    values: Annotated[Floats, Array(float, 3, "readings")]


class StepReadings(Stateful):
    """Readings of an `ExtentAggregate` that later extents need.

    aggregates : aggregates of the operator; only aggregates in OVER_TIME are computed

    A series has a group and an attribute. The readings of a series before its first open extent are
    folded into one reading, whose value holds at the start of that extent.
    Memory: 56 bytes per reading. Cost: a sort of the readings when extents are complete.
    """

    state = {"sorted": Record(Readings)}

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self.aggregates = [of for of in aggregates if of.function in OVER_TIME]
        self._attributes = sorted({of.attribute or 0 for of in self.aggregates})
        self.sorted = Readings.empty()
        self._new: list[Readings] = []
        self._folded = 0  # number of readings after the last fold

    def __bool__(self) -> bool:
        return bool(self.aggregates)

    def add(self, rows: ReleasedRows, index: Ints, late_rows: Records) -> None:
        """Add the rows with an index. In `late_rows`, tuples are places among these rows."""
        stored, joined = np.flatnonzero(index != NO_INDEX), late_rows["tuple"] != NO_INDEX
        first = np.full(stored.size, NO_EXTENT)
        first[late_rows["tuple"][joined]] = late_rows["first"][joined]
        series = rows.group[stored] * len(self._attributes)
        moments = np.empty((3, rows.time.size))
        for i, attribute in enumerate(self._attributes):
            tuple_moments(rows.offsets, rows.prob, rows.values[attribute], moments)
            columns = np.stack([series + i, rows.time[stored], rows.number[stored], first])
            there = moments[READING_EXISTENCE, stored] > 0.0
            self._new.append(Readings(columns[:, there], moments[:, stored[there]]))

    def results(
        self, found: Records, start: Ints, end: Ints, clock: Callable[[Ints], Ints]
    ) -> list[Moments]:
        """Return the results of extents, for each requested aggregate.

        found : EXTENT[m]    start, end : int64[m]    clock : converts times to microseconds
        """
        self._sort()
        order = sorted_by([found["group"], found["number"]])
        columns = found["group"], found["number"], start, end
        group, number, start, end = (column[order] for column in columns)
        begin, until, results = clock(start), clock(end), []
        readings, values = self.sorted.columns, self.sorted.values
        times = clock(readings[READING_TIME])
        for of in self.aggregates:
            series = group * len(self._attributes) + self._attributes.index(of.attribute or 0)
            averaged = np.full(order.size, of.function == "time_avg")
            windows = TimeWindows(series, number, start, end, begin, until, averaged)
            moments = np.empty((order.size, 3))
            moments[order] = time_weighted.time_weighted(windows, readings, values, times)
            results.append((moments[:, 0], moments[:, 1], moments[:, 2]))
        return results

    def fold(self, bound: Ints, always: bool = False) -> None:
        """Fold the readings before bound, int64[groups], if there are many or `always`."""
        many = sum(part.columns.shape[1] for part in (self.sorted, *self._new))
        if not (always or many > 2 * self._folded + MIN_FOLDED):
            return
        self._sort()
        folded = Readings(self.sorted.columns, self.sorted.values.copy())
        kept = time_weighted.fold(bound[self._groups], folded.columns, folded.values)
        self.sorted = folded.take(kept)
        self._folded = int(kept.sum())

    def forget(self, groups: Ints) -> None:
        if self:
            self._sort()
            self.sorted = self.sorted.take(~np.isin(self._groups, groups))

    def check(self, groups: int) -> None:
        """Raise ValueError for impossible restored readings."""
        (series, time, _, _), (existence, mean, variance) = self.sorted.columns, self.sorted.values
        fine = (series >= 0) & (series < groups * len(self._attributes))
        fine &= (abs(time) <= MAX_TIME_US) & (existence > 0.0) & (existence <= 1.0)
        if not (fine & (abs(mean) <= MAX_ABS_VALUE) & (variance >= 0.0)).all():
            raise ValueError(
                "readings over time must belong to known groups and have possible values"
            )
        self._new, self._folded = [self.sorted], series.size
        self.sorted = Readings.empty()

    @property
    def _groups(self) -> Ints:
        """Groups of the sorted readings."""
        return self.sorted.columns[READING_SERIES] // max(len(self._attributes), 1)

    def _sort(self) -> None:
        """Merge the new readings into the sorted readings."""
        if self._new:
            readings = Readings.concat([self.sorted, *self._new])
            order = sorted_by(list(readings.columns[:READING_FIRST_WINDOW]))
            self.sorted, self._new = readings.take(order), []
