"""Joins of windowed streams by extent: the operator, and the job of `extent_join`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.duration import microseconds
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arguments import distance, flag, one_of, share
from sfumato.operators.arrays import Bools, Floats, Ints, pad, ranges_of
from sfumato.operators.joins.answers import JoinAnswers, Unmatched, pair_matches, unmatched_tuples
from sfumato.operators.joins.outer_join import HOWS, INNER, KEPT_SIDES
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Array, Optional, Part, Record
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import SavedTable, as_array, as_numbers, concat_tables, has_no_null
from sfumato.tables.joins.metric import finite_number
from sfumato.tables.joins.table_join import (
    ALTERNATIVES,
    TypedAnswersConfig,
    answers_table,
    attributes_at,
    cast_answers,
    samples_of,
    unmatched_table,
)
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, SIDES, TableOperator
from sfumato.tables.reading.frame import (
    GROUPED_BY,
    Frame,
    check_keys,
    column_names,
    order_metadata,
    require_same_keys,
    require_same_worlds,
)
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import (
    Output,
    OutputField,
    alternatives_type,
    extent_type,
    mark_repeated,
    mark_shared,
    row_marks,
    row_of,
    world_outputs,
)
from sfumato.tables.reading.rows import Alternatives, Column, ColumnReader, Reading
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.user_warnings import AVERAGES, PAIRS, UNCERTAIN_TIMES, WINDOWS
from sfumato.tables.row_store import HeldRows
from sfumato.tables.scope import BEGINNING, Scopes, join_scope


@dataclass(frozen=True, kw_only=True)
class ExtentJoinTableConfig(TypedAnswersConfig):
    """Settings of an extent join over tables.

    scope : numbers of the keys within which extents are in order
    on : attributes of the distance; if empty, every pair of rows is a match
    within, probability : as for `SimilarityJoin`; None without `on`
    forget_after : microseconds; waiting rows of an expired scope are dropped, see `Scopes`
    max_alternatives : bound on the pairs of alternatives per answer, see `matching_pairs`
    how : "inner", or "left", "right" or "full" to also emit unmatched rows
    one_to_one : whether a row is in at most one pair, see `greedy_pairs`
    nulls_equal : whether NULL keys are equal to each other
    idle_timeout : microseconds that a row waits for a side without rows; None for any time
    """

    scope: tuple[int, ...] = ()
    on: tuple[str, ...] = ()
    within: float | None = None
    probability: float | None = None
    max_alternatives: int = field(default=MAX_ALTERNATIVES, metadata=CHANGEABLE)
    how: str = INNER
    one_to_one: bool = False
    nulls_equal: bool = field(default=True, metadata={"fingerprint": "added"})
    idle_timeout: int | None = field(default=None, metadata=CHANGEABLE)

    kind, version = "extent join table", 4
    counters = ("rows", "late", "pairs", "unmatched")

    def typed(self, answers: Callable[[], pa.Schema]) -> Self:
        return self if self.how == INNER else super().typed(answers)

    def __post_init__(self) -> None:
        one_of("how", self.how, (INNER, *HOWS))
        if self.one_to_one and (not self.on or self.how != INNER):
            raise ValueError(
                "`one_to_one` needs `on`, `within` and `probability`, by which it chooses pairs, "
                f'and how="inner"; got on={list(self.on)}, how="{self.how}"'
            )
        require_together(self.on or None, self.within, self.probability)
        if self.on:
            distance("within", self.within)
            share("probability", self.probability)

    def arrival(self) -> Arrival:
        return Arrival(("window.end",), tied=False)


ROUNDING = 1e-9  # exceeds the relative rounding errors of values and distances

# Results of `Frame.describe_shared` for rows that share no tuples within one extent.
INDEPENDENT_WITHIN_EXTENTS = (None, WINDOWS, UNCERTAIN_TIMES, AVERAGES)


def require_together(*given: object) -> None:
    if len({value is None for value in given}) > 1:
        raise ValueError("`on`, `within` and `probability` need each other: give all three or none")


@dataclass
class ExtentRows(HeldRows):
    """Rows of one side that may still match rows of the other side.

    end : int64[n], extent ends in microseconds    code, scope : int64[n]
    arrived : int64[n], processing times (ms)
    matched : bool[n], whether the row has a row of the other side in its extent, or is in a pair
    """

    rows: Annotated[pa.Table, SavedTable("waiting")]
    end: Annotated[Ints, Array(int, "waiting")]
    code: Annotated[Ints, Array(int, "waiting", low=0)]
    scope: Annotated[Ints, Array(int, "waiting", low=0, high="scopes")]
    arrived: Annotated[Ints, Array(int, "waiting")]
    matched: Annotated[Bools, Array(bool, "waiting")]


class ExtentSide(Stateful):
    """One side: its progress per scope, and the waiting rows.

    newest : int64[scopes], newest extent end
    seen : int64[scopes], processing time (ms) of the newest row
    passed : int64[scopes], extent end up to which the other side no longer waits for this side
    """

    state = {
        "newest": Array(int, "scopes"),
        "seen": Array(int, "scopes"),
        "passed": Array(int, "scopes"),
        "waiting": Optional(Record(ExtentRows)),
    }

    def __init__(self) -> None:
        self.newest = self.seen = self.passed = np.empty(0, np.int64)
        self.waiting: ExtentRows | None = None

    def grow(self, scopes: int) -> None:
        self.newest, self.seen, self.passed = (
            pad(of, scopes, BEGINNING) for of in (self.newest, self.seen, self.passed)
        )

    def forget(self, scopes: Ints) -> None:
        self.newest[scopes] = self.seen[scopes] = self.passed[scopes] = BEGINNING

    def add(self, fresh: ExtentRows) -> None:
        self.waiting = fresh if self.waiting is None else self.waiting.concat(fresh)

    def drop(self, unwanted: Bools) -> ExtentRows | None:
        if self.waiting is None or not unwanted.any():
            return None
        dropped = self.waiting.filter(unwanted)
        self.waiting = self.waiting.filter(~unwanted)
        return dropped

    def before_saving(self) -> None:
        if self.waiting is not None and not len(self.waiting.end):
            self.waiting = None


class TableExtentJoin(TableOperator):
    """Pairs of rows with equal keys and equal extent ends, for the keys of one bucket.

    Each side has the columns row (a struct), window (start, end), key0.. and, with `on`,
    alternatives. On each side the extents of a scope are in order, so a row waits until the other
    side has passed its extent, or has had no row for `idle_timeout`.
    """

    config: ExtentJoinTableConfig
    state = {"scopes": Part(), "left": Part(), "right": Part()}

    def __init__(self, config: ExtentJoinTableConfig) -> None:
        super().__init__(config)
        self.index = KeyIndex()  # a key is kept while its rows wait
        self.scopes = Scopes(config.scope, config.forget_after)
        self.left, self.right = self.sides = ExtentSide(), ExtentSide()
        self.columns = [ROW, "window", *([ALTERNATIVES] if config.on else [])]
        self.kept_sides = KEPT_SIDES.get(config.how, ())

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        outputs = []
        for side in (0, 1):
            tables = [table for of, table in batch if of == side]
            if tables:
                fresh = self._read(concat_tables(tables), side, now)
                outputs += [] if self.config.one_to_one else self._pairs(fresh, side)
                self.sides[side].add(fresh)
        return outputs + self.idle(now)

    def set_clock(self, now: int) -> None:
        for side in self.sides:
            side.seen = np.minimum(side.seen, now)
            if side.waiting is not None:
                side.waiting.arrived = np.minimum(side.waiting.arrived, now)

    def resume(self, now: int) -> None:
        for side in self.sides:
            side.seen = np.full_like(side.seen, now)

    def idle(self, now: int) -> list[pa.Table]:
        timeout = self.config.idle_timeout
        if timeout is not None:
            self.set_clock(now)
            for side, other in (self.sides, self.sides[::-1]):
                if (rows := side.waiting) is not None:
                    since = np.maximum(rows.arrived, other.seen[rows.scope])
                    over = since <= now - max(1, timeout // 1000)
                    np.maximum.at(other.passed, rows.scope[over], rows.end[over])
        return self._drop_passed()

    def _read(self, rows: pa.Table, side: int, now: int) -> ExtentRows:
        end = as_numbers(as_array(rows.column("window")).field("end"))
        scope = self.scopes.encode(rows)
        keys = rows.select(self.config.key_columns)
        if keys.num_columns and not self.config.nulls_equal:  # NULL keys include the side
            own = pc.if_else(pa.array(has_no_null(keys, keys.column_names)), -1, side)
            keys = keys.append_column("side", own)
        code = self.index.encode(keys)
        for of in self.sides:
            of.grow(len(self.scopes))
        mine, none = self.sides[side], np.zeros(len(end), bool)
        if len(end):
            np.maximum.at(mine.newest, scope, end)
            mine.seen[scope] = now
            self.scopes.record(side, scope, int(end.max()))
        self.counts["rows"] += len(end)
        arrived = np.full(len(end), now)
        fresh = ExtentRows(rows.select(self.columns), end, code, scope, arrived, none)
        late = end <= mine.passed[scope]
        self.counts["late"] += int(late.sum())
        return fresh.filter(~late) if late.any() else fresh

    def _pairs(self, fresh: ExtentRows, side: int) -> list[pa.Table]:
        other = self.sides[1 - side].waiting
        mine_at, theirs_at = self._matching_positions(fresh, other)
        if other is None or not len(other.end) or not len(fresh.end):
            return []
        own, theirs = self._extents_of(fresh, other)
        fresh.matched[np.isin(own, theirs)] = True
        other.matched[np.isin(theirs, own)] = True
        if not len(mine_at):
            return []
        sides, at = [other.rows, fresh.rows], [theirs_at, mine_at]
        if side == 0:
            sides, at = sides[::-1], at[::-1]
        return self._pair_tables(sides, at)

    def _matching_positions(self, mine: ExtentRows, others: ExtentRows | None) -> tuple[Ints, Ints]:
        """Return the positions of both rows of each pair with equal keys and extent ends. With
        `on`, omit most pairs whose first attributes are too far apart."""
        if others is None or not others.end.size or not mine.end.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        own, theirs = self._extents_of(mine, others)
        if self.config.within is None:
            order = np.argsort(theirs, kind="stable")
            first, last = (np.searchsorted(theirs[order], own, side) for side in ("left", "right"))
            offsets, places = ranges_of(first, last - first)
            return np.repeat(np.arange(len(own)), np.diff(offsets)), order[places]
        (low, high), (least, most) = (self._bounds(of.rows) for of in (mine, others))
        scale = max(np.abs(of).max() for of in (low, high, least, most))
        reach = self.config.within * (1.0 + ROUNDING) + ROUNDING * scale  # decimals are rounded
        values, groups = np.unique(least), np.unique(theirs)
        theirs = np.searchsorted(groups, theirs) * values.size + np.searchsorted(values, least)
        order = np.argsort(theirs, kind="stable")
        group = np.searchsorted(groups, own)
        known = np.append(groups, -1)[group] == own
        begin = np.searchsorted(values, low - reach - (most - least).max(), "left")
        end = np.searchsorted(values, high + reach, "right")
        first, last = (
            np.searchsorted(theirs[order], group * values.size + of, "left") for of in (begin, end)
        )
        offsets, places = ranges_of(first, np.where(known, last - first, 0))
        mine_at, theirs_at = np.repeat(np.arange(len(own)), np.diff(offsets)), order[places]
        near = most[theirs_at] >= low[mine_at] - reach
        mine_at, theirs_at = mine_at[near], theirs_at[near]
        sort = np.lexsort((theirs_at, mine_at))
        return mine_at[sort], theirs_at[sort]

    def _extents_of(self, mine: ExtentRows, others: ExtentRows) -> tuple[Ints, Ints]:
        """Return a number for the key and extent of each row of both."""
        ends = np.unique(np.concatenate([others.end, mine.end]))
        keys = max(self.index.size, 1)  # without key columns, all codes are 0 and none are stored
        own, theirs = (np.searchsorted(ends, of.end) * keys + of.code for of in (mine, others))
        return own, theirs

    def _bounds(self, rows: pa.Table) -> tuple[Floats, Floats]:
        """Return the least and largest value of each row's first attribute of `on`, or 0."""
        samples = samples_of(rows, self.config.on[:1])
        filled = np.diff(samples.offsets) > 0
        values, starts = samples.points[:, 0], samples.offsets[:-1][filled]
        low, high = np.zeros(filled.size), np.zeros(filled.size)
        if starts.size:
            low[filled] = np.minimum.reduceat(values, starts)
            high[filled] = np.maximum.reduceat(values, starts)
        return low, high

    def _pair_tables(
        self, sides: list[pa.Table], at: list[Ints], chosen: Sequence[ExtentRows] = ()
    ) -> list[pa.Table]:
        """Return pairs of rows; with `on`, only pairs that match with at least `probability`.

        chosen : if given, the rows of both sides; `greedy_pairs` chooses pairs and marks their rows
        """
        config, found = self.config, None
        if config.within is not None and config.probability is not None:
            left, right = (samples_of(table, config.on) for table in sides)
            limits = config.within, config.probability, config.max_alternatives
            found = pair_matches(left, right, (at[0], at[1]), *limits)
            if chosen:
                hashes = [as_numbers(ties_of(table)) for table in sides]
                found = found.take(greedy_pairs(at, found, hashes))
            at = [of[found.arrival] for of in at]
            for rows, of in zip(chosen, at, strict=False):
                rows.matched[of] = True
        self.counts["pairs"] += len(at[0])
        if not len(at[0]):
            return []
        taken = [table.take(pa.array(of)) for table, of in zip(sides, at, strict=True)]
        attributes: list[dict[str, pa.Array]] = [{}, {}]
        if found is not None:
            samples, lengths = (found.left_sample, found.right_sample), np.diff(found.offsets)
            both = zip(taken, samples, strict=True)
            attributes = [attributes_at(rows, sample, lengths) for rows, sample in both]
        one, other = zip((rows.column(ROW) for rows in taken), attributes, strict=True)
        return [self._with_window(answers_table(one, other, found), taken[0])]

    def _with_window(self, answers: pa.Table, rows: pa.Table) -> pa.Table:
        answers = answers.add_column(0, "window", rows.column("window"))
        return cast_answers(answers, self.config.answers)

    def flush(self) -> list[pa.Table]:
        waiting = [side.waiting for side in self.sides]
        return self._drop([np.ones(0 if of is None else len(of.end), np.bool_) for of in waiting])

    def _drop_passed(self) -> list[pa.Table]:
        """Drop rows of passed extents and expired scopes, and keys without waiting rows.

        An extent that no longer waits for a side is dropped on both sides. If unmatched rows are
        emitted or pairs are chosen, an extent is otherwise dropped only once both sides have passed
        it, because all of its rows are needed.
        """
        newest = self.left.newest, self.right.newest
        whole = bool(self.kept_sides) or self.config.one_to_one
        passed = [np.minimum(*newest)] * 2 if whole else [newest[1], newest[0]]
        given_up = np.maximum(self.left.passed, self.right.passed)
        over, unwanted = self.scopes.take_expired(), []
        for side, until in zip(self.sides, passed, strict=True):
            held = side.waiting
            done = np.empty(0, np.bool_)
            if held is not None:
                done = (held.end < until[held.scope]) | (held.end <= given_up[held.scope])
                done |= np.isin(held.scope, over)
            unwanted.append(done)
            side.forget(over)
        outputs = self._drop(unwanted)
        codes = [side.waiting.code for side in self.sides if side.waiting is not None]
        self.index.drop_unneeded(lambda: np.concatenate([np.empty(0, np.int64), *codes]))
        return outputs

    def _drop(self, unwanted: Sequence[Bools]) -> list[pa.Table]:
        """Drop rows of both sides; return their one-to-one pairs and unmatched rows, if emitted."""
        dropped = [side.drop(of) for side, of in zip(self.sides, unwanted, strict=True)]
        outputs = []
        left, right = dropped
        if self.config.one_to_one and left is not None and right is not None:
            at = self._matching_positions(left, right)
            outputs += self._pair_tables([left.rows, right.rows], list(at), (left, right))
        self.counts["unmatched"] += sum(
            int((~of.matched).sum()) for of in dropped if of is not None
        )
        for side in self.kept_sides:
            if (mine := dropped[side]) is not None:
                outputs += self._unmatched(side, mine, dropped[1 - side])
        return outputs

    def _unmatched(self, side: int, mine: ExtentRows, others: ExtentRows | None) -> list[pa.Table]:
        """Return the rows that have no partner in their extents with at least `probability`."""
        config: ExtentJoinTableConfig = self.config
        found: Unmatched | None = None
        places = np.flatnonzero(~mine.matched)
        if config.within is not None and config.probability is not None:
            samples = samples_of(mine.rows, config.on)
            theirs = samples.part(0, 0) if others is None else samples_of(others.rows, config.on)
            at, limits = self._matching_positions(mine, others), (config.within, config.probability)
            found = unmatched_tuples(samples, theirs, at, *limits)
            places = found.number
        if not len(places):
            return []
        rows = mine.rows.take(pa.array(places))
        return [self._with_window(unmatched_table(rows, side, found, self.config.answers), rows)]

    def after_loading(self) -> None:
        super().after_loading()
        if not self.left.newest.size == self.right.newest.size == len(self.scopes):
            raise ValueError("both sides must have the same scopes")


def greedy_pairs(at: Sequence[Ints], found: JoinAnswers, hashes: Sequence[Ints]) -> Ints:
    """Choose pairs by descending probability so that no row is in two of them.

    at : positions of both rows of all pairs    hashes : row hashes per side, which break ties
    found : the pairs to choose from; `arrival` is the position of a pair in `at`
    Returns ascending positions in `found`. Their sum of probabilities is at least half of the
    largest possible sum. Each round chooses every pair that is the best pair of both of its rows.
    Cost: O(pairs) per round.
    """
    left, right = (of[found.arrival] for of in at)
    order = np.lexsort([hashes[1][right], hashes[0][left], -found.probability])
    left, right, open_pairs = left[order], right[order], np.arange(order.size)
    used, picked = [np.zeros(of.size, np.bool_) for of in hashes], [open_pairs[:0]]
    while open_pairs.size:
        mine, theirs = left[open_pairs], right[open_pairs]
        first = [np.full(of.size, order.size) for of in hashes]
        np.minimum.at(first[0], mine, open_pairs)
        np.minimum.at(first[1], theirs, open_pairs)
        best = (first[0][mine] == open_pairs) & (first[1][theirs] == open_pairs)
        picked.append(open_pairs[best])
        used[0][mine[best]] = used[1][theirs[best]] = True
        open_pairs = open_pairs[~(used[0][mine] | used[1][theirs])]
    chosen: Ints = np.sort(order[np.concatenate(picked)])
    return chosen


def extent_join_job(
    left: Frame,
    right: Frame,
    key: str | Sequence[str] | None,
    on: str | Sequence[str] | None,
    within: float | None,
    probability: float | None,
    forget_after: str | timedelta | None,
    name: str | None,
    how: str,
    one_to_one: bool,
    nulls_equal: bool,
    idle_timeout: str | timedelta | None,
) -> Job:
    attributes, frames = column_names("on", on), {"left": left, "right": right}
    require_same_worlds([left, right], how)
    require_together(on, within, probability)
    within = None if within is None else finite_number("within", within)
    for side, frame in frames.items():
        called = f"the {side} {frame.noun}"
        if not frame.has_extents:
            raise ValueError(
                f"{called} must have a column `window` of extents: create it with "
                "sf.window_aggregate(..., window=sf.Range(...))"
            )
        if {"final", "revision"} <= {*frame.columns}:
            raise ValueError(
                f"{called} has early answers: keep the final ones, "
                '.where("final").drop("final", "revision")'
            )
        independent = frame.describe_shared() in INDEPENDENT_WITHIN_EXTENTS
        if attributes and how != INNER and not independent:
            frame.require_independent("extent_join")
        frame.require_attributes(attributes, f" of {called}")
    values: list[tuple[str, ColumnReader]] = [("window", Column("window"))]
    values += [(ALTERNATIVES, Alternatives())] if attributes else []
    keys = [frame.keys(f"key of the {side} {frame.noun}", key) for side, frame in frames.items()]
    require_same_keys([left, right], keys)
    forgotten = None
    if forget_after is not None:
        check_keys(keys[0])
        forgotten = float(microseconds("forget_after", forget_after))
    scope = join_scope(
        keys[0], left.ordered_by_keys("window") or [], right.ordered_by_keys("window") or []
    )
    order = {**left.metadata("window"), **order_metadata([keys[0][i] for i in scope])}
    order.pop(GROUPED_BY, None)
    time = left.arrow_type(left.type("window")).field("end").type
    outputs = [Output("window", ("window",), extent_type(time, order), order)]
    inputs, fields = [], []
    for (side, frame), own in zip(frames.items(), keys, strict=True):
        reading = Reading(tuple(frame.columns), (), tuple(own), tuple(values), tie=None)
        inputs.append(Input(frame, reading, light=True))
        outputs.append(Output(side, (side,), row_of(frame, frame.columns), row_marks(frame)))
        fields.append(
            [OutputField(f"{side}_{a}", frame.attribute_type(a)) for a in frame.attributes]
        )
    outputs += world_outputs(left, "left")
    if attributes:
        pairs = alternatives_type(*fields)
        for title, kind in ((ALTERNATIVES, pairs), ("probability", pa.float64())):
            outputs.append(Output(title, (title,), kind))
        outputs = mark_shared(outputs, PAIRS)
    elif not one_to_one:
        others = zip(SIDES, (right, left), keys[::-1], strict=True)
        once = [side for side, frame, own in others if frame.has_one_row_per_extent(own)]
        outputs = mark_repeated(outputs, PAIRS, ["window", *once])
    config = ExtentJoinTableConfig(
        keys=len(keys[0]),
        scope=scope,
        on=tuple(attributes),
        within=within,
        probability=probability,
        forget_after=forgotten,
        max_alternatives=left.max_alternatives,
        how=how,
        one_to_one=flag("one_to_one", one_to_one),
        nulls_equal=flag("nulls_equal", nulls_equal),
        idle_timeout=None if idle_timeout is None else microseconds("idle_timeout", idle_timeout),
    )
    return Job("extent_join", "extents", name, inputs, config, outputs, config.idle_timeout)
