"""A replayed file in its format: Parquet, CSV, JSON lines or Arrow, to an Arrow table."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.spark.replay.options import Settings

LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
TEXT_BLOCK = 16 << 20  # bytes; a JSON row must fit into one block


def read(
    settings: Settings, columns: list[str] | None = None, target: pa.Schema | None = None
) -> pa.Table:
    """The file's columns (None: all) in file order; where text is parsed, as `target` says."""
    types = {field.name: field.type for field in target or ()}
    with _named_errors(settings):
        if settings.format == "parquet":
            import pyarrow.parquet as pq

            return pq.read_table(settings.path, columns=columns, partitioning=None)
        if settings.format == "arrow":
            table = _read_arrow(settings.path)
        elif os.path.getsize(settings.path) == 0:
            table = pa.schema(list(types.items())).empty_table()
        else:
            table = (_read_csv if settings.format == "csv" else _read_json)(settings.path, types)
    _distinct(table.schema, settings)
    return table


def parquet_schema(settings: Settings) -> pa.Schema:
    """The names and Arrow types in a Parquet file, from its footer."""
    import pyarrow.parquet as pq

    with _named_errors(settings):
        return _distinct(pq.read_schema(settings.path), settings)


def _distinct(schema: pa.Schema, settings: Settings) -> pa.Schema:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise ValueError(f"{settings.path!r} has two columns `{twice[0]}`: rename one of them")
    return schema


@contextmanager
def _named_errors(settings: Settings) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(
            f"{settings.path!r} cannot be read as {settings.format}: {error}"
        ) from error


def _read_arrow(path: str) -> pa.Table:
    import pyarrow.feather as feather

    with pa.OSFile(path) as file:
        start = file.read(6)
    if start == b"ARROW1" or start[:4] == b"FEA1":
        return feather.read_table(path)
    with pa.OSFile(path) as file:
        return pa.ipc.open_stream(file).read_all()


def _read_csv(path: str, types: dict[str, pa.DataType]) -> pa.Table:
    import pyarrow.csv as csv

    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=TEXT_BLOCK),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=_parsed_as_asked(types)),
    )
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            empty = pc.equal(pc.binary_length(column), 0)
            column = pc.if_else(empty, pa.scalar(None, field.type), column)
            table = table.set_column(place, field.name, column)
    return table


def _read_json(path: str, types: dict[str, pa.DataType]) -> pa.Table:
    import pyarrow.json as json

    asked = _parsed_as_asked(types)
    table = json.read_json(
        path,
        read_options=json.ReadOptions(block_size=TEXT_BLOCK),
        parse_options=json.ParseOptions(explicit_schema=pa.schema(asked) if asked else None),
    )
    # pyarrow sees times in JSON only where they are whole seconds without zone.
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if field.name not in asked and pa.types.is_string(field.type) and len(column):
            first = pc.first(column).as_py()
            if first is not None and LIKE_A_TIME.match(first):
                table = table.set_column(place, field.name, as_times(column))
    return table


def as_times(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as timestamps if all of it is, with or without zone; else as it was."""
    for zone in (None, "UTC"):
        for unit in ("us", "ns"):
            try:
                return pc.cast(text, pa.timestamp(unit, tz=zone))
            except pa.ArrowInvalid:
                continue
    return text


def _parsed_as_asked(types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    # Times are recognised and then converted: as a zoned type, text without zone is refused.
    return {name: kind for name, kind in types.items() if not _has_time(kind)}


def _has_time(kind: pa.DataType) -> bool:
    if pa.types.is_temporal(kind):
        return not pa.types.is_date(kind)
    return any(_has_time(kind.field(i).type) for i in range(kind.num_fields))
