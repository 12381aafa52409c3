"""Static frames through an operator in one pass, a batch at a time: memory is that of its state and
one batch, however long the frames are.

Spark puts the rows of a bucket together and sorts them, spilling to disk what memory cannot hold,
in the order in which the operator takes them (`TableConfig.arrival`). The operator gets them in
batches, as a stream would give them, and its answers go out as they come; then the next bucket of
the partition begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.runtime.bucket_steps import answer_rows, difference, encoded
from sfumato.spark.runtime.buckets import answer_fields, answer_schema
from sfumato.spark.runtime.chunks import BUCKET
from sfumato.spark.runtime.even_partitions import PARTITION, evenly
from sfumato.spark.runtime.sort_keys import placed, sort_keys

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import ChainConfig
    from sfumato.tables.operator import TableConfig

ROWS_SETTING = "spark.sfumato.batchRows"  # how many rows an operator gets at once, at most
ROWS = 65_536
BYTES = 64 << 20  # of a batch, about: where rows are large, it has fewer
SIDE = "__side"


def run_whole(
    frames: Sequence[DataFrame], config: TableConfig | ChainConfig, buckets: int
) -> DataFrame:
    """Chunks of answers to static frames, counters and gauges.

    frames : of each side, as the operator reads it, with an int column BUCKET below `buckets`
    """
    if config.tasks > 1:
        buckets *= config.tasks
        frames = [_for_all(frame, config.tasks) for frame in frames]
    rows = _in_order(frames, config, _partitions(frames[0], buckets))
    sides, most = len(frames), _batch_rows(frames[0])
    form = answer_fields(config)

    def fed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in answers(batches, config, sides, most):
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


def _in_order(
    frames: Sequence[DataFrame], config: TableConfig | ChainConfig, partitions: int
) -> DataFrame:
    """The rows, each bucket's in one partition and in order; those of several sides in a struct.

    The number of partitions is given, so that Spark does not join small ones later: rows say
    nothing about what an operator has to do with them.
    """
    if len(frames) == 1:
        rows = evenly(placed(frames[0]), partitions)
        rows, keys = sort_keys(rows, config.arrival(), [PARTITION, BUCKET])
        return rows.sortWithinPartitions(BUCKET, *keys).select(*frames[0].columns)
    known = [
        sort_keys(placed(frame), config.arrival(side), [BUCKET])
        for side, frame in enumerate(frames)
    ]
    most = max(len(keys) for _, keys in known)
    sides = [
        _side(i, frame, *of, most) for i, (frame, of) in enumerate(zip(frames, known, strict=True))
    ]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), sides)
    *columns, tie, place = _sorts(most)
    rows = evenly(rows, partitions).sortWithinPartitions(BUCKET, *columns, SIDE, tie, place)
    return rows.select(BUCKET, SIDE, *map(_of_side, range(len(frames))))


def _side(
    side: int, frame: DataFrame, rows: DataFrame, keys: Sequence[Column], most: int
) -> DataFrame:
    """The columns of `frame` in a struct, with bucket, side and `most` columns to sort by."""
    *columns, tie, place = keys
    filled = [*columns, *[F.lit(None).cast("long")] * (most - len(keys)), tie, place]
    return rows.select(
        BUCKET,
        F.lit(side).alias(SIDE),
        F.struct(*(name for name in frame.columns if name != BUCKET)).alias(_of_side(side)),
        *(key.alias(name) for key, name in zip(filled, _sorts(most), strict=True)),
    )


def _sorts(number: int) -> list[str]:
    return [f"__sort{i}" for i in range(number)]


def _of_side(side: int) -> str:
    return f"__rows{side}"


def answers(
    batches: Iterator[pa.RecordBatch], config: TableConfig | ChainConfig, sides: int, most: int
) -> Iterator[dict[str, Any]]:
    """What comes out because of the rows of a partition, in the order of their buckets.

    most : rows that an operator gets at once, at most
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
                feed = _Feed(config.for_task(bucket % config.tasks), sides, most)
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

    def __init__(self, config: TableConfig | ChainConfig, sides: int, most: int) -> None:
        self.operator = config.make()
        self.sides, self.most = sides, most
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
        yield from self._shown(self.operator.process(list(_by_side(rows, self.sides)), 0))

    def _shown(self, outputs: list[pa.Table]) -> Iterator[dict[str, Any]]:
        before, self.counted = self.counted, self.operator.counters()
        gauges = dict.fromkeys(self.operator.config.gauges)
        for row in answer_rows(encoded(outputs), difference(before, self.counted), gauges):
            self.answered = True
            yield row


def _by_side(rows: pa.Table, sides: int) -> Iterator[tuple[int, pa.Table]]:
    """(side, rows) of the sides that have rows."""
    if sides == 1:
        yield 0, rows
        return
    of = rows.column(SIDE).to_numpy()
    for side in np.unique(of).tolist():
        of_side = rows.column(_of_side(side)).filter(pa.array(of == side))
        tables = [pa.Table.from_struct_array(chunk) for chunk in of_side.chunks]
        yield side, pa.concat_tables(tables)
