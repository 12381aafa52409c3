"""A user's table as a table of Arrow, and the columns that arguments name in it."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import alternatives_bound_in_memory
from sfumato.memory.kinds import is_pandas, is_polars, metadata_of, with_metadata
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.results import relabelled
from sfumato.tables.reading.ties import is_hashable
from sfumato.tables.reading.tuples import ALTERNATIVES, attributes_in
from sfumato.tables.reading.types import Kind, has_more_digits, kind_of, spark_type
from sfumato.tables.reading.user_warnings import calls_from_user

CALENDAR = (946_684_800, 4_102_444_800)  # 2000-01-01 and 2100-01-01, seconds since 1970
PANDAS = b"pandas"  # metadata of a schema: how pandas had it


class ArrowFrame(Frame):
    """A table with types as Spark has them, and names that differ.

    forgotten : the library of the frame, if that lost the order of the rows
    """

    noun, prefix, filtered = "table", "sf.", "a filter on it"
    ungroupable = "rows cannot be grouped by column {}: make a text or a struct of it"
    of_text = ": pandas.to_datetime, say, makes times of text"

    def __init__(self, table: pa.Table, forgotten: str = "") -> None:
        self.table = table
        self.forgotten = forgotten
        self.schema: pa.Schema = table.schema
        self.columns: list[str] = table.column_names

    @property
    def described(self) -> str:
        return ", ".join(f"{field.name}: {field.type}" for field in self.schema)

    @property
    def attributes(self) -> list[str]:
        return attributes_in(self.schema)

    @property
    def max_alternatives(self) -> int:
        return alternatives_bound_in_memory()

    def attribute_type(self, name: str) -> pa.DataType:
        """Return the type of an attribute of the alternatives."""
        return self.type(ALTERNATIVES).value_type.field(name).type

    def attribute_kind(self, name: str) -> Kind:
        return kind_of(self.attribute_type(name))

    def attribute_shown(self, name: str) -> str:
        return str(self.attribute_type(name))

    def type(self, name: str) -> pa.DataType:
        return self.schema.field(name).type

    def shown(self, name: str) -> str:
        return str(self.type(name))

    def metadata(self, name: str) -> dict[str, str]:
        given = (self.schema.field(name).metadata or {}).items()
        return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in given}

    def kind(self, name: str) -> Kind:
        return kind_of(self.type(name))

    def has_more_digits(self, name: str) -> bool:
        return has_more_digits(self.table.column(name))

    def is_groupable(self, name: str) -> bool:
        return is_hashable(self.type(name))

    def is_hashable(self, name: str) -> bool:
        return is_hashable(self.type(name))

    def look_at_time(self, argument: str, name: str) -> None:
        if self.kind(name) != "whole":
            return
        seen = pc.min_max(self.table.column(name)).as_py()
        for unit, per_second in (("seconds", 1), ("milliseconds", 1_000)):
            first, last = (time * per_second for time in CALENDAR)
            if seen["min"] is not None and first <= seen["min"] <= seen["max"] < last:
                factor = 1_000_000 // per_second
                warnings.warn(
                    f"`{argument}`: column `{name}` is read as microseconds since 1970, and its "
                    f"values look like {unit}, from 2000 to 2100: multiply it by {factor:,}, or "
                    "make timestamps of it",
                    UserWarning,
                    stacklevel=calls_from_user() + 1,
                )

    def require_late(self) -> None:
        """As for all frames; and raise ValueError for the marks of a controller of which nobody
        says any more what they are of: a window of rows would take late rows, and a join rows out
        of order, without a word."""
        super().require_late()
        if self.forgotten and self.has_punctuations and self.says("punctuation") is None:
            raise ValueError(
                "the rows have the columns `late` and `punctuation` of reorder, but what these are "
                f"of is not known any more: {self.forgotten} lost it on the way. Give the result "
                "of reorder as it is (sf.where filters and keeps it), keep it as an "
                "Arrow table, or drop both columns"
            )


def frame_of(given: Any, argument: str = "df") -> ArrowFrame:
    """Return the frame of a pandas, Polars or Arrow table.

    Raises TypeError for anything else, ValueError for names that are there twice.
    """
    table, forgotten = _as_table(given, argument)
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"`{argument}` has several columns called {', '.join(twice)}")
    kinds = [spark_type(kind) for kind in table.schema.types]
    fields = [_field(field, kind) for field, kind in zip(table.schema, kinds, strict=True)]
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != PANDAS}
    schema = pa.schema(fields, metadata or None)
    if table.schema.types != kinds:
        columns = [
            column if column.type == kind else _cast(column, kind, name)
            for column, kind, name in zip(table.columns, kinds, names, strict=True)
        ]
        return ArrowFrame(pa.table(columns, schema=schema), forgotten)
    return ArrowFrame(table.replace_schema_metadata(metadata or None), forgotten)


def _as_table(given: Any, argument: str) -> tuple[pa.Table, str]:
    """Return the table, and the library of the frame if that lost the order of its rows."""
    if isinstance(given, pa.Table):
        return given, ""
    if is_pandas(given) or is_polars(given):
        wrong = [name for name in given.columns if not isinstance(name, str)]
        if wrong:
            raise TypeError(f"`{argument}`: names of columns must be text; got {wrong[0]!r}")
        metadata, plain = metadata_of(given), is_pandas(given)
        table = pa.Table.from_pandas(given, preserve_index=False) if plain else given.to_arrow()
        if metadata is None:
            return table, "pandas" if plain else "Polars"
        return with_metadata(table, metadata), ""
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given), ""
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), ""
    raise TypeError(
        f"`{argument}` must be a DataFrame of Spark, or a pandas, Polars or Arrow table (anything "
        f"with `__arrow_c_stream__`); got {type(given).__name__}"
    )


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    try:
        return pa.chunked_array([relabelled(as_array(column), kind)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"column `{name}` is {column.type}, which cannot be {kind}: {error}"
        ) from None


def _field(field: pa.Field, kind: pa.DataType) -> pa.Field:
    """Return the field with another type; metadata of categories does not hold for values."""
    coded = pa.types.is_dictionary(field.type)
    return (field.remove_metadata() if coded else field).with_type(kind)
