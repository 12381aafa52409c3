"""Static frames of any length: rows a second, and the peak memory of a Python worker.

    python -m benchmarks.static_frames [CASE ROWS CORES] [--out FOLDER] [--page FILE]

Each case runs in a process of its own: Spark reads Parquet files in no particular order, the public
functions take the frame, a sink discards the answers. Beside it the same operators in memory, fed
with batches of Arrow rows that are in order already, a query that only reads, and the way: the same
query, with operators that only count the rows they are given. So Spark reads and sorts the rows and
brings them to Python, whatever is done with them there. "Share" is rows a second of Spark, without
the time of the query that only reads, over those in memory; "share beside the way" without the time
of the way (above 1: most of the work was done while Spark brought rows). Peaks are the largest
VmHWM (resident memory, interpreter and libraries included) of any Python worker. All processes of a
case are bound to so many cores. "Load" is the machine's load at the end: above the number of cores
others were at work, and times say little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.streams import alternatives, numbers, operator_rows
from benchmarks.harness import Row
from benchmarks.page import keep, table
from benchmarks.spark_streams import fresh_folder

SUITE = "static_frames"
PIECE = 1_000_000  # rows of a file
BATCH = 65_536  # rows that an operator in memory gets at once
IN_MEMORY = 1_000_000  # rows, of what operators in memory are timed with
KEYS = 1000
RUNS = (
    ("reorder, Range", 20_000_000, 2),
    ("reorder, Range", 50_000_000, 2),
    ("reorder, Range by key", 6_000_000, 1),
    ("reorder, Range by key", 6_000_000, 2),
    ("join", 10_000_000, 2),
)
HEAD = "Written by `make static`; no number is typed."


def readings(first: int, rows: int, keys: int) -> pa.Table:
    """Rows of a disordered stream from the `first` on, some 0.1 s apart and 3 s late."""
    rng = np.random.default_rng(first)
    event = (np.arange(first, first + rows) + rng.random(rows)) * 1e5
    arrival = event + rng.exponential(3e6, rows)
    order = np.argsort(arrival)
    return pa.table(
        {
            "device": rng.integers(0, keys, rows),
            "event": event[order].astype(np.int64),
            "arrival": arrival[order].astype(np.int64),
            "x": rng.normal(0, 100, rows),
        }
    )


def written(folder: Path, rows: int, keys: int) -> str:
    """A folder with files of these rows."""
    for i, first in enumerate(range(0, rows, PIECE)):
        part = readings(first, min(PIECE, rows - first), keys)
        pq.write_table(part, folder / f"{i:05d}.parquet", row_group_size=PIECE // 4)
    return str(folder)


# ---- by Spark, public functions only


def ordered_extents(frame: Any, keys: int) -> Any:
    import sfumato as sf

    key = None if keys == 1 else "device"
    rows = sf.reorder(frame, event_time="event", arrival="arrival", drop_ratio=0.01, key=key)
    return sf.window_aggregate(
        rows, {"n": "count(*)", "mean": "avg(x)"}, key=key, order="event",
        window=sf.Range("5 minutes", slide="1 minute"),
    )  # fmt: skip


def pairs(frame: Any, _: int) -> Any:
    """Of even with odd devices: half of the rows each."""
    import sfumato as sf

    return sf.similarity_join(
        frame.where("device % 2 = 0"), frame.where("device % 2 = 1"), on="x", within=0.01,
        probability=0.5, window=sf.Rows(1000), order="arrival",
    )  # fmt: skip


# ---- in memory, rows in order


def timed_batches(operator: Any, batches: Iterable[list[tuple[int, pa.Table]]]) -> Iterator[Any]:
    """Yield the seconds and the answers of each batch."""
    for batch in batches:
        begun = time.perf_counter()
        out = operator.process(batch, 0)
        yield time.perf_counter() - begun, out


def parts_of(rows: pa.Table) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
    """Yield slices, and the struct that each of their rows is."""
    for first in range(0, rows.num_rows, BATCH):
        part = rows.slice(first, BATCH)
        yield part, {f"c{i}": column for i, column in enumerate(part.columns)}


def extents_in_memory(rows: pa.Table, keys: int) -> float:
    """Seconds of both operators."""
    import sfumato as sf
    from sfumato.operators.disorder.control import DisorderControl
    from sfumato.tables.disorder.table_reorder import ReorderTableConfig
    from sfumato.tables.windows.table_extents import ExtentTableConfig

    key = {"keys": 0 if keys == 1 else 1}
    first = ReorderTableConfig(control=DisorderControl(0.01, estimator="conformal"), **key).make()
    second = ExtentTableConfig(
        window=sf.Range("5 minutes", slide="1 minute"), scope=() if keys == 1 else (0,),
        results=(("result0", "count", None, None), ("result1", "avg", 0, None)),
        attributes=1, **key,
    ).make()  # fmt: skip

    def released(part: pa.Table) -> pa.Table:
        row, n = part["row"].combine_chunks(), part.num_rows
        of = {
            "order0": row.field("c1"),
            "key0": row.field("c0"),
            "value0": numbers(row.field("c3")),
        }
        of |= {name: part[name] for name in ("late", "punctuation")}
        return operator_rows(
            {"c0": pa.array(np.zeros(n, np.int32))}, prob=numbers(np.ones(n)), **of
        )

    given = (
        operator_rows(row, event=part["event"], order0=part["arrival"], key0=part["device"])
        for part, row in parts_of(rows)
    )
    seconds = 0.0
    for spent, out in timed_batches(first, ([(0, rows)] for rows in given)):
        later = timed_batches(second, [[(0, released(part))] for part in out])
        seconds += spent + sum(of for of, _ in later)
    return seconds


def pairs_in_memory(rows: pa.Table, _: int) -> float:
    """Seconds of the join."""
    from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
    from sfumato.windows import JoinWindow

    operator = SimilarityJoinTableConfig(
        within=0.01, probability=0.5, windows=(JoinWindow(1000),) * 2, on=("on0",)
    ).make()

    def sides(part: pa.Table, row: dict[str, Any]) -> list[tuple[int, pa.Table]]:
        points = alternatives(1.0, on0=np.asarray(part["x"])[:, None])
        given, odd = operator_rows(row, alternatives=points, order0=part["arrival"]), part["device"]
        return [(side, given.filter(pa.array(np.asarray(odd) % 2 == side))) for side in (0, 1)]

    batches = (sides(part, row) for part, row in parts_of(rows))
    return sum(spent for spent, _ in timed_batches(operator, batches))


# ---- the way alone


class Counting:
    """An operator that counts rows; it has what `TableOperator` has."""

    def __init__(self, counters: Iterable[str]) -> None:
        self.counts = dict.fromkeys(counters, 0)

    def process(self, batch: Any, now: int) -> list[pa.Table]:
        self.counts[next(iter(self.counts))] += sum(rows.num_rows for _, rows in batch)
        return []

    def flush(self) -> list[pa.Table]:
        return []

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    def gauges(self) -> dict[str, Any]:
        return {}


class Way:
    """A config whose operators only count; all else is that of another config."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def __getattr__(self, name: str) -> Any:
        if name == "config":  # while it is being copied to a worker
            raise AttributeError(name)
        return getattr(self.config, name)

    def for_task(self, number: int) -> Way:
        return self

    def make(self) -> Counting:
        return Counting(self.config.counters)


@contextmanager
def only_the_way() -> Iterator[None]:
    """Queries over static frames that are made in here have operators that only count."""
    from sfumato.spark.runtime import run

    given = run.run_whole
    run.run_whole = lambda sides, config, *rest: given(sides, Way(config), *rest)
    try:
        yield
    finally:
        run.run_whole = given


Query = Callable[[Any, int], Any]
CASES: dict[str, tuple[int, Query, Callable[[pa.Table, int], float]]] = {
    "reorder, Range": (1, ordered_extents, extents_in_memory),
    "reorder, Range by key": (KEYS, ordered_extents, extents_in_memory),
    "join": (2, pairs, pairs_in_memory),
}


# ---- measured


class Peaks:
    """The largest resident memory of processes below this one, until it is left; bytes."""

    def __init__(self) -> None:
        self.python = self.java = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.2):
            for child in me.children(recursive=True):
                try:
                    status = Path(f"/proc/{child.pid}/status").read_text()
                except OSError:  # gone meanwhile
                    continue
                peak = [line for line in status.splitlines() if line.startswith("VmHWM")]
                size = int(peak[0].split()[1]) << 10 if peak else 0
                if "java" in status.split("\n", 1)[0]:
                    self.java = max(self.java, size)
                elif "python" in status.split("\n", 1)[0]:
                    self.python = max(self.python, size)


def timed(frame: Any) -> float:
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def measured(case: str, rows: int, cores: int) -> Row:
    from sfumato.cli.session import session

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # Java's and Python's too
    keys, query, in_memory = CASES[case]
    few = readings(0, IN_MEMORY, keys).sort_by("arrival")
    in_memory(few.slice(0, BATCH * 2), keys)  # compiles
    alone = IN_MEMORY / in_memory(few, keys)
    del few
    with fresh_folder() as folder:
        spark = session("static frames", cores=cores)
        try:
            frame = spark.read.parquet(written(folder, rows, keys))
            timed(query(frame.limit(BATCH), keys))  # starts workers, loads kernels
            reading = timed(frame)
            with Peaks() as peaks:
                seconds = timed(query(frame, keys))
            load = os.getloadavg()[0]
            with only_the_way():
                counted = query(frame, keys)
            way = timed(counted)
        finally:
            spark.stop()
    return {
        "name": case,
        "rows": f"{rows:,}",
        "cores": cores,
        "seconds": round(seconds, 1),
        "rows/s": round(rows / seconds),
        "rows/s in memory": round(alone),
        "share": round(rows / (seconds - reading) / alone, 2),
        "seconds of the way": round(way, 1),
        "share beside the way": round(rows / max(seconds - way, 1e-3) / alone, 2),
        "MB a worker, peak": peaks.python >> 20,
        "MB of the JVM, peak": peaks.java >> 20,
        "load": round(load, 1),
    }


def apart(case: str, rows: int, cores: int) -> Row:
    """`measured`, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.static_frames", case, str(rows), str(cores)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def merged(folder: Path, fresh: list[Row]) -> list[Row]:
    """The rows kept in a folder, with fresh ones in place of those of the same run."""
    path = folder / f"{SUITE}.json"
    kept = json.loads(path.read_text()) if path.exists() else []
    runs = {
        (row["name"], int(row["rows"].replace(",", "")), row["cores"]): row
        for row in [*kept, *fresh]
    }
    return [runs[run] for run in sorted(runs, key=lambda run: (run[0] == "join", *run))]


def page(found: list[Row]) -> str:
    """The rows as Markdown."""
    about = f"{HEAD} Each" + (__doc__ or "").partition("\n\nEach")[2]
    lines = textwrap.fill(" ".join(about.split()), 120)
    return f"# Static frames\n\n{lines}\n\n{table(found)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="*", metavar="CASE ROWS CORES")
    parser.add_argument("--out", type=Path, help="folder that keeps the rows measured")
    parser.add_argument("--page", type=Path, help="write a page of them")
    chosen = parser.parse_args()
    runs = RUNS
    if chosen.run:
        case, rows, cores = chosen.run
        runs = ((case, int(rows), int(cores)),)
    if chosen.run and chosen.out is None:
        print(json.dumps(measured(*runs[0])))
        return
    found = [apart(*run) for run in runs]
    if chosen.out is not None:
        found = merged(chosen.out, found)
        keep(chosen.out, SUITE, found)
    if chosen.page is not None:
        chosen.page.write_text(page(found))
    print(table(found))


if __name__ == "__main__":
    main()
