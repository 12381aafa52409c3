"""Readings whose values hold until the next reading, for time-weighted aggregates."""

from collections.abc import Callable, Sequence

import numpy as np

from sfumato.kernels.distributions.tuples import tuple_moments
from sfumato.kernels.windows import time_weighted
from sfumato.kernels.windows.extents import NO_EXTENT, NO_INDEX, ReleasedRows
from sfumato.kernels.windows.time_weighted import (
    READING_EXISTENCE,
    READING_FIRST_WINDOW,
    READING_MEAN,
    READING_SERIES,
    READING_TIME,
    READING_VARIANCE,
    TimeWindows,
)
from sfumato.operators.arguments import MAX_ABS_VALUE
from sfumato.operators.arrays import Floats, Ints, Records, sorted_by
from sfumato.operators.distributions.aggregate import OVER_TIME, Aggregate
from sfumato.operators.distributions.discrete_distributions import Moments
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful

MIN_FOLDED = 1024  # number of readings above which some are folded


class StepReadings(Stateful):
    """Readings of an `ExtentAggregate` that later extents need.

    aggregates : aggregates of the operator; only aggregates in OVER_TIME are computed

    A series has a group and an attribute. The readings of a series before its first open extent are
    folded into one reading, whose value holds at the start of that extent.
    Memory: 56 bytes per reading. Cost: a sort of the readings when extents are complete.
    """

    state = {"columns": Array(int, 4, "readings"), "values": Array(float, 3, "readings")}

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self.aggregates = [of for of in aggregates if of.function in OVER_TIME]
        self._attributes = sorted({of.attribute or 0 for of in self.aggregates})
        self.columns: Ints = np.empty((4, 0), np.int64)
        self.values: Floats = np.empty((3, 0))
        self._new: list[tuple[Ints, Floats]] = []
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
            self._new.append((columns[:, there], moments[:, stored[there]]))

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
        times = clock(self.columns[READING_TIME])
        for of in self.aggregates:
            series = group * len(self._attributes) + self._attributes.index(of.attribute or 0)
            averaged = np.full(order.size, of.function == "time_avg")
            windows = TimeWindows(series, number, start, end, begin, until, averaged)
            moments = np.empty((order.size, 3))
            moments[order] = time_weighted.time_weighted(windows, self.columns, self.values, times)
            results.append((moments[:, 0], moments[:, 1], moments[:, 2]))
        return results

    def fold(self, bound: Ints, always: bool = False) -> None:
        """Fold the readings before bound, int64[groups], if there are many or `always`."""
        many = self.columns.shape[1] + sum(columns.shape[1] for columns, _ in self._new)
        if not (always or many > 2 * self._folded + MIN_FOLDED):
            return
        self._sort()
        self.values = self.values.copy()
        of = self.columns[READING_SERIES] // max(len(self._attributes), 1)
        kept = time_weighted.fold(bound[of], self.columns, self.values)
        self._keep(kept)
        self._folded = self.columns.shape[1]

    def forget(self, groups: Ints) -> None:
        if self:
            self._sort()
            of = self.columns[READING_SERIES] // len(self._attributes)
            self._keep(~np.isin(of, groups))

    def check(self, groups: int, latest: int) -> None:
        """Raise ValueError for impossible restored readings; `latest` bounds their times."""
        many = groups * len(self._attributes)
        series, time, values = self.columns[READING_SERIES], self.columns[READING_TIME], self.values
        fine = ((series >= 0) & (series < many) & (abs(time) <= latest)).all()
        fine &= ((values[READING_EXISTENCE] > 0.0) & (values[READING_EXISTENCE] <= 1.0)).all()
        fine &= (
            (abs(values[READING_MEAN]) <= MAX_ABS_VALUE) & (values[READING_VARIANCE] >= 0.0)
        ).all()
        if not fine:
            raise ValueError(
                "readings over time must belong to known groups and have possible values"
            )
        self._new, self._folded = [(self.columns, self.values)], series.size
        self.columns, self.values = self.columns[:, :0], self.values[:, :0]

    def _keep(self, kept: np.ndarray) -> None:
        self.columns = np.ascontiguousarray(self.columns[:, kept])
        self.values = np.ascontiguousarray(self.values[:, kept])

    def _sort(self) -> None:
        """Merge the new readings into the sorted readings."""
        if not self._new:
            return
        columns = np.concatenate([self.columns, *(columns for columns, _ in self._new)], axis=1)
        values = np.concatenate([self.values, *(values for _, values in self._new)], axis=1)
        order = sorted_by(list(columns[:READING_FIRST_WINDOW]))
        self.columns = np.ascontiguousarray(columns[:, order])
        self.values = np.ascontiguousarray(values[:, order])
        self._new = []
