"""An operator fed with the rows of static frames in batches, as a stream would give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.spark.crossing.chunks import BUCKET
from sfumato.spark.crossing.figures import difference
from sfumato.spark.static.ordered_rows import SIDE

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.operator import OperatorConfig

BYTES = 64 << 20  # of a batch, about: where rows are large, it has fewer
# Answers, and figures: what the counters rose by, if they did; gauges at the end of a bucket.
Found = tuple[list[pa.Table], dict[str, Any] | None]


def answers(
    batches: Iterator[pa.RecordBatch],
    config: OperatorConfig,
    sides: Sequence[Sequence[str]],
    most: int,
) -> Iterator[Found]:
    """What comes out because of the rows of a partition, in the order of their buckets.

    sides : the columns of each side    most : rows that an operator gets at once, at most
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

    def __init__(self, config: OperatorConfig, sides: Sequence[Sequence[str]], most: int) -> None:
        self.operator = config.make()
        self.sides, self.most = sides, most
        self.waiting: list[pa.RecordBatch] = []
        self.rows = self.bytes = 0
        self.counted: dict[str, int] = {}
        self.answered = False  # whether anything has come out or was counted

    def take(self, rows: pa.RecordBatch) -> Iterator[Found]:
        """What comes out because of some rows."""
        while rows.num_rows:
            part = rows.slice(0, self.most - self.rows)
            rows = rows.slice(part.num_rows)
            self.waiting.append(part)
            self.rows += part.num_rows
            self.bytes += part.nbytes
            if self.rows == self.most or self.bytes >= BYTES:
                yield from self._process()

    def end(self) -> Iterator[Found]:
        """What comes out at last, and the gauges."""
        yield from self._process()
        yield from self._shown(self.operator.flush())
        gauges = self.operator.gauges()
        if gauges and self.answered:
            yield [], {**dict.fromkeys(self.counted, 0), **gauges}

    def _process(self) -> Iterator[Found]:
        if not self.waiting:
            return
        rows = pa.Table.from_batches(self.waiting)
        self.waiting, self.rows, self.bytes = [], 0, 0
        yield from self._shown(self.operator.process(list(_by_side(rows, self.sides)), 0))

    def _shown(self, outputs: list[pa.Table]) -> Iterator[Found]:
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
    of = rows.column(SIDE).to_numpy()
    for side in np.unique(of).tolist():
        yield side, rows.select(list(sides[side])).filter(pa.array(of == side))
