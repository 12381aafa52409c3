"""The layout of an input's columns in saved state, and columns added to a running query.

State stores rows by position: as columns c0, c1, ... or as fields c0, c1, ... of the struct `row`,
and in chunks under generated names. A saved `InputLayout` locates the columns after
pass-through columns have been added. Earlier rows have NULL in the new columns.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sfumato.operators.state.snapshot import SnapshotError
from sfumato.tables.arrow import fields_of
from sfumato.tables.operator import ROW, SIDES

Layout = list[list[dict[str, Any]]]  # for every input of every step, as JSON values


@dataclass(frozen=True)
class InputLayout:
    """The places of an input's columns.

    columns : (name, type) of each column of the frame, in order
    row : the pass-through columns, in the order of the fields of `row`
    chunk : the name in chunks of each column that is read; empty for answers of an earlier step
    uses : the columns that are read for purposes other than passing them on or breaking ties
    types : types of the columns in `row`, for NULLs
    """

    columns: tuple[tuple[str, str], ...] = ()
    row: tuple[str, ...] = ()
    chunk: Mapping[str, str] = field(default_factory=dict)
    uses: frozenset[str] = frozenset()
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"columns": [[*of] for of in self.columns], "row": [*self.row], "chunk": self.chunk}


class AddedColumns:
    """The conversion of an input's saved rows to a layout with more columns.

    before : the saved layout, as JSON values    now : the query's layout
    Raises ValueError if the columns changed in any other way.
    """

    def __init__(self, before: Mapping[str, Any], now: InputLayout) -> None:
        self.before, self.now = before, now
        then, columns = dict(before["columns"]), dict(now.columns)
        added = columns.keys() - then.keys()
        wrong = [
            f"column `{name}` was {kind} and is now {columns[name]}"
            if name in columns
            else f"column `{name}` is missing (keep it: CAST(NULL AS {kind}) AS `{name}`)"
            for name, kind in then.items()
            if columns.get(name) != kind
        ]
        wrong += [
            f"column `{name}` is new, but the operator reads it"
            for name in columns
            if name in added and name in now.uses
        ]
        order = [name for name in columns if name in then]
        if not wrong and order != [*then]:
            wrong.append(
                f"the columns were {', '.join(then)} and are now {', '.join(order)} (select the "
                "columns in their earlier order)"
            )
        # Columns of the plan, such as ties, are not in the frame.
        places = ((before["row"], now.row), (before["chunk"], now.chunk))
        if not wrong and any({*new} - {*old} - added or {*old} - {*new} for old, new in places):
            wrong.append("the operators no longer pass on the same columns")
        if not wrong and any(not added.isdisjoint(old) for old, _ in places):
            names = ", ".join(sorted(added))
            wrong.append(f"the state already has columns {names}: rename the new columns")
        if wrong:
            raise ValueError("; ".join(wrong))

    def chunk(self, rows: pa.Table) -> pa.Table:
        """Rename a chunk's columns to their current names, and add new columns."""
        then, n = self.before["chunk"], rows.num_rows
        columns = {
            new: rows.column(then[name]) if name in then else self._nulls(name, n)
            for name, new in self.now.chunk.items()
        }
        return pa.table(columns)

    def rows(self, table: pa.Table) -> pa.Table:
        """Move the columns of a saved table to their current places, and add new columns."""
        if ROW in table.column_names:
            cells = self._cells(fields_of(table.column(ROW)), table.num_rows)
            row = pa.StructArray.from_arrays([*cells.values()], [*cells])
            return table.set_column(table.column_names.index(ROW), ROW, row)
        cells = dict(zip(table.column_names, table.columns, strict=True))
        return pa.table(self._cells(cells, table.num_rows))

    def _cells(self, cells: Mapping[str, Any], n: int) -> dict[str, Any]:
        """Return the columns c0, c1, ... in their current places; see `rows`."""
        place = {name: f"c{i}" for i, name in enumerate(self.before["row"])}
        found = {}
        for i, name in enumerate(self.now.row):
            if name not in place:
                found[f"c{i}"] = self._nulls(name, n)
            elif place[name] in cells:
                found[f"c{i}"] = cells[place[name]]
        return found or dict(cells)

    def _nulls(self, name: str, n: int) -> pa.Array:
        return pa.nulls(n, self.now.types[name])


def has_rows(table: pa.Table) -> bool:
    """Return whether a saved table has pass-through columns: `row`, or c0, c1, ... instead."""
    fields = [re.fullmatch(r"c\d+", name) for name in table.column_names]
    return ROW in table.column_names or (bool(fields) and all(fields))


class LayoutChange:
    """The conversion of a chain's state to a layout with more columns; see `AddedColumns`."""

    def __init__(self, before: Layout, now: Sequence[Sequence[InputLayout]]) -> None:
        self.steps: list[list[AddedColumns]] = []
        for step, (then, inputs) in enumerate(zip(before, now, strict=True)):
            self.steps.append([])
            for side, one in enumerate(inputs):
                try:
                    self.steps[-1].append(AddedColumns(then[side], one))
                except ValueError as error:
                    where = f"step {step}: " if len(now) > 1 else ""
                    where += f"the {SIDES[side]} side: " if len(inputs) > 1 else ""
                    raise ValueError(f"{where}{error}") from None

    def saved(self, name: str, table: pa.Table) -> pa.Table:
        """Return a table of a snapshot in the current layout. name : its name in the snapshot"""
        step, *path = name.split(".")
        if not has_rows(table):
            return table
        inputs = self.steps[int(step.removeprefix("step"))]
        sides = [SIDES.index(part) for part in path if part in SIDES] if len(inputs) > 1 else [0]
        if len(sides) != 1:
            raise SnapshotError(f"`{name}` does not name the side of its rows")
        return inputs[sides[0]].rows(table)
