"""Possible worlds as rows: tuples drawn once per world, and answers counted over all worlds.

Within a world, every operator's answers are certain, so a chain of operators is correct even if its
rows share readings. A draw depends only on the tuple's source and id and on the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arguments import whole
from sfumato.operators.arrays import offsets_of
from sfumato.operators.distributions.independent_distribution import draw_tuples
from sfumato.tables.arrow import as_array
from sfumato.tables.keys import group_rows, normalize_zeros
from sfumato.tables.reading.frame import ADDED_COLUMN, EXISTENCE, WORLDS, Frame, error_of
from sfumato.tables.reading.job import draw_metadata
from sfumato.tables.reading.results import (
    Output,
    OutputField,
    alternatives_type,
    mark_shared,
    passthrough_outputs,
)
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, UncertainTable
from sfumato.tables.reading.validity import Reasons, why_invalid

WORLD, ERROR = "world", "error"
MAX_WORLDS = 1_000_000
ROWS_AT_ONCE = 1 << 17  # drawn rows per part


@dataclass(frozen=True)
class Draw:
    """The checked arguments of `draw_worlds` over a frame.

    source, ids : the source's name and the id columns, which together identify a tuple
    passthrough : columns that are kept    attributes : columns drawn from the alternatives
    """

    source: str
    ids: tuple[str, ...]
    worlds: int
    passthrough: tuple[str, ...]
    attributes: tuple[str, ...]
    max_alternatives: int

    @classmethod
    def of(cls, frame: Frame, worlds: Any, source: Any, id_: Any) -> Draw:
        if whole("n", worlds) > MAX_WORLDS:
            raise ValueError(f"`n` must be at most {MAX_WORLDS:,} worlds; got {worlds}")
        if not isinstance(source, str) or not source:
            raise TypeError(
                "`source` must be a string that names the source of the tuples, because tuples "
                f"with the same source and id get the same draw; got {source!r}"
            )
        ids = frame.group_columns("id", id_)
        if not ids:
            raise ValueError("`id` must name the column(s) that identify a tuple; got none")
        frame.require_tuples()
        frame.require_independent("draw_worlds")
        if frame.worlds is not None:
            raise ValueError(f"the {frame.noun} already has the rows of drawn worlds")
        if frame.filtered_by:
            raise ValueError(
                "draw_worlds must come before sf.where and sf.prune, which remove alternatives: "
                "filter the drawn rows instead, with the same condition"
            )
        kept = [name for name in frame.columns if name not in (ALTERNATIVES, EXISTENCE)]
        for name in (*frame.attributes, WORLD):
            same = frame.find_column(name)
            if same is not None and same in kept:
                raise ValueError(
                    f"the {frame.noun} already has a column `{same}`, but `{name}` must be free "
                    "for the drawn rows: rename or drop the column"
                )
        return cls(
            source, tuple(ids), worlds, tuple(kept), tuple(frame.attributes), frame.max_alternatives
        )

    def outputs(self, frame: Frame) -> list[Output]:
        added = {ADDED_COLUMN: "true"}  # so that ties are ordered equally in all worlds
        found = passthrough_outputs(frame, self.passthrough)
        for name in self.attributes:
            found.append(Output(name, (f"c{len(found)}",), frame.attribute_type(name), added))
        draws = draw_metadata(frame, self.source, self.ids)
        marked = {**added, WORLDS: str(self.worlds), **draws}
        return [*found, Output(WORLD, (f"c{len(found)}",), pa.int32(), marked)]

    def why_invalid(self, table: pa.Table) -> Reasons:
        reasons = why_invalid(table, None, max_alternatives=self.max_alternatives)
        for name in self.ids:
            missing = as_array(table.column(name)).is_null()
            reasons.add(missing.to_numpy(zero_copy_only=False), "id is NULL")
        return reasons

    def parts(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the draws of valid rows in parts, ordered by row, then world."""
        step = max(1, ROWS_AT_ONCE // self.worlds)
        for begin in range(0, table.num_rows, step):
            yield self._draw(table.slice(begin, step))

    def _draw(self, table: pa.Table) -> pa.Table:
        tuples = UncertainTable(table)
        exists = EXISTENCE if EXISTENCE in table.column_names else None
        prob = tuples.prob(exists).flatten().to_numpy(zero_copy_only=False)
        offsets = offsets_of(tuples.lengths)
        row, world, place = draw_tuples(offsets, prob, self._hashes(table), self.worlds)
        columns = table.select(list(self.passthrough)).take(pa.array(row)).columns
        places = pa.array(place)
        columns += [tuples.fields[name].take(places) for name in self.attributes]
        columns.append(pa.array(world, pa.int32()))
        return pa.table(columns, [f"c{i}" for i in range(len(columns))])

    def _hashes(self, table: pa.Table) -> np.ndarray:
        """Return uint64[n]: a hash of source and id, equal for integers of any width."""
        columns = [pa.array([self.source] * table.num_rows, pa.string())]
        for name in self.ids:
            column = as_array(table.column(name))
            columns.append(column.cast(pa.int64()) if pa.types.is_integer(column.type) else column)
        named = pa.table(columns, [f"c{i}" for i in range(len(columns))])
        return ties_of(named).to_numpy(zero_copy_only=False).view(np.uint64)


@dataclass(frozen=True)
class Merge:
    """The checked arguments of `merge_worlds` over a frame.

    key : columns that identify an answer    columns : its values    world : the world column
    """

    key: tuple[str, ...]
    columns: tuple[str, ...]
    world: str
    worlds: int

    @classmethod
    def of(cls, frame: Frame, key: Any, columns: Any, worlds: Any) -> Merge:
        if frame.streams:
            raise ValueError(
                "merge_worlds needs a static frame, because an answer is complete once all worlds "
                "have emitted it: write the answers of the stream to a table, and merge the table"
            )
        known = frame.worlds
        if worlds is None and known is None:
            raise ValueError(
                "merge_worlds needs the number of worlds: write it as in sf.draw_worlds, for "
                "example n=1000 (files and some pandas and Polars functions drop this number)"
            )
        world = frame.single_column("world", WORLD) if known is None else known[0]
        number = whole("n", worlds) if known is None else known[1]
        if worlds is not None and worlds != number:
            raise ValueError(f"`n` must be {number}, the number of drawn worlds; got {worlds}")
        keys = [name for name in frame.resolve("key", key) if name != world]
        values = frame.resolve("columns", columns)
        if "prob" in values:
            raise ValueError(
                "`columns` must not name `prob`, which is reserved for the probabilities of "
                "alternatives: rename the column"
            )
        both = [name for name in values if name in (*keys, world)]
        if both:
            raise ValueError(
                f"`columns` must not contain a column of `key` or the world column; got {both[0]}"
            )
        for name in (*keys, *values):
            if not frame.is_groupable(name):
                raise TypeError(
                    f"column `{name}` must have values that can be compared for equality; it "
                    f"is {frame.type_name(name)}"
                )
        taken = [name for name in (ALTERNATIVES, EXISTENCE, ERROR) if name in keys]
        if taken:
            raise ValueError(
                f"`key` must not name `{taken[0]}`, which is a column of the result: rename the "
                "column"
            )
        return cls(tuple(keys), tuple(values), world, number)

    def outputs(self, frame: Frame) -> list[Output]:
        found = [Output(name, (name,), frame.type(name), frame.metadata(name)) for name in self.key]
        if self.columns:
            fields = (OutputField(name, frame.type(name)) for name in self.columns)
            found.append(Output(ALTERNATIVES, (ALTERNATIVES,), alternatives_type(fields)))
        else:
            found.append(Output(EXISTENCE, (EXISTENCE,), pa.float64()))
        found.append(Output(ERROR, (ERROR,), pa.float64()))
        return mark_shared(found, "answers merged over worlds", own=())

    def merge(self, table: pa.Table) -> pa.Table:
        """Return the answers over all worlds, in order of first row; alternatives by value."""
        keys = normalize_zeros(table.select(list(self.key)))
        of, first = group_rows(keys)
        first = first if table.num_rows else first[:0]
        answers, world = first.size, as_array(table.column(self.world)).cast(pa.int64()).to_numpy()
        if world.size and (world.min() < 0 or world.max() >= self.worlds):
            raise ValueError(self.unknown_world_error)
        if np.unique(of * self.worlds + world).size != of.size:
            raise ValueError(self.duplicate_answer_error)
        result = {name: keys.column(name).take(pa.array(first)) for name in self.key}
        if self.columns:
            values = normalize_zeros(table.select(list(self.columns)))
            code, one = group_rows(values)
            rows = [*zip(*(cells.to_pylist() for cells in values.take(one).columns), strict=True)]
            order = np.array(sorted(range(len(rows)), key=lambda i: _comparable(rows[i])), np.int64)
            pairs, count = np.unique(of * one.size + np.argsort(order)[code], return_counts=True)
            places = pa.array(one[order][pairs % max(one.size, 1)])
            cells = [pa.array(count / self.worlds), *values.take(places).columns]
            flat = pa.StructArray.from_arrays(map(as_array, cells), ["prob", *self.columns])
            lengths = np.bincount(pairs // max(one.size, 1), minlength=answers)
            offsets = pa.array(offsets_of(lengths), pa.int32())
            result[ALTERNATIVES] = pa.ListArray.from_arrays(offsets, flat)
        else:
            result[EXISTENCE] = pa.array(np.bincount(of, minlength=answers) / self.worlds)
        result[ERROR] = pa.array(np.full(answers, error_of(self.worlds)))
        return pa.table(result)

    @property
    def unknown_world_error(self) -> str:
        return f"`{self.world}` must contain only world numbers from 0 to {self.worlds - 1}"

    @property
    def duplicate_answer_error(self) -> str:
        return (
            "`key` must identify one answer per world, but a world has several answers with the "
            f"same {', '.join(self.key) or 'empty key'}: add the columns that differ"
        )


def _comparable(value: Any) -> tuple[Any, ...]:
    """Return a sort key: NULL first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return (1, [_comparable(part) for part in parts])
    return (2,) if value != value else (1, value)
