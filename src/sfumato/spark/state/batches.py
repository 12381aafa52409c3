"""One micro-batch of one operator: its chunks, their log, and the rows that are emitted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.figures import OperatorFigures, difference
from sfumato.tables.arrow import joined

if TYPE_CHECKING:  # a process next to the driver imports this, and must not import kernels
    from sfumato.tables.operator import BatchOperator

IDLE = -1  # as an entry's side: no rows came, the idle timeout passed
END = -2  # as a chunk's side: the stream ends after the rows of this micro-batch
HELD_GAUGE = "held"  # the counter of rows that a reorder holds; of a step of a chain `step0_held`
Entries = Sequence[tuple[int, bytes]]  # (side, chunk)


@dataclass
class BucketResult:
    """The result of a micro-batch.

    chunks : answers    changes : of the counters    gauges : their values now
    snapshot : of the operator afterwards, if it was asked for
    held : how many rows its reorders held before, those that held some
    took : whether rows were included, not only invalid ones
    """

    chunks: list[bytes]
    changes: dict[str, int]
    gauges: dict[str, Any]
    snapshot: bytes | None
    held: dict[str, int] = field(default_factory=dict)
    took: bool = True

    def rows(self, figures: OperatorFigures) -> Iterator[dict[str, Any]]:
        """Yield rows (chunk, figures): figures once, with the first chunk or without any."""
        if not self.chunks and not any(self.changes.values()):
            return
        first = self.chunks[0] if self.chunks else None
        yield {"chunk": first, **figures.cells({**self.changes, **self.gauges})}
        for chunk in self.chunks[1:]:
            yield {"chunk": chunk}


def process_batch(
    operator: BatchOperator, batch: Entries, now: int, snapshot: bool
) -> BucketResult:
    """Let an operator process a micro-batch, and take a `snapshot` of it afterwards if asked."""
    operator.begin()
    before = operator.counters()
    tables = process_entries(operator, batch, now)
    changes = difference(before, operator.counters())
    held = {name: n for name, n in before.items() if n and name.rpartition("_")[2] == HELD_GAUGE}
    saved = operator.snapshot() if snapshot else None
    took = operator.took and any(side >= 0 for side, _ in batch)
    encoded = [part for table in tables if table.num_rows for part in chunks.parts(table)]
    return BucketResult(encoded, changes, operator.gauges(), saved, held, took)


def process_entries(operator: BatchOperator, batch: Entries, now: int) -> list[pa.Table]:
    """Return the answers to some entries: rows first, then a timeout, or the stream's end."""
    operator.set_clock(now)
    rows = list(_tables(batch))
    outputs = operator.process(rows, now) if rows else []
    sides = {side for side, _ in batch}
    if IDLE in sides:
        outputs = [*outputs, *operator.idle(now)]
    if END in sides:
        outputs = [*outputs, *operator.flush()]
    return outputs


def _tables(batch: Entries) -> Iterator[tuple[int, pa.Table]]:
    """Yield (side, rows) of the chunks; consecutive chunks of one side are one table."""
    of_rows = [(side, chunks.from_bytes(chunk)) for side, chunk in batch if side >= 0]
    for side, found in groupby(of_rows, lambda of: of[0]):
        yield side, joined([table for _, table in found])


def to_log(batch: Entries, now: int) -> bytes:
    """Return a micro-batch as an entry of the log: a line with sizes, and the chunks."""
    line = json.dumps([now, [(side, len(chunk)) for side, chunk in batch]])
    return b"".join([line.encode(), b"\n", *(chunk for _, chunk in batch)])


def from_log(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """Return the micro-batch of an entry of the log, and its processing time."""
    line, _, rest = data.partition(b"\n")
    now, sizes = json.loads(line)
    batch, start = [], 0
    for side, size in sizes:
        batch.append((side, rest[start : start + size]))
        start += size
    return batch, now
