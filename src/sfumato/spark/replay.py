"""A data source that replays a file as a stream, in arrival order and at a chosen speed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
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
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError as error:  # pragma: no cover - only on an older Spark
    raise ImportError(
        "sf.ops.ReplaySource needs PySpark 4.2 or later, in which Python sources can limit batches"
    ) from error

REPLAY_OPTIONS = ("path", "order", "speed", "rows_per_batch", "format")
FORMATS = {
    "parquet": ("parquet", "pq"),
    "csv": ("csv",),
    "json": ("json", "jsonl", "ndjson"),
    "arrow": ("arrow", "ipc", "feather"),
}
FILE_NAME = re.compile(r".*?\.(\w+?)(?:\.(?:gz|bz2|zst|lz4))?", re.IGNORECASE | re.DOTALL)
TIME_TYPES = re.compile(r"\b(timestamp|time32|time64|duration)\[")  # in names of Arrow types
FILES_KEPT = 4  # loaded files cached per process
TEXT_BLOCK = 16 << 20  # bytes; a row of CSV or JSON must fit into one block
ARROW_ROWS = 10_000  # rows of one record batch passed to Spark
MAX_WAIT = 0.25  # seconds per call of latestOffset, so that a query can be stopped


class ReplaySource(DataSource):
    """Data source "replay": one Parquet, CSV, JSON-lines or Arrow file, in arrival order.

    Parameters
    ----------
    path
        The file; same as the argument of `load`. Options with other names are errors.
    order
        Column, or comma-separated columns, that define the arrival order, ascending; NULL and NaN
        are last, and ties keep the file order. Default: file order.
    speed
        Replay speed: seconds of the first `order` column (a timestamp, or whole microseconds) per
        second of real time. Default "max": as fast as the query reads.
    rows_per_batch
        Maximum number of rows per micro-batch; default 10,000.
    format
        "parquet", "csv", "json" or "arrow" (IPC file, Feather); default: by suffix.

    Raises
    ------
    ValueError
        For invalid options, columns and types.
    FileNotFoundError
        If the file does not exist.
    RuntimeError
        If the file has changed in a way that prevents the query from continuing.

    Notes
    -----
    The schema is the file's schema, or the schema given with `.schema(...)`, whose columns are
    selected by name and converted. A restart from a checkpoint continues with the next row. The
    file must be accessible under the same path on the driver and every worker.
    More: page reference/functions/ReplaySource of the documentation.
    Cost: each of these processes loads and sorts the file once (O(n log n)), and caches the rows.

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
        self.file = _parse_options(options)

    def schema(self) -> StructType:
        return self.file.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return StaticReplay(self.file, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReplay(self.file, schema)


def _parse_options(given: Mapping[str, str]) -> ReplayFile:
    """Return the file that the options describe. Raises ValueError for invalid options."""
    for name in given:
        if name.lower() not in REPLAY_OPTIONS:
            hint = did_you_mean(name.replace("-", "_"), REPLAY_OPTIONS, cutoff=0.5)
            raise ValueError(
                f"the replay source has no option `{name}`; it has "
                f"{', '.join(REPLAY_OPTIONS)}{hint}"
            )
    options = {name.lower(): value for name, value in given.items()}
    order, speed = options.get("order"), options.get("speed", "max")
    if order is not None and not all(part.strip() for part in order.split(",")):
        raise ValueError(
            "option `order` must be one or several column names, separated by commas; got "
            f"{order!r}. Leave `order` out for file order"
        )
    pace = None
    if speed.strip().lower() != "max":
        with suppress(ValueError):
            pace = float(speed)
        if pace is None or not 0 < pace < float("inf"):
            raise ValueError(
                "option `speed` must be a positive number (1 for real time) or 'max'; got "
                f"{speed!r}"
            )
        if order is None:
            raise ValueError(
                f"option `speed` is {speed!r}, but `order` is missing: name the time column, or "
                "write speed 'max'"
            )
    rows = options.get("rows_per_batch", "10000")
    if not (rows.isdecimal() and int(rows) >= 1):
        raise ValueError(f"option `rows_per_batch` must be an integer of at least 1; got {rows!r}")
    path = _existing_file(options.get("path", ""))
    return ReplayFile(path, _format(options.get("format"), path), order, pace, int(rows))


def _existing_file(text: str) -> str:
    if not text:
        raise ValueError(
            "option `path` is missing: give one file, as in "
            '.option("path", "flights.parquet") or .load("flights.parquet")'
        )
    address = urlsplit(text)
    path = unquote(address.path) if address.scheme == "file" else text
    if address.scheme != "file" and "://" in text:
        raise ValueError(f"option `path` must be a file in the file system; got {text!r}")
    if os.path.isdir(path):
        raise ValueError(f"option `path` must be one file; {path!r} is a folder")
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"option `path` is not an existing file; got {path!r} (searched in {os.getcwd()!r}). "
            "The driver and every worker must see the file under this path"
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
            f"option `format` is missing, and the suffix of {path!r} is not a known format: give "
            f"one of {', '.join(FORMATS)}"
        )
    hint = did_you_mean(given, FORMATS)
    raise ValueError(f"option `format` must be one of {', '.join(FORMATS)}; got {given!r}{hint}")


@dataclass(frozen=True)
class ReplayFile:
    """The replayed file and the validated options. speed : None for maximum speed"""

    path: str
    format: str
    order: str | None
    speed: float | None
    rows_per_batch: int

    def schema(self) -> StructType:
        """Return the file's schema in Spark types; all columns are nullable."""
        table, _ = self.load(None)
        if not table.column_names:
            raise ValueError(
                f"{self.path!r} is empty and has no column names: give the columns with "
                '.schema("a double, ...")'
            )
        fields = []
        for field in table.schema:
            kind = pa.string() if pa.types.is_null(field.type) else spark_type(field.type)
            try:
                fields.append(StructField(field.name, from_arrow_type(kind)))
            except TypeError as error:
                raise ValueError(
                    f"column `{field.name}` of {self.path!r} is {field.type}, for which Spark has "
                    "no type: leave the column out with .schema(...)"
                ) from error
        return StructType(fields)

    def load(self, schema: StructType | None) -> tuple[pa.Table, pa.ChunkedArray | None]:
        """Return the rows in arrival order, and the first column of `order`, if any.

        A process loads an unchanged file once, in O(n log n); later calls check its size and time.
        """
        status = os.stat(_existing_file(self.path))
        version = status.st_size, status.st_mtime_ns
        return _load(replace(self, speed=None, rows_per_batch=1), schema, version)

    def arrival_clock(self, schema: StructType) -> np.ndarray:
        """Return the first order column in microseconds, int64[n], in arrival order.

        A row without an arrival time arrives with the last row that has an arrival time. Raises
        ValueError if the column is neither a timestamp nor an integer.
        """
        column = self.load(schema)[1]
        assert column is not None  # guaranteed by the check of `speed`
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.timestamp("us", tz=column.type.tz), safe=False)
        elif not (pa.types.is_integer(column.type) or column.null_count == len(column)):
            raise ValueError(
                f"option `speed` needs arrival times: `{self.order_columns()[0]}` must be a "
                f"timestamp or whole microseconds; it is {column.type}"
            )
        known = pc.fill_null_forward(pc.cast(column, pa.int64()))
        return pc.fill_null(known, 0).to_numpy()

    def order_columns(self, available: Sequence[str] = ()) -> list[str]:
        """Return the columns of `order`; an available column may have a comma in its name."""
        if self.order is None or self.order in available:
            return [] if self.order is None else [self.order]
        return [part.strip() for part in self.order.split(",")]


@lru_cache(FILES_KEPT)
def _load(
    file: ReplayFile, schema: StructType | None, version: tuple[int, int]
) -> tuple[pa.Table, pa.ChunkedArray | None]:
    """Implement `ReplayFile.load`; reads the file again if its version has changed."""
    target = None if schema is None else arrow_schema(schema)
    # pyarrow refuses strings without a zone for a type with a zone, so times are converted later.
    types = {of.name: of.type for of in target or () if not TIME_TYPES.search(str(of.type))}
    try:
        table = _read(file.path, file.format, types)
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        raise ValueError(f"cannot read {file.path!r} as {file.format}: {error}") from error
    if not table.column_names and target is not None:  # an empty file
        table = target.empty_table()
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{file.path!r} has two columns called `{twice[0]}`: rename one of them")
    asked = [("the given schema", name) for name in schema.names] if schema is not None else []
    orders = file.order_columns(names) if names else []
    for what, name in [*asked, *(("option `order`", name) for name in orders)]:
        if name not in names:
            raise ValueError(
                f"{what} names a column `{name}` that is not in {file.path!r}; "
                f"it has {', '.join(names)}{did_you_mean(name, names)}"
            )
    keys = []
    for name in orders:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):  # sorted by value, not by code
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_nested(column.type):
            raise ValueError(
                f"option `order` must name columns that can be compared; `{name}` is {column.type}"
            )
        keys.append(column)
    if target is not None:
        cells = [_convert(table.column(field.name), field, file.path) for field in target]
        table = pa.Table.from_arrays(cells, schema=target)
    if not keys:
        return table.combine_chunks(), None
    position = pa.array(np.arange(len(keys[0])))
    by = pa.table([*keys, position], [str(i) for i in range(len(keys) + 1)])
    places = pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names])
    return table.take(places).combine_chunks(), keys[0].take(places)


def _convert(column: pa.ChunkedArray, field: pa.Field, path: str) -> pa.ChunkedArray:
    if pa.types.is_timestamp(field.type) and pa.types.is_string(column.type):
        column = _as_times(column)
    try:
        found = pc.cast(column, options=pc.CastOptions(field.type, allow_time_truncate=True))
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
    return found


def _as_times(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert strings to timestamps, with or without a zone, if all values are timestamps."""
    for unit, zone in (("us", None), ("ns", None), ("us", "UTC"), ("ns", "UTC")):
        with suppress(pa.ArrowInvalid):
            return pc.cast(text, pa.timestamp(unit, tz=zone))
    return text


def _read(path: str, form: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return all columns in file order; CSV and JSON values are parsed as `types`."""
    if form == "parquet":
        from pyarrow import parquet

        return parquet.ParquetFile(path).read()
    if form == "arrow":
        from pyarrow import feather

        return feather.read_table(path)
    if os.path.getsize(path) == 0:
        return pa.schema(list(types.items())).empty_table()
    if form == "csv":
        from pyarrow import csv

        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(block_size=TEXT_BLOCK),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types),
        )
    else:
        from pyarrow import json

        table = json.read_json(
            path,
            read_options=json.ReadOptions(block_size=TEXT_BLOCK),
            parse_options=json.ParseOptions(explicit_schema=pa.schema(types) if types else None),
        )
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            text = table.column(place)
            if form == "csv":
                text = pc.if_else(pc.equal(text, ""), pa.scalar(None, field.type), text)
            elif field.name not in types:  # pyarrow infers only whole seconds without a zone
                text = _as_times(text)
            table = table.set_column(place, field.name, text)
    return table


class SliceReader:
    """Reader of partitions (start, end, rows): rows [start, end) of a file with `rows` rows."""

    def __init__(self, file: ReplayFile, schema: StructType) -> None:
        self.file, self.columns = file, schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        start, end, rows = partition.value
        table, _ = self.file.load(self.columns)
        if rows not in (None, table.num_rows):
            raise RuntimeError(
                f"{self.file.path!r} had {rows} rows when this query started and has "
                f"{table.num_rows} in this worker: the file must not change during the replay, "
                "and must be the same for every worker"
            )
        end = table.num_rows if end is None else end
        yield from table.slice(start, end - start).to_batches(max_chunksize=ARROW_ROWS)


class StaticReplay(SliceReader, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition((0, None, None))]


class StreamReplay(SliceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader whose offsets are row numbers in arrival order: ``{"row": replayed rows}``.

    While a query with availableNow waits for the next row, offsets also count the waits. An
    unchanged offset would end the query, and one long sleep could not be interrupted.
    """

    to_the_end = False
    pace: Pace | None = None

    @cached_property
    def rows(self) -> int:  # computed on first use, because some readers only read slices
        return int(self.file.load(self.columns)[0].num_rows)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.file.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.to_the_end = True

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": self.rows}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        row, due = self._row(start), self.rows
        if self.file.speed is not None and self.rows:
            if self.pace is None:
                clock = self.file.arrival_clock(self.columns)
                self.pace = Pace(clock, self.file.speed, row, time.monotonic())
            if self.to_the_end and row < self.rows:
                time.sleep(min(self.pace.wait(row, time.monotonic()), MAX_WAIT))
            due = max(row, self.pace.due(time.monotonic()))
        if isinstance(limit, ReadMaxRows):
            due = min(due, row + limit.max_rows)
        if due == row < self.rows and self.to_the_end:
            return {"row": row, "waits": start.get("waits", 0) + 1}
        return {"row": due} if due > row else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = self._row(start), self._row(end)
        return [InputPartition((first, last, self.rows))] if first < last else []

    def _row(self, offset: dict[str, int]) -> int:
        row = offset.get("row")
        if not isinstance(row, int) or row < 0:
            raise RuntimeError(
                f"the checkpoint's offset {offset} is not an offset of the replay source: start "
                "with a new checkpoint folder"
            )
        if row > self.rows:
            raise RuntimeError(
                f"the checkpoint records {row} replayed rows, but {self.file.path!r} has "
                f"{self.rows}: the file has changed since then. Restore the old file, or start "
                "with a new checkpoint folder"
            )
        return row


class Pace:
    """Schedule of rows on an arrival clock that runs at `speed` times real time.

    clock : int64[n] arrival times in microseconds, not decreasing; n > 0
    row : the first row to replay; the schedule starts at the arrival of row - 1
    now : the time of the start, in seconds of any monotonic clock
    """

    def __init__(self, clock: np.ndarray, speed: float, row: int, now: float) -> None:
        self.clock, self.speed, self.began = clock, speed, now
        self.arrival = int(clock[max(row - 1, 0)])

    def due(self, now: float) -> int:
        """Return the number of rows that have arrived by `now`; O(log n)."""
        most = float(int(self.clock[-1]) - self.arrival)
        passed = min((now - self.began) * 1e6 * self.speed, most)
        # Round, so that a wait computed in floating point does not end just before its row.
        return int(np.searchsorted(self.clock, self.arrival + round(passed), side="right"))

    def wait(self, row: int, now: float) -> float:
        """Return the seconds from `now` until the given row is due; 0 if it is already due."""
        due = self.began + (int(self.clock[row]) - self.arrival) / 1e6 / self.speed
        return max(due - now, 0.0)
