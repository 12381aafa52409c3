"""What the chunks of a micro-batch do to an operator, their log, and the rows that come out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.spark.runtime import chunks

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import Chain
    from sfumato.tables.operator import TableOperator

IDLE = -1  # as an entry's side: no rows came, the idle timeout passed
END = -2  # as a chunk's side: the stream ends behind the rows of this micro-batch


def step(
    operator: TableOperator | Chain, batch: Iterable[tuple[int, bytes]], now: int
) -> list[pa.Table]:
    """What comes out because of some entries: rows first, then a timeout, or the stream's end."""
    entries = list(batch)
    rows = [(side, chunks.from_bytes(chunk)) for side, chunk in entries if side >= 0]
    outputs = operator.process(rows, now) if rows else []
    sides = {side for side, _ in entries}
    if IDLE in sides:
        outputs = [*outputs, *operator.idle(now)]
    if END in sides:
        outputs = [*outputs, *operator.flush()]
    return outputs


def to_log(batch: list[tuple[int, bytes]], now: int) -> bytes:
    table = pa.table(
        {
            "now": pa.array([now] * len(batch), pa.int64()),
            "side": pa.array([side for side, _ in batch], pa.int32()),
            "chunk": pa.array([chunk for _, chunk in batch], pa.binary()),
        }
    )
    return chunks.to_bytes(table)


def from_log(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    columns = chunks.from_bytes(data).to_pydict()
    return list(zip(columns["side"], columns["chunk"], strict=True)), columns["now"][0]


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items()}


def answer_rows(
    outputs: Iterable[pa.Table], changes: dict[str, int], gauges: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows (chunk, counters, gauges): these come once, with the first chunk or without any."""
    nothing = dict.fromkeys(changes, 0) | dict.fromkeys(gauges)
    filled = (part for table in outputs if table.num_rows for part in chunks.parts(table))
    first = next(filled, None)
    if first is None and not any(changes.values()):
        return
    yield {"chunk": first, **changes, **gauges}
    for part in filled:
        yield {"chunk": part, **nothing}
