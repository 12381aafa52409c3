"""Bytewax: `fold_window` with an event clock that waits two minutes, one worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bytewax import operators
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import windowing
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main
from engine import measure

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A_CALL = 1_000  # items that a source passes on at once


class Rows(StatefulSourcePartition):
    def __init__(self, folder: Path) -> None:
        self.calls = self.items(folder / "all.parquet")

    def items(self, path: Path) -> Iterator[list[Any]]:
        for batch in pq.ParquetFile(path).iter_batches(20_000, columns=["ts", "k", "v"]):
            columns = [batch[name].to_pylist() for name in ("k", "ts", "v")]
            items = [(str(k), (ts, v)) for k, ts, v in zip(*columns, strict=True)]
            yield from (items[i : i + A_CALL] for i in range(0, len(items), A_CALL))

    def next_batch(self) -> list[Any]:
        return next(self.calls)

    def snapshot(self) -> None:
        return None


class Source(FixedPartitionedSource):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list_parts(self) -> list[str]:
        return ["0"]

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> Rows:
        return Rows(self.folder)


class Sink(DynamicSink):
    """A sink that keeps the answers if requested, and otherwise counts them."""

    def __init__(self, kept: list[Any] | None) -> None:
        self.kept = kept

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Any:
        return Part(self.kept)


class Part(StatelessSinkPartition):
    def __init__(self, kept: list[Any] | None) -> None:
        self.kept = kept

    def write_batch(self, items: list[Any]) -> None:
        if self.kept is not None:
            self.kept.extend(items)


def means(folder: Path, answers: Path | None) -> None:
    kept: list[Any] = []
    flow = Dataflow("means")
    rows = operators.input("rows", flow, Source(folder))
    clock = windowing.EventClock(
        ts_getter=lambda row: row[0],
        wait_for_system_duration=timedelta(minutes=2),
        now_getter=lambda: EPOCH + timedelta(days=19_000),  # fixed: only rows advance the clock
        to_system_utc=lambda _: None,
    )
    windows = windowing.SlidingWindower(timedelta(minutes=10), timedelta(minutes=1), EPOCH)
    out = windowing.fold_window(
        "means",
        rows,
        clock,
        windows,
        lambda: (0.0, 0),
        lambda held, row: (held[0] + row[1], held[1] + 1),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
        ordered=False,
    )
    operators.output("out", out.down, Sink(kept if answers is not None else None))
    run_main(flow)
    if answers is not None:
        found = [(int(k), (window + 10) * 60_000, s, n) for k, (window, (s, n)) in kept]
        columns = zip(*found, strict=True)
        pq.write_table(pa.table(dict(zip(["k", "end", "s", "n"], columns, strict=True))), answers)


if __name__ == "__main__":
    measure("bytewax", {"means": means, "first": means})
