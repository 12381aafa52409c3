"""Early answers of windows: the coverage and width of their intervals, and their cost.

Traces with real delays are the real ones of `data/traces.py`. A trace has about 600 windows, each
with a revision per fifth of its length. Values are a random walk per row with noise. Per trace and
aggregate, the figures are the share of revisions whose interval at 90% contains the final answer;
the share of revisions that equal the final answer; and the mean width of the intervals, relative to
the widest, by the distance of the window's end from the punctuation (in fifths, 0 is the last). The
first revisions of a trace, which have no interval, are left out. A row for simulated traces counts
the pairs of trace and aggregate in which 88% to 92% of the intervals contain the final answer.

The last rows compare a window with early answers with the same window without them, both downstream
of their reordering: over a table in memory, as the median of alternated runs, and through Spark, as
the median micro-batch of queries that take turns. Both are measured over certain rows and over rows
with two alternatives that exist with probability 0.8.
"""

import statistics

import numpy as np
import pandas as pd
import pyarrow as pa

import sfumato as sf
from benchmarks.data import traces
from benchmarks.data.real_sets import data_folder
from benchmarks.data.streams import alternatives
from benchmarks.harness import NO_DATA, Row, timed
from benchmarks.spark_streams import (
    benchmark_session,
    fresh_folder,
    stream_of,
    turns_through_spark,
    write_files,
)

ASKED = {"n": "count(*)", "s": "sum(x)", "a": "avg(x)", "lo": "min(x)", "hi": "max(x)"}
EXTENTS, PARTS = 600, 5
TIMES = {"event_time": "made", "arrival": "arrival", "drop_ratio": 0.01}
LEVEL, FEWEST = 0.9, 500  # level of intervals; least windows of a judged trace
EVERY = 1  # use every n-th trace
COST_ROWS = 200_000
REPEATS = 5
BATCHES, TURNS = 8, 3  # micro-batches of COST_ROWS / 2 rows, and turns of each query
QUICK = {"EVERY": 20, "COST_ROWS": 5_000, "REPEATS": 1, "BATCHES": 2, "TURNS": 1}


def run() -> list[Row]:
    if data_folder() is None:
        return [*NO_DATA, *costs()]
    found = []
    for name, trace in list(traces.real(data_folder()))[::EVERY]:
        found += coverage(name, *trace)
    pairs = [
        row["holds"]
        for _, name, trace in list(traces.all_traces(None))[::EVERY]
        for row in coverage(name, *trace)
        if row["extents"] >= FEWEST
    ]
    close = sum(abs(holds - LEVEL) <= 0.02 for holds in pairs)
    found.append({"name": "simulated", "setting": f"{close} of {len(pairs)} pairs"})
    return [*found, *costs()]


def table_of(event: np.ndarray, arrival: np.ndarray) -> pa.Table:
    rng, n = np.random.default_rng(2), len(event)
    x = np.empty(n)
    x[np.argsort(event, kind="stable")] = np.cumsum(rng.normal(0, 0.05, n)) + rng.normal(20, 1, n)
    return pa.table({"made": event, "arrival": arrival, "x": x})


def length_of(event: np.ndarray) -> int:
    """Return a window length, in microseconds, of which a trace has about 600."""
    low, high = np.quantile(event, [0.001, 0.999])
    return max(int((high - low) / EXTENTS) // PARTS, 1) * PARTS


def answers(rows: pa.Table, length: int, early: bool) -> pa.Table:
    """Return the answers of a window of `length` microseconds, with early ones or without."""
    if not early:
        ordered = sf.reorder(rows, **TIMES)
        return sf.window_aggregate(ordered, ASKED, window=sf.Range(f"{length} us"), order="made")
    ordered = sf.reorder(rows, **TIMES, early=True)
    every = f"{length // PARTS} us"
    return sf.window_aggregate(
        ordered, ASKED, window=sf.Range(f"{length} us"), order="made", early=every
    )


def coverage(name: str, event: np.ndarray, arrival: np.ndarray) -> list[Row]:
    """Measure the intervals of one trace, per aggregate and stage."""
    length = length_of(event)
    frame = answers(table_of(event, arrival), length, True).to_pandas()
    frame["end"] = [window["end"] for window in frame["window"]]
    finals = frame[frame["final"]].set_index("end")[[*ASKED]].astype(float)
    revisions = frame[~frame["final"]].join(finals, on="end", rsuffix=" last", how="inner")
    stage = (revisions["end"] - 1 - revisions["punctuation"]) // (length // PARTS)
    out = []
    for aggregate in ASKED:
        ends = pd.DataFrame(
            [interval[aggregate] for interval in revisions["interval"]],
            revisions.index,
            dtype=float,
        )
        known, last = ends["low"].notna(), revisions[f"{aggregate} last"]
        holds = (last >= ends["low"] - 1e-9) & (last <= ends["high"] + 1e-9)
        parts = pd.DataFrame({"stage": stage, "holds": holds, "width": ends["high"] - ends["low"]})
        parts = parts[known]
        widths = parts.groupby("stage")["width"].mean()
        row: Row = {"name": name, "aggregate": aggregate, "extents": len(finals)}
        row |= {"revisions": len(parts), "holds": float(parts["holds"].mean())}
        row["complete already"] = float((last == revisions[aggregate])[known].mean())
        widest = widths.max() or float("nan")
        for number in sorted(widths.index)[: PARTS + 1][::-1]:
            row[f"width {number}"] = float(widths[number] / widest)
        out.append(row)
    return out


def costs() -> list[Row]:
    return [measure(rows) for measure in (cost, cost_on_spark) for rows in ("certain", "uncertain")]


def cost(kind: str) -> Row:
    """Compare a window with early answers with the same window without them, in memory."""
    rows, length = rows_for_cost(COST_ROWS, kind)
    ratios, plain = [], []
    for early in (True, False):
        answers(rows, length, early)
    for _ in range(REPEATS):
        with_early, without = (
            timed(lambda e=e: answers(rows, length, e))[0] for e in (True, False)
        )
        ratios.append(with_early / without)
        plain.append(without)
    row: Row = {"name": "cost", "setting": f"{COST_ROWS:,} {kind} rows, in memory"}
    return row | {"ratio": statistics.median(ratios), "seconds without": min(plain)}


def cost_on_spark(kind: str) -> Row:
    """Compare micro-batches with early answers with the same ones without them."""
    size = COST_ROWS // 2
    rows, length = rows_for_cost(size * BATCHES, kind)
    with benchmark_session() as spark, fresh_folder() as folder:
        source = write_files(rows, size, folder / "rows")
        queries = {
            name: lambda early=early: answers(stream_of(spark, source), length, early)
            for name, early in (("early", True), ("plain", False))
        }
        times = turns_through_spark(queries, folder, TURNS)
    early, plain = (
        statistics.median(second for turn in times[name] for second in turn) for name in queries
    )
    row: Row = {"name": "cost", "setting": f"micro-batches of {size:,} {kind} rows, on Spark"}
    return row | {"ratio": early / plain, "seconds without": plain}


def rows_for_cost(count: int, kind: str) -> tuple[pa.Table, int]:
    """Return rows with delays of 2 s on average, and a window's length of a minute."""
    rng = np.random.default_rng(3)
    event = np.sort(rng.integers(0, 100_000 * count, count))
    trace = traces.in_arrival_order(event, rng.exponential(2e6, count))
    rows = table_of(*trace)
    if kind == "uncertain":
        x = rows.column("x").to_numpy()
        listed = alternatives(0.4, x=np.stack([x, x + 1.0], axis=1))
        rows = rows.drop_columns(["x"]).append_column("alternatives", listed)
    return rows, 60 * traces.SECOND
