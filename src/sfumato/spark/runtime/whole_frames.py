"""Static frames through an operator in one pass, a batch at a time: memory is that of its state and
one batch, however long the frames are.

Spark puts the rows of a bucket together and sorts them, spilling to disk what memory cannot hold,
in the order in which the operator takes them (`TableConfig.arrival`). The operator gets them in
batches, as a stream would give them, and its answers go out as they come; then the next bucket of
the partition begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.runtime.bucket_steps import answer_rows, difference, encoded
from sfumato.spark.runtime.buckets import answer_fields, answer_schema
from sfumato.spark.runtime.chunks import BUCKET
from sfumato.spark.runtime.columns_once import Once, marked, put_together
from sfumato.spark.runtime.even_partitions import PARTITION, evenly
from sfumato.spark.runtime.read_ahead import read_ahead
from sfumato.spark.runtime.sort_keys import placed, sort_keys

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import ChainConfig
    from sfumato.tables.operator import TableConfig

ROWS_SETTING = "spark.sfumato.batchRows"  # how many rows an operator gets at once, at most
ROWS = 65_536
BYTES = 64 << 20  # of a batch, about: where rows are large, it has fewer
AHEAD = 8  # of Spark's batches, each of 10,000 rows unless a setting of its says otherwise
SIDE = "__side"


def run_whole(sides: Sequence[Once], config: TableConfig | ChainConfig, buckets: int) -> DataFrame:
    """Chunks of answers to static frames, counters and gauges.

    sides : the frame of each, as the operator reads it, with an int column BUCKET below `buckets`
    """
    frames = [once.frame for once in sides]
    if config.tasks > 1:
        buckets *= config.tasks
        frames = [_for_all(frame, config.tasks) for frame in frames]
    rows, parts = _in_order(frames, sides, config, _partitions(frames[0], buckets))
    most, form = _batch_rows(frames[0]), answer_fields(config)

    def fed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in answers(read_ahead(batches, AHEAD), config, parts, most):
            yield pa.RecordBatch.from_pylist([found], schema=form)

    return rows.mapInArrow(fed, answer_schema(config))


def _for_all(frame: DataFrame, tasks: int) -> DataFrame:
    """The rows of bucket i in so many buckets, from i * tasks on."""
    first = F.col(BUCKET) * F.lit(tasks)
    return frame.withColumn(BUCKET, F.explode(F.sequence(first, first + F.lit(tasks - 1))))


def _batch_rows(frame: DataFrame) -> int:
    given = frame.sparkSession.conf.get(ROWS_SETTING, str(ROWS)) or ""
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(
            f"`{ROWS_SETTING}` must be a whole number of at least 1; got {given!r}: "
            f"leave it out for {ROWS:,}"
        )
    return int(given)


def _partitions(frame: DataFrame, buckets: int) -> int:
    """As many as Spark's shuffles have, but no more than there are buckets."""
    given = frame.sparkSession.conf.get("spark.sql.shuffle.partitions", None) or ""
    return min(int(given), buckets) if given.isdecimal() else buckets


@dataclass(frozen=True)
class Part:
    """How the table of a side lies in the rows of all.

    columns : there, and what they are called in the side's own frame    layout : see `Once`
    """

    columns: Mapping[str, str]
    layout: str

    def of(self, rows: pa.Table) -> pa.Table:
        """The table of rows of this side."""
        own = rows.select(list(self.columns)).rename_columns(list(self.columns.values()))
        return put_together(marked(own, self.layout))


def _in_order(
    frames: Sequence[DataFrame],
    sides: Sequence[Once],
    config: TableConfig | ChainConfig,
    partitions: int,
) -> tuple[DataFrame, list[Part]]:
    """The rows, each bucket's in one partition and in order, and how the sides lie in them.

    The number of partitions is given, so that Spark does not join small ones later: rows say
    nothing about what an operator has to do with them.
    """
    parts = [Part(*of) for of in zip(_shared(frames), [one.layout for one in sides], strict=True)]
    if len(frames) == 1:
        rows = evenly(placed(frames[0]), partitions)
        rows, keys = sort_keys(rows, sides[0], config.arrival(), [PARTITION, BUCKET])
        rows = rows.sortWithinPartitions(BUCKET, *keys)
        return rows.select(BUCKET, *_cells(parts[0])), parts
    known = [
        sort_keys(placed(frame), once, config.arrival(side), [BUCKET])
        for side, (frame, once) in enumerate(zip(frames, sides, strict=True))
    ]
    most = max(len(keys) for _, keys in known)
    each = [
        _side(i, *of, part, most) for i, (of, part) in enumerate(zip(known, parts, strict=True))
    ]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), each)
    *columns, tie, place = _sorts(most)
    rows = evenly(rows, partitions).sortWithinPartitions(BUCKET, *columns, SIDE, tie, place)
    return rows.select(
        BUCKET, SIDE, *dict.fromkeys(c for part in parts for c in part.columns)
    ), parts


def _shared(frames: Sequence[DataFrame]) -> list[dict[str, str]]:
    """For each frame, columns for its own: those of equal types of several frames are the same."""
    numbers: dict[str, int] = {}  # of the types
    found = []
    for frame in frames:
        count, columns = Counter[str](), dict[str, str]()
        for field in frame.schema.fields:
            if field.name != BUCKET:
                kind = field.dataType.json()
                number = numbers.setdefault(kind, len(numbers))
                columns[f"__column{number}_{count[kind]}"] = field.name
                count[kind] += 1
        found.append(columns)
    return found


def _cells(part: Part) -> list[Column]:
    return [F.col(name).alias(shared) for shared, name in part.columns.items()]


def _side(side: int, rows: DataFrame, keys: Sequence[Column], part: Part, most: int) -> DataFrame:
    """The columns of a side, with bucket, side and `most` columns to sort by."""
    *columns, tie, place = keys
    filled = [*columns, *[F.lit(None).cast("long")] * (most - len(keys)), tie, place]
    return rows.select(
        BUCKET,
        F.lit(side).alias(SIDE),
        *_cells(part),
        *(key.alias(name) for key, name in zip(filled, _sorts(most), strict=True)),
    )


def _sorts(number: int) -> list[str]:
    return [f"__sort{i}" for i in range(number)]


def answers(
    batches: Iterator[pa.RecordBatch],
    config: TableConfig | ChainConfig,
    parts: Sequence[Part],
    most: int,
) -> Iterator[dict[str, Any]]:
    """What comes out because of the rows of a partition, in the order of their buckets.

    parts : how each side lies in the rows    most : rows that an operator gets at once, at most
    Rows (chunk, counters, gauges): counters are of what came since the last one; gauges come once,
    at the end of a bucket.
    """
    number, feed = None, None
    for batch in batches:
        for bucket, rows in _runs(batch):
            if feed is None or bucket != number:
                if feed is not None:
                    yield from feed.end()
                number = bucket
                feed = _Feed(config.for_task(bucket % config.tasks), parts, most)
            yield from feed.take(rows)
    if feed is not None:
        yield from feed.end()


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each bucket, which come one behind the other."""
    if not batch.num_rows:
        return
    buckets = batch.column(BUCKET).to_numpy()
    rows = batch.drop_columns([BUCKET])
    starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(buckets)], strict=True):
        yield int(buckets[start]), rows.slice(start, end - start)


class _Feed:
    """The operator of a bucket, and the rows that wait to be a batch of it."""

    def __init__(self, config: TableConfig | ChainConfig, parts: Sequence[Part], most: int) -> None:
        self.operator = config.make()
        self.parts, self.most = parts, most
        self.waiting: list[pa.RecordBatch] = []
        self.rows = self.bytes = 0
        self.counted: dict[str, int] = {}
        self.answered = False  # whether anything has come out or was counted

    def take(self, rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """What comes out because of some rows."""
        while rows.num_rows:
            part = rows.slice(0, self.most - self.rows)
            rows = rows.slice(part.num_rows)
            self.waiting.append(part)
            self.rows += part.num_rows
            self.bytes += part.nbytes
            if self.rows == self.most or self.bytes >= BYTES:
                yield from self._process()

    def end(self) -> Iterator[dict[str, Any]]:
        """What comes out at last, and the gauges."""
        yield from self._process()
        yield from self._shown(self.operator.flush())
        gauges = self.operator.gauges()
        if gauges and self.answered:
            yield {"chunk": None, **dict.fromkeys(self.counted, 0), **gauges}

    def _process(self) -> Iterator[dict[str, Any]]:
        if not self.waiting:
            return
        rows = pa.Table.from_batches(self.waiting)
        self.waiting, self.rows, self.bytes = [], 0, 0
        yield from self._shown(self.operator.process(list(_by_side(rows, self.parts)), 0))

    def _shown(self, outputs: list[pa.Table]) -> Iterator[dict[str, Any]]:
        before, self.counted = self.counted, self.operator.counters()
        gauges = dict.fromkeys(self.operator.config.gauges)
        for row in answer_rows(encoded(outputs), difference(before, self.counted), gauges):
            self.answered = True
            yield row


def _by_side(rows: pa.Table, parts: Sequence[Part]) -> Iterator[tuple[int, pa.Table]]:
    """(side, rows) of the sides that have rows."""
    if len(parts) == 1:
        yield 0, parts[0].of(rows)
        return
    of = rows.column(SIDE).to_numpy()
    for side in np.unique(of).tolist():
        yield side, parts[side].of(rows.filter(pa.array(of == side)))
