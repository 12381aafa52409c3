"""Plain Python: the join with a sorted list, as one would write it by hand."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from engine import measure

NEWEST, REACH = 1_000, 0.5


def join(folder: Path, answers: Path | None) -> None:
    rows = pq.read_table(folder / "all.parquet")
    arrived: tuple[deque, deque] = (deque(), deque())
    by_x: tuple[list, list] = ([], [])
    found = []
    columns = (rows[name].to_pylist() for name in ("id", "side", "x"))
    for identity, side, x in zip(*columns, strict=True):
        others = by_x[1 - side]
        at = bisect_left(others, (x - REACH, -1))
        while at < len(others) and others[at][0] <= x + REACH:
            other = others[at][1]
            found.append((other, identity) if side else (identity, other))
            at += 1
        insort(by_x[side], (x, identity))
        arrived[side].append((x, identity))
        if len(arrived[side]) > NEWEST:
            oldest = arrived[side].popleft()
            del by_x[side][bisect_left(by_x[side], oldest)]
    if answers is not None:
        a, b = zip(*found, strict=True)
        pq.write_table(pa.table({"a": a, "b": b}), answers)


if __name__ == "__main__":
    measure("pyarrow", {"join": join})
