"""A table in memory over which expressions are computed, and whose event times may be uncertain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.limits import most_placed
from sfumato.memory.frame import ArrowFrame, frame_of
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.expressions import Expression, parse_expression
from sfumato.tables.reading.job import Computation, Expressions, QueriedFrame
from sfumato.tables.reading.rows import Values
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import Kind, has_more_digits, is_number, kind_of
from sfumato.tables.reading.validity import why_invalid
from sfumato.tables.windows.window_query import extents_per_row, tumbling
from sfumato.windows import LONGEST, Range


class QueriedArrowFrame(ArrowFrame, QueriedFrame):
    """A table whose expressions and uncertain event times are known."""

    @classmethod
    def of(cls, given: Any, argument: str) -> QueriedArrowFrame:
        """Return the frame of a pandas, Polars or Arrow table; see `frame_of`."""
        frame = frame_of(given, argument)
        return cls(frame.table, frame.forgotten)

    @property
    def expressions(self) -> ArrowExpressions:
        return ArrowExpressions(self)

    def by_extent(self, order: str, window: Range) -> tuple[QueriedArrowFrame, str, Range]:
        kind = self.attribute_type(order)
        stamped = pa.types.is_timestamp(kind) and kind.tz is not None
        if not (stamped or pa.types.is_integer(kind)):
            raise TypeError(
                f"`order` names the attribute `{order}`, an uncertain event time: it must be a "
                f"timestamp with a time zone, or whole microseconds; got {kind}"
            )
        extents, tuples = tumbling(window), Tuples(self.table)
        times = tuples.fields[order].cast(pa.int64())
        known = times.is_valid().to_numpy(zero_copy_only=False)
        time = times.fill_null(0).to_numpy()
        known &= (time >= -LONGEST) & (time <= LONGEST)
        valid = ~why_invalid(self.table, []).invalid
        valid &= tuples.lengths <= most_placed(extents_per_row(window))
        valid[tuples.owner[~known]] = False
        row, extent, chosen, lengths = _spread(tuples, np.where(known, time, 0), valid, window)
        last = pa.array(
            extent * window.slide_us + window.slide_us - 1, pa.int64(), mask=~valid[row]
        )
        at = self.free_name("__extent_time")
        flat = tuples.flat.take(pa.array(chosen))
        lists = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), flat)
        place = self.columns.index(ALTERNATIVES)
        rows = self.table.take(pa.array(row))
        rows = rows.set_column(place, pa.field(ALTERNATIVES, lists.type), lists)
        rows = rows.append_column(at, last.cast(kind) if stamped else last)
        return QueriedArrowFrame(rows, self.forgotten), at, extents

    def with_true_extents(self, answers: pa.Table, window: Range) -> pa.Table:
        place = answers.column_names.index("window")
        field = answers.schema.field(place)
        end = as_array(answers.column("window")).field("end")
        whole = end.cast(pa.int64()).to_numpy(zero_copy_only=False)
        start = pa.array(whole - window.length_us, pa.int64()).cast(end.type)
        both = pa.StructArray.from_arrays([start, end], fields=list(field.type))
        return answers.set_column(place, field, both)


def _spread(
    tuples: Tuples, time: Ints, valid: np.ndarray, window: Range
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return (row, extent, alternatives, their number) of each tuple in each extent it may be in.

    Alternatives are places among all of them, in their order. Invalid tuples keep all of their
    alternatives, in no extent.
    """
    first = time // window.slide_us  # extent i ends at (i + 1) * slide
    count = np.where(valid[tuples.owner], (time + window.length_us) // window.slide_us - first, 0)
    place = np.repeat(np.arange(len(time)), count)
    number = np.arange(len(place)) - np.repeat(offsets_of(count)[:-1], count)
    row, extent = tuples.owner[place], first[place] + number
    bad = np.flatnonzero(~valid[tuples.owner])
    without = np.flatnonzero(~valid & (tuples.lengths == 0))
    row = np.concatenate([row, tuples.owner[bad], without])
    extent = np.concatenate([extent, np.zeros(len(bad) + len(without), np.int64)])
    place = np.concatenate([place, bad, np.full(len(without), -1)])
    order = np.lexsort((place, extent, row))
    row, extent, place = row[order], extent[order], place[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (np.diff(row) != 0) | (np.diff(extent) != 0)
    groups = np.cumsum(begins) - 1
    lengths = np.bincount(groups, place >= 0, int(begins.sum())).astype(np.int64)
    return row[begins], extent[begins], place[place >= 0], lengths


class ArrowExpressions(Expressions):
    """Expressions over a table: attributes, columns, fields of structs (m.mean), numbers, + - * /,
    conditions and parentheses."""

    def __init__(self, frame: ArrowFrame) -> None:
        self.frame = frame

    def check(self, argument: str, expression: str) -> None:
        self._parsed(argument, expression)

    def _parsed(self, argument: str | None, text: str) -> Expression:
        """Return what a text means; argument : what errors call it, None of a plain name."""
        plain = argument is None or text in (*self.frame.attributes, *self.frame.columns)
        quoted = "`" + text.replace("`", "``") + "`"
        return parse_expression(argument or "window.on", quoted if plain else text)

    def not_a_number(self, expression: str) -> str | None:
        cells = self._values_of(expression, self.frame.table.slice(0, 0))
        if cells is None:
            return None
        kind = cells.type
        known = is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)
        return None if known or pa.types.is_null(kind) else str(kind)

    def value_type(self, expression: str) -> tuple[Any, Kind]:
        cells = self._values_of(expression, self.frame.table.slice(0, 0))
        kind = pa.float64() if cells is None else cells.type
        return kind, kind_of(kind)

    def more_digits(self, expression: str) -> str | None:
        values = self._values_of(expression, self.frame.table)
        return str(values.type) if values is not None and has_more_digits(values) else None

    def _values_of(self, expression: str, rows: pa.Table) -> pa.Array | None:
        """Return the values of an expression; None where reading them will raise."""
        try:
            return Tuples(rows).values_of_any_type(self._parsed("", expression))
        except (TypeError, ValueError):
            return None

    def computation(self, expressions: Sequence[str], arguments: Mapping[str, str]) -> Computation:
        return Computation([Values(self._parsed(arguments.get(of), of)) for of in expressions])
