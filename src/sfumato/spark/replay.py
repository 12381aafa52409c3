"""A file played as a stream: its rows in arrival order, at a chosen speed."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
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
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from sfumato.near_misses import did_you_mean
from sfumato.spark.model.columns import arrow_schema
from sfumato.tables.reading.types import spark_type

try:
    from pyspark.sql.streaming.datasource import (
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:  # pragma: no cover - only on an older Spark
    raise ImportError(
        "sf.ops.ReplaySource needs PySpark 4.2 or later, whose Python sources can limit batches"
    ) from error

REPLAY_OPTIONS = ("path", "order", "speed", "rows_per_batch", "format")
FORMATS = {
    "parquet": ("parquet", "pq"),
    "csv": ("csv",),
    "json": ("json", "jsonl", "ndjson"),
    "arrow": ("arrow", "ipc", "feather"),
}
FILE_NAME = re.compile(r".*?\.(\w+?)(?:\.(?:gz|bz2|zst|lz4))?", re.IGNORECASE | re.DOTALL)
TIME = re.compile(r"\b(timestamp|time32|time64|duration)\[")  # in the name of an Arrow type
FILES_KEPT = 4  # loaded files that a process keeps
TEXT_BLOCK = 16 << 20  # bytes; a row of CSV or JSON must fit into one block
ARROW_ROWS = 10_000  # rows of one record batch handed to Spark
MAX_WAIT = 0.25  # seconds in one call of latestOffset, so that a query can be stopped


class ReplaySource(DataSource):
    """Data source "replay": one Parquet, CSV, JSON-lines or Arrow file, in arrival order.

    Parameters
    ----------
    path
        The file; the argument of `load` is the same. Any option with another name than these is an
        error.
    order
        Column, or columns separated by commas, that give the arrival order, ascending; NULL and NaN
        come last, ties in file order. Default: file order.
    speed
        Seconds of the first `order` column's clock (a timestamp, or whole microseconds) that pass
        in one second; 1 is real time. Default "max": as fast as the query reads.
    rows_per_batch
        Maximum number of rows per micro-batch; default 10,000.
    format
        "parquet", "csv", "json" or "arrow" (IPC file, Feather); default: by suffix.

    Raises
    ------
    ValueError
        For options, columns and types that do not fit.
    FileNotFoundError
        If the file does not exist.
    RuntimeError
        When the file has changed so that the query cannot continue.

    Notes
    -----
    The schema is the file's (for CSV and JSON as pyarrow infers it from the whole file), or the one
    given with `.schema(...)`, whose columns are selected by name and converted. A CSV file starts
    with the column names; an empty field is NULL, in columns of numbers also NA, NaN and null. A
    JSON column whose texts are all times is a column of times. A timestamp without zone is
    TIMESTAMP_NTZ, and UTC if the given schema says TIMESTAMP; units below a microsecond are
    truncated.

    A stream plays the file as it is when the query starts. Offsets are row numbers in arrival
    order, so a restart from a checkpoint continues with the next row. The file must then be the
    same, except for rows added after the last one played. A restarted clock continues from the last
    row played, whatever time has passed. The trigger ``availableNow=True`` plays to the end of the
    file, at the given speed, in micro-batches of at most `rows_per_batch`, and ends; each
    micro-batch is one partition, in order. A static read gives all rows, in order, in one
    partition; `speed` and `rows_per_batch` then have no effect.

    The file must be visible under the same path to the driver and every worker. Each of these
    processes loads and sorts it once (O(n log n)), and holds it in memory.

    Examples
    --------
        spark.dataSource.register(sf.ops.ReplaySource)
        spark.readStream.format("replay").options(order="received", speed=60).load("a.parquet")
    """

    @classmethod
    def name(cls) -> str:
        return "replay"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.file = ReplayFile.of(dict(options))

    def schema(self) -> StructType:
        return self.file.inferred_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return StaticReplay(self.file, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReplay(self.file, schema)


@dataclass(frozen=True)
class ReplayFile:
    """The file that is played, and the checked options. speed : None for as fast as possible"""

    path: str
    format: str
    order: str | None
    speed: float | None
    rows_per_batch: int

    @classmethod
    def of(cls, options: dict[str, str]) -> ReplayFile:
        for given in options:
            if given.lower() not in REPLAY_OPTIONS:
                hint = did_you_mean(given.replace("-", "_"), REPLAY_OPTIONS, cutoff=0.5)
                raise ValueError(
                    f"the replay source has no option `{given}`; it has "
                    f"{', '.join(REPLAY_OPTIONS)}{hint}"
                )
        options = {name.lower(): value for name, value in options.items()}
        path, order = _existing_file(options.get("path", "")), options.get("order")
        if order is not None and not all(part.strip() for part in order.split(",")):
            raise ValueError(
                f"option `order` must be a column name, or several separated by commas; got "
                f"{order!r}: leave it out for file order"
            )
        speed, fast = options.get("speed", "max"), math.inf
        if speed.strip().lower() != "max":
            fast = _number(speed)
            if not 0 < fast < math.inf:
                raise ValueError(
                    "option `speed` must be a positive number (1 is real time) or 'max'; "
                    f"got {speed!r}"
                )
            if order is None:
                raise ValueError(
                    f"option `speed` is {speed!r} but `order` is missing: give the column whose "
                    "clock it multiplies, or speed 'max'"
                )
        rows = options.get("rows_per_batch", "10000")
        if not (rows.isdecimal() and int(rows) >= 1):
            raise ValueError(
                f"option `rows_per_batch` must be a whole number of at least 1; got {rows!r}"
            )
        form = _format(options.get("format"), path)
        return cls(path, form, order, None if fast == math.inf else fast, int(rows))

    def inferred_schema(self) -> StructType:
        """Return the schema of the file in Spark's types; every column is nullable."""
        schema = _schema(self, self._version())
        self.order_columns(schema.names)
        if not schema.names:
            raise ValueError(
                f"{self.path!r} is empty, without even column names: give the columns with "
                f'.schema("a double, ...")'
            )
        fields = []
        for field in schema:
            kind = pa.string() if pa.types.is_null(field.type) else spark_type(field.type)
            try:
                fields.append(StructField(field.name, from_arrow_type(kind)))
            except TypeError as error:
                raise ValueError(
                    f"column `{field.name}` of {self.path!r} is {field.type}, for which Spark has "
                    "no type: leave it out with .schema(...)"
                ) from error
        return StructType(fields)

    def rows(self, schema: StructType) -> pa.Table:
        """Return the rows in arrival order; a process loads an unchanged file once.

        O(n log n) the first time, then one look at the file's size and time.
        """
        # The speed of the replay does not change the rows.
        return _rows(replace(self, speed=None, rows_per_batch=1), schema, self._version())

    def row_count(self, schema: StructType) -> int:
        """Return the number of rows; of Parquet without reading them."""
        if self.format != "parquet":
            return self.rows(schema).num_rows
        import pyarrow.parquet as pq

        footer = pq.read_metadata(self.path)
        self.check_names(schema, footer.schema.to_arrow_schema().names)
        return footer.num_rows

    def arrival_clock(self, schema: StructType) -> np.ndarray:
        """Return int64[n], the microseconds of the first order column, in arrival order.

        A row without arrival time arrives with the last row that has one.
        Raises ValueError where the column is neither a timestamp nor whole numbers.
        """
        table = self.read(schema)
        name = self.order_columns(table.column_names)[0]
        column = table.column(name)
        if column.null_count == len(column):
            return np.zeros(len(column), dtype=np.int64)
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.timestamp("us", tz=column.type.tz), safe=False)
        elif not pa.types.is_integer(column.type):
            raise ValueError(
                f"option `speed` needs an arrival clock: `{name}` must be a timestamp or whole "
                f"microseconds; it is {column.type}"
            )
        known = pc.cast(column.drop_null(), pa.int64()).to_numpy()
        clock = np.full(len(column), known.max(), dtype=np.int64)
        clock[: len(known)] = np.sort(known)
        return clock

    def read(self, schema: StructType | None = None) -> pa.Table:
        """Return the columns of `schema` and `order` in file order; all columns without `schema`.

        Texts are parsed as `schema` says, except times: as a type with a zone, pyarrow refuses
        texts without one.
        """
        fields = arrow_schema(schema) if schema is not None else ()
        types = {of.name: of.type for of in fields if not TIME.search(str(of.type))}
        columns = None
        try:
            if self.format == "parquet":
                import pyarrow.parquet as pq

                if schema is not None:
                    order = self.check_names(schema, pq.read_schema(self.path).names)
                    columns = list(dict.fromkeys([*schema.names, *order]))
                table = pq.read_table(self.path, columns=columns, partitioning=None)
            elif self.format == "arrow":
                import pyarrow.feather as feather

                table = feather.read_table(self.path)
            elif os.path.getsize(self.path) == 0:
                table = pa.schema(list(fields)).empty_table()
            else:
                table = (_read_csv if self.format == "csv" else _read_json)(self.path, types)
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise ValueError(f"{self.path!r} cannot be read as {self.format}: {error}") from error
        self.check_names(schema, table.column_names)
        return table

    def check_names(self, schema: StructType | None, available: Sequence[str]) -> list[str]:
        """Return the columns of `order`; raise ValueError unless a file has the columns, once."""
        twice = sorted({name for name in available if available.count(name) > 1})
        if twice:
            raise ValueError(f"{self.path!r} has two columns `{twice[0]}`: rename one of them")
        for name in schema.names if schema is not None else ():
            self._require("the given schema", name, available)
        return self.order_columns(available) if schema is not None else []

    def order_columns(self, available: Sequence[str]) -> list[str]:
        """Return the columns of `order`, which must be among `available`."""
        if self.order is None or self.order in available:  # a name may contain a comma
            return [] if self.order is None else [self.order]
        listed = [part.strip() for part in self.order.split(",")]
        for column in listed:
            self._require("option `order`", column, available)
        return listed

    def _require(self, what: str, column: str, available: Sequence[str]) -> None:
        if column not in available:
            raise ValueError(
                f"{what} names a column `{column}` that is not in {self.path!r}; "
                f"it has {', '.join(available)}{did_you_mean(column, available)}"
            )

    def _version(self) -> tuple[int, int]:
        """Return the file's size and time."""
        if not os.path.exists(self.path):
            raise FileNotFoundError(
                f"option `path`: there is no file {self.path!r} here; the driver and every worker "
                "must see it under this path, as long as the query runs"
            )
        status = os.stat(self.path)
        return status.st_size, status.st_mtime_ns


def _existing_file(text: str) -> str:
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


def _format(given: str | None, path: str) -> str:
    found = FILE_NAME.fullmatch(path)
    asked = (given or (found[1] if found else "")).lower()
    for name, suffixes in FORMATS.items():
        if asked == name or (given is None and asked in suffixes):
            return name
    if given is None:
        raise ValueError(
            f"option `format` is missing, and the suffix of {path!r} is not known: give one of "
            f"{', '.join(FORMATS)}"
        )
    hint = did_you_mean(given, FORMATS)
    raise ValueError(f"option `format` must be one of {', '.join(FORMATS)}; got {given!r}{hint}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _read_csv(path: str, types: dict[str, pa.DataType]) -> pa.Table:
    import pyarrow.csv as csv

    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=TEXT_BLOCK),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=types),
    )
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, field.type), column)
            table = table.set_column(place, field.name, column)
    return table


def _read_json(path: str, types: dict[str, pa.DataType]) -> pa.Table:
    import pyarrow.json as json

    table = json.read_json(
        path,
        read_options=json.ReadOptions(block_size=TEXT_BLOCK),
        parse_options=json.ParseOptions(explicit_schema=pa.schema(types) if types else None),
    )
    # By itself pyarrow sees times in JSON only where they are whole seconds without zone.
    for place, field in enumerate(table.schema):
        if field.name not in types and pa.types.is_string(field.type):
            table = table.set_column(place, field.name, _as_times(table.column(place)))
    return table


def _as_times(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text as timestamps if all of it is, with or without zone; else unchanged."""
    for unit, zone in (("us", None), ("ns", None), ("us", "UTC"), ("ns", "UTC")):
        with suppress(pa.ArrowInvalid):
            return pc.cast(text, pa.timestamp(unit, tz=zone))
    return text


@lru_cache(FILES_KEPT)
def _schema(file: ReplayFile, version: tuple[int, int]) -> pa.Schema:
    if file.format == "parquet":
        import pyarrow.parquet as pq

        with suppress(pa.ArrowInvalid):
            schema = pq.read_schema(file.path)
            file.check_names(None, schema.names)
            return schema
    return file.read().schema


@lru_cache(FILES_KEPT)
def _rows(file: ReplayFile, schema: StructType, version: tuple[int, int]) -> pa.Table:
    """Return the rows in arrival order; a file of another version is read again."""
    raw = file.read(schema)
    table, order = _converted(raw, arrow_schema(schema), file.path), []
    for name in file.order_columns(raw.column_names):
        column = raw.column(name)
        if pa.types.is_dictionary(column.type):  # sorted by value, not by code
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_nested(column.type):
            raise ValueError(
                f"option `order` needs columns that can be compared; `{name}` is {column.type}"
            )
        order.append(column)
    if order:
        position = pa.array(np.arange(table.num_rows))
        keys = pa.table([*order, position], [str(i) for i in range(len(order) + 1)])
        sort_keys = [(name, "ascending") for name in keys.column_names]
        table = table.take(pc.sort_indices(keys, sort_keys=sort_keys))
    return table.combine_chunks()


def _converted(table: pa.Table, target: pa.Schema, path: str) -> pa.Table:
    columns = []
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


class Slice(InputPartition):
    """Rows [start, end) in arrival order. rows : of the file, when this was planned"""

    def __init__(self, start: int, end: int | None, rows: int | None) -> None:
        self.start, self.end, self.rows = start, end, rows

    def read(self, file: ReplayFile, schema: StructType) -> Iterator[pa.RecordBatch]:
        table = file.rows(schema)
        if self.rows is not None and table.num_rows != self.rows:
            raise RuntimeError(
                f"{file.path!r} had {self.rows} rows when this query started and has "
                f"{table.num_rows} in this worker: the file must not change while it is played, "
                "and must be the same for every worker"
            )
        rows = (self.end or table.num_rows) - self.start
        yield from table.slice(self.start, rows).to_batches(max_chunksize=ARROW_ROWS)


class StaticReplay(DataSourceReader):
    """The whole file as one partition."""

    def __init__(self, file: ReplayFile, schema: StructType) -> None:
        self.file, self.columns = file, schema

    def partitions(self) -> Sequence[InputPartition]:
        return [Slice(0, None, None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        return partition.read(self.file, self.columns)


class StreamReplay(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Row numbers in arrival order as offsets: ``{"row": rows played}``.

    While a query with availableNow waits for the next row, offsets also count the waits: an
    unchanged offset would end it, and one long sleep could not be stopped.
    """

    def __init__(self, file: ReplayFile, schema: StructType) -> None:
        self.file, self.columns = file, schema
        self.to_the_end = False

    # Read when first used: Spark also makes readers that only read slices.
    @cached_property
    def pace(self) -> Pace | None:
        speed = self.file.speed
        return None if speed is None else Pace(self.file.arrival_clock(self.columns), speed)

    @cached_property
    def rows(self) -> int:
        return self.file.row_count(self.columns) if self.pace is None else len(self.pace.clock)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.file.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.to_the_end = True

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": self.rows}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        row = self._row(start)
        due = self.rows
        if self.pace is not None:
            now = time.monotonic()
            self.pace.start(row, now)
            if self.to_the_end and row < self.rows:
                time.sleep(min(self.pace.wait(row, now), MAX_WAIT))
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
        assert isinstance(partition, Slice)
        return partition.read(self.file, self.columns)

    def _row(self, offset: dict[str, int]) -> int:
        row = offset.get("row")
        if not isinstance(row, int) or row < 0:
            raise RuntimeError(
                f"the checkpoint's offset {offset} is not one of the replay source: start with "
                f"a new checkpoint folder"
            )
        if row > self.rows:
            raise RuntimeError(
                f"the checkpoint says that {row} rows were played, but {self.file.path!r} "
                f"has {self.rows}: the file has changed since; put the old one back, or start "
                f"with a new checkpoint folder"
            )
        return row


class Pace:
    """The rows that are due when the arrival clock runs `speed` times as fast as ours.

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
        """Return the number of rows that have arrived by `now`; O(log n)."""
        if self.began is None:
            return 0
        arrival, began = self.began
        passed = min((now - began) * 1e6 * self.speed, float(int(self.clock[-1]) - arrival))
        # Rounded: a wait computed in floating point must not end just before its row.
        return int(np.searchsorted(self.clock, arrival + round(passed), side="right"))

    def wait(self, row: int, now: float) -> float:
        """Return the seconds from `now` until the given row is due; 0 if it is."""
        if self.began is None:
            return 0.0
        arrival, began = self.began
        due = began + (int(self.clock[row]) - arrival) / 1e6 / self.speed
        return max(due - now, 0.0)
