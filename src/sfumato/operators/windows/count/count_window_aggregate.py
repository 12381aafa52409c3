"""Aggregates over uncertain count windows: one answer for every arriving tuple."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.laws.tuples import existences
from sfumato.operators.arguments import EXCESS
from sfumato.operators.arrays import Floats, Ints, by_code, chosen, offsets_of
from sfumato.operators.laws.aggregate import Aggregate, Measured
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.independent_law import checked_aggregates
from sfumato.operators.state.declared import Array, Offsets, Part
from sfumato.operators.state.tuple_batch import check_held, checked_alternatives
from sfumato.operators.windows.count.moving_aggregates import BatchResult, Kept, MovingAggregates
from sfumato.operators.windows.count.short_windows import ShortWindows
from sfumato.operators.windows.count.window_laws import WindowArrivals
from sfumato.operators.windows.grouped_windows import (
    GroupedWindows,
    RestingGroup,
    WindowAnswers,
    packed,
    unpacked,
)
from sfumato.operators.windows.uncertain_window import HeldExistence, UncertainWindow


class WindowGroup(RestingGroup):
    """One group's window, the tuples it holds, and what every arrival updates."""

    state = {
        "window": Part(),
        "offsets": Offsets("held", "alternatives"),
        "prob": Array(float, "alternatives", low=0.0),
        "values": Array(float, "alternatives", "attributes"),
        "memo": Array(int, None),
        "numbers": Array(float, None),
    }

    def __init__(self, window: UncertainWindow, attributes: int, moving: MovingAggregates) -> None:
        self.window, self.moving, self._attributes = window, moving, attributes
        self._begin()

    def _begin(self) -> None:
        self.offsets: Ints = np.zeros(1, np.int64)
        self.prob: Floats = np.empty(0)
        self.values: Floats = np.empty((0, self._attributes))
        self.memo: Ints = np.empty(0, np.int64)  # of `moving`, to be saved
        self.numbers: Floats = np.empty(0)
        self._moved = True  # since the memo was taken

    def lengths(self) -> dict[str, int]:
        return {"attributes": self._attributes}

    def before_saving(self) -> None:
        if self._moved:
            (self.memo, self.numbers), self._moved = self.moving.memo, False

    def after_loading(self) -> None:
        check_held(self.offsets, self.prob, self.values)
        if not np.array_equal(self.window.indices, np.arange(self.first, self.window.arrived)):
            raise ValueError("the window must hold its newest tuples, and their alternatives")
        self._resume()  # raises for what is damaged

    def _resume(self) -> None:
        none = np.empty(0, np.int64)
        held = WindowArrivals(self.offsets, self.prob, self.values, self.first, 0, none)
        self.moving.resume((self.memo, self.numbers), held)
        self._moved = False

    def rest(self) -> Ints:
        self.before_saving()
        window = self.window.saved
        marks = np.array([window.arrived, window.overflow, window.short])
        reals = window.sums, window.existence, self.prob, self.values.ravel(), self.numbers
        rested = packed((marks, window.indices, self.offsets, self.memo), reals)
        self.window.clear()
        self.moving.clear()
        self._begin()
        return rested

    def recall(self, rested: Ints) -> None:
        (marks, indices, self.offsets, self.memo), reals = unpacked(rested, 4, 5)
        sums, existence, self.prob, values, self.numbers = reals
        self.values = values.reshape(self.prob.size, self._attributes)
        self.window.recall(HeldExistence(existence, indices, sums, *marks.tolist()))
        self._moved = False

    def wake(self, rested: Ints) -> None:
        self.recall(rested)
        self._resume()

    @property
    def first(self) -> int:
        """Stream index of the oldest tuple held, or of the next to come."""
        return self.window.arrived - (self.offsets.size - 1)

    def keep(self, a: WindowArrivals) -> None:
        """Only what the window still holds."""
        head = int(a.heads[-1])
        begin = int(a.offsets[head])
        self.offsets = a.offsets[head:] - begin
        self.prob, self.values = a.prob[begin:].copy(), a.values[begin:].copy()
        self._moved = True


MOST_BYTES = 128_000_000  # of the sampled worlds of all groups


@dataclass(frozen=True)
class CountWindowConfig:
    """Arguments of a `CountWindowAggregate`; see there."""

    rows: int
    confidence: float
    aggregates: tuple[Aggregate, ...]
    max_tuples: int | None
    method: str
    options: LawOptions

    def __post_init__(self) -> None:
        UncertainWindow(self.rows, self.confidence, method=self.method, max_tuples=self.max_tuples)
        checked_aggregates(self.aggregates, None)


class CountWindowAggregate(GroupedWindows):
    """Aggregates over the `rows` newest existing tuples held by W(U, w, alpha), group by group.

    rows, confidence, max_tuples, method : the window, see UncertainWindow
    aggregates : what is asked for
    options : quantiles, distribution, seed, samples, see `LawOptions`

    An answer is over the `rows` newest existing tuples among those held, exactly: what was evicted
    before was so with the stated confidence. Means and standard deviations of count, sum, avg,
    min and max are exact; laws (quantiles and distributions) of count, min and max are too, those
    of sum and avg while they have at most 4,096 states, of quantile for small windows; beyond,
    `samples` worlds are drawn from (seed, index of the tuple in its group) and `error` is given.
    A law of sum, avg or count of an attribute that had too many states is tried again once all
    tuples held then have left.
    Answers do not depend on how arrivals are split into calls, nor on snapshot and restore.

    Outcomes of a law rarer than 1e-15 may be left out; equal sums are those within 1e-12.

    Cost an arrival: sum, count and avg O(sqrt(rows)) amortised; boundary_sum O(1); min and max,
    laws included, O(c^2 + c sqrt(rows)) amortised, c the number of most extreme values down to a
    probability of 1e-17, some dozens at ordinary existences (O(c^2 sqrt(rows)) where tuples have
    several alternatives among them); avg O(held * rows * g) while g tuples with a NaN are held;
    laws of count O(rows); sampled worlds O(samples log samples) amortised, whatever `rows`; laws
    that are exact because they are small are computed anew: sum and avg O(held * 4,096 states) at
    most, quantile 4 million cell updates. Of more than AWAKE groups those with the latest arrivals
    are kept ready; an arrival at another one costs one more look at all tuples that it holds. So
    does a call for each of its groups, and no more than that, where windows are short and only
    sums, counts and averages are asked (see `ShortWindows`): all these groups rest.

    Raises ValueError for arguments outside these ranges.
    Source: A, sections 4 and 7.3, for windows and boundary_sum; the rest this project.

    >>> total = CountWindowAggregate(2, 0.7, [Aggregate("sum", 0)])
    >>> answers = total.process([0, 0, 0], [0, 1, 2, 3], [1.0, 0.5, 1.0], [[8.0], [4.0], [2.0]])
    >>> answers.results[0].mean.tolist(), answers.results[0].stddev.tolist()
    ([8.0, 10.0, 8.0], [0.0, 2.0, 2.0])
    """

    kind, version = "count_window_aggregate", 5
    config: CountWindowConfig

    def __init__(
        self,
        rows: int,
        confidence: float,
        aggregates: Sequence[Aggregate],
        *,
        max_tuples: int | None = None,
        method: str = "exact",
        **options: Any,
    ) -> None:
        super().__init__()
        self.options = LawOptions(**options)
        self.config = CountWindowConfig(
            rows, confidence, tuple(aggregates), max_tuples, method, self.options
        )
        self.rows, self.aggregates = rows, list(aggregates)
        self.attributes = checked_aggregates(aggregates, None)  # so many of `values` count
        self._kept = Kept.of(self.aggregates, self.options.laws)
        self._budget = WorldBudget()

    def process(
        self,
        codes: npt.ArrayLike,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
    ) -> WindowAnswers:
        """Take n tuples in order; their windows' answers once each has entered.

        codes : int64[n] >= 0, the tuples' groups; offsets : int64[n + 1], where each tuple's
        alternatives begin; prob : float64[m]; values : float64[m, a], NaN for no value
        Raises TypeError or ValueError, with nothing taken, for arrays that do not fit together,
        probabilities outside (0, 1], or sums of them above 1 + 1e-9.
        """
        group_of, *batch = self._checked(codes, offsets, prob, values)
        held, parts, orders = np.zeros(group_of.size, np.int64), [], []
        together: dict[int, Ints] = {}
        for code, rows in by_code(group_of):
            if self._moves_together(code):
                together[code] = rows
                continue
            group: WindowGroup = self._group(code)
            begins, flat = chosen(batch[0], rows)
            held[rows], answers = self._extend(group, begins, batch[1][flat], batch[2][flat])
            self._budget.arrived(code, group.moving)
            parts.append(answers)
            orders.append(rows)
        if together:
            orders.append(np.concatenate(list(together.values())))
            held[orders[-1]], answers = self._extend_together(together, orders[-1], batch)
            parts.append(answers)
        if not parts:
            return WindowAnswers(held, [self.options.nothing() for _ in self.aggregates])
        order = np.concatenate(orders)
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        measured = [Measured.joined(of).take(back) for of in zip(*parts, strict=True)]
        return WindowAnswers(held, measured)

    def _new_group(self) -> WindowGroup:
        given = self.config
        window = UncertainWindow(
            given.rows, given.confidence, method=given.method, max_tuples=given.max_tuples
        )
        limit = min(self.rows, given.max_tuples or self.rows)
        moving = MovingAggregates(self._kept, self.rows, limit, self.options)
        return WindowGroup(window, self.attributes, moving)

    def _rests(self, code: int) -> None:
        self._budget.forget(code)

    def _extend(
        self, group: WindowGroup, offsets: Ints, prob: Floats, values: Floats
    ) -> tuple[Ints, list[Measured]]:
        """Held counts and answers after each of one group's arrivals."""
        first, before, overflow = group.first, group.offsets.size - 1, group.window.overflow
        starts = group.window.extend(existences(offsets, prob))
        self.overflow += group.window.overflow - overflow
        arrivals = WindowArrivals(
            np.concatenate([group.offsets, group.offsets[-1] + offsets[1:]]),
            np.concatenate([group.prob, prob]),
            np.concatenate([group.values, values]),
            first,
            before,
            starts - first,
        )
        moved = group.moving.extend(arrivals)
        measured = self._measured(moved)
        group.keep(arrivals)
        heads = arrivals.heads
        return before + 1 + np.arange(heads.size) - heads, measured

    def _moves_together(self, code: int) -> bool:
        """True if a group is new or at rest, and need not be made ready."""
        if self._short is None:
            return False
        group = self._groups.get(code, self._fresh)
        return isinstance(group, np.ndarray) and self._short.takes(group)

    def _extend_together(
        self, groups: dict[int, Ints], rows: Ints, batch: list[Any]
    ) -> tuple[Ints, list[Measured]]:
        """Held counts and answers after each arrival of some groups; rows : theirs, in turn."""
        assert self._short is not None
        rested = [self._groups.get(code, self._fresh) for code in groups]
        begin = offsets_of([own.size for own in groups.values()])
        moved = self._short.extend(rested, begin, rows, batch)
        self._groups.update(zip(groups, moved.groups, strict=True))
        self.overflow += moved.overflow
        return moved.held, self._measured(BatchResult(moved.moments, {}))

    def _measured(self, moved: BatchResult) -> list[Measured]:
        measured = {
            of: self.options.measured(moved.moments.get(of), moved.laws.get(of))
            for of in dict.fromkeys(self.aggregates)
        }
        return [measured[of] for of in self.aggregates]

    @cached_property
    def _short(self) -> ShortWindows | None:
        """Return what moves groups together, if these windows are short enough for it."""
        given = self.config
        if not ShortWindows.serves(self.rows, given.method, self._kept):
            return None
        return ShortWindows(self.rows, given.confidence, given.max_tuples, self._kept)

    @cached_property
    def _fresh(self) -> Ints:
        """A group that has seen nothing, at rest."""
        return self._new_group().rest()

    def _checked(self, code: Any, offsets: Any, prob: Any, values: Any) -> tuple:
        code = np.require(code, np.int64, ["C", "W"])
        if code.ndim != 1 or code.min(initial=0) < 0:
            raise ValueError("`codes` must be an array [n] of group numbers from 0")
        offsets, prob, table = checked_alternatives(
            code.size, offsets, prob, values, self.attributes
        )
        if (np.diff(offsets) < 1).any():
            raise ValueError("`offsets` must rise: every tuple has alternatives")
        if code.size and (np.add.reduceat(prob, offsets[:-1]) > 1.0 + EXCESS).any():
            raise ValueError("`prob` of a tuple's alternatives must add up to at most 1")
        if np.isinf(table).any():
            raise ValueError("`values` must be finite, or NaN for no value; got an infinite one")
        return code, offsets, np.minimum(prob, 1.0), table.T


class WorldBudget:
    """Forgets the worlds of groups that had no arrival for longest, beyond MOST_BYTES.

    No answer depends on it: worlds that are begun anew are the same.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[MovingAggregates, int]] = {}  # by group, latest arrival last
        self._bytes = 0

    def forget(self, code: int) -> None:
        """A group is no more."""
        self._bytes -= self._kept.pop(code, (None, 0))[1]

    def arrived(self, code: int, moving: MovingAggregates) -> None:
        """A group has had arrivals."""
        self._bytes -= self._kept.pop(code, (moving, 0))[1]
        size = moving.world_bytes
        if size:
            self._kept[code] = moving, size
            self._bytes += size
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            oldest, size = self._kept.pop(next(iter(self._kept)))
            oldest.forget_worlds()
            self._bytes -= size
