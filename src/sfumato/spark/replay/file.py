"""The file that a replay source plays: its schema, its rows in arrival order, its clock."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from sfumato.spark.model.arrow_types import arrow_schema
from sfumato.spark.replay.formats import as_times, parquet_schema, read
from sfumato.spark.replay.options import Settings, require

FILES_KEPT = 4  # loaded files a process keeps


def load(settings: Settings, schema: StructType) -> pa.Table:
    """The file's rows in arrival order, as `schema`; loaded once a process while it is unchanged.

    O(n log n) the first time, then one look at the file's size and time.
    """
    # How fast a file is played changes nothing in it.
    return _loaded(replace(settings, speed=None, rows_per_batch=1), schema, _version(settings))


@lru_cache(FILES_KEPT)
def _loaded(settings: Settings, schema: StructType, version: tuple[int, int]) -> pa.Table:
    """`load`; a file of another version is read anew."""
    raw, order = _needed(settings, schema)
    table = _converted(raw, arrow_schema(schema), settings.path)
    sequence = _arrival_order(raw, order)
    return (table if sequence is None else table.take(sequence)).combine_chunks()


def _needed(settings: Settings, schema: StructType) -> tuple[pa.Table, list[str]]:
    """The columns that `schema` and `order` name, in file order, and the names in `order`."""
    if settings.format == "parquet":
        order = _check_names(settings, schema, parquet_schema(settings).names)
        return read(settings, list(dict.fromkeys([*schema.names, *order]))), order
    raw = read(settings, None, arrow_schema(schema))
    return raw, _check_names(settings, schema, raw.column_names)


def _check_names(settings: Settings, schema: StructType, available: Sequence[str]) -> list[str]:
    order = settings.order_columns(available)
    for name in schema.names:
        require("the given schema", name, available, settings.path)
    return order


def row_count(settings: Settings, schema: StructType) -> int:
    """Rows of the file; from Parquet's footer without reading them."""
    if settings.format != "parquet":
        return _needed(settings, schema)[0].num_rows
    import pyarrow.parquet as pq

    footer = pq.read_metadata(settings.path)
    _check_names(settings, schema, footer.schema.to_arrow_schema().names)
    return footer.num_rows


def arrival_clock(settings: Settings, schema: StructType) -> np.ndarray:
    """int64[n] microseconds of the first order column, in arrival order.

    A row without arrival time arrives with the last that has one.
    Raises ValueError where the column is neither a timestamp nor whole numbers.
    """
    table, order = _needed(settings, schema)
    column = table.column(order[0])
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("us", tz=column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise ValueError(
            f"option `speed` needs an arrival clock: `{order[0]}` must be a timestamp or whole "
            f"microseconds; it is {column.type}"
        )
    known = pc.cast(column.drop_null(), pa.int64()).to_numpy()
    clock = np.full(len(column), known.max(), dtype=np.int64)
    clock[: len(known)] = np.sort(known)
    return clock


def inferred(settings: Settings) -> StructType:
    """The schema of the file in Spark's types; every column nullable."""
    if settings.format == "parquet":
        schema = parquet_schema(settings)
    else:
        schema = _schema_read(settings, _version(settings))
    settings.order_columns(schema.names)
    if not schema.names:
        raise ValueError(
            f"{settings.path!r} is empty, without even column names: give the columns with "
            f'.schema("a double, ...")'
        )
    fields = []
    for field in schema:
        try:
            kind = from_arrow_type(_plain(field.type))
        except TypeError as error:
            raise ValueError(
                f"column `{field.name}` of {settings.path!r} is {field.type}, which Spark has no "
                f"type for: leave it out with .schema(...)"
            ) from error
        fields.append(StructField(field.name, kind))
    return StructType(fields)


@lru_cache(FILES_KEPT)
def _schema_read(settings: Settings, version: tuple[int, int]) -> pa.Schema:
    """The names and Arrow types in a file that has to be read for them."""
    return read(settings).schema


def _version(settings: Settings) -> tuple[int, int]:
    """The file's size and time."""
    try:
        status = os.stat(settings.path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"option `path`: there is no file {settings.path!r} here; the driver and every worker "
            f"must see it under this path, as long as the query runs"
        ) from None
    return status.st_size, status.st_mtime_ns


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type, of those that Spark has, that holds every value of the given one."""
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_null(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if types.is_float16(kind):
        return pa.float32()
    if types.is_date64(kind):
        return pa.date32()
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind


def _converted(table: pa.Table, target: pa.Schema, path: str) -> pa.Table:
    columns: list[Any] = []
    for field in target:
        column = table.column(field.name)
        if pa.types.is_timestamp(field.type) and pa.types.is_string(column.type):
            column = as_times(column)
        options = pc.CastOptions(field.type, allow_time_truncate=True)
        try:
            columns.append(pc.cast(column, options=options))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(
                f"column `{field.name}` of {path!r} is {column.type} and cannot be converted to "
                f"{field.type}: {error}"
            ) from error
        if not field.nullable and column.null_count:
            raise ValueError(
                f"column `{field.name}` of {path!r} has {column.null_count} NULLs, but the given "
                f"schema says NOT NULL"
            )
    return pa.Table.from_arrays(columns, schema=target)


def _arrival_order(table: pa.Table, order: list[str]) -> pa.Array | None:
    """File positions in arrival order, or None when the file is in that order already."""
    if not order:
        return None
    columns = []
    for name in order:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):  # sorted by value, not by code
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_nested(column.type):
            raise ValueError(
                f"option `order` needs columns that can be compared; `{name}` is {column.type}"
            )
        columns.append(column)
    position = pa.array(np.arange(table.num_rows, dtype=np.int64))
    keys = pa.table([*columns, position], [str(i) for i in range(len(order) + 1)])
    sequence = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return None if sequence.equals(position.cast(pa.uint64())) else sequence
