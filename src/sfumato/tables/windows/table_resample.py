"""Resampling to a regular time grid per key, over Arrow tables: the operator and its job."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats, Ints, grouped, pad, ranges_of, running_maximum
from sfumato.operators.state.declared import Array, Part
from sfumato.tables.arrow import SECOND_US, as_numbers, as_times, fields_of, numbers_of
from sfumato.tables.disorder.released import ReleasedOperator, ReleasedTableConfig
from sfumato.tables.operator import ROW
from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    CONTROLLER_COLUMNS,
    EXISTENCE,
    WORLDS,
    Frame,
    forget_after_of,
    order_metadata,
)
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import (
    Output,
    mark_repeated,
    mark_shared,
    passthrough_outputs,
    row_marks,
)
from sfumato.tables.reading.rows import (
    ColumnReader,
    Doubles,
    Reading,
    Rule,
    Ties,
    controller_readers,
)
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import SHARED_KEY
from sfumato.tables.row_store import RowStore
from sfumato.tables.scope import BEGINNING, check_order, scope_of
from sfumato.windows import duration_us

RESAMPLED = "points of a resampling"
FILLS = ("last", "linear", "mean", None)
AGE = "age"
MAX_GAP = 1_000_000  # maximum number of points between two rows of a key; longer gaps are skipped


@dataclass(frozen=True, kw_only=True)
class ResampleTableConfig(ReleasedTableConfig):
    """Settings of resampling over tables.

    every, limit : microseconds; no limit if None    fill : one of FILLS
    columns : number of numeric columns value0.. for "linear" and "mean"; other fills use the fields
        of `row` after the keys
    """

    every: int
    limit: int | None = None
    fill: str | None = "last"
    columns: int = 0

    kind, version = "resample", 1
    counters: ClassVar[tuple[str, ...]] = ("rows", "invalid", "late", "out_of_order", "skipped")


class Segments(NamedTuple):
    """Times between consecutive rows, ordered by key and time.

    new : bool[n], whether the grid starts at the row, because no earlier row is known
    before, after : int64[n], start and end of each segment; before = after - 1 if `new`
    earlier, later : int64[n], place in `table` of the row at the start (any row if `new`) and end
    table : the carried columns: first the newest earlier rows, then the new rows
    starts, present : from `grouped`, each key's first segment, and the codes of the keys
    known : bool[keys], whether the key has an earlier row
    """

    new: np.ndarray
    before: Ints
    after: Ints
    earlier: Ints
    later: Ints
    table: pa.Table
    starts: Ints
    present: Ints
    known: np.ndarray


class TableResample(ReleasedOperator):
    """Rows on a regular grid of event time per key, for the keys of one bucket.

    Tables have the columns row (a struct of the keys, then the carried columns), value0..,
    order0 (the event time), key0.., __tie and, with a scope, late and punctuation. Answers have the
    fields of `row` (or the keys and value0..), then order and age.
    A grid point is emitted with the key's first row at or after the point. State: the newest row
    per key.
    """

    config: ResampleTableConfig
    state = {
        "newest": Array(int, "slots"),
        "number": Array(int, "slots", low=-1),
        "rows": Part(),
        "integral": Array(float, "slots", "sums"),
        "covered": Array(float, "slots", "sums"),
    }

    def __init__(self, config: ResampleTableConfig) -> None:
        super().__init__(config)
        self.newest = np.empty(0, np.int64)  # time of each key's newest row
        self.number = np.empty(0, np.int64)  # number of that row in `rows`, or -1
        self.rows = RowStore(lambda: self.number[self.number >= 0])
        columns = config.columns if config.fill == "mean" else 0
        # Per key since its last grid point: each column's integral, and the covered microseconds.
        self.integral, self.covered = np.zeros((2, 0, columns))

    def lengths(self) -> dict[str, int]:
        return {"sums": self.integral.shape[1]}

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        return super().process(batch if self.config.scope is None else self.drop_late(batch), now)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        codes, time = self.codes(rows), as_numbers(rows.column("order0"))
        size = self.index.size or 1
        self.newest = pad(self.newest, size, BEGINNING)
        self.number = pad(self.number, size, -1)
        self.integral, self.covered = pad(self.integral, size), pad(self.covered, size)
        behind = time < self.newest[codes]
        order, starts, present = grouped(codes)
        steps = time[order][1:] < time[order][:-1]
        steps[starts[1:-1] - 1] = False
        if steps.any():
            behind |= time < running_maximum(time, codes)
        if behind.any():
            self.require_one_controller(int(behind.sum()))
            self.counts["late"] += int(behind.sum())
            if self.config.scope is not None:
                self.counts["out_of_order"] += int(behind.sum())
            rows, codes, time = rows.filter(pa.array(~behind)), codes[~behind], time[~behind]
            order, starts, present = grouped(codes)
        if not len(codes):
            return []
        known = self.number[present] >= 0
        if self.config.fill in ("linear", "mean"):
            carried = rows.select([f"value{i}" for i in range(self.config.columns)])
        else:
            carried = pa.table(dict(list(fields_of(rows.column(ROW)).items())[self.config.keys :]))
        held = self.rows.take(self.number[present[known]]) if known.any() else carried.slice(0, 0)
        table = pa.concat_tables([held, carried]).combine_chunks()
        first, later = starts[:-1], order + held.num_rows
        earlier, before = np.roll(later, 1), np.roll(time[order], 1)
        earlier[first[known]] = np.arange(held.num_rows)
        before[first] = self.newest[present]
        new = np.zeros(len(order), bool)
        new[first[~known]] = True
        before = np.where(new, time[order] - 1, before)
        given = earlier, later, table, starts, present, known
        answers = self._resample(rows, Segments(new, before, time[order], *given))
        last = starts[1:] - 1
        self.newest[present] = time[order[last]]
        self.number[present] = self.rows.append(carried.take(pa.array(order[last])))
        self.rows.drop_unneeded(len(self.index) or 1)
        return answers

    def _resample(self, rows: pa.Table, segments: Segments) -> list[pa.Table]:
        every, fill, table = self.config.every, self.config.fill, segments.table
        new, before, after = segments[:3]
        points = after // every - before // every
        skips = points > MAX_GAP
        if skips.any():
            self.counts["skipped"] += int((points - (after % every == 0))[skips].sum())
            new, before = new | skips, np.where(skips, after - 1, before)
            points = after // every - before // every
            segments = segments._replace(new=new, before=before)
        offsets, number = ranges_of(before // every + 1, points)
        of, grid = np.repeat(np.arange(len(points)), points), number * every
        turn = np.argsort(segments.later[of], kind="stable")  # the order of the emitting rows
        if fill == "mean":
            means = self._means(segments, offsets, grid)[turn]
        if not len(grid):
            return []
        of, grid = of[turn], grid[turn]
        exact = grid == after[of]
        age = np.where(exact, 0, grid - before[of])
        row = pa.array(segments.later[of] - (table.num_rows - rows.num_rows))
        keys = list(fields_of(rows.column(ROW)).items())[: self.config.keys]
        columns = {name: field.take(row) for name, field in keys}
        if fill in ("linear", "mean"):
            linear = fill == "linear"
            values = self._lines(segments, of, grid, exact) if linear else means
            numbers = enumerate(values.T)
            columns |= {f"value{i}": pa.array(x, mask=~np.isfinite(x)) for i, x in numbers}
        else:
            limit = every - 1 if fill is None else self.config.limit
            old = np.zeros(len(age), bool) if limit is None else age > limit
            place = pa.array(np.where(exact, segments.later[of], segments.earlier[of]), mask=old)
            columns |= {name: table.column(name).take(place) for name in table.column_names}
        kind = rows.schema.field("order0").type
        seconds = age / SECOND_US if pa.types.is_timestamp(kind) else age.astype(float)
        return [pa.table(columns | {"order": as_times(grid, kind), AGE: seconds})]

    def _lines(self, segments: Segments, of: Ints, grid: Ints, exact: np.ndarray) -> Floats:
        """Return float64[points, columns]: linear interpolation between neighbouring rows."""
        values = numbers_of(segments.table, segments.table.column_names)
        length = segments.after - segments.before
        begin, end = values[segments.earlier[of]], values[segments.later[of]]
        share = ((grid - segments.before[of]) / length[of])[:, None]
        found = np.where(exact[:, None], end, begin + (end - begin) * share)
        if self.config.limit is not None:
            found[~exact & (length[of] > self.config.limit)] = np.nan
        return found

    def _means(self, segments: Segments, offsets: Ints, grid: Ints) -> Floats:
        """Return float64[points, columns]: time-weighted means over (point - every, point].

        Each cell's integrals are summed from left to right, so that sums do not depend on how rows
        are split into calls.
        """
        new, before, after, earlier, _, table, starts, present, known = segments
        # A run of segments without a gap has one cell per point, and an open cell at its end.
        begins = new.copy()
        begins[starts[:-1]] = True
        run = np.cumsum(begins) - 1
        pieces, number = ranges_of(offsets[:-1], np.diff(offsets) + 1)
        of = np.repeat(np.arange(len(before)), np.diff(pieces))
        piece = np.arange(len(of)) - pieces[of]
        begin = np.where(piece == 0, before[of], 0)
        inner = np.flatnonzero(piece > 0)
        begin[inner] = grid[number[inner] - 1]
        end = after[of]
        inner = np.flatnonzero(piece < np.diff(offsets)[of])
        end[inner] = grid[number[inner]]
        if self.config.limit is not None:
            end = np.minimum(end, before[of] + self.config.limit)
        time = np.where(new[of], 0, np.maximum(end - begin, 0)).astype(float)
        cell, cells = number + run[of], len(grid) + run[-1] + 1
        closed = np.arange(len(grid)) + run[np.repeat(np.arange(len(before)), np.diff(offsets))]
        first, last = starts[:-1], starts[1:] - 1
        goes_on = known & ~new[first]
        opening, going_on = (offsets[first] + run[first])[goes_on], present[goes_on]
        still_open = offsets[last + 1] + run[last]
        values = numbers_of(table, table.column_names)[earlier[of]]
        values[~np.isfinite(values)] = np.nan
        means = np.empty((len(grid), values.shape[1]))
        cell = np.concatenate([opening, cell])
        for i, x in enumerate(values.T):
            valid = np.where(np.isnan(x), 0.0, time)
            sums = [
                np.bincount(cell, np.concatenate([held[going_on, i], weight]), cells)
                for held, weight in (
                    (self.integral, np.where(valid > 0, x, 0.0) * valid),
                    (self.covered, valid),
                )
            ]
            self.integral[present, i], self.covered[present, i] = (s[still_open] for s in sums)
            with np.errstate(invalid="ignore", divide="ignore"):
                means[:, i] = sums[0][closed] / sums[1][closed]
        return means

    def forget(self, codes: np.ndarray) -> None:
        self.newest[codes], self.number[codes] = BEGINNING, -1
        self.integral[codes] = self.covered[codes] = 0.0

    def after_loading(self) -> None:
        super().after_loading()
        held = np.sort(self.number[self.number >= 0])
        if len(self.number) > (self.index.size or 1) or not np.array_equal(held, self.rows.numbers):
            raise ValueError("it must hold the newest row of every key")


def resample_job(
    frame: Frame,
    every: str | timedelta,
    order: str,
    key: str | Sequence[str] | None,
    columns: str | Sequence[str] | None,
    fill: str | None,
    limit: str | timedelta | None,
    forget_after: str | timedelta | None,
    name: str | None,
) -> Job:
    step, most = duration_us("every", every), None if limit is None else duration_us("limit", limit)
    if fill not in FILLS:
        raise ValueError(f'`fill` must be "last", "linear", "mean" or None; got {fill!r}')
    if most is not None and fill is None:
        raise ValueError(
            "`limit` needs a `fill`, because it bounds the gaps that are filled; got "
            'fill=None. Write fill="last"'
        )
    frame.require_tuples()
    order, keys = frame.single_column("order", order), frame.keys("key", key)
    frame.require_time("order", order)
    for argument, column in [("order", order), *(("key", column) for column in keys)]:
        # An added column is an unnamed expression here, unless it numbers drawn worlds.
        if ADDED_COLUMN in frame.metadata(column) and WORLDS not in frame.metadata(column):
            raise TypeError(
                f"`{argument}` names a column of the result, but the expression has no name: add "
                'one, as with .alias("ts")'
            )
    frame.require_late()
    frame.require_event_time("order", [order])
    numeric, wanted = fill in ("linear", "mean"), _columns(frame, columns, order, keys, fill)
    if AGE in map(str.lower, [*keys, order, *wanted]):
        raise ValueError(f"the {frame.noun} already has a column `{AGE}`: rename or drop it first")
    scope = None
    if frame.marks_late([order]):
        scope = scope_of(
            keys, frame.ordered_by_keys("punctuation") or [], "the grid cannot be known"
        )
    elif frame.streams:
        check_order(keys, frame.in_order_for)
    config = ResampleTableConfig(
        every=step,
        limit=most,
        fill=fill,
        columns=len(wanted) if numeric else 0,
        keys=len(keys),
        scope=scope,
        forget_after=forget_after_of(frame, order, keys, forget_after),
        one_controller=frame.is_strictly_ordered([order], keys),
    )
    values: list[tuple[str, ColumnReader]] = controller_readers() if scope is not None else []
    carried = (*keys, *(() if numeric else wanted))
    rule = Rule(complete=("order0",), timed=True)
    if numeric:
        values += [(f"value{i}", Doubles(column)) for i, column in enumerate(wanted)]
    reading = Reading(carried, (order,), tuple(keys), tuple(values), rule, Ties(frame.tie_columns))
    outputs = passthrough_outputs(frame, carried)
    metadata = order_metadata(keys, forgets=forget_after is not None)
    outputs.insert(len(keys), Output(order, ("order",), frame.type(order), metadata))
    if numeric:
        outputs += [Output(column, (f"value{i}",), pa.float64()) for i, column in enumerate(wanted)]
    outputs.append(Output(AGE, (AGE,), pa.float64(), {ADDED_COLUMN: "true"}))
    if fill is None:  # each row is at one point, so only marks of the given rows remain
        outputs = mark_shared(outputs, row_marks(frame).get(SHARED_KEY), own=())
    else:
        outputs = mark_repeated(outputs, RESAMPLED, [order, *keys, AGE])
        outputs = mark_shared(outputs, None if frame.certain else RESAMPLED, own=())
    # Without `columns`, new columns of any type are carried and must not change the fingerprint.
    about = {"columns": wanted} if numeric or columns is not None else {}
    given = [Input(frame, reading, about)]
    return Job("resample", "resample", name, given, config, outputs)


def _columns(
    frame: Frame, given: str | Sequence[str] | None, order: str, keys: Sequence[str], fill: object
) -> list[str]:
    fixed = {
        order,
        *keys,
        *(CONTROLLER_COLUMNS if frame.has_punctuations else ()),
        frame.duplicate_column,
    }
    uncertain = [name for name in (ALTERNATIVES, EXISTENCE) if name in frame.columns]
    named = frame.resolve("columns", given)
    if wrong := [name for name in named if name in fixed]:
        raise ValueError(
            "`columns` must not name `order`, `key` or columns of a disorder controller; got "
            f"{', '.join(wrong)}. Leave these columns out"
        )
    found = [*dict.fromkeys([*named, *uncertain])]
    found = found if named else [name for name in frame.columns if name not in fixed]
    if not found:
        raise ValueError("`columns` must name at least one column; got none")
    if fill in ("linear", "mean"):
        if uncertain:
            raise ValueError(
                f'`fill` must be "last" or None for uncertain rows, which have `{uncertain[0]}`; '
                f'got "{fill}". Resample a column of their expected values, without '
                f"`{uncertain[0]}`"
            )
        frame.require_numbers("columns", found)
    return found
