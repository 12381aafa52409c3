"""Two sources of disordered rows, and six forms of queries over both."""

import json
import os
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = """id long, device string, ts timestamp, arrival timestamp,
    alternatives array<struct<prob: double, x: double>>"""
ROWS, PART, END = 60, 13, START + timedelta(seconds=4000)
CONTROL = {"event_time": "ts", "arrival": "arrival", "slack": 3}


def source(seed):
    """Return a source's rows in arrival order, with disordered event times and far later ends."""
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.integers(1, 60, ROWS)) * 1.0 + seed / 4
    arrival = event + rng.exponential(40.0, ROWS)
    rows = [
        {
            "id": int(1000 * seed + i),
            "device": f"d{rng.integers(2)}",
            "ts": (START + timedelta(seconds=event[i])).isoformat(),
            "arrival": (START + timedelta(seconds=arrival[i])).isoformat(),
            "alternatives": [
                {"prob": 0.5, "x": float(rng.integers(6))},
                {"prob": 0.3, "x": float(rng.integers(6))},
            ],
        }
        for i in np.argsort(arrival)
    ]
    for i in range(5):  # so that rows before END do not wait for the end of the stream
        later = (END + timedelta(seconds=100 * (i + 1))).isoformat()
        last = {"id": -1 - 10 * seed - i, "ts": later, "arrival": later}
        rows.append(rows[-1] | last)
    return rows


def ordered(a, b):
    """Return one frame of both sources, with a controller per source."""
    both = a.withColumn("source", F.lit("a")).union(b.withColumn("source", F.lit("b")))
    return sf.reorder(both, **CONTROL, source="source", expected_sources=2)


def joined(a, b):
    pairs = sf.similarity_join(
        *(sf.reorder(df, **CONTROL) for df in (a, b)),
        on="x", within=0.5, probability=0.2, window=sf.Rows(6), order="ts",
    )  # fmt: skip
    return pairs.selectExpr("greatest(left.ts, right.ts) AS at", "left.id", "right.id AS other",
                            "probability")  # fmt: skip


def ranked(a, b):
    top = sf.Top(2, every="2 minutes")
    best = sf.top_k(ordered(a, b), top, by="x", window=sf.Range("5 minutes"), order="ts")
    return best.selectExpr("time AS at", "rank", "row.id", "probability")


def ranked_by_rows(a, b):
    top = sf.Top(2, every="2 minutes")
    best = sf.top_k(ordered(a, b), top, by="x", window=sf.Rows(4), order="ts", key="device")
    return best.selectExpr("time AS at", "device", "rank", "row.id", "probability")


def newest(a, b):
    found = sf.window_aggregate(
        ordered(a, b), {"m": "avg(x)"}, window=sf.Rows(5), order="ts", key="device"
    )
    return found.where("NOT late").selectExpr("ts AS at", "id", "m.mean")


def extents(a, b):
    found = sf.window_aggregate(
        ordered(a, b), {"m": "sum(x)", "n": "count(*)"}, window=sf.Range("4 minutes", "1 minute"),
        order="ts", key="device",
    )  # fmt: skip
    return found.selectExpr("window.end AS at", "device", "m.mean", "m.stddev", "n.mean AS n")


def both_extents(a, b):
    sides = [
        sf.window_aggregate(
            sf.reorder(df, **CONTROL), {"m": "max(x)"}, window=sf.Range("1 minute"), order="ts"
        )
        for df in (a, b)
    ]
    found = sf.extent_join(*sides)
    return found.selectExpr("window.end AS at", "left.m.mean", "right.m.mean AS other")


QUERIES = [joined, ranked, ranked_by_rows, newest, extents, both_extents]


def put(folder, number, rows):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:03d}.json"
    path.write_text("\n".join(map(json.dumps, rows)))
    os.utime(path, (number + 1, number + 1))


def write_files(folder, rows, count=4):
    """Write rows as files, which are read in order of their times, and return their paths."""
    size = -(-len(rows) // count)
    for number in range(count):
        put(folder, number, rows[size * number : size * (number + 1)])
    return sorted(folder.iterdir())


def add_files(files, folder):
    """Copy files, with their times, to a folder, which may be new."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy2(file, folder)


def run_over(stream, folder):
    """Write a stream's rows to files, up to the end of what is there; return its query."""
    writer = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    query.awaitTermination()
    return query


def answers(rows):
    """Return answers before END, rounded because the order of sums may differ."""
    ends = END.replace(tzinfo=None)
    chosen = [row for row in rows if row["at"].replace(tzinfo=None) < ends]
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in chosen)
