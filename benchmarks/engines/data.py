"""The rows of the jobs, written once for all engines, and plain reference answers.

`means`: readings of 1,000 sensors, one every 6 ms, in order of arrival. Delays are exponential with
a mean of 10 s, and at most 110 s, so that every row is on time for a watermark of two minutes.
`join`: numbers 1 ms apart, the two sides in turn. Because they alternate, the newest 1,000 rows of
the other side are the rows of the last 1,999 ms: an interval join has the same answers.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

BEGIN = 1_700_000_040_000  # ms; a whole minute
MINUTE = 60_000
FILES = 20
SENSORS = 1_000
REACH = 0.5  # the join's maximum distance
NEWEST = 1_000  # rows of the other side that each row is compared with


def readings(rows: int) -> pa.Table:
    """Build int64 ms `ts` and `arrival`, int32 `k`, float64 `v`, in order of arrival."""
    rng = np.random.default_rng(11)
    ts = BEGIN + 6 * np.arange(rows)
    arrival = ts + np.minimum(rng.exponential(10_000, rows), 110_000).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    keys = rng.integers(0, SENSORS, rows).astype(np.int32)
    values = rng.integers(100, 10_000, rows) / 100
    columns = {"ts": ts, "arrival": arrival, "k": keys, "v": values}
    return pa.table({name: column[order] for name, column in columns.items()})


def numbers(rows: int) -> pa.Table:
    """Build int64 `id`, int32 `side`, int64 ms `ts`, float64 `x`, in order."""
    ids = np.arange(rows)
    x = np.random.default_rng(5).uniform(0, 1000, rows).round(4)
    return pa.table({"id": ids, "side": (ids % 2).astype(np.int32), "ts": BEGIN + ids, "x": x})


def write(table: pa.Table, folder: Path) -> None:
    """Write the engines' input: Parquet in one file and in parts, CSV in two, timestamps in us."""
    if (folder / "written").exists():
        return
    for name in ("files", "csv"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    stamped = table
    for i, name in enumerate(table.column_names):
        if name in ("ts", "arrival"):
            us = pa.array(np.asarray(table[name]) * 1000).cast(pa.timestamp("us", tz="UTC"))
            stamped = stamped.set_column(i, name, us)
    pq.write_table(stamped, folder / "all.parquet")
    size = -(-table.num_rows // FILES)
    for i in range(FILES):
        path = folder / "files" / f"{i:02d}.parquet"
        pq.write_table(stamped.slice(i * size, size), path)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))  # Spark reads them in this order
    for part in (0, 1):
        rows = table.take(pa.array(np.arange(part, table.num_rows, 2)))
        options = pc.WriteOptions(include_header=False)
        pc.write_csv(rows, folder / "csv" / f"{part}.csv", options)
    (folder / "written").touch()


def sliding_means(table: pa.Table) -> pa.Table:
    """Return the answers of `means`: `k`, `end` in ms, sum `s` and count `n`, for windows of ten
    minutes every minute.
    """
    pane = np.asarray(table["ts"]) // MINUTE
    key, value = np.asarray(table["k"]).astype(np.int64), np.asarray(table["v"])
    first, panes = pane.min() - 9, int(pane.max() - pane.min()) + 19
    width = int(key.max()) + 1
    sums, counts = np.zeros((panes, width)), np.zeros((panes, width), np.int64)
    for back in range(10):  # a row of pane p is in the windows that start at p - 9 .. p
        at = (pane - back - first, key)
        np.add.at(sums, at, value)
        np.add.at(counts, at, 1)
    window, k = np.nonzero(counts)
    end = (window + first + 10) * MINUTE
    return pa.table({"k": k, "end": end, "s": sums[window, k], "n": counts[window, k]})


def newest_sums(table: pa.Table) -> pa.Table:
    """Return the answers of `newest`: for each row, the sum of the sensor's newest 100 rows."""
    frame = table.to_pandas().sort_values("ts", kind="stable")
    sums = frame.groupby("k")["v"].rolling(100, min_periods=1).sum()
    frame["s"] = sums.reset_index(level=0, drop=True)
    return pa.table({"k": frame["k"].astype("int64"), "end": frame["ts"], "s": frame["s"]})


def near_pairs(table: pa.Table) -> pa.Table:
    """Return the answers of `join`: ids `a` of side 0 and `b` of side 1."""
    x = np.asarray(table["x"])
    a, b = [], []
    for i in range(len(x)):
        others = np.arange(i - 1, max(i - 2 * NEWEST, -1), -2)
        near = others[np.abs(x[others] - x[i]) <= REACH]
        mine = np.full(near.size, i)
        a.append(near if i % 2 else mine)
        b.append(mine if i % 2 else near)
    return pa.table({"a": np.concatenate(a), "b": np.concatenate(b)})


REFERENCES = {"means": sliding_means, "static": sliding_means, "newest": newest_sums}
REFERENCES |= {"join": near_pairs, "first": sliding_means}
