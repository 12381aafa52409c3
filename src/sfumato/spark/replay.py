"""A file played back as a stream: its rows in arrival order, at a chosen speed."""

from __future__ import annotations

import inspect
import math
import os
import re
import time
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

try:
    from pyspark.sql.streaming.datasource import (
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:  # pragma: no cover - only on an older Spark
    raise ImportError(
        "sf.ReplaySource needs PySpark 4.2 or later, whose Python sources may limit a micro-batch"
    ) from error

OPTIONS = ("path", "order", "speed", "rows_per_batch", "format")
SUFFIXES = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "arrow": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")  # CSV and JSON lines are unpacked by this suffix
ROWS_PER_BATCH = 10_000
ARROW_ROWS = 10_000  # rows of one record batch handed to Spark
LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
TEXT_BLOCK = 16 << 20  # bytes; a JSON row must fit into one block
LONGEST_WAIT = 0.25  # seconds in one call of latestOffset, so that a query can be stopped
FILES_KEPT = 4  # loaded files a process keeps


class ReplaySource(DataSource):
    """Data source "replay": one Parquet, CSV, JSON-lines or Arrow file, in arrival order.

        spark.dataSource.register(sf.ReplaySource)
        spark.readStream.format("replay").options(order="received", speed=60).load("a.parquet")

    Options (any other name is an error):

    path : the file; the argument of `load` is the same
    order : the column, or columns with commas between, that give the arrival order, ascending;
        NULL and NaN come last, ties in file order. Default: file order.
    speed : seconds of the first `order` column's clock (a timestamp, or whole microseconds) that
        pass in one second; 1 is real time. Default "max": as fast as the query takes them.
    rows_per_batch : the most rows of a micro-batch; default 10,000
    format : "parquet", "csv", "json" or "arrow" (IPC file or stream, Feather); default: by suffix

    The schema is the file's (for CSV and JSON as pyarrow infers it from the whole file), or the
    one given with `.schema(...)`: its columns are taken by name and converted. A CSV file starts
    with the column names; an empty field is NULL, in columns of numbers also NA, NaN and null.
    A timestamp without zone is TIMESTAMP_NTZ, and UTC if the given schema says TIMESTAMP; units
    below a microsecond are cut off.

    A stream plays the file as it is when the query starts. Offsets are row numbers in arrival
    order, so a restart from a checkpoint continues with the next row; the file must be the same
    by then (rows may be added behind the last one played). A restarted clock continues from the
    last row played, whatever time has passed. Trigger ``availableNow=True`` plays to the end of
    the file, at the given speed, in micro-batches of at most `rows_per_batch`, and ends; each
    micro-batch is one partition, in order. A static read gives all rows, in order, in one
    partition; `speed` and `rows_per_batch` then mean nothing.

    The file must be visible under the same path to the driver and every worker. Each of these
    processes loads and sorts it once (O(n log n)), and holds it in memory.

    Raises ValueError for options, columns and types that do not fit, FileNotFoundError without
    the file, and RuntimeError when the file changed so that it cannot be continued.
    """

    @classmethod
    def name(cls) -> str:
        return "replay"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.settings = Settings.of(dict(options))

    def schema(self) -> StructType:
        return inferred(self.settings)

    def reader(self, schema: StructType) -> DataSourceReader:
        return StaticReplay(self.settings, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReplay(self.settings, schema)


@dataclass(frozen=True)
class Settings:
    """The options of a replay, checked."""

    path: str
    format: str
    order: str | None
    speed: float | None  # None: as fast as possible
    rows_per_batch: int

    @classmethod
    def of(cls, options: dict[str, str]) -> Settings:
        for given in options:
            if given.lower() not in OPTIONS:
                near = get_close_matches(given.lower().replace("-", "_"), OPTIONS, n=1, cutoff=0.5)
                hint = f"; did you mean `{near[0]}`?" if near else ""
                raise ValueError(
                    f"the replay source has no option `{given}`; it has {', '.join(OPTIONS)}{hint}"
                )
        options = {name.lower(): value for name, value in options.items()}
        path = _file(options.get("path", ""))
        order = options.get("order")
        if order is not None and not all(part.strip() for part in order.split(",")):
            raise ValueError(
                f"option `order` must be a column name, or several with commas between; got "
                f"{order!r}: leave it out for file order"
            )
        speed = _speed(options.get("speed", "max"))
        if speed is not None and order is None:
            raise ValueError(
                f"option `speed` is {options['speed']!r} but `order` is missing: give the column "
                f"whose clock it multiplies, or speed 'max'"
            )
        return cls(
            path=path,
            format=_format(options.get("format"), path),
            order=order,
            speed=speed,
            rows_per_batch=_count("rows_per_batch", options.get("rows_per_batch", ROWS_PER_BATCH)),
        )

    def order_columns(self, available: Sequence[str]) -> list[str]:
        """The columns of `order`, which must be among `available`."""
        if self.order is None:
            return []
        if self.order in available:  # a name may contain a comma
            return [self.order]
        listed = [part.strip() for part in self.order.split(",")]
        for column in listed:
            _require("option `order`", column, available, self.path)
        return listed


def _file(text: str) -> str:
    if not text:
        raise ValueError(
            "option `path` is missing: give one file, as in "
            '.option("path", "flights.parquet") or .load("flights.parquet")'
        )
    address = urlsplit(text)
    path = unquote(address.path) if address.scheme == "file" else text
    if address.scheme and "://" in text and address.scheme != "file":
        raise ValueError(f"option `path` must be a file in the file system; got {text!r}")
    if os.path.isdir(path):
        raise ValueError(f"option `path` must be one file; {path!r} is a folder")
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"option `path`: there is no file {path!r} (looked for in {os.getcwd()!r}); "
            f"the driver and every worker must see it under this path"
        )
    return os.path.abspath(path)


def _format(text: str | None, path: str) -> str:
    if text is not None:
        if text.lower() in FORMATS:
            return text.lower()
        near = get_close_matches(SUFFIXES.get(text.lower(), text.lower()), FORMATS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"option `format` must be one of {', '.join(FORMATS)}; got {text!r}{hint}")
    stem, suffix = os.path.splitext(path.lower())
    packed = suffix in COMPRESSED
    if packed:
        suffix = os.path.splitext(stem)[1]
    found = SUFFIXES.get(suffix[1:])
    if found is None or (packed and found not in ("csv", "json")):
        raise ValueError(
            f"option `format` is missing, and the suffix of {path!r} does not tell it: give one "
            f"of {', '.join(FORMATS)}"
        )
    return found


def _speed(text: str) -> float | None:
    if text.strip().lower() == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not (math.isfinite(speed) and speed > 0):
        raise ValueError(
            f"option `speed` must be a positive number (1 is real time) or 'max'; got {text!r}"
        )
    return speed


def _count(option: str, text: str | int) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"option `{option}` must be a whole number of at least 1; got {text!r}")
    return count


def _require(what: str, column: str, available: Sequence[str], path: str) -> None:
    if column not in available:
        near = get_close_matches(column, available, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise ValueError(
            f"{what} names a column `{column}` that {path!r} lacks; "
            f"it has {', '.join(available)}{hint}"
        )


# ---------------------------------------------------------------------------------------------
# The readers that Spark calls.


class Slice(InputPartition):
    """Rows [start, end) in arrival order, of a file that had so many rows when this was planned."""

    def __init__(self, start: int, end: int | None, rows: int | None) -> None:
        self.start, self.end, self.rows = start, end, rows


class StaticReplay(DataSourceReader):
    """The whole file as one partition."""

    def __init__(self, settings: Settings, schema: StructType) -> None:
        self.settings, self.wanted = settings, schema

    def partitions(self) -> Sequence[InputPartition]:
        return [Slice(0, None, None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self.settings, self.wanted, partition)


class StreamReplay(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Row numbers in arrival order as offsets: ``{"row": rows played}``.

    While a query with availableNow waits for the next row, offsets also count the waits: an
    unchanged offset would end it, and one long sleep could not be stopped.
    """

    def __init__(self, settings: Settings, schema: StructType) -> None:
        self.settings, self.wanted = settings, schema
        self.to_the_end = False

    # Looked up when first asked for: Spark also makes readers that only read slices.
    @cached_property
    def pace(self) -> Pace | None:
        if self.settings.speed is None:
            return None
        return Pace(arrival_clock(self.settings, self.wanted), self.settings.speed)

    @cached_property
    def rows(self) -> int:
        if self.pace is None:
            return row_count(self.settings, self.wanted)
        return len(self.pace.clock)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.settings.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.to_the_end = True

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": self.rows}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        row = self._row(start)
        if self.pace is None:
            due = self.rows
        else:
            now = time.monotonic()
            self.pace.start(row, now)
            if self.to_the_end and row < self.rows:
                time.sleep(min(self.pace.wait(row, now), LONGEST_WAIT))
                now = time.monotonic()
            due = max(row, self.pace.due(now))
        if isinstance(limit, ReadMaxRows):
            due = min(due, row + limit.max_rows)
        if due > row:
            return {"row": due}
        if self.to_the_end and row < self.rows:
            return {"row": row, "waits": start.get("waits", 0) + 1}
        return start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = self._row(start), self._row(end)
        return [Slice(first, last, self.rows)] if first < last else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self.settings, self.wanted, partition)

    def _row(self, offset: dict[str, int]) -> int:
        row = offset.get("row")
        if not isinstance(row, int) or row < 0:
            raise RuntimeError(
                f"the checkpoint's offset {offset} is not one of the replay source: start with "
                f"a new checkpoint folder"
            )
        if row > self.rows:
            raise RuntimeError(
                f"the checkpoint says that {row} rows were played, but {self.settings.path!r} "
                f"has {self.rows}: the file has changed since; put the old one back, or start "
                f"with a new checkpoint folder"
            )
        return row


class Pace:
    """Which rows are due when the arrival clock runs `speed` times as fast as ours.

    clock : int64[n] microseconds, not decreasing. Times `now` are seconds of any steady clock.
    """

    def __init__(self, clock: np.ndarray, speed: float) -> None:
        self.clock, self.speed = clock, speed
        self.began: tuple[int, float] | None = None

    def start(self, row: int, now: float) -> None:
        """Begin, if not done yet, at the arrival of the last row played (or of the first)."""
        if self.began is None and len(self.clock):
            self.began = (int(self.clock[max(row - 1, 0)]), now)

    def due(self, now: float) -> int:
        """The number of rows that have arrived by `now`; O(log n)."""
        if self.began is None:
            return 0
        arrival, began = self.began
        passed = min((now - began) * 1e6 * self.speed, float(int(self.clock[-1]) - arrival))
        # Rounded: a wait computed in floating point must not end just before its row.
        return int(np.searchsorted(self.clock, arrival + round(passed), side="right"))

    def wait(self, row: int, now: float) -> float:
        """Seconds from `now` until the given row is due; 0 if it is."""
        if self.began is None:
            return 0.0
        arrival, began = self.began
        due = began + (int(self.clock[row]) - arrival) / 1e6 / self.speed
        return max(due - now, 0.0)


def _batches(
    settings: Settings, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Slice)
    table = load(settings, schema)
    if partition.rows is not None and table.num_rows != partition.rows:
        raise RuntimeError(
            f"{settings.path!r} had {partition.rows} rows when this query started and has "
            f"{table.num_rows} in this worker: the file must not change while it is played, and "
            f"be the same for every worker"
        )
    rows = (partition.end or table.num_rows) - partition.start
    yield from table.slice(partition.start, rows).to_batches(max_chunksize=ARROW_ROWS)


# ---------------------------------------------------------------------------------------------
# The file.

_loaded: OrderedDict[tuple, pa.Table] = OrderedDict()


def load(settings: Settings, schema: StructType) -> pa.Table:
    """The file's rows in arrival order, as `schema`; loaded once a process while it is unchanged.

    O(n log n) the first time, then one look at the file's size and time.
    """
    key = (*_version(settings), settings.order, schema.json())
    if key in _loaded:
        _loaded.move_to_end(key)
        return _loaded[key]
    raw, order = _needed(settings, schema)
    table = _converted(raw, _arrow(schema), settings.path)
    sequence = _arrival_order(raw, order)
    if sequence is not None:
        table = table.take(sequence)
    _loaded[key] = table.combine_chunks()
    while len(_loaded) > FILES_KEPT:
        _loaded.popitem(last=False)
    return _loaded[key]


def _needed(settings: Settings, schema: StructType) -> tuple[pa.Table, list[str]]:
    """The columns that `schema` and `order` name, in file order, and the names in `order`."""
    if settings.format == "parquet":
        order = _check_names(settings, schema, _parquet_schema(settings).names)
        return _read(settings, list(dict.fromkeys([*schema.names, *order]))), order
    raw = _read(settings, None, _arrow(schema))
    return raw, _check_names(settings, schema, raw.column_names)


def _check_names(settings: Settings, schema: StructType, available: Sequence[str]) -> list[str]:
    order = settings.order_columns(available)
    for name in schema.names:
        _require("the given schema", name, available, settings.path)
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
    schema = file_schema(settings)
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


_inferred: dict[tuple, pa.Schema] = {}


def file_schema(settings: Settings) -> pa.Schema:
    """The names and Arrow types in the file; for any but Parquet it is read, once a process.

    Raises ValueError where two columns have one name.
    """
    if settings.format == "parquet":
        return _parquet_schema(settings)
    version = _version(settings)
    if version not in _inferred:
        _inferred[version] = _read(settings).schema
    return _inferred[version]


def _parquet_schema(settings: Settings) -> pa.Schema:
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


def _version(settings: Settings) -> tuple[str, str, int, int]:
    try:
        status = os.stat(settings.path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"option `path`: there is no file {settings.path!r} here; the driver and every worker "
            f"must see it under this path, as long as the query runs"
        ) from None
    return (settings.path, settings.format, status.st_size, status.st_mtime_ns)


def _read(
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
                table = table.set_column(place, field.name, _as_times(column))
    return table


def _as_times(text: pa.ChunkedArray) -> pa.ChunkedArray:
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


def _arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of a source with this schema."""
    # Spark 4.2 has no argument for the zone; it always takes UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in _ARROW_ARGUMENTS else {}
    return to_arrow_schema(schema, **zone)


_ARROW_ARGUMENTS = inspect.signature(to_arrow_schema).parameters


def _converted(table: pa.Table, target: pa.Schema, path: str) -> pa.Table:
    columns: list[Any] = []
    for field in target:
        column = table.column(field.name)
        if pa.types.is_timestamp(field.type) and pa.types.is_string(column.type):
            column = _as_times(column)
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
    position = pa.array(np.arange(table.num_rows, dtype=np.int64))
    by = {str(place): table.column(name) for place, name in enumerate(order)}
    for place, name in enumerate(order):
        if pa.types.is_dictionary(by[str(place)].type):  # sorted by value, not by code
            by[str(place)] = pc.cast(by[str(place)], by[str(place)].type.value_type)
        if pa.types.is_nested(by[str(place)].type):
            raise ValueError(
                f"option `order` needs columns that can be compared; `{name}` is "
                f"{by[str(place)].type}"
            )
    keys = pa.table({**by, "position": position})
    sequence = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return None if sequence.equals(position.cast(pa.uint64())) else sequence
