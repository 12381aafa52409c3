"""Aggregates over attribute-delta windows of uncertain tuples, one window a group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows.delta_window import DeltaRule
from sfumato.operators.arguments import NO_LIMIT
from sfumato.operators.arrays import by_code
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.independent_law import LawfulResults, checked_aggregates
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.tuple_batch import TupleBatch, checked_alternatives, codes
from sfumato.operators.windows.delta_group import DeltaGroup
from sfumato.operators.windows.grouped_windows import GroupedWindows, WindowAnswers
from sfumato.windows import Delta


@dataclass(frozen=True)
class DeltaWindowConfig:
    """Arguments of a `DeltaWindowAggregate`; see there."""

    delta: float
    on: int
    aggregates: tuple[Aggregate, ...]
    threshold: float
    max_tuples: int | None
    attributes: int
    options: LawOptions

    def __post_init__(self) -> None:
        Delta(self.delta, f"attribute {self.on}", self.threshold, self.max_tuples)


class DeltaWindowAggregate(GroupedWindows):
    """Aggregates over the newest tuples of a group, as long as none is too far from the oldest.

    delta : float >= 0    on : int, the attribute whose distance counts
    aggregates : what is measured, over all tuples held
    threshold : in (0, 1]    max_tuples : int >= 1 or None; evictions by it count as `overflow`
    attributes : columns of `values` (None: as many as `on` and the aggregates need)
    options : quantiles, distribution, seed, samples, see `LawOptions`

    An arrival enters its group's window; then the oldest tuple is evicted while
        Pr(broken) = sum over its alternatives k of Pr(k | it exists)
                     * (1 - product over the other tuples y of (1 - Pr(y exists, |y - k| > delta)))
    is at least `threshold`. So all tuples held that violate the invariant count, not only the
    newest, and what they have in common, the oldest one's value, is not averaged out. A missing
    value (NaN) is not far from anything. A tuple without alternatives does not enter; its answer is
    that of the window as it stands.

    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Guarantee: mean and standard deviation are exact (see `mergeable_moments`, `extreme_law`),
    quantiles and distributions as `law_of` says; evictions but for rounding of Pr(broken).
    Cost: to find who violates, O(l**2) an arrival and O(held * l**2) an eviction for l
    alternatives; moments O(1) (some 100 nodes if an average is asked for and tuples may not exist);
    min and max O(held) moves of integers; laws, where asked for, anew for each arrival.
    Memory: the tuples held, and some 20 bytes an attribute and tuple (350 with an average over
    uncertain existence).
    Raises ValueError or TypeError for arguments out of range.  Source: A, section 8.1.

    >>> window = DeltaWindowAggregate(2.0, 0, [Aggregate("sum", 0)])
    >>> answers = window.process(np.zeros(3, int), np.arange(4), np.array([1.0, 0.5, 1.0]),
    ...                          np.array([[1.0], [4.0], [2.0]]))
    >>> answers.held.tolist(), answers.results[0].mean.tolist()
    ([1, 1, 2], [1.0, 2.0, 4.0])
    """

    kind, version = "delta_window_aggregate", 3
    config: DeltaWindowConfig

    def __init__(
        self,
        delta: float,
        on: int,
        aggregates: Sequence[Aggregate],
        *,
        threshold: float = 0.5,
        max_tuples: int | None = None,
        attributes: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(on, bool) or not isinstance(on, int) or on < 0:
            raise TypeError(f"`on` must be the number of an attribute, from 0; got {on!r}")
        self.attributes = max(checked_aggregates(aggregates, attributes), on + 1)
        self.aggregates, self.options = list(aggregates), LawOptions(**options)
        self.config = DeltaWindowConfig(
            delta, on, tuple(aggregates), threshold, max_tuples, self.attributes, self.options
        )
        self._channels = Channels(self.aggregates)
        most = NO_LIMIT if max_tuples is None else max_tuples
        self._rule = DeltaRule(on, float(delta), float(threshold), most)

    def process(
        self,
        group: npt.ArrayLike,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
    ) -> WindowAnswers:
        """Take n arrivals in order; the answers after each.

        group : int64[n] >= 0, codes    offsets : int64[n + 1], prob : float64[m],
        values : float64[m, a], alternatives; NaN: no value
        Raises TypeError or ValueError, with nothing taken, for arrays that do not fit.
        """
        n = np.asarray(offsets).size - 1
        group = codes("group", group, n)
        if n and group.min() < 0:
            raise ValueError(f"`group` must hold codes 0, 1, 2, ...; got {group.min()}")
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        batch = TupleBatch(offsets, prob, table, np.zeros(n, np.int64))
        held = np.empty(n, np.int64)
        moments = np.full((len(self.aggregates), 3, n), np.nan)
        results = LawfulResults(self.aggregates, self.options, moments)
        for code, places in by_code(group):
            window = self._group(code)
            overflow = window.evicted
            (first, end), answers = window.extend(batch.take(places))
            self.overflow += window.evicted - overflow
            held[places], moments[:, :, places] = end - first, answers
            if results.lawful:
                for place, low, high in zip(places, first, end, strict=True):
                    results.put(place, window.members(low, high))
        return WindowAnswers(held, results.measured(np.arange(n)))

    def _new_group(self) -> DeltaGroup:
        return DeltaGroup(self._rule, self._channels, self.attributes)
