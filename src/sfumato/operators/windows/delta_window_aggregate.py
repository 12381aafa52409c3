"""Aggregates over attribute-delta windows of uncertain tuples, with one window per group."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows.count.count_groups import PackedTuples
from sfumato.kernels.windows.delta_window import (
    STACK_HEADER,
    STRIDE,
    DeltaRule,
    DeltaTuples,
    PartialStacks,
    slide_delta,
)
from sfumato.operators.arguments import NO_LIMIT
from sfumato.operators.arrays import Ints, grouped, ranges_of
from sfumato.operators.distributions.aggregate import Aggregate, WindowAnswers
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.distributions.independent_distribution import check_aggregates, results_of
from sfumato.operators.distributions.moment_channels import Channels
from sfumato.operators.state.declared import Part, Value
from sfumato.operators.state.stateful import Operator
from sfumato.operators.state.tuple_batch import TupleBatch, checked_alternatives, codes
from sfumato.operators.windows.count.group_store import GroupStore
from sfumato.windows import Delta


@dataclass(frozen=True)
class DeltaWindowConfig:
    """Arguments of a `DeltaWindowAggregate`."""

    delta: float
    on: int
    aggregates: tuple[Aggregate, ...]
    threshold: float = 0.5
    max_tuples: int | None = None
    attributes: int | None = None
    options: DistributionOptions = field(default_factory=DistributionOptions)

    def __post_init__(self) -> None:
        check_aggregates(self)
        object.__setattr__(self, "attributes", max(self.attributes or 0, self.on + 1))
        Delta(self.delta, f"attribute {self.on}", self.threshold, self.max_tuples)


class DeltaWindowAggregate(Operator):
    """Aggregates over the newest tuples of a group, none of which is too far from the oldest.

    delta : float >= 0    on : int, attribute on which distances are measured
    threshold : in (0, 1]    max_tuples : int >= 1 or None; `overflow` counts its evictions
    attributes : number of columns of `values`; by default as required by `on` and the aggregates
    options : quantiles, distribution, seed, samples, see `DistributionOptions`

    An arrival enters its group's window; then the oldest tuple is evicted while
        Pr(broken) = sum over its alternatives k of Pr(k | it exists)
                     * (1 - product over the other tuples y of (1 - Pr(y exists, |y - k| > delta)))
    is at least `threshold`. The product is over all held tuples, not only the newest. The sum over
    alternatives preserves the dependence of all distances on the oldest tuple's value. A missing
    value (NaN) is close to every value. A tuple without alternatives does not enter; its answer
    describes the current window.

    Cost: O(l log l) per arrival with l alternatives, and O(held * l log l) per call and group with
    an eviction. Moments cost O(1), or about 100 nodes for an average if tuples may not exist; min
    and max move O(held) integers. Distributions, if requested, are recomputed for each arrival.
    Memory: the held tuples.  Source: Dallachiesa et al. (2015), section 8.1.
    """

    kind, version = "delta_window_aggregate", 6
    flattened_records = ("options",)
    config: DeltaWindowConfig
    state = {"overflow": Value(low=0), "store": Part()}

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        config = self.config
        self.aggregates, self.options = config.aggregates, config.options
        self.attributes = config.attributes or 0
        self._channels = Channels(self.aggregates)
        self._measures = self._channels.measures
        most = NO_LIMIT if config.max_tuples is None else min(config.max_tuples, NO_LIMIT)
        self._rule = DeltaRule(config.on, float(config.delta), float(config.threshold), most)
        self._stacks = PartialStacks(*[self._channels.empty_partials(0, False)] * 3)
        self._has_uncertain = False
        self.store = GroupStore(self.attributes, 1, 0)  # the integer: tuples in a window's front
        self.overflow = 0  # tuples of all groups evicted so far only because of `max_tuples`

    def process(
        self,
        group: npt.ArrayLike,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
    ) -> WindowAnswers:
        """Process n arrivals in order. Returns the answers after each arrival.

        group : int64[n] >= 0, codes
        offsets : int64[n + 1], prob : float64[m], values : float64[m, a] (NaN for no value)
        Raises TypeError or ValueError, with state unchanged, for inconsistent arrays.
        """
        n = np.asarray(offsets).size - 1
        group = codes("group", group, n)
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        order, starts, present = grouped(group)
        enters, slots = np.diff(offsets) > 0, self.store.slots(present.tolist())
        if not enters.all():
            entering = TupleBatch(offsets, prob, table, group).take(enters)
            offsets, prob, table = entering.offsets, entering.prob, entering.values
        places = (np.cumsum(enters) - 1)[order[enters[order]]]  # among the entering tuples
        cuts = np.append(0, np.cumsum(enters[order]))[starts]
        groups = self.store.join(slots, PackedTuples(offsets, prob, table), places, cuts)
        index = ranges_of(groups.first, np.diff(groups.begin))[1]
        tuples, bounds = TupleBatch(*groups.tuples, index), np.empty((2, n), np.int64)
        moments = np.full((len(self.aggregates), 3, n), np.nan)
        heads, fronts = np.empty(slots.size, np.int64), self.store.integers[0, slots]
        for j, begin in enumerate(groups.begin[:-1].tolist()):
            rows = order[starts[j] : starts[j + 1]]
            own = tuples.part(begin, int(groups.begin[j + 1]), copy=slots.size > 1)
            heads[j], fronts[j], inside, answers = self._slide(own, fronts[j], enters[rows])
            bounds[:, rows], moments[:, :, rows] = begin + inside, answers
        self.store.integers[0, slots] = fronts
        self.store.keep(slots, groups, heads)
        results = results_of(
            self.aggregates, self.options, moments, np.arange(n),
            lambda row: tuples.part(*bounds[:, row].tolist()),
        )  # fmt: skip
        return WindowAnswers(bounds[1] - bounds[0], results)

    def _slide(self, tuples: TupleBatch, front: int, enters: Any) -> tuple[int, int, Ints, Any]:
        """Process the arrivals of a group; `tuples` are its held tuples, then new tuples.

        Returns the position of the oldest held tuple, the number of tuples in the front, the bounds
        of windows, int64[2, n], and moments, float64[r, 3, n].
        """
        per_tuple, uncertain = self._channels.tuple_moments(tuples)
        owner = np.arange(tuples.size)
        if tuples.prob.size != tuples.size:
            owner = np.repeat(owner, np.diff(tuples.offsets))
        rest = np.ones(tuples.size)
        parts = DeltaTuples(tuples.offsets, tuples.prob, tuples.values, owner, per_tuple, rest)
        bounds = np.empty((2, enters.size), np.int64)
        answers = np.full((len(self.aggregates), 3, enters.size), np.nan)
        held = tuples.size - np.count_nonzero(enters)
        state = np.array([(0, max(front, 0), held, -1)], STACK_HEADER)
        scratch = self._scratch_stacks(tuples.size, uncertain)
        self.overflow += slide_delta(
            parts, state, enters, self._rule, self._measures, scratch, bounds, answers
        )
        head, middle, _, _ = state[0].tolist()
        return head, middle - head, bounds, answers

    def _scratch_stacks(self, tuples: int, uncertain: bool) -> PartialStacks:
        """Return scratch partials for a number of tuples, with nodes once tuples are uncertain."""
        strides, nodes = tuples // STRIDE + 1, uncertain or self._has_uncertain
        if len(self._stacks.kept.sums) < strides or nodes != self._has_uncertain:
            self._has_uncertain, build = nodes, self._channels.empty_partials
            self._stacks = PartialStacks(
                build(2 * strides, nodes), build(STRIDE, nodes), build(1, True)
            )
        return self._stacks

    def forget(self, codes: npt.ArrayLike) -> None:
        """Delete groups whose input has ended; unknown codes are ignored."""
        self.store.forget(codes)

    def after_loading(self) -> None:
        groups = self.store.saved
        if (groups.integers[0] > groups.held).any():
            raise ValueError("the front of a window must be among its tuples")
