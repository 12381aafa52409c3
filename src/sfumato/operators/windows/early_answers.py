"""Early answers for time extents, with intervals for the final answers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.mergeable_moments import MomentPartials
from sfumato.kernels.windows import early_answers
from sfumato.kernels.windows.early_answers import (
    CELL_SIZE,
    EARLY_AVG,
    EARLY_COUNT,
    EARLY_GROUP,
    EARLY_MAX,
    EARLY_MIN,
    EARLY_SCOPE,
    EARLY_SUM,
    EXTENT_POOL,
    FINAL_ANSWER,
    OPEN_EXTENT,
    PREDICTION,
    PREDICTION_SIZE,
    REVISION_SIZE,
    TRACK_SIZE,
    USUAL_SIZE,
    EarlyAggregates,
    EarlyGrid,
    EarlyRows,
    EarlyState,
)
from sfumato.kernels.windows.early_extremes import CDF_STEP, STEP_POOL, Extremes
from sfumato.kernels.windows.extents import NO_EXTENT, NO_INDEX
from sfumato.operators.arguments import SUM_TOLERANCE, whole
from sfumato.operators.arrays import Floats, Ints, Records, offsets_of, pad
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.distributions.moment_channels import Channels
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Operator
from sfumato.operators.state.tuple_batch import TupleBatch, checked_alternatives, codes
from sfumato.operators.windows.extent_aggregate import Extents, as_numbers, with_codes

EARLY_FUNCTIONS = {
    "count": EARLY_COUNT,
    "sum": EARLY_SUM,
    "avg": EARLY_AVG,
    "min": EARLY_MIN,
    "max": EARLY_MAX,
}
MAX_TICKS = 1_000  # per extent length
EXTRA_STAGES = 16  # stages beyond the length
OCTAVES = 16  # further stages, each of which reaches twice as far as the previous stage
NEW_SCOPE = np.array((NO_EXTENT,) * 4 + (NO_INDEX,), EARLY_SCOPE)
SAVED_SCOPE = 4  # leading fields that are saved
NEW_GROUP = np.array((NO_INDEX, NO_INDEX, 0, NO_EXTENT, 0), EARLY_GROUP)
SAVED_STEP = ["value", "mass", "reached"]
SAVED_ENTRY = ["group", "extent", "changed", "revision", "held"]


@dataclass(frozen=True)
class Revisions:
    """Early answers for m open extents, in order of output.

    start, end, group, held, punctuation : as for `Extents`; `held` counts the rows so far
    number : int64[m], revision number within the extent, from 1
    estimates : float64[m, r + 1, 3], per aggregate the mean of the partial answer, and the low and
        high end of the interval for the final answer; in the last place, the completeness and the
        ends of its interval; NaN if unknown
    stddev, existence : float64[m, r], of the partial answers
    """

    start: Ints
    end: Ints
    group: Ints
    held: Ints
    punctuation: Ints
    number: Ints
    estimates: Floats
    stddev: Floats
    existence: Floats

    def __len__(self) -> int:
        return self.end.size


@dataclass(frozen=True)
class EarlyConfig:
    """Arguments of `EarlyAnswers`."""

    length: int
    slide: int
    early: int
    level: float
    aggregates: tuple[Aggregate, ...]
    attributes: int
    certain: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "aggregates", tuple(self.aggregates))
        check_early(whole("early", self.early), self.length)
        check_level(self.level)


def check_early(early: int, length: int) -> None:
    """Raise ValueError if `early`, the interval between revisions, is out of range."""
    if not 0 < early <= length or length > early * MAX_TICKS:
        raise ValueError(
            f"`early` must be at most the window's length, and at least a {MAX_TICKS:,}th of it; "
            f"got {early:,} microseconds for a length of {length:,}"
        )


def check_level(level: Any) -> None:
    """Raise ValueError if the level of intervals is out of range."""
    number = isinstance(level, int | float) and not isinstance(level, bool)
    if not number or not 0.5 <= level <= 0.999:
        raise ValueError(f"`level` must lie in [0.5, 0.999], for example 0.9; got {level!r}")


class EarlyAnswers(Operator):
    """Revisions of the extents of an `ExtentAggregate` that processes the same rows.

    length, slide, aggregates, attributes, certain : as for `ExtentAggregate`; only count, sum, avg,
        min and max
    early : int > 0 microseconds; one revision per multiple of `early` that a scope's punctuation
        passes
    level : share of intervals that should contain the final answer (for uncertain rows, its mean)

    Revisions and intervals depend only on the sequence of a scope's rows.
    Memory: 120 bytes per open extent and revision, 50 per group, and 56 per scope, stage and
    aggregate; 5 KB per open extent and average over uncertain existence; 32 bytes per open extent
    and value of an uncertain minimum or maximum whose probability is not negligible.
    Source: see `kernels.windows.early_answers`.
    """

    kind, version = "early_answers", 4
    config: EarlyConfig
    state = {
        "scopes": Array(int, "scopes", SAVED_SCOPE, low=NO_EXTENT),
        "groups": Array(int, "groups", 3, low=NO_EXTENT),
        "entries": Array(int, "entries", len(SAVED_ENTRY), low=NO_EXTENT),
        "cells": Array(float, "entries", "cells"),
        "sums": Array(float, "entries", None),
        "nodes": Array(float, "entries", None),
        "step_owner": Array(int, "steps", 2, low=0),
        "steps": Array(float, "steps", 3),
        "predictions": Array(int, "predictions", 3, low=0),
        "predicted": Array(float, "predictions", "predicted"),
        "usual": Array(float, "groups", "usual"),
        "tracks": Array(float, "scopes", "tracks"),
    }

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        config, aggregates, certain = self.config, self.config.aggregates, self.config.certain
        self._channels = channels = Channels([] if certain else aggregates)
        what = np.array([EARLY_COUNT, *(EARLY_FUNCTIONS[of.function] for of in aggregates)])
        of = [NO_INDEX, *(NO_INDEX if a.attribute is None else a.attribute for a in aggregates)]
        source, measure = np.array(of), np.empty(0, np.int64)
        if not certain:
            known = np.where(channels.what == NO_INDEX, channels.extreme, channels.channel)
            source = np.append(NO_INDEX, known)
            measure = np.append(NO_INDEX, channels.what)
            # An expected extreme may rise or fall.
            what[np.isin(what, (EARLY_MIN, EARLY_MAX))] = EARLY_AVG
        self._aggregates = EarlyAggregates(what, source, measure, False)
        self._attributes = config.attributes if certain else 0  # attributes with cells
        linear = -(-config.length // config.early) + EXTRA_STAGES
        stages, level = linear + OCTAVES, float(config.level)
        min_scores = math.ceil(2 / (1 - level) - 1e-9) - 1
        self._grid = EarlyGrid(
            config.length, config.slide, config.early, linear, stages, level, min_scores
        )
        many = len(what)
        self._per_scope, self._per_group = (stages + 1) * (many + 1) * TRACK_SIZE, many * USUAL_SIZE
        self._state = EarlyState(
            np.array([(0, NO_INDEX, 0, NO_INDEX)], EXTENT_POOL), np.empty(0, EARLY_SCOPE),
            np.empty(0, EARLY_GROUP), np.empty(0, OPEN_EXTENT), np.empty(0),
            self._empty_partials(0), self._empty_extremes(0), np.empty(0, PREDICTION), np.empty(0),
            np.empty(0), np.empty(0),
        )  # fmt: skip

    def _empty_partials(self, size: int) -> MomentPartials:
        """Return empty partials, without channels if rows are certain."""
        sets = self._channels.empty_partials(size, self._aggregates.has_uncertain)
        return MomentPartials(sets.sums[:, :0].copy(), sets.nodes) if self.config.certain else sets

    def _empty_extremes(self, size: int) -> Extremes:
        extremes = self._channels.extremes
        sign = np.array([sign for sign, _ in extremes], float)
        attribute = np.array([of for _, of in extremes], np.int64)
        first = np.full((size, sign.size), NO_INDEX)
        return Extremes(
            sign, attribute, np.array([(0, NO_INDEX)], STEP_POOL), first, np.empty(0, CDF_STEP)
        )

    def _uncertain_moments(self, offsets: Ints, prob: Floats, values: Floats) -> Floats:
        """Return the moments of uncertain rows, and allocate nodes once rows need them."""
        n = len(offsets) - 1
        if self.config.certain:
            return np.empty((0, 3, n))
        per_tuple, has_uncertain = self._channels.tuple_moments(
            TupleBatch(offsets, prob, values, np.arange(n))
        )
        if has_uncertain and not self._aggregates.has_uncertain:
            self._aggregates = self._aggregates._replace(has_uncertain=True)
            nodes = self._empty_partials(len(self._state.sets.sums)).nodes
            self._state = self._state._replace(sets=self._state.sets._replace(nodes=nodes))
        return per_tuple

    def process(
        self,
        group: npt.ArrayLike,
        scope: npt.ArrayLike,
        time: npt.ArrayLike,
        punctuation: npt.ArrayLike,
        moves: npt.ArrayLike,
        arrives: npt.ArrayLike,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
        *,
        complete: Extents,
    ) -> tuple[Revisions, Ints]:
        """Return the revisions at the next n rows, and the revision number of each final answer.

        group, scope, time, punctuation : int64[n], rows in the order of their release
        moves : bool[n], whether a row is in order and thus has the punctuation of its scope
        arrives : bool[n], whether a row has just arrived, so that partial answers now include it
        offsets, prob, values : the alternatives, as for `ExtentAggregate.process`
        complete : the extents that these rows complete
        """
        many, n = len(self._aggregates.what), np.asarray(time).size
        group, scope = codes("group", group, n), codes("scope", scope, n)
        time, punctuation = codes("time", time, n), codes("punctuation", punctuation, n)
        moves, arrives = np.require(moves, bool, ["C", "W"]), np.require(arrives, bool, ["C", "W"])
        bounds, masses, table = checked_alternatives(
            n, offsets, prob, values, self.config.attributes
        )
        if not self.config.certain:  # only alternatives of arriving rows are read
            sizes = np.diff(bounds)
            read = np.repeat(arrives, sizes)
            bounds, masses = offsets_of(sizes * arrives), masses[read]
            table = np.ascontiguousarray(table[:, read])  # a mask changes the memory layout
        per_tuple = self._uncertain_moments(bounds, masses, table)
        scratch = np.empty((3, int(np.diff(bounds).max(initial=0)) + 1))
        s = self._state
        scopes, groups = with_codes(s.scopes, scope, NEW_SCOPE), s.groups
        groups = with_codes(groups, np.append(group, complete.group), NEW_GROUP)
        groups["scope"][group] = scope
        self._state = s = s._replace(
            scopes=scopes,
            groups=groups,
            usual=pad(s.usual, len(groups) * self._per_group, np.nan),
            tracks=pad(s.tracks, len(scopes) * self._per_scope),
        )
        of = groups["scope"][complete.group]
        order = np.lexsort((complete.end, complete.punctuation, of))
        columns = of, complete.group, complete.end // self._grid.slide, complete.punctuation
        finals = np.ascontiguousarray(np.stack(columns, axis=1)[order]).view(FINAL_ANSWER)[:, 0]
        answers = np.stack([complete.held, *(result.mean for result in complete.results)], axis=1)
        rows = EarlyRows(
            group, scope, time, punctuation, moves, arrives, bounds, masses, table, scratch,
            per_tuple,
        )  # fmt: skip
        self._state, turns, out, estimates = early_answers.advance(
            rows, finals, answers[order].astype(float).ravel(), self._grid, self._aggregates,
            self._attributes, s,
        )  # fmt: skip
        numbers = np.empty(order.size, np.int64)
        numbers[order] = turns
        end = out["extent"] * self._grid.slide
        estimates = estimates.reshape(len(out), many + 1, REVISION_SIZE)[:, 1:]
        stddev, existence = estimates[:, :-1, 3], estimates[:, :-1, 4]
        group, held, punctuation, number = (
            np.ascontiguousarray(out[name]) for name in ("group", "held", "punctuation", "revision")
        )
        start = end - self._grid.length
        return Revisions(
            start, end, group, held, punctuation, number, estimates[:, :, :3], stddev, existence
        ), numbers

    def idle_groups(self, groups: Ints) -> Ints:
        """Return the groups that `forget` may delete without changing any answer."""
        known = self._state.groups[groups[groups < len(self._state.groups)]]
        last = (known["latest"] + early_answers.MAX_GAP_EXTENTS + 1) * self._grid.slide
        fine = (known["first"] == NO_INDEX) & (
            last <= self._state.scopes["reached"][known["scope"]]
        )
        return groups[groups < len(self._state.groups)][fine]

    def forget(self, groups: Ints, scopes: bool = False) -> None:
        """Delete the state of groups and, with `scopes`, of the scopes with the same codes."""
        groups = groups[groups < len(self._state.groups)]
        early_answers.drop_groups(groups, self._state)
        self._state.groups[groups] = NEW_GROUP
        self._state.usual.reshape(-1, self._per_group)[groups] = np.nan
        if scopes:
            changed = self._state.scopes["changed"][groups]
            self._state.tracks.reshape(-1, self._per_scope)[groups] = 0
            self._state.scopes[groups] = NEW_SCOPE
            self._state.scopes["changed"][groups] = changed  # the next tick frees these entries

    def before_saving(self) -> None:
        s, attributes, many = self._state, self._attributes, len(self._aggregates.what)
        used = int(s.pool[0]["entries"])
        kept = np.flatnonzero(s.entries["group"][:used] != NO_INDEX)
        self.entries = np.stack([s.entries[name][kept] for name in SAVED_ENTRY], axis=1)
        cells = s.cells[: used * attributes * CELL_SIZE].reshape(used, attributes * CELL_SIZE)
        self.cells = cells[kept]
        self.sums = _as_floats(s.sets.sums[kept])
        self.nodes = np.empty((len(kept), 0))
        if self._aggregates.has_uncertain:
            self.nodes = _as_floats(s.sets.nodes[kept])
        x = s.extremes
        owners, places = _list_entries(x.first[kept].ravel(), x.steps["following"])
        owners, places = owners[::-1], places[::-1]  # values are saved in descending order
        self.step_owner = np.stack(np.divmod(owners, max(x.sign.size, 1)), axis=1)
        self.steps = np.stack([x.steps[name][places] for name in SAVED_STEP], axis=1)
        owners, places = _list_entries(s.entries["prediction"][kept], s.predictions["following"])
        columns = owners, *(s.predictions[name][places] for name in ("stage", "held"))
        self.predictions = np.stack(columns, axis=1)
        width = PREDICTION_SIZE * many
        whole_rows = s.predicted[: len(s.predicted) // width * width]
        self.predicted = whole_rows.reshape(-1, width)[places]
        self.scopes = as_numbers(s.scopes)[:, :SAVED_SCOPE]
        self.groups = as_numbers(s.groups)[:, [0, 2, 3]]
        self.usual = s.usual.reshape(len(s.groups), self._per_group)
        self.tracks = s.tracks.reshape(len(s.scopes), self._per_scope)

    def after_loading(self) -> None:
        many, (group, extent, changed, revision, held) = len(self._aggregates.what), self.entries.T
        owner, stage, before = self.predictions.T
        groups, n, m = self.groups, len(self.entries), len(self.predictions)
        self._aggregates = self._aggregates._replace(has_uncertain=self.nodes.shape[1] > 0)
        sets = self._empty_partials(n)
        sums, nodes = _as_floats(sets.sums), _as_floats(sets.nodes)
        shapes = [of.shape[1] for of in (self.cells, self.predicted, self.usual, self.sums)]
        wanted = [
            self._attributes * CELL_SIZE,
            PREDICTION_SIZE * many,
            self._per_group,
            sums.shape[1],
        ]
        if shapes != wanted or self.tracks.shape[1] != self._per_scope:
            raise ValueError("sums must match the aggregates")
        sums[:] = self.sums
        if self._aggregates.has_uncertain:
            if self.nodes.shape[1] != nodes.shape[1]:
                raise ValueError("nodes must match the averages")
            nodes[:] = self.nodes
        if (groups[:, 0] >= len(self.scopes)).any() or (groups[:, :2] < [NO_INDEX, 0]).any():
            raise ValueError("groups must belong to known scopes, and must count from 0")
        known = not n or 0 <= group.min() <= group.max() < len(groups)
        if not known or (groups[group, 0] < 0).any() or (revision < 0).any() or (held < 1).any():
            raise ValueError("open extents must belong to known groups, and must hold a row")
        twice = len(np.unique(np.stack([group, extent], axis=1), axis=0)) < n
        if twice or not np.isin(changed, (0, 1)).all():
            raise ValueError("each open extent must appear once")
        if (owner >= n).any() or (stage >= self._grid.stages).any() or (before < 1).any():
            raise ValueError("predictions must belong to open extents and known stages")
        extremes = self._load_extremes(n)
        scopes, all_groups = np.full(len(self.scopes), NEW_SCOPE), np.full(len(groups), NEW_GROUP)
        as_numbers(scopes)[:, :SAVED_SCOPE] = self.scopes
        as_numbers(all_groups)[:, [0, 2, 3]] = groups
        all_groups["open"] = np.bincount(group, minlength=len(groups))
        entries, predictions = np.zeros(n, OPEN_EXTENT), np.zeros(m, PREDICTION)
        for name, column in zip(SAVED_ENTRY, self.entries.T, strict=True):
            entries[name] = column
        entries["prediction"] = entries["next_changed"] = NO_INDEX
        entries["following"] = _link_entries(all_groups["first"], group, np.arange(n))
        of = groups[group, 0][changed == 1]
        places = np.flatnonzero(changed)
        entries["next_changed"][places] = _link_entries(scopes["changed"], of, places)
        predictions["stage"], predictions["held"] = stage, before
        predictions["following"] = _link_entries(entries["prediction"], owner, np.arange(m))
        self._state = EarlyState(
            np.array([(n, NO_INDEX, m, NO_INDEX)], EXTENT_POOL), scopes, all_groups, entries,
            self.cells.ravel(), sets, extremes, predictions, self.predicted.ravel(),
            self.usual.ravel(), self.tracks.ravel(),
        )  # fmt: skip

    def _load_extremes(self, entries: int) -> Extremes:
        extremes, (entry, number) = self._empty_extremes(entries), self.step_owner.T
        many, (value, mass, reached) = extremes.sign.size, self.steps.T
        if (entry >= entries).any() or (number >= many).any():
            raise ValueError("steps must belong to open extents and known extremes")
        owner = entry * many + number
        n, inner = len(owner), owner[1:] == owner[:-1]  # inner : not the first of its list
        begins, ends = np.append(True, ~inner)[:n], np.append(~inner, True)[:n]
        falls = (value[1:] < value[:-1]) & (reached[1:] <= reached[:-1])
        likely = (mass >= 0) & (mass <= 1 + SUM_TOLERANCE) & (reached >= 0) & (reached <= 1)
        likely &= ends == (value == -np.inf)
        if not (falls[inner].all() and likely.all()) or len(np.unique(owner)) < begins.sum():
            raise ValueError("the steps of each extreme must fall to -inf")
        steps = np.zeros(n, CDF_STEP)
        for name, column in zip(SAVED_STEP, self.steps.T, strict=True):
            steps[name] = column
        steps["following"] = np.where(begins, NO_INDEX, np.arange(n) - 1)
        extremes.first.reshape(-1)[owner[ends]] = np.flatnonzero(ends)
        return extremes._replace(pool=np.array([(n, NO_INDEX)], STEP_POOL), steps=steps)


def _as_floats(records: Records) -> Floats:
    """View records of float64 fields, [n, channels], as float64[n, width]."""
    n, channels = records.shape
    return records.view(float).reshape(n, channels * (records.dtype.itemsize // 8))


def _list_entries(first: Ints, following: Ints) -> tuple[Ints, Ints]:
    """Return (owner, place) of all entries of linked lists, by owner."""
    owner, place = np.arange(len(first)), first
    owners, places = [owner[:0]], [place[:0]]
    while owner.size:
        owner, place = owner[place != NO_INDEX], place[place != NO_INDEX]
        owners.append(owner)
        places.append(place)
        place = following[place]
    order = np.argsort(np.concatenate(owners), kind="stable")
    return np.concatenate(owners)[order], np.concatenate(places)[order]


def _link_entries(first: Ints, owner: Ints, places: Ints) -> Ints:
    """Link `places` into one list per owner; set `first` and return the place that follows each."""
    following = np.full(len(places), NO_INDEX)
    for i, (of, place) in enumerate(zip(owner.tolist(), places.tolist(), strict=True)):
        following[i] = first[of]
        first[of] = place
    return following
