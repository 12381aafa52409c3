"""Aggregates over time extents of uncertain tuples, driven by punctuations."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.mergeable_moments import MomentPartials
from sfumato.kernels.windows import extents, totals
from sfumato.kernels.windows.extents import NO_EXTENT, NO_INDEX, ReleasedRows
from sfumato.limits import MAX_EMPTY_EXTENTS, MAX_TIME_US, check_extents
from sfumato.operators.arguments import check_times, whole
from sfumato.operators.arrays import (
    Floats,
    Ints,
    Records,
    gather_lists,
    offsets_of,
    pad,
    ranges_of,
    resize,
    sorted_by,
)
from sfumato.operators.distributions.aggregate import (
    OVER_TIME,
    TOTALLED,
    Aggregate,
    AggregateResult,
)
from sfumato.operators.distributions.discrete_distributions import (
    OF_VALUES,
    DistributionOptions,
    plain_result,
)
from sfumato.operators.distributions.independent_distribution import check_aggregates, results_of
from sfumato.operators.distributions.moment_channels import EXTREMES, Channels
from sfumato.operators.state.declared import Array, Part, Record, Value
from sfumato.operators.state.stateful import Operator
from sfumato.operators.state.tuple_batch import (
    GroupedBatch,
    TupleBatch,
    check_certain,
    check_held,
    checked_alternatives,
    codes,
)
from sfumato.operators.windows.step_readings import StepReadings

EXTENT_COUNTERS = ("late", "outside", "absent", "out_of_order", "skipped")
NO_SCOPE = np.array((NO_EXTENT,) * 4 + (NO_INDEX,), extents.SCOPE)
NO_LATE_ROW = np.array((NO_INDEX, 0, 0, NO_INDEX, NO_INDEX), extents.LATE_ROW)
NO_GROUP = np.array((NO_INDEX, 0, NO_EXTENT, NO_EXTENT, NO_INDEX, NO_INDEX, 0), extents.GROUP)
NONE = np.empty(0, np.int64)
NO_VERSIONS = extents.Versions(
    NONE, NONE, np.empty(0, extents.ID), np.empty(0, extents.REPLACED), False
)
SAVED_FIELDS = 4  # leading fields that are saved; the others are derived from the tuples
TIME_BOUNDS = {"low": NO_EXTENT, "high": 3 - NO_EXTENT}  # bounds of restored times and extents


@dataclass(frozen=True)
class Extents:
    """Answers for m complete extents, in order of output.

    start, end : int64[m] microseconds; an extent contains the event times in [start, end)
    group : int64[m], codes    held : int64[m], number of tuples
    punctuation : int64[m] microseconds, the punctuation that completed the extent
    late : int64[m], number of the group's rows in the extent that arrived too late to be included
    results : one per aggregate
    offsets, members : int64[m + 1] and int64[k], row numbers of each extent's tuples, counted over
        all rows so far, by pane and arrival, late tuples last; None unless requested
    """

    start: Ints
    end: Ints
    group: Ints
    held: Ints
    punctuation: Ints
    late: Ints
    results: list[AggregateResult]
    offsets: Ints | None = None
    members: Ints | None = None

    def __len__(self) -> int:
        return self.end.size


@dataclass(frozen=True)
class ExtentConfig:
    """Arguments of an `ExtentAggregate`."""

    more_attributes: ClassVar[int] = 0  # beyond the attributes that aggregates need
    length: int
    slide: int
    aggregates: tuple[Aggregate, ...]
    empty: bool = False
    most_empty: int = MAX_EMPTY_EXTENTS
    members: bool = False
    attributes: int | None = None
    certain: bool = False
    options: DistributionOptions = field(default_factory=DistributionOptions)
    earliest: int | None = None

    def __post_init__(self) -> None:
        check_aggregates(self, over_time=True, more=self.more_attributes)
        check_extents(whole("length", self.length), whole("slide", self.slide))
        whole("most_empty", self.most_empty)

    @property
    def plain(self) -> bool:
        """Return whether extents need only the totals of their panes, and no tuples."""
        totalled = all(of.function in (*TOTALLED, *OVER_TIME) for of in self.aggregates)
        others = self.options.has_distributions or self.members
        return self.certain and totalled and not others

    @property
    def gaps(self) -> extents.Gaps:
        """Return the rule for listing extents without a tuple."""
        first = NO_EXTENT
        if self.earliest is not None:
            first = -(-(self.earliest + self.length) // self.slide)
        return extents.Gaps(self.most_empty if self.empty else -1, self.earliest is not None, first)


class ReleasedAggregate(Operator):
    """Base class of aggregates over time windows, for rows in the order of their release.

    attributes : number of columns of `values`
    counts : int64[], by name in EXTENT_COUNTERS    next : number of rows so far
    verdicts : int8[n], on the rows of the last call of `process`
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.attributes: int = self.config.attributes
        self.counts = np.zeros(len(EXTENT_COUNTERS), np.int64)
        self.next = 0
        self.verdicts = np.empty(0, np.int8)

    def process(
        self,
        group: npt.ArrayLike,
        event_time: npt.ArrayLike,
        punctuation: npt.ArrayLike | None,
        late: npt.ArrayLike | None,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
        *,
        scope: npt.ArrayLike | None = None,
    ) -> Extents:
        """Process n rows in the order of their release. Returns the windows that they complete.

        group : int64[n] >= 0, dense codes    event_time : int64[n] microseconds
        punctuation : int64[n] microseconds: for late rows their source's punctuation at arrival,
            for other rows the scope's punctuation at release. None if rows are in event-time order;
            each row then has the punctuation event time - 1
        late : bool[n], by default all False    scope : int64[n] >= 0, dense codes (None: `group`)
        offsets : int64[n + 1], prob : float64[m], values : float64[m, a] (NaN for no value)
        Raises TypeError or ValueError, with state unchanged, for inconsistent arrays.
        """
        n = np.asarray(event_time).size
        group, time = codes("group", group, n), codes("event_time", event_time, n)
        scope = group if scope is None else codes("scope", scope, n)
        check_times("event_time", time)
        forced, flags = NONE, np.zeros(n, bool) if late is None else late
        if punctuation is not None:
            forced = np.minimum(codes("punctuation", punctuation, n), MAX_TIME_US)
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        rows = ReleasedRows(
            group, scope, time, np.arange(n) + self.next, offsets, prob, table, forced,
            np.asarray(flags, bool),
        )  # fmt: skip
        self.verdicts = np.empty(n, np.int8)
        complete, excluded = self._process_rows(rows)
        kinds = np.bincount(self.verdicts, minlength=extents.OUTDATED)
        self.counts += [*kinds[extents.TOO_LATE : extents.OUTDATED], excluded, 0]
        self.next += n
        return complete

    @abstractmethod
    def _process_rows(self, rows: ReleasedRows) -> tuple[Extents, int]:
        """Return the complete windows, and the number of rows that a punctuation had excluded. Also
        writes `verdicts`."""

    @abstractmethod
    def idle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        """Complete all windows that contain a tuple of these scopes, by default of all scopes.

        Rows of these scopes that arrive later, before the end of the last window, are late.
        """

    def flush(self) -> Extents:
        """Complete all windows, at the end of the stream."""
        return self.idle()

    @property
    @abstractmethod
    def held_tuples(self) -> int:
        """Number of held tuples."""

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of rows in total and by kind, of skipped extents, and of held tuples."""
        counts = {name: int(n) for name, n in zip(EXTENT_COUNTERS, self.counts, strict=True)}
        return {"rows": self.next, **counts, "held": self.held_tuples}


class ExtentAggregate(ReleasedAggregate):
    """Aggregates over RANGE windows: extent i is [(i + 1) s - n, (i + 1) s).

    length, slide : int > 0 microseconds, n and s; extents are aligned to time 0
    empty : also emit a group's empty extents between two extents with tuples, just before the later
        of the two and with its punctuation. If a gap has more than `most_empty` extents, they are
        omitted and counted as `skipped`
    earliest : int microseconds or None. If given, `empty` instead emits up to `most_empty` empty
        extents after each extent with tuples, once they are complete, and up to `most_empty` before
        a group's first extent, starting at or after `earliest`. Other empty extents of a gap are
        `skipped`
    members : also emit the row numbers of the extents' tuples
    attributes : number of columns of `values`; by default as the aggregates require
    certain : whether every tuple exists with one value. For counts, sums, averages, minima and
        maxima, only totals of panes are then stored, and no tuples
    clock : converts event times to microseconds, for averages over time; None if they are already
        in microseconds
    options : quantiles, distribution, seed, samples, see `DistributionOptions`

    Rows of a group are aggregated together, and rows of a scope share punctuations; a group stays
    in one scope. An extent is complete when a punctuation is at least its end - 1 and all rows
    released by that punctuation have arrived. Rows that are released together arrive in event-time
    order. An extent is therefore complete at the first row of the scope that is at or after the
    extent's end, or that has a higher punctuation than the one that reached it. An extent is
    emitted once for each group with a tuple in it, in order of completion, then of (end, group).

    - A late row is flagged and has its source's punctuation. The row enters every open extent that
      contains it and ends after that punctuation, and does not complete extents. A row without the
      flag enters every open extent that contains it.
    - For time_avg and integral, which need `slide` <= `length` and have no distributions, a value
      holds until the group's next value. At the start of an extent, the newest earlier value holds,
      except values that arrived too late for all extents.
    - Rows are counted but not stored if they arrived too late for every extent (`late`), are
      between extents (`outside`), or have no alternatives (`absent`; their times still complete
      extents).
    - An on-time row below an earlier punctuation, or with a decreasing punctuation, shows that the
      rows come from several controllers. The row is counted as `out_of_order`.

    Cost: O(1) per tuple (about 100 nodes for an average if the tuple may not exist, a sort of its
    pane for min and max) and O(1) per extent for any overlap (O(n/s) for min and max).
    Distributions, if requested, are computed separately for each extent. A late row costs a merge
    in each extent that it enters. A call visits only groups of scopes with a complete extent.
    Memory: the tuples of one RANGE and one slide, and about 200 bytes per pane, group and attribute
    (10 KB with an average over uncertain existence). If `certain`, about 100 bytes per pane.
    Source: Kim et al. (2006), section 6; Dallachiesa et al. (2015), 8.1.
    """

    from_tuples: ClassVar[bool] = False  # whether results need all tuples of an extent together
    kind, version = "extent_aggregate", 9
    flattened_records = ("options",)
    config: ExtentConfig
    state = {
        "scopes": Array(int, "scopes", SAVED_FIELDS, **TIME_BOUNDS),
        "groups": Array(int, "groups", SAVED_FIELDS, **TIME_BOUNDS),
        "held": Record(GroupedBatch),
        "panes": Array(int, "panes", 2, **TIME_BOUNDS),  # group and number, late rows first
        "totals": Array(float, "panes", None),
        "late_rows": Array(int, "late rows", SAVED_FIELDS, **TIME_BOUNDS),
        "counts": Array(int, len(EXTENT_COUNTERS), low=0),
        "next": Value(low=0),
        "readings": Part(),
    }

    def __init__(
        self, *given: Any, clock: Callable[[Ints], Ints] | None = None, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        config, aggregates = self.config, self.config.aggregates
        length, slide, members = config.length, config.slide, config.members
        self.aggregates, self.options, self._plain = aggregates, config.options, config.plain
        self.readings, self._clock = StepReadings(aggregates), clock or (lambda times: times)
        # Computed from panes and tuples; the other aggregates are computed from readings.
        self._pooled = [of for of in aggregates if of.function not in OVER_TIME]
        self._fields = _total_fields(self._pooled, self.attributes) if self._plain else []
        self._signs = np.array([sign for sign, _ in self._fields])
        self._totals = np.empty((0, totals.TOTALS_PER_PANE, len(self._fields)))
        self.length, self.slide, self.empty, self.members = length, slide, config.empty, members
        self._gaps = config.gaps
        with_distributions = any(self.options.needs_distribution(of) for of in self._pooled)
        self._needs_members = members or with_distributions or self.from_tuples
        self._needs_order = any(of.function in OF_VALUES for of in aggregates)
        unmeasured = self._plain or self.from_tuples
        self._channels = channels = Channels([] if unmeasured else self._pooled)
        self._measures = channels.measures
        # Moments of the tuples, if they are computed when an extent is complete; otherwise empty.
        self._per_tuple, self._versions = np.empty((channels.count, 3, 0)), NO_VERSIONS
        whole, part = divmod(length, slide)
        panes = (2, 2 * whole + 1, slide - part) if part else (1, whole, 0)
        self._grid = extents.PaneGrid(length, slide, *panes)
        self._scopes, self._groups = np.empty(0, extents.SCOPE), np.empty(0, extents.GROUP)
        self._late_rows, self._panes = np.empty(0, extents.LATE_ROW), np.empty(0, extents.PANE)
        self._tuples = extents.PooledTuples(
            np.array([(NO_INDEX, 0, 0, 0, 0)], extents.POOL), np.empty(0, extents.TUPLE),
            np.empty(0), NONE, np.empty(0), np.empty((self.attributes, 0)),
            np.empty((len(channels.extremes), 0), np.int64),
        )  # fmt: skip
        # Nodes use most of the memory, so they are allocated on demand.
        self._has_uncertain = False
        nothing = channels.empty_partials(0, False)
        self._partials = extents.Partials(nothing, nothing, self._tuples.below[:, :0])
        self.held: Any = None  # saved tuples, panes and totals
        self.panes: Any = None
        self.totals: Any = None
        self._empty_result: Extents | None = None  # cached result without complete extents

    def _process_rows(self, rows: ReleasedRows) -> tuple[Extents, int]:
        n = rows.number.size
        if self._plain:
            check_certain(n, rows.prob)
        self.held = None  # free the last snapshot's tuples and totals
        self.panes = self.totals = None
        self._scopes = with_codes(self._scopes, rows.scope, NO_SCOPE)
        self._groups = with_codes(self._groups, rows.group, NO_GROUP)
        index, completions = np.empty(n, np.int64), np.empty(2 * n, extents.COMPLETION)
        late_rows = np.empty(2 * n, extents.LATE_ROW)
        excluded, found, late_count = extents.assign_rows(
            rows, self._grid, self._scopes, self._groups, index, self.verdicts, completions,
            late_rows, self._versions,
        )  # fmt: skip
        late_rows = late_rows[:late_count]
        if self.readings:
            self.readings.add(rows, index, late_rows)
        self._store(rows, index, late_rows)
        return self._complete(completions[:found]), excluded

    def idle_groups(self) -> Ints:
        """Return the groups whose state no open extent needs, for `forget`.  O(groups)."""
        known = np.flatnonzero(self._groups["scope"] >= 0)
        if self.empty or self.readings:
            return known[:0]
        of = self._groups[known]
        known = known[of["reach"] <= self._scopes["closed"][of["scope"]]]
        return known[~np.isin(known, self._late_rows["group"])]

    def forget(self, groups: Ints) -> None:
        """Delete the state of these groups, except their scopes; their codes may be reused."""
        self._groups[groups] = NO_GROUP

    def close(self, groups: Ints) -> Extents:
        """Complete the extents of groups, and delete the groups and their scopes. Each group must
        be the only one in its scope, and have the code of the scope."""
        complete = self.idle(groups)
        self._late_rows = self._late_rows[~np.isin(self._late_rows["group"], groups)]
        self.forget(groups)
        self._scopes[groups] = NO_SCOPE
        self.readings.forget(groups)
        return complete

    def idle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        known = np.arange(len(self._scopes))
        wanted = known if scopes is None else np.intersect1d(known, scopes)
        completions = np.empty(2 * wanted.size, extents.COMPLETION)
        found = extents.close_all(wanted, self._grid, self._scopes, completions)
        return self._complete(completions[:found], at_once=True)

    @property
    def held_tuples(self) -> int:
        if self._plain:
            return int(self._totals[self._used, totals.OWN, 0].sum())
        return int(self._tuples.pool[0]["tuples"] - self._tuples.pool[0]["dead"])

    @property
    def numbers(self) -> Ints:
        """Row numbers of the held tuples, counted over all rows so far, ascending."""
        at = self._tuples.at[: self._tuples.pool[0]["tuples"]]
        return at["number"][at["alive"] > 0]

    @property
    def _stored(self) -> GroupedBatch:
        """Return all stored tuples, including dead ones."""
        pool, tuples = self._tuples.pool[0], self._tuples
        n, m = pool["tuples"], pool["alternatives"]
        marks = {name: tuples.at[name][:n] for name in ("index", "group", "time", "number")}
        offsets = np.append(tuples.at["begin"][:n], m)
        return GroupedBatch(offsets, tuples.prob[:m], tuples.values[:, :m], **marks)

    @property
    def _used(self) -> Ints:
        """Return the places of panes with totals: late rows first, then by group and number."""
        panes = self._panes[: self._tuples.pool[0]["panes"]]
        used = np.flatnonzero(panes["last"] != NO_INDEX)
        apart = np.isin(used, self._late_rows["pane"])
        return used[np.lexsort((panes["number"][used], panes["last"][used], ~apart))]

    def before_saving(self) -> None:
        self._compact()
        if self.readings:
            self.readings.fold(self._bounds(), always=True)
        self.held = self._stored
        self.scopes = as_numbers(self._scopes)[:, :SAVED_FIELDS]
        self.groups = as_numbers(self._groups)[:, :SAVED_FIELDS]
        self.late_rows = as_numbers(self._late_rows)[:, :SAVED_FIELDS]
        used = self._used if self._plain else NONE
        of = self._panes[used]
        self.panes = np.stack([of["last"], of["number"]], axis=1)
        self.totals = self._totals[used, totals.OWN]
        if self._plain:
            place = np.full(len(self._panes) + 1, NO_INDEX)  # NO_INDEX stays NO_INDEX
            place[used] = np.arange(used.size)
            self.late_rows = self.late_rows.copy()
            self.late_rows[:, SAVED_FIELDS - 1] = place[self.late_rows[:, SAVED_FIELDS - 1]]

    def after_loading(self) -> None:
        self._scopes = restored(self.scopes, NO_SCOPE)
        self._groups = groups = restored(self.groups, NO_GROUP)
        self.readings.check(len(groups))
        held, late_rows = self.held, restored(self.late_rows, NO_LATE_ROW)
        check_times("event_time", held.time)
        check_held(held.offsets, held.prob, held.values)
        negative = (groups["arrived"] < 0).any() or (held.number < 0).any()
        if negative or (groups["scope"] >= len(self._scopes)).any():
            raise ValueError("groups must belong to known scopes, and must count from 0")
        if held.size if self._plain else len(self.panes):
            raise ValueError("the state must have either tuples or totals, as the config requires")
        held_group = self.panes[:, 0] if self._plain else held.group
        used = np.append(held_group, late_rows["group"])
        known = not used.size or 0 <= used.min() <= used.max() < len(groups)
        if not known or (groups["scope"][used] < 0).any():
            raise ValueError("tuples and late rows must belong to known groups and scopes")
        joined = late_rows[late_rows["tuple"] != NO_INDEX]
        first, last, of = (joined[name] for name in ("first", "last", "tuple"))
        if of.size != np.unique(of).size or (of < 0).any() or (of >= held_group.size).any():
            raise ValueError("each late tuple must be stored exactly once")
        if (
            (held_group[of] != joined["group"]).any()
            or (first > last).any()
            or (last - first > self.length // self.slide + 1).any()
        ):
            raise ValueError("late tuples must be in extents that contain them")
        extents.list_groups(self._scopes, groups, used)
        if self._gaps.around:
            last, scope = groups["previous"], groups["scope"]
            due = (scope >= 0) & (last > NO_EXTENT)
            due[due] = last[due] + self._gaps.most > self._scopes["closed"][scope[due]]
            extents.list_groups(self._scopes, groups, np.flatnonzero(due))
        if self._plain:
            self._restore_panes(late_rows)
            return
        rows = ReleasedRows(
            held.group, NONE, held.time, held.number, held.offsets, held.prob, held.values, NONE,
            NONE > 0,
        )  # fmt: skip
        self._store(rows, held.index, late_rows)

    def _restore_panes(self, late_rows: Records) -> None:
        """Place one row at the start of each saved pane."""
        (group, number), n, grid = self.panes.T.copy(), len(self.panes), self._grid
        slides, second = np.divmod(number, grid.per_slide)
        start, places, to = slides * self.slide + second * grid.cut, np.arange(n), np.empty(n, int)
        late, values = np.isin(places, late_rows["tuple"]), np.empty((self.attributes, 0))
        rows = ReleasedRows(group, NONE, start, NONE, NONE, np.empty(0), values, NONE, NONE > 0)
        self._panes = extents.place_rows(
            rows, places, late, grid, self._groups, self._panes, self._tuples.pool, to
        )
        fine = self.totals.shape == (n, len(self._fields)) and np.array_equal(to, places)
        if not (fine and ((self.totals[:, 0] >= 1.0) & (self.totals[:, 0] <= 2.0**53)).all()):
            raise ValueError("panes must differ, each with the totals of at least one row")
        self._panes["last"][:n] = group
        self._totals = np.empty((n, totals.TOTALS_PER_PANE, len(self._fields)))
        self._totals[:, totals.OWN] = self.totals
        late_rows["pane"] = late_rows["tuple"]
        self._late_rows = late_rows

    def _store(self, rows: ReleasedRows, index: Ints, late_rows: Records) -> None:
        """Store the rows with an index. In `late_rows`, tuples are places among these rows."""
        n = int(np.count_nonzero(index != NO_INDEX))
        if n and not self._plain:
            self._make_room(n, rows.prob.size)
        begin, joined = int(self._tuples.pool[0]["tuples"]), late_rows["tuple"] != NO_INDEX
        late, to = np.zeros(n, bool), np.empty(index.size, np.int64)
        late[late_rows["tuple"][joined]] = True
        if n:
            self._panes = extents.place_rows(
                rows, index, late, self._grid, self._groups, self._panes, self._tuples.pool, to
            )
        if n and self._plain:
            if len(self._panes) > len(self._totals):
                self._totals = pad(self._totals, len(self._panes))
            attributes = np.array([attribute for _, attribute in self._fields])
            totals.add_rows(
                rows.group, to, rows.values, attributes, self._signs, self._panes, self._totals
            )
        elif n:
            per_tuple = self._moments_of(rows)
            own = self._partials.own
            extents.store_rows(rows, index, to, per_tuple, self._panes, self._tuples, own)
        if late_rows.size:
            late_rows["pane"][joined] = to[index != NO_INDEX][late_rows["tuple"][joined]]
            late_rows["tuple"][joined] += begin
            if self._plain:
                late_rows["tuple"] = late_rows["pane"]
            late_rows = np.concatenate([self._late_rows, late_rows])
            self._late_rows = late_rows[np.argsort(late_rows["group"], kind="stable")]

    def _moments_of(self, rows: ReleasedRows) -> Floats:
        """Return the moments of rows, and make room for them in the partials of all panes."""
        per_tuple, uncertain = self._channels.tuple_moments(
            TupleBatch(rows.offsets, rows.prob, rows.values, rows.number)
        )
        own, prefix, top = self._partials
        have, panes = len(own.sums), int(self._tuples.pool[0]["panes"])
        if panes > have or (uncertain and not self._has_uncertain):
            self._has_uncertain |= uncertain
            room = max(panes, have * 3 // 2) if panes > have else have
            own, prefix = self._widen(own, room), self._widen(prefix, room)
            self._partials = extents.Partials(own, prefix, resize(top, room))
        return per_tuple

    def _widen(self, old: MomentPartials, room: int) -> MomentPartials:
        new = self._channels.empty_partials(room, self._has_uncertain)
        for before, after in zip(old, new, strict=True):
            after[: len(before)] = before[: len(after)]
        return new

    def _make_room(self, tuples: int, alternatives: int) -> None:
        """Make room for more tuples, by removing dead tuples if over half are dead."""
        pool = self._tuples.pool[0]
        n, m = int(pool["tuples"]) + tuples, int(pool["alternatives"]) + alternatives
        if n <= self._tuples.rest.size and m <= self._tuples.owner.size:
            return
        if 2 * pool["dead"] > pool["tuples"]:
            self._compact()
            self._make_room(tuples, alternatives)
            return
        of, n, m = self._tuples, n * 3 // 2, m * 3 // 2
        self._tuples = extents.PooledTuples(
            of.pool, resize(of.at, n), np.ones(n), *(resize(array, m) for array in of[3:])
        )

    def _compact(self) -> None:
        of, pool = self._tuples, self._tuples.pool[0]
        if not pool["dead"]:
            return
        n, m = int(pool["tuples"]), int(pool["alternatives"])
        kept = np.flatnonzero(of.at["alive"][:n])
        at = of.at[kept]
        offsets, flat = ranges_of(at["begin"], at["end"] - at["begin"])
        # The added last element maps NO_INDEX (-1) to itself.
        tuple_at, alternative_at = np.full(n + 1, NO_INDEX), np.full(m + 1, NO_INDEX)
        tuple_at[kept], alternative_at[flat] = np.arange(kept.size), np.arange(flat.size)
        at["begin"], at["end"] = offsets[:-1], offsets[1:]
        at["following"] = tuple_at[at["following"]]
        self._tuples = extents.PooledTuples(
            of.pool, at, np.ones(kept.size), tuple_at[of.owner[flat]], of.prob[flat],
            of.values[:, flat], alternative_at[of.below[:, flat]],
        )  # fmt: skip
        pool["tuples"], pool["alternatives"], pool["dead"] = kept.size, flat.size, 0
        panes, top = self._panes[: pool["panes"]], self._partials.top[:, : pool["panes"]]
        panes["first"], panes["last"] = tuple_at[panes["first"]], tuple_at[panes["last"]]
        top[:, panes["state"] == 0] = NO_INDEX
        top[:] = alternative_at[top]
        self._late_rows["tuple"] = tuple_at[self._late_rows["tuple"]]

    def _complete(self, completions: Records, at_once: bool = False) -> Extents:
        """Return the extents that are complete, and drop data that no later extent needs."""
        if not completions.size and self._empty_result is not None:
            return self._empty_result
        completions = _take_records(completions, np.argsort(completions["scope"], kind="stable"))
        found, answers, members, skipped = extents.complete_extents(
            completions, self._scopes, self._groups, self._late_rows, self._panes, self._tuples,
            self._partials, self._per_tuple, self._totals, self._signs, self._grid, self._measures,
            self._gaps, self._needs_members,
        )  # fmt: skip
        self.counts[-1] += skipped
        m = found.size
        turn = np.zeros(m, np.int64) if at_once else completions["turn"][found["completion"]]
        order = sorted_by([turn, found["number"], found["group"]])
        ends = offsets_of(found["held"])
        if self._plain:
            measured = self._plain_results(answers.reshape(m, len(self._fields))[order])
        else:
            measured = self._results(answers, ends, members, order)
        listed: tuple[Ints | None, Ints | None] = (None, None)
        if self.members:
            offsets, which = gather_lists(ends, order)
            listed = (offsets, self._tuples.at["number"][members[which]])
        if self._late_rows.size:
            self._late_rows = self._late_rows[self._late_rows["group"] != NO_INDEX]
        found = _take_records(found, order)
        end = found["number"] * self.slide
        if self.readings:
            measured = self._with_over_time(measured, found, end)
        complete = Extents(
            end - self.length, end, found["group"].copy(), found["held"].copy(),
            completions["at"][found["completion"]], found["late"].copy(), measured,
            *listed,
        )  # fmt: skip
        if not completions.size:
            self._empty_result = complete
        elif self.readings:
            self.readings.fold(self._bounds())
        return complete

    def _results(
        self, answers: Floats, ends: Ints, members: Ints, order: Ints
    ) -> list[AggregateResult]:
        """Return the results of m extents, in `order`; see the kernel `complete`."""
        moments = answers.reshape(order.size, len(self._pooled), 3).transpose(1, 2, 0)

        def inside(x: int) -> TupleBatch:
            return self._tuples_at(members[ends[x] : ends[x + 1]])

        return results_of(self._pooled, self.options, moments, order, inside)

    def _with_over_time(
        self, measured: list[AggregateResult], found: Records, end: Ints
    ) -> list[AggregateResult]:
        moments = self.readings.results(found, end - self.length, end, self._clock)
        over_time = iter([self.options.summarise(each, None) for each in moments])
        others = iter(measured)
        return [next(over_time if of.function in OVER_TIME else others) for of in self.aggregates]

    def _bounds(self) -> Ints:
        """Return the start of each group's first open extent."""
        if not len(self._scopes):
            return np.full(len(self._groups), NO_EXTENT)
        closed = self._scopes["closed"][self._groups["scope"]]
        return np.where(closed == NO_EXTENT, NO_EXTENT, (closed + 1) * self.slide - self.length)

    def _plain_results(self, found: Floats) -> list[AggregateResult]:
        """Return the results of m extents from their totals, float64[m, fields]."""
        of = {field: found[:, i] for i, field in enumerate(self._fields)}
        results = []
        for aggregate in self._pooled:
            a = self.attributes if aggregate.attribute is None else aggregate.attribute
            count = of.get((0.0, -1 - a), found[:, 0])
            total = of.get((EXTREMES.get(aggregate.function, 0.0), a), count)
            results.append(self.options.certain_results(plain_result(aggregate, total, count)))
        return results

    def _tuples_at(self, places: Ints) -> TupleBatch:
        """Return the tuples at some places, ordered by time if an aggregate requires it."""
        at = self._tuples.at[places]
        if self._needs_order:
            at = at[np.lexsort((at["number"], at["time"]))]
        offsets, flat = ranges_of(at["begin"], at["end"] - at["begin"])
        values = self._tuples.values[:, flat]
        return TupleBatch(offsets, self._tuples.prob[flat], values, at["index"])


def extents_of_groups(
    group: Ints,
    tuples: TupleBatch,
    aggregates: Sequence[Aggregate],
    options: DistributionOptions,
    *,
    members: bool = False,
) -> Extents:
    """Return one extent per group, by group, with all of its tuples in the given order."""
    window = ExtentAggregate(
        1, 1, aggregates, members=members, attributes=len(tuples.values), **vars(options)
    )
    nowhere = np.zeros_like(group)
    window.process(
        group, nowhere, None, None, tuples.offsets, tuples.prob, tuples.values.T, scope=nowhere
    )
    return window.flush()


def _total_fields(aggregates: Sequence[Aggregate], attributes: int) -> list[tuple[float, int]]:
    """Return each pane total's sign and attribute, see `add_rows`; the first is the row count."""
    fields = [(0.0, -1 - attributes)]
    for of in aggregates:
        if of.attribute is None:
            continue
        if of.function in ("count", "avg"):
            fields.append((0.0, -1 - of.attribute))
        if of.function != "count":
            fields.append((EXTREMES.get(of.function, 0.0), of.attribute))
    return list(dict.fromkeys(fields))


def with_codes(records: Records, used: Ints, fill: Records) -> Records:
    """Return the records with room for the codes `used`, and spare room."""
    many = int(used.max(initial=-1)) + 1
    return pad(records, many + many // 4, fill) if many > len(records) else records


def _take_records(records: Records, places: Ints) -> Records:
    """Return records of int64 fields at some places; faster than indexing records."""
    return as_numbers(records).take(places, axis=0).view(records.dtype)[:, 0]


def as_numbers(records: Records) -> Ints:
    """View records of int64 fields as int64[records, fields]."""
    return records.view(np.int64).reshape(-1, len(records.dtype.names or ()))


def restored(saved: Ints, fill: Records) -> Records:
    """Return records with the saved leading fields, and the other fields of `fill`."""
    records = np.full(len(saved), fill)
    as_numbers(records)[:, : saved.shape[1]] = saved
    return records
