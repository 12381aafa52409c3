"""Static frames through an operator in one pass, a batch at a time: memory is that of its state and
one batch, however long the frames are.

Spark puts the rows of a bucket together and sorts them (`sorted_rows`). The operator gets them in
batches, as a stream would give them; then the next bucket of the partition begins. Its answers go
to Spark as they are emitted: a list of them per row, with the counters and gauges in further
columns. Whatever is observed costs something per row, and rows as binary cells would go through
Python a second time; a list is unfolded by Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructField, StructType

from sfumato.spark.crossing.buckets import BUCKET, RawRows
from sfumato.spark.crossing.chunks import batches_of
from sfumato.spark.crossing.figures import OperatorFigures, difference
from sfumato.spark.model.columns import arrow_schema
from sfumato.spark.static.sorted_rows import SIDE_COLUMN, sorted_rows

if TYPE_CHECKING:  # a process next to the driver imports this, and must not import kernels
    from sfumato.tables.operator import OperatorConfig
    from sfumato.tables.reading.chain import ChainConfig

ROWS_SETTING = "spark.sfumato.batchRows"  # the maximum number of rows that an operator gets at once
LIST_ROWS = 65_536
BYTES = 64 << 20  # of a batch, about: large rows make smaller batches
AHEAD = 8  # of Spark's batches, each of 10,000 rows unless a setting of Spark says otherwise
ANSWERS_COLUMN = "__answers"  # counters have names of their own

# Answers, and figures: the changes of the counters, if any; gauges at the end of a bucket.
Emitted = tuple[list[pa.Table], dict[str, Any] | None]
T = TypeVar("T")


def run_whole(
    sides: Sequence[RawRows], config: ChainConfig, buckets: int, columns: StructType
) -> DataFrame:
    """Return lists of answers to static frames, counters and gauges.

    columns : of an answer
    """
    if config.tasks > 1:
        buckets *= config.tasks
        sides = [replace(of, frame=_for_all_tasks(of.frame, config.tasks)) for of in sides]
    spark = sides[0].frame.sparkSession
    given = spark.conf.get("spark.sql.shuffle.partitions", None) or ""
    partitions = min(int(given), buckets) if given.isdecimal() else buckets
    rows = sorted_rows(sides, config, buckets, partitions)
    most, figures, names = (
        _batch_rows(spark),
        OperatorFigures.of(config),
        [[*of.kinds] for of in sides],
    )

    def fed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answer_batches(
            feed(read_ahead(batches, AHEAD), config, names, most), columns, figures
        )

    return rows.mapInArrow(fed, answer_type(columns, figures))


def explode_answers(out: DataFrame) -> DataFrame:
    """Return the answers of `run_whole`, as rows of their columns."""
    return out.select(F.inline(ANSWERS_COLUMN))


def _for_all_tasks(frame: DataFrame, tasks: int) -> DataFrame:
    """Return the rows of bucket i in `tasks` buckets, from i * tasks on."""
    first = F.col(BUCKET) * F.lit(tasks)
    return frame.withColumn(BUCKET, F.explode(F.sequence(first, first + F.lit(tasks - 1))))


def _batch_rows(spark: Any) -> int:
    given = spark.conf.get(ROWS_SETTING, str(LIST_ROWS)) or ""
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(
            f"`{ROWS_SETTING}` must be a whole number of at least 1; got {given!r}: "
            f"leave it out for {LIST_ROWS:,}"
        )
    return int(given)


# ---- rows in ---------------------------------------------------------------------------------


def feed(
    batches: Iterable[pa.RecordBatch],
    config: OperatorConfig,
    sides: Sequence[Sequence[str]],
    most: int,
) -> Iterator[Emitted]:
    """Yield the answers to the rows of a partition, in the order of their buckets.

    sides : the columns of each side    most : the maximum number of rows that an operator gets
    """
    number, bucket = None, None
    for batch in batches:
        for found, rows in _by_bucket(batch):
            if bucket is None or found != number:
                if bucket is not None:
                    yield from bucket.end()
                number, bucket = found, _Bucket(config.for_task(found % config.tasks), sides, most)
            yield from bucket.take(rows)
    if bucket is not None:
        yield from bucket.end()


def _by_bucket(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket, which follow each other."""
    if not batch.num_rows:
        return
    buckets = batch.column(BUCKET).to_numpy()
    rows = batch.drop_columns([BUCKET])
    starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(buckets)], strict=True):
        yield int(buckets[start]), rows.slice(start, end - start)


class _Bucket:
    """The operator of a bucket, and the rows that wait to be a batch of it."""

    def __init__(self, config: OperatorConfig, sides: Sequence[Sequence[str]], most: int) -> None:
        self.operator = config.make()
        self.sides, self.most = sides, most
        self.waiting: list[pa.RecordBatch] = []
        self.rows = self.bytes = 0
        self.counted: dict[str, int] = {}
        self.answered = False  # whether anything was emitted or counted

    def take(self, rows: pa.RecordBatch) -> Iterator[Emitted]:
        while rows.num_rows:
            part = rows.slice(0, self.most - self.rows)
            rows = rows.slice(part.num_rows)
            self.waiting.append(part)
            self.rows += part.num_rows
            self.bytes += part.nbytes
            if self.rows == self.most or self.bytes >= BYTES:
                yield from self._process()

    def end(self) -> Iterator[Emitted]:
        """Yield the last answers, and the gauges."""
        yield from self._process()
        yield from self._emit(self.operator.flush())
        gauges = self.operator.gauges()
        if gauges and self.answered:
            yield [], {**dict.fromkeys(self.counted, 0), **gauges}

    def _process(self) -> Iterator[Emitted]:
        if not self.waiting:
            return
        rows = pa.Table.from_batches(self.waiting)
        self.waiting, self.rows, self.bytes = [], 0, 0
        yield from self._emit(self.operator.process(list(_by_side(rows, self.sides)), 0))

    def _emit(self, outputs: list[pa.Table]) -> Iterator[Emitted]:
        before, self.counted = self.counted, self.operator.counters()
        changes = difference(before, self.counted)
        counted = any(changes.values())
        if outputs or counted:
            self.answered = True
            yield outputs, changes if counted else None


def _by_side(rows: pa.Table, sides: Sequence[Sequence[str]]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (side, rows) for the sides that have rows."""
    if len(sides) == 1:
        yield 0, rows
        return
    of = rows.column(SIDE_COLUMN).to_numpy()
    for side in np.unique(of).tolist():
        yield side, rows.select(list(sides[side])).filter(pa.array(of == side))


def read_ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """Yield the items, of which a thread reads up to `most` in advance; raise what reading raises.

    One thread of a task's JVM makes Arrow batches and reads the answers. Without this it would wait
    while Python computes, and Python would wait while it makes the next batch.
    """
    found: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    room, unwanted = threading.Semaphore(most), threading.Event()

    def read() -> None:
        try:
            for item in items:
                found.put((item, None))
                room.acquire()
                if unwanted.is_set():
                    return
            found.put((None, StopIteration()))
        except BaseException as error:  # is raised again where the item is wanted
            found.put((None, error))

    thread = threading.Thread(target=read, name="sfumato-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = found.get()
            if isinstance(error, StopIteration):
                break
            if error is not None:
                raise error
            room.release()
            yield item
    finally:
        unwanted.set()
        room.release()
    thread.join()


# ---- answers out -----------------------------------------------------------------------------


def answer_type(columns: StructType, figures: OperatorFigures) -> StructType:
    """Return the columns: ANSWERS, a list of structs, or NULL; and figures."""
    answers = StructField(ANSWERS_COLUMN, ArrayType(columns, containsNull=False))
    return StructType([answers, *figures.columns])


def answer_batches(
    emitted: Iterable[Emitted], columns: StructType, figures: OperatorFigures
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `answer_type`, each a batch.

    All batches have one schema, which only answers determine, so that figures wait for the first.
    """
    schema, waiting = None, list[dict[str, Any]]()
    for tables, numbers in emitted:
        for table in tables:
            for batch in batches_of(table.select(columns.names)):
                rows = batch.to_struct_array()
                schema = _schema(rows.type, figures)
                kind = schema.field(0).type
                yield _batch(pa.ListArray.from_arrays([0, len(rows)], rows, kind), {}, schema)
        waiting += [] if numbers is None else [figures.cells(numbers)]
        if schema is not None:
            yield from (_batch(None, of, schema) for of in waiting)
            waiting = []
    if waiting:
        schema = _schema(pa.struct(list(arrow_schema(columns))), figures)
        yield from (_batch(None, of, schema) for of in waiting)


def _schema(answer: pa.DataType, figures: OperatorFigures) -> pa.Schema:
    answers = pa.list_(pa.field("element", answer, nullable=False))
    return pa.schema([pa.field(ANSWERS_COLUMN, answers), *figures.fields])


def _batch(lists: pa.Array | None, cells: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    first = pa.nulls(1, schema.field(0).type) if lists is None else lists
    rest = [pa.array([cells.get(field.name)], field.type) for field in list(schema)[1:]]
    return pa.RecordBatch.from_arrays([first, *rest], schema=schema)
