"""A file played back as a stream: its rows in arrival order, at a chosen speed."""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from sfumato.spark.replay.file import arrival_clock, inferred, load, row_count
from sfumato.spark.replay.options import Settings

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

ARROW_ROWS = 10_000  # rows of one record batch handed to Spark
LONGEST_WAIT = 0.25  # seconds in one call of latestOffset, so that a query can be stopped


class ReplaySource(DataSource):
    """Data source "replay": one Parquet, CSV, JSON-lines or Arrow file, in arrival order.

        spark.dataSource.register(sf.ops.ReplaySource)
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
