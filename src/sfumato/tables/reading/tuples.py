"""The rows of a table as uncertain tuples: their alternatives, and values for each of these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.near_misses import did_you_mean
from sfumato.operators.arrays import Bools, Ints, offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.expressions import (
    Expression,
    Name,
    doubles,
    evaluated,
    field_at,
    found,
    names_in,
)
from sfumato.tables.reading.types import as_doubles, floats_of, is_list, lengths_of

ALTERNATIVES = "alternatives"


def attributes_in(schema: pa.Schema) -> list[str]:
    """Names of the attributes of a table's alternatives; none where it has no alternatives.

    Raises TypeError when the column `alternatives` is not a list of structs with a `prob`.
    """
    if ALTERNATIVES not in schema.names:
        return []
    kind = schema.field(ALTERNATIVES).type
    element = kind.value_type if is_list(kind) else kind
    names = [field.name for field in element] if pa.types.is_struct(element) else []
    if not is_list(kind) or "prob" not in names:
        raise TypeError(
            f"column `{ALTERNATIVES}` must be list<struct<prob: double, ATTR: double, ...>>; got "
            f"{kind}: make it with sf.alternatives"
        )
    return [name for name in names if name != "prob"]


class Tuples:
    """The tuples of a table; without alternatives each row is one, of its plain columns."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.attributes = attributes_in(table.schema)
        self.uncertain = ALTERNATIVES in table.column_names

    @cached_property
    def column(self) -> pa.Array:
        """The alternatives: list<struct>."""
        return as_array(self.table.column(ALTERNATIVES))

    @cached_property
    def flat(self) -> pa.Array:
        """All alternatives, one behind the other: structs."""
        return self.column.flatten()

    @cached_property
    def fields(self) -> dict[str, pa.Array]:
        """Of all alternatives, by name; NULL where the alternative is."""
        return fields_of(self.flat)

    @cached_property
    def lengths(self) -> Ints:
        """int64[n]: alternatives of each row; 0 where they are NULL."""
        if not self.uncertain:
            return np.ones(self.table.num_rows, np.int64)
        return lengths_of(self.column)

    @cached_property
    def offsets(self) -> pa.Array:
        """int32[n + 1]: where the alternatives of each row begin in `flat`."""
        return pa.array(offsets_of(self.lengths), pa.int32())

    @cached_property
    def owner(self) -> Ints:
        """int64[m]: the row of each alternative."""
        return np.repeat(np.arange(self.table.num_rows), self.lengths)

    def prob(self, existence: str | None) -> pa.Array:
        """list<double>: the probabilities; of rows without alternatives `existence`, or 1."""
        if self.uncertain:
            return self.lists(as_doubles(self.fields["prob"], "`prob` of the alternatives"))
        if existence is None:
            return self.lists(pa.array(np.ones(self.table.num_rows)))
        given = as_doubles(self.table.column(existence), f"`{existence}`")
        return self.lists(pc.min_element_wise(given, 1.0, skip_nulls=False))

    def absent(self, existence: str | None) -> Bools:
        """bool[n]: rows without alternatives whose column `existence` says that they are not."""
        if self.uncertain or existence not in self.table.column_names:
            return np.zeros(self.table.num_rows, np.bool_)
        found: Bools = floats_of(as_doubles(self.table.column(existence), f"`{existence}`")) == 0.0
        return found

    def values(self, expression: Expression) -> pa.Array:
        """list<double>: the values of an expression for every alternative."""
        return self.lists(doubles(expression, self.cells, len(self.owner)))

    def values_of_any_type(self, expression: Expression) -> pa.Array:
        """The values of an expression for every alternative, of the type that they have."""
        return evaluated(expression, self.cells, len(self.owner))

    def cells(self, name: Name) -> pa.Array:
        """What a name means for every alternative: an attribute, or else a column of its row."""
        attribute = found(name.parts[0], self.attributes)
        if attribute is not None:
            return field_at(self.fields[attribute], name, 1)
        column = found(name.parts[0], self.table.column_names)
        if column is None:
            known = [*self.attributes, *self.table.column_names]
            raise ValueError(
                f"there is no column or attribute `{name.parts[0]}`; there are "
                f"{', '.join(known)}{did_you_mean(name.parts[0], known)}"
            )
        cells = field_at(as_array(self.table.column(column)), name, 1)
        return cells.take(pa.array(self.owner)) if self.uncertain else cells

    def mentioned(self, expression: Expression) -> bool:
        """Whether an expression is of an attribute of the alternatives."""
        names = (name.parts[0] for name in names_in(expression))
        return any(found(name, self.attributes) is not None for name in names)

    def lists(self, values: pa.Array) -> pa.Array:
        """The values of all alternatives as one list a row; NULL where the alternatives are."""
        if not self.uncertain or not self.column.null_count:
            return pa.ListArray.from_arrays(self.offsets, values)
        return pa.ListArray.from_arrays(self.offsets, values, mask=self.column.is_null())

    def lists_without_null(self) -> pa.Array:
        """The alternatives, an empty list where they are NULL."""
        if not self.column.null_count:
            return self.column
        return pa.ListArray.from_arrays(self.offsets, self.flat)

    def samples(self, on: Sequence[str]) -> pa.Array:
        """list<struct<prob, on0.., a..>>: alternatives as joins read them.

        on : the attributes that span the distance, as doubles; of rows without alternatives the
            columns. Attribute i that is none of them is `a{i}`, as it is
        """
        if not self.uncertain:
            exists = "existence" if "existence" in self.table.column_names else None
            columns = {"prob": self.prob(exists).flatten()}
            for i, name in enumerate(on):
                columns[f"on{i}"] = as_doubles(self.table.column(name), f"`on`: `{name}`")
        else:
            columns = {"prob": self.prob(None).flatten()}
            for i, name in enumerate(self.attributes):
                if name in on:
                    at = list(on).index(name)
                    columns[f"on{at}"] = as_doubles(self.fields[name], f"`on`: `{name}`")
                else:
                    columns[f"a{i}"] = self.fields[name]
        return self.lists(pa.StructArray.from_arrays(list(columns.values()), list(columns)))
