"""Convert results to the library of the input, and keep the metadata of Arrow schemas.

The metadata holds the order of a table's rows and the counters of operators. A pandas frame stores
it in `attrs`, which pandas keeps through selections and filters. For a Polars frame it is stored
in this module as long as the frame exists.
"""

from __future__ import annotations

import base64
import sys
import weakref
from typing import Any

import pyarrow as pa

ATTRS = "sfumato"  # key in the attrs of a pandas frame: the result's Arrow schema, as text
_OF_POLARS: dict[int, pa.Schema] = {}  # id of a Polars frame returned by this package


def like(given: Any, found: Any) -> Any:
    """Convert an Arrow table, or a tuple of tables, to the library of a given table."""
    back = as_pandas if is_pandas(given) else as_polars if is_polars(given) else None
    if back is None:
        return found
    return tuple(map(back, found)) if isinstance(found, tuple) else back(found)


def is_pandas(given: Any) -> bool:
    """Return whether a value is a pandas frame, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.DataFrame)


def is_polars(given: Any) -> bool:
    """Return whether a value is a Polars frame, without importing Polars."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(given, polars.DataFrame)


def as_pandas(table: pa.Table) -> Any:
    pandas = sys.modules["pandas"]
    frame = table.to_pandas(ignore_metadata=True)
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
        if whole and column.null_count:
            kind = "boolean" if pa.types.is_boolean(column.type) else "Int64"
            frame[name] = pandas.array(column.to_pylist(), dtype=kind)
    frame.attrs[ATTRS] = base64.b64encode(table.schema.serialize().to_pybytes()).decode()
    return frame


def as_polars(table: pa.Table) -> Any:
    frame = sys.modules["polars"].from_arrow(table)
    _OF_POLARS[id(frame)] = table.schema
    weakref.finalize(frame, _OF_POLARS.pop, id(frame), None)
    return frame


def metadata_of(given: Any) -> pa.Schema | None:
    """Return the Arrow schema of the result behind a pandas or Polars frame, or None."""
    if is_polars(given):
        return _OF_POLARS.get(id(given))
    text = given.attrs.get(ATTRS)
    return None if text is None else pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))


def with_metadata(table: pa.Table, earlier: pa.Schema) -> pa.Table:
    """Restore the earlier types and metadata of columns; other columns are unchanged."""
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        known = earlier.field(field.name) if field.name in earlier.names else field
        cells = column
        if known.type != field.type:
            try:
                cells = column.cast(known.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                known = field  # another column with that name
        columns.append(cells)
        fields.append(known)
    return pa.table(columns, schema=pa.schema(fields, earlier.metadata))
