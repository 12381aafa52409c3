"""A table of the user's, whatever holds it, as one of Arrow; and what its arguments name in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sfumato.local.model.kind import is_pandas, is_polars, said_of, with_said
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.names import meant
from sfumato.tables.reading.naming import relabelled
from sfumato.tables.reading.tuples import ALTERNATIVES, attributes_in
from sfumato.tables.reading.types import is_number, is_time, spark_type

PANDAS = b"pandas"  # metadata of a schema: how pandas had it


class Frame:
    """A table with types as Spark has them, and names that differ.

    forgotten : the library whose frame it was, if that says nothing of the order of the rows
    """

    def __init__(self, table: pa.Table, forgotten: str = "") -> None:
        self.table = table
        self.forgotten = forgotten
        self.schema: pa.Schema = table.schema
        self.columns: list[str] = table.column_names

    def resolved(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """The names of the columns that an argument means, as the frame has them."""
        return meant(self.columns, argument, given, attributes=lambda: self.attributes)

    def one(self, argument: str, given: Any) -> str:
        """`resolved` for an argument that names one column."""
        if not isinstance(given, str):
            raise TypeError(f"`{argument}` must be the name of one column; got {given!r}")
        return self.resolved(argument, given)[0]

    def keys(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """The key columns. Raises TypeError for a type by which rows cannot be grouped."""
        found = self.resolved(argument, given)
        for name in found:
            if not _groupable(self.type(name)):
                raise TypeError(
                    f"`{argument}`: rows cannot be grouped by column `{name}`, which is "
                    f"{self.type(name)}: make a text or a struct of it"
                )
        return found

    def type(self, name: str) -> pa.DataType:
        """The type of a column."""
        return self.schema.field(name).type

    def fields(self, names: Sequence[str]) -> list[pa.Field]:
        """The fields of columns."""
        return [self.schema.field(name) for name in names]

    @property
    def uncertain(self) -> bool:
        """Whether rows have alternatives."""
        return ALTERNATIVES in self.columns

    @property
    def attributes(self) -> list[str]:
        """Of the alternatives."""
        return attributes_in(self.schema)

    def attribute_type(self, name: str) -> pa.DataType:
        """The type of an attribute of the alternatives."""
        element = self.type(ALTERNATIVES).value_type
        return element.field(name).type

    def require_time(self, argument: str, name: str, where: str = "") -> None:
        """Raise TypeError for a column without event times; `where` : what needs them."""
        if not is_time(self.type(name)):
            text = pa.types.is_string(self.type(name)) or pa.types.is_large_string(self.type(name))
            hint = ": pandas.to_datetime, say, makes times of text" if text else ""
            raise TypeError(
                f"`{argument}` must be a timestamp or whole microseconds{where}; "
                f"`{name}` is {self.type(name)}{hint}"
            )

    def require_orders(self, argument: str, names: Sequence[str]) -> None:
        """Raise TypeError for columns by which rows cannot follow each other."""
        for name in names:
            kind = self.type(name)
            if not (is_time(kind) or is_number(kind) or _is_date_or_truth(kind)):
                raise TypeError(
                    f"`{argument}` must name columns of numbers, times or dates; `{name}` is {kind}"
                )

    def require_numbers(self, argument: str, names: Sequence[str]) -> None:
        """Raise ValueError for columns that lack, TypeError for those that are no numbers."""
        for name in self.resolved(argument, list(names)):
            if not is_number(self.type(name)):
                raise TypeError(
                    f"`{argument}`: column `{name}` must be of numbers; it is {self.type(name)}"
                )


def frame_of(given: Any, argument: str = "df") -> Frame:
    """The frame of a pandas, Polars or Arrow table.

    Raises TypeError for anything else, ValueError for names that are there twice.
    """
    table, forgotten = _as_table(given, argument)
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"`{argument}` has several columns called {', '.join(twice)}")
    kinds = [spark_type(kind) for kind in table.schema.types]
    fields = [_field(field, kind) for field, kind in zip(table.schema, kinds, strict=True)]
    said = {k: v for k, v in (table.schema.metadata or {}).items() if k != PANDAS}
    schema = pa.schema(fields, said or None)
    if table.schema.types != kinds:
        columns = [
            column if column.type == kind else _cast(column, kind, name)
            for column, kind, name in zip(table.columns, kinds, names, strict=True)
        ]
        return Frame(pa.table(columns, schema=schema), forgotten)
    return Frame(table.replace_schema_metadata(said or None), forgotten)


def _as_table(given: Any, argument: str) -> tuple[pa.Table, str]:
    """The table, and the library whose frame it was, if that says nothing of its rows' order."""
    if isinstance(given, pa.Table):
        return given, ""
    if is_pandas(given) or is_polars(given):
        wrong = [name for name in given.columns if not isinstance(name, str)]
        if wrong:
            raise TypeError(f"`{argument}`: names of columns must be text; got {wrong[0]!r}")
        said, plain = said_of(given), is_pandas(given)
        table = pa.Table.from_pandas(given, preserve_index=False) if plain else given.to_arrow()
        if said is None:
            return table, "pandas" if plain else "Polars"
        return with_said(table, said), ""
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given), ""
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), ""
    raise TypeError(
        f"`{argument}` must be a pandas, Polars or Arrow table (anything with "
        f"`__arrow_c_stream__`); got {type(given).__name__}"
    )


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    try:
        return pa.chunked_array([relabelled(as_array(column), kind)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"column `{name}` is {column.type}, which cannot be {kind}: {error}"
        ) from None


def _field(field: pa.Field, kind: pa.DataType) -> pa.Field:
    """The field as one of another type; what was said of categories does not hold of values."""
    coded = pa.types.is_dictionary(field.type)
    return (field.remove_metadata() if coded else field).with_type(kind)


def _groupable(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return False
    return all(_groupable(kind.field(i).type) for i in range(kind.num_fields))


def _is_date_or_truth(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_boolean(kind)
