"""One micro-batch of one operator: its chunks, their log, and the emitted rows."""

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

if TYPE_CHECKING:  # a process next to the driver imports this: no kernels
    from sfumato.tables.reading.chain import Chain

IDLE = -1  # as an entry's side: no rows arrived, the idle timeout has expired
END = -2  # as a chunk's side: the stream ends after the rows of this micro-batch
HELD_GAUGE = "held"  # counter of the rows held by a reorder; in a chain `step0_held`
Entries = Sequence[tuple[int, bytes]]  # (side, chunk)


@dataclass
class BucketResult:
    """The result of a micro-batch.

    chunks : answers    changes : increases of the counters    gauges : current values
    snapshot : of the operator afterwards, if requested
    held : rows held by its reorders before, if not zero
    took : whether valid rows were processed
    """

    chunks: list[bytes]
    changes: dict[str, int]
    gauges: dict[str, Any]
    snapshot: bytes | None
    held: dict[str, int] = field(default_factory=dict)
    took: bool = True

    def rows(self, figures: OperatorFigures) -> Iterator[dict[str, Any]]:
        """Yield rows (chunk, metrics); metrics once, with the first chunk or alone."""
        if self.chunks or any(self.changes.values()):
            known = figures.cells({**self.changes, **self.gauges})
            yield {"chunk": self.chunks[0] if self.chunks else None, **known}
        for chunk in self.chunks[1:]:
            yield {"chunk": chunk}


def process_batch(operator: Chain, batch: Entries, now: int, snapshot: bool) -> BucketResult:
    """Process a micro-batch with an operator, and take a `snapshot` afterwards if requested."""
    operator.begin()
    before = operator.counters()
    tables = process_entries(operator, batch, now)
    changes = difference(before, operator.counters())
    held = {name: n for name, n in before.items() if n and name.rpartition("_")[2] == HELD_GAUGE}
    saved = operator.snapshot() if snapshot else None
    took = operator.took and any(side >= 0 for side, _ in batch)
    encoded = [part for table in tables if table.num_rows for part in chunks.parts(table)]
    return BucketResult(encoded, changes, operator.gauges(), saved, held, took)


def process_entries(operator: Chain, batch: Entries, now: int) -> list[pa.Table]:
    """Return the answers to entries: rows first, then a timeout or the end of the stream."""
    operator.set_clock(now)
    rows, sides = list(tables_of(batch)), {side for side, _ in batch}
    outputs = operator.process(rows, now) if rows else []
    outputs = [*outputs, *operator.idle(now)] if IDLE in sides else outputs
    return [*outputs, *operator.flush()] if END in sides else outputs


def tables_of(batch: Entries) -> Iterator[tuple[int, pa.Table]]:
    """Yield (side, rows) of the chunks; consecutive chunks of one side are merged."""
    of_rows = [(side, chunks.from_bytes(chunk)) for side, chunk in batch if side >= 0]
    for side, found in groupby(of_rows, lambda of: of[0]):
        yield side, joined([table for _, table in found])


def pack_entries(facts: Any, batch: Entries) -> bytes:
    """Pack facts (JSON values) and entries into bytes: a line with the sizes, and the chunks."""
    line = json.dumps([facts, [(side, len(chunk)) for side, chunk in batch]])
    return b"".join([line.encode(), b"\n", *(chunk for _, chunk in batch)])


def unpack_entries(data: bytes) -> tuple[Any, list[tuple[int, bytes]]]:
    """Unpack the facts and entries of `pack_entries`."""
    line, _, rest = data.partition(b"\n")
    facts, sizes = json.loads(line)
    batch, start = [], 0
    for side, size in sizes:
        batch.append((side, rest[start : start + size]))
        start += size
    return facts, batch
