"""A table's rows as uncertain tuples: their alternatives, and values per alternative."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.near_misses import did_you_mean
from sfumato.operators.arguments import RESCALED_SUM_TOLERANCE, SUM_TOLERANCE
from sfumato.operators.arrays import Bools, Ints, offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.expressions import (
    ColumnRef,
    Expression,
    evaluate,
    evaluate_doubles,
    field_at,
    find_name,
    names_in,
)
from sfumato.tables.reading.types import as_doubles, floats_of, is_list, lengths_of

ALTERNATIVES = "alternatives"
PRUNED, CONFLICT = "pruned", "conflict"  # columns that `prune` and `fuse` add
WANTED_PROB = "`prob` must be a column of lists of numbers; for a map, write F.map_values(m)"
_OF_A_MAP = "for a map, write alternatives(F.map_keys(m), F.map_values(m))"


def wanted_values(field: str | None, names: Sequence[str] | None, points: bool) -> str:
    if field is not None:
        return (
            f"`values` must be a column of lists of structs with a field `{field}`, their "
            "probability; for numbers, write alternatives(values, prob) with a column of lists of "
            f"their probabilities; {_OF_A_MAP}"
        )
    if points:
        return (
            "`values` must be a column of lists of lists of coordinates, because of points=True; "
            "leave `points` out for structs or numbers"
        )
    if names is not None:
        return (
            f"`values` must be a column of lists of structs with the fields {', '.join(names)}, "
            'because `attributes` is a list; for numbers, write one name as a string, "speed"; '
            "for lists of coordinates, add points=True"
        )
    return (
        "`values` must be a column of lists of numbers; for structs, name the fields to use, "
        'alternatives(values, prob, ["speed"]), or leave `prob` out if the structs have a field '
        f"`prob`; {_OF_A_MAP}; for lists of coordinates, write a list of names and points=True"
    )


def attributes_of(kind: pa.DataType, shown: object) -> list[str]:
    """Return the attribute names of alternatives of this type. shown : the type in errors"""
    element = kind.value_type if is_list(kind) else kind
    names = [field.name for field in element] if pa.types.is_struct(element) else []
    if pa.types.is_null(kind):
        raise TypeError(
            f"column `{ALTERNATIVES}` has no value, so its type is unknown: pandas keeps no type "
            "for such a column. Use an Arrow or Polars table, or a frame that has a value"
        )
    if not is_list(kind) or "prob" not in names:
        raise TypeError(
            f"column `{ALTERNATIVES}` must be array<struct<prob: double, ATTR: double, ...>>; got "
            f"{shown}. Create it with sf.alternatives or sf.samples"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"the structs of column `{ALTERNATIVES}` have several fields called {twice[0]!r}: "
            "rename or drop some"
        )
    return [name for name in names if name != "prob"]


class UncertainTable:
    """The tuples of a table. Without alternatives, each row is one alternative, its plain columns.

    column : list<struct>, the alternatives    flat : all alternatives, row after row
    fields : fields of `flat` by name; NULL for a NULL alternative
    lengths : int64[n], number of alternatives per row, 0 for NULL
    offsets : int32[n + 1], start of each row in `flat`    owner : int64[m], row of each alternative
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.uncertain = ALTERNATIVES in table.column_names
        self.attributes: list[str] = []
        if self.uncertain:
            kind = table.schema.field(ALTERNATIVES).type
            self.attributes = attributes_of(kind, kind)

    @cached_property
    def column(self) -> pa.Array:
        return as_array(self.table.column(ALTERNATIVES))

    @cached_property
    def flat(self) -> pa.Array:
        return self.column.flatten()

    @cached_property
    def fields(self) -> dict[str, pa.Array]:
        return fields_of(self.flat)

    @cached_property
    def lengths(self) -> Ints:
        if not self.uncertain:
            return np.ones(self.table.num_rows, np.int64)
        return lengths_of(self.column)

    @cached_property
    def offsets(self) -> pa.Array:
        if not self.uncertain:
            return pa.array(np.arange(self.table.num_rows + 1, dtype=np.int32))
        return pa.array(offsets_of(self.lengths), pa.int32())

    @cached_property
    def owner(self) -> Ints:
        rows = np.arange(self.table.num_rows)
        return np.repeat(rows, self.lengths) if self.uncertain else rows

    def prob(self, existence: str | None) -> pa.Array:
        """Return list<double>: the probabilities; without alternatives, `existence` or 1.

        Sums above 1 by the rounding errors of single precision are scaled to 1.
        """
        if self.uncertain:
            given = as_doubles(self.fields["prob"], "`prob` of the alternatives")
            total = np.bincount(self.owner, floats_of(given), self.table.num_rows)
            above = (total > 1.0 + SUM_TOLERANCE) & (total <= 1.0 + RESCALED_SUM_TOLERANCE)
            if above.any():
                given = pc.divide(given, pa.array(np.where(above, total, 1.0)[self.owner]))
            return self.lists(given)
        if existence is None:
            return self.lists(pa.array(np.ones(self.table.num_rows)))
        given = as_doubles(self.table.column(existence), f"`{existence}`")
        return self.lists(pc.min_element_wise(given, 1.0, skip_nulls=False))

    def absent(self, existence: str | None) -> Bools:
        """Return bool[n]: whether a row without alternatives has existence 0."""
        if self.uncertain or existence not in self.table.column_names:
            return np.zeros(self.table.num_rows, np.bool_)
        given: Bools = floats_of(as_doubles(self.table.column(existence), f"`{existence}`")) == 0.0
        return given

    def values(self, expression: Expression, exact: bool = False) -> pa.Array:
        if exact:
            return self.lists(self.evaluate(expression))
        return self.lists(evaluate_doubles(expression, self.cells, len(self.owner)))

    def evaluate(self, expression: Expression) -> pa.Array:
        return evaluate(expression, self.cells, len(self.owner))

    def cells(self, name: ColumnRef) -> pa.Array:
        """Return the values of an attribute or column for every alternative."""
        attribute = find_name(name.parts[0], self.attributes)
        if attribute is not None:
            return field_at(self.fields[attribute], name)
        column = find_name(name.parts[0], self.table.column_names)
        if column is None:
            known = [*self.attributes, *self.table.column_names]
            raise ValueError(
                f"there is no column or attribute `{name.parts[0]}`; the known names are "
                f"{', '.join(known)}{did_you_mean(name.parts[0], known)}"
            )
        cells = field_at(as_array(self.table.column(column)), name)
        return cells.take(pa.array(self.owner)) if self.uncertain else cells

    def has_attribute(self, expression: Expression) -> bool:
        names = (name.parts[0] for name in names_in(expression))
        return any(find_name(name, self.attributes) is not None for name in names)

    def lists(self, values: pa.Array) -> pa.Array:
        """Return the values of all alternatives as one list per row, NULL for NULL."""
        if not self.uncertain or not self.column.null_count:
            return pa.ListArray.from_arrays(self.offsets, values)
        return pa.ListArray.from_arrays(self.offsets, values, mask=self.column.is_null())
