"""One pass over static frames; memory is bounded by an operator's state and one batch.

Spark groups the rows by bucket and sorts them (`sorted_rows`). The operator receives the rows in
batches, bucket by bucket. An output row has a list of answers, or counters and gauges; Spark
explodes the lists, which is cheaper than another pass through Python.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.crossing.chunks import (
    BUCKET,
    OperatorMetrics,
    RawRows,
    split_batches,
    subtract_counts,
)
from sfumato.spark.model.columns import arrow_schema
from sfumato.tables.reading.user_warnings import warn_of_left_out

if TYPE_CHECKING:  # a process next to the driver imports this module, but must not import kernels
    from sfumato.tables.arrival_order import Arrival
    from sfumato.tables.reading.chain import Chain, ChainConfig, Feed

BATCH_ROWS_SETTING = "spark.sfumato.batchRows"  # maximum rows per batch
DEFAULT_BATCH_ROWS = 65_536
BATCH_BYTES = 64 << 20  # approximate size of a batch; batches of large rows have fewer rows
READ_AHEAD_BATCHES = 8  # Spark batches read in advance, by default of 10,000 rows each
SIDE_COLUMN = "__side"
PLACE_COLUMN = "__place"  # position of a row in the user's frame
ANSWERS_COLUMN = "__answers"  # no counter has this name

# Answers, and metrics if any: increases of counters; gauges at the end of a bucket.
Emitted = tuple[list[pa.Table], dict[str, Any] | None]
T = TypeVar("T")


def run_whole(
    sides: Sequence[RawRows], config: ChainConfig, buckets: int, columns: StructType
) -> DataFrame:
    """Return the answers to static frames in lists, with counters and gauges."""
    if config.tasks > 1:  # copy the rows of bucket i to `tasks` buckets, starting at i * tasks
        buckets *= config.tasks
        first = F.col(BUCKET) * F.lit(config.tasks)
        copies = F.explode(F.sequence(first, first + F.lit(config.tasks - 1)))
        sides = [replace(of, frame=of.frame.withColumn(BUCKET, copies)) for of in sides]
    spark = sides[0].frame.sparkSession
    given = spark.conf.get("spark.sql.shuffle.partitions", None) or ""
    partitions = min(int(given), buckets) if given.isdecimal() else buckets
    rows = sorted_rows(sides, config, buckets, partitions)
    most, metrics = _batch_rows(spark), OperatorMetrics.of(config)
    names = [[*of.kinds] for of in sides]

    def process(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        emitted = feed(read_ahead(batches, READ_AHEAD_BATCHES), config, names, most)
        return answer_batches(emitted, columns, metrics)

    return rows.mapInArrow(process, answer_type(columns, metrics))


def _batch_rows(spark: Any) -> int:
    given = spark.conf.get(BATCH_ROWS_SETTING, str(DEFAULT_BATCH_ROWS)) or ""
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(
            f"`{BATCH_ROWS_SETTING}` must be an integer of at least 1; got {given!r}. Unset it "
            f"to use {DEFAULT_BATCH_ROWS:,}"
        )
    return int(given)


# ---- the order of the rows -------------------------------------------------------------------


def sorted_rows(
    sides: Sequence[RawRows], config: ChainConfig, buckets: int, partitions: int
) -> DataFrame:
    """Return the rows, each bucket in one partition and in order.

    The columns are BUCKET, SIDE if there are several sides, and the columns of all sides. Buckets
    are distributed evenly over a fixed number of partitions. Spark must not coalesce small
    partitions, because an operator's work does not depend only on the number of rows.
    """
    together = [BUCKET] if buckets > partitions else []  # otherwise, one bucket per partition
    # Number the rows before any operation that moves them.
    placed = [
        side.frame.withColumn(PLACE_COLUMN, F.monotonically_increasing_id()) for side in sides
    ]
    keys = [sort_keys(side, *config.reads(number)) for number, side in enumerate(sides)]
    if len(sides) == 1:
        rows = placed[0].repartitionById(partitions, BUCKET)
        rows = rows.sortWithinPartitions(*together, *keys[0])
        return rows.select(BUCKET, *sides[0].kinds)
    most = max(map(len, keys))
    each = [_side(*of, most) for of in zip(range(len(sides)), placed, keys, strict=True)]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), each)
    *columns, tie, place = _sort_names(most)
    rows = rows.repartitionById(partitions, BUCKET)
    side = F.desc(SIDE_COLUMN) if config.first_side else F.asc(SIDE_COLUMN)
    rows = rows.sortWithinPartitions(*together, *columns, side, tie, place)
    return rows.select(
        BUCKET, SIDE_COLUMN, *dict.fromkeys(name for of in sides for name in of.kinds)
    )


def _side(side: int, rows: DataFrame, keys: Sequence[Column], most: int) -> DataFrame:
    *columns, tie, place = keys
    filled = [*columns, *[F.lit(None).cast("long")] * (most - len(keys)), tie, place]
    sorts = (key.alias(name) for key, name in zip(filled, _sort_names(most), strict=True))
    return rows.select("*", F.lit(side).alias(SIDE_COLUMN), *sorts).drop(PLACE_COLUMN)


def _sort_names(number: int) -> list[str]:
    return [f"__sort{i}" for i in range(number)]


def sort_keys(rows: RawRows, feed: Feed, arrival: Arrival) -> list[Column]:
    """Return the sort keys of rows with a PLACE, according to `arrival`; tie and place are last."""
    assert feed.reading is not None

    def read(name: str) -> tuple[Column, DataType]:
        """Return the column (or field) that is read under a fixed name, and its type."""
        outer, *fields = name.split(".")
        raw = rows.columns[feed.reading.column(outer)]  # type: ignore[union-attr]
        column, kind = F.col(raw), rows.kinds[raw]
        for field in fields:
            structs: Any = kind
            column, kind = column[field], structs[field].dataType
        return column, kind

    keys = [_number(*read(name)) for name in arrival.columns]
    for i, name in enumerate(arrival.columns):
        if name in arrival.of_late:
            keys[i] = F.when(read("late")[0], keys[i])
    keys.append(F.col(rows.columns[feed.reading.column("__tie")]) if arrival.tied else F.lit(0))
    if arrival.needed:
        missing = [_is_missing(*read(name), arrival.within) for name in arrival.needed]
        unusable = reduce(lambda a, b: a | b, missing)
        keys = [F.when(~unusable, key) for key in keys]  # NULL sorts first
    return [*keys, F.col(PLACE_COLUMN)]


def _number(column: Column, kind: DataType) -> Column:
    """Return a column in the form that operators compare; see `as_numbers`."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("long")
    if isinstance(kind, IntegralType | BooleanType):
        return column.cast("long")
    if isinstance(kind, FloatType | DoubleType | DecimalType):
        return column.cast("double")
    return column  # TIMESTAMP_NTZ


def _is_missing(column: Column, kind: DataType, within: int | None) -> Column:
    """Return whether a value is missing, or a number or time is out of range."""
    missing = column.isNull()
    if isinstance(kind, FloatType | DoubleType):
        missing = missing | F.isnan(column)
    if within is None:
        return missing
    if isinstance(kind, TimestampNTZType):
        begin = F.lit("1970-01-01").cast("timestamp_ntz")
        span = F.lit(timedelta(microseconds=within))
        return missing | (column <= begin - span) | (column >= begin + span)
    number = _number(column, kind)
    return missing | (number <= F.lit(-within)) | (number >= F.lit(within))


# ---- input rows


def feed(
    batches: Iterable[pa.RecordBatch],
    config: ChainConfig,
    sides: Sequence[Sequence[str]],
    most: int,
) -> Iterator[Emitted]:
    """Yield the answers to a partition's rows, in bucket order."""
    parts = (part for batch in batches if batch.num_rows for part in _by_bucket(batch))
    for bucket, rows in groupby(parts, itemgetter(0)):
        operator = config.for_task(bucket % config.tasks).make()
        yield from _answers(operator, _regroup_batches((of for _, of in rows), most), sides)


def _by_bucket(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, rows); a bucket's rows are consecutive."""
    buckets = batch.column(BUCKET).to_numpy()
    rows = batch.drop_columns([BUCKET])
    starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(buckets)], strict=True):
        yield int(buckets[start]), rows.slice(start, end - start)


def _regroup_batches(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    waiting, count, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, most - count)
            start += part.num_rows
            waiting.append(part)
            count, size = count + part.num_rows, size + part.nbytes
            if count == most or size >= BATCH_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _answers(
    operator: Chain, tables: Iterable[pa.Table], sides: Sequence[Sequence[str]]
) -> Iterator[Emitted]:
    """Yield the answers of a bucket's operator, and finally its gauges."""
    from sfumato.tables.reading.chain import REASONS_NAME

    counted, answered = dict[str, int](), False
    calls = (operator.process(list(_by_side(rows, sides)), 0) for rows in tables)
    ends = (operator.flush() for _ in range(1))
    for outputs in chain(calls, ends):
        before, counted = counted, operator.counters()
        changes = subtract_counts(before, counted)
        if outputs or any(changes.values()):
            answered = True
            yield outputs, changes if any(changes.values()) else None
    gauges = operator.gauges()
    warn_of_left_out(
        {
            (operator.config.function_of(name), reason)
            for name, text in gauges.items()
            if name.endswith(REASONS_NAME) and text
            for reason in json.loads(text)
        }
    )
    if gauges and answered:
        yield [], {**dict.fromkeys(counted, 0), **gauges}


def _by_side(rows: pa.Table, sides: Sequence[Sequence[str]]) -> Iterator[tuple[int, pa.Table]]:
    if len(sides) == 1:
        yield 0, rows
        return
    of = rows.column(SIDE_COLUMN).to_numpy()
    for side in np.unique(of).tolist():
        yield side, rows.select(list(sides[side])).filter(pa.array(of == side))


def read_ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """Yield the items; a thread reads up to `most` in advance. Reading errors are raised here.

    One thread of a task's JVM creates Arrow batches and reads the answers. Without read-ahead, the
    JVM would wait while Python computes, and Python would wait for the next batch.
    """
    thread, end = ThreadPoolExecutor(1, "sfumato-read-ahead"), object()
    waiting = deque(thread.submit(next, items, end) for _ in range(most))
    try:
        while (item := waiting.popleft().result()) is not end:
            waiting.append(thread.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


# ---- output answers ------------------------------------------------------------------------------


def answer_type(columns: StructType, metrics: OperatorMetrics) -> StructType:
    """Return the output columns: ANSWERS (a list of structs, or NULL) and the metrics."""
    answers = StructField(ANSWERS_COLUMN, ArrayType(columns, containsNull=False))
    return StructType([answers, *metrics.columns])


def answer_batches(
    emitted: Iterable[Emitted], columns: StructType, metrics: OperatorMetrics
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `answer_type`, one per batch."""
    schema, waiting = None, list[dict[str, Any]]()
    for tables, numbers in emitted:
        for table in tables:
            for batch in split_batches(table.select(columns.names)):
                rows = batch.to_struct_array()
                schema = _schema(rows.type, metrics)
                kind = schema.field(0).type
                yield _batch(pa.ListArray.from_arrays([0, len(rows)], rows, kind), {}, schema)
        waiting += [] if numbers is None else [metrics.cells(numbers)]
        if schema is not None:
            yield from (_batch(None, of, schema) for of in waiting)
            waiting = []
    if waiting:
        schema = _schema(pa.struct(list(arrow_schema(columns))), metrics)
        yield from (_batch(None, of, schema) for of in waiting)


def _schema(answer: pa.DataType, metrics: OperatorMetrics) -> pa.Schema:
    answers = pa.list_(pa.field("element", answer, nullable=False))
    return pa.schema([pa.field(ANSWERS_COLUMN, answers), *arrow_schema(metrics.columns)])


def _batch(lists: pa.Array | None, cells: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    first = pa.nulls(1, schema.field(0).type) if lists is None else lists
    rest = [pa.array([cells.get(field.name)], field.type) for field in list(schema)[1:]]
    return pa.RecordBatch.from_arrays([first, *rest], schema=schema)
