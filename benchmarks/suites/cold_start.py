"""The parts of a new process's first answer: the waiting time of a short job or a restart.

Every run starts a new process, which answers a static `reorder` by key twice; its kernels were
compiled before. Times are wall-clock times, medians of some runs; the worker measures its own part.
Goal: a cold worker reads its kernels and compiles none in a batch.
"""

import json
import statistics
import subprocess
import sys

import sfumato as sf
from benchmarks.harness import Row

RUNS = 3
QUICK = {"RUNS": 1}
GOAL = "a cold worker compiles nothing"
PARTS = {
    "imports": "driver: import sfumato and PySpark",
    "session": "JVM and session",
    "spark": "first job of Spark, without Python",
    "worker": "first Python worker: start, PySpark's own imports",
    "operators": "worker: import of the operator, with Numba and Arrow",
    "first": "first answer of reorder, 1,000 rows",
    "second": "second answer",
}
PROGRAM = """
import json, sys, time
began = time.perf_counter()
def lap():
    global began
    now, before = time.perf_counter(), began
    began = now
    return now - before
found = {}
import sfumato as sf
from sfumato.cli.session import session
import pyspark.sql
found["imports"] = lap()
spark = session("cold start", cores=1, short=True)
found["session"] = lap()
spark.range(10).selectExpr("sum(id)").collect()
found["spark"] = lap()
def same(batches):
    yield from batches
def importing(batches):
    import time
    import pyarrow as pa
    began = time.perf_counter()
    import sfumato.tables.disorder.table_reorder
    seconds = time.perf_counter() - began
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"seconds": [seconds]})
def kernels(batches):
    import pyarrow as pa
    from sfumato.kernels.compile import compile_counts
    for _ in batches:
        compiled, loaded = compile_counts()
        yield pa.RecordBatch.from_pydict({"compiled": [len(compiled)], "loaded": [len(loaded)]})
one = spark.range(0, 1, 1, 1)
one.mapInArrow(same, "id long").collect()
found["worker"] = lap()
found["operators"] = one.mapInArrow(importing, "seconds double").collect()[0].seconds
lap()
rows = spark.range(0, 1000, 1, 1).selectExpr(
    "id % 10 key", "timestamp_seconds(id - id % 7) made", "timestamp_seconds(id) arrival"
)
def answer():
    out = sf.reorder(rows, event_time="made", arrival="arrival", key="key", drop_ratio=0.01)
    assert len(out.collect()) == 1000
answer()
found["first"] = lap()
answer()
found["second"] = lap()
seen = one.mapInArrow(kernels, "compiled long, loaded long").collect()[0]
found["compiled"], found["loaded"] = seen.compiled, seen.loaded
print(json.dumps(found))
spark.stop()
"""


def run() -> list[Row]:
    """Return one row per part, and one for the kernels."""
    sf.ops.warm_up(["row hashes", "disorder"])
    runs = [measured() for _ in range(RUNS)]
    rows: list[Row] = [
        {"name": about, "seconds": statistics.median(run[name] for run in runs)}
        for name, about in PARTS.items()
    ]
    whole = ("imports", "session", "first")
    total = statistics.median(sum(run[name] for name in PARTS if name != "second") for run in runs)
    at_best = statistics.median(sum(run[name] for name in whole) for run in runs)
    rows.append({"name": "all of the above but the second answer", "seconds": total})
    rows.append({"name": "imports, session and first answer", "seconds": at_best})
    compiled = max(run["compiled"] for run in runs)
    loaded = statistics.median(run["loaded"] for run in runs)
    met = compiled == 0 and loaded > 0
    rows.append(
        {"name": GOAL, "compiled": compiled, "read from disk": loaded, "goal": "0", "met": met}
    )
    return rows


def measured() -> dict[str, float]:
    """Run one new process; return its parts in seconds."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])
