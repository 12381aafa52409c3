"""Repeated kill -9 in mid-stream: the answers equal those of an undisturbed run."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data.streams import readings_of_three
from sfumato.operators.disorder.reorder import Reorder
from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
from sfumato.tables.operator import TIE
from sfumato.windows import JoinWindow

KILLS, FILES, ROWS = 3, 24, 190  # `make chaos` kills more often
STAMP = pa.timestamp("us", tz="UTC")

# Both queries read one file per micro-batch and print one line per finished micro-batch.
QUERIES = """
import sys
import sfumato as sf
from sfumato.cli.session import session

folder = sys.argv[1]
spark = session("killed", short=True)
schema = (
    "device string, event timestamp, arrival timestamp, id long, "
    "alternatives array<struct<prob: double, x: double>>"
)

def read():
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return stream.parquet(folder + "/in")

def write(df, name):
    return (
        df.writeStream.format("parquet").option("path", f"{folder}/{name}")
        .option("checkpointLocation", f"{folder}/checkpoint-{name}")
        .trigger(availableNow=True).start()
    )

ordered = sf.reorder(
    read(), event_time="event", arrival="arrival", key="device",
    drop_ratio=0.02, estimator="conformal",
)
# One source for both sides: two file sources may get out of step when Spark is killed between
# their logs, and then `order` decreases from one micro-batch to the next.
both = read()
pairs = sf.similarity_join(
    both.where("id % 2 = 0"), both.where("id % 2 = 1"), on="x", within=0.05, probability=0.4,
    window=sf.Rows(40, confidence=0.9), order=["arrival", "id"], key="device",
)
queries = [write(ordered, "ordered"), write(pairs, "pairs")]
print("started", flush=True)
for query in queries:
    query.awaitTermination()
print("finished", flush=True)
"""


def ordered_without_kills(table):
    """Return (id, late) of the rows that the operator emits, as a multiset."""
    expected = Counter()
    for device in ("d0", "d1", "d2"):
        own = table.filter(pa.compute.equal(table.column("device"), device))
        event, arrival = (own.column(c).cast(pa.int64()).to_numpy() for c in ("event", "arrival"))
        operator = Reorder(drop_ratio=0.02, estimator="conformal")
        out = operator.process(np.zeros(own.num_rows, np.int64), event, arrival)
        ids = own.column("id").take(pa.array(out.number))
        expected.update(zip(ids.to_pylist(), out.late.tolist(), strict=True))
    return expected


def pairs_without_kills(table):
    """Return {(left id, right id): probability} from one operator over the whole stream."""
    config = SimilarityJoinTableConfig(
        within=0.05,
        probability=0.4,
        windows=(JoinWindow(40, 0.9),) * 2,
        on=("x",),
        orders=2,
        keys=1,
    )
    sides = []
    for side in (0, 1):
        own = table.filter(pa.array(table.column("id").to_numpy() % 2 == side))
        row = pa.StructArray.from_arrays([own.column("id").combine_chunks()], ["id"])
        columns = {
            "row": row,
            "alternatives": own.column("alternatives"),
            "order0": own.column("arrival"),
            "order1": own.column("id"),
            "key0": own.column("device"),
            TIE: own.column("id"),
        }
        sides.append((side, pa.table(columns)))
    (answers,) = config.make().process(sides, 0)
    return as_pairs(answers)


def as_pairs(table):
    ids = [[row["id"] for row in table.column(side).to_pylist()] for side in ("left", "right")]
    return Counter(zip(*ids, table.column("probability").to_pylist(), strict=True))


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-c", QUERIES, str(folder)],
        stdout=subprocess.PIPE,
        stderr=(folder / "errors").open("a"),
        text=True,
        start_new_session=True,
    )


def kill_after(folder, ready, seconds):
    """Kill driver, JVM and workers at once, some seconds after the queries are `ready`."""
    process = start(folder)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "started\n", f"the queries did not start: {line!r}"
    while not ready() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(seconds)
    assert process.poll() is None, f"the queries ended: {(folder / 'errors').read_text()[-3000:]}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.nightly
@pytest.mark.spark
def test_kills_at_random_moments_change_no_answer(spark, tmp_path):
    table = readings_of_three(FILES * ROWS, seed=11).drop_columns("x")  # the alternatives have an x
    source = tmp_path / "in"
    source.mkdir()
    for i in range(FILES):
        pq.write_table(table.slice(i * ROWS, ROWS), source / f"{i:04d}.parquet")
        os.utime(source / f"{i:04d}.parquet", (1_000_000 + i, 1_000_000 + i))
    moments = random.Random(12)
    for number in range(KILLS):
        before = committed(tmp_path)
        # Every third kill is during the first micro-batch; the others are after a finished one.
        early = number % 3 == 0
        kill_after(
            tmp_path,
            lambda early=early, before=before: early or committed(tmp_path) > before,
            moments.uniform(0.0, 1.5),
        )
    assert committed(tmp_path) >= KILLS // 2
    last = start(tmp_path)
    output, _ = last.communicate(timeout=400)
    assert output.splitlines()[-1] == "finished", (tmp_path / "errors").read_text()[-3000:]
    assert last.returncode == 0

    ordered = spark.read.parquet(str(tmp_path / "ordered")).toArrow()
    got = Counter(
        zip(ordered.column("id").to_pylist(), ordered.column("late").to_pylist(), strict=True)
    )
    assert got == ordered_without_kills(table)
    pairs = as_pairs(spark.read.parquet(str(tmp_path / "pairs")).toArrow())
    assert pairs == pairs_without_kills(table)
    assert len(pairs) > 20


def committed(folder):
    """Return the number of micro-batches that the slower of the two queries has committed."""
    counts = []
    for name in ("ordered", "pairs"):
        commits = folder / f"checkpoint-{name}" / "commits"
        found = list(commits.iterdir()) if commits.is_dir() else []
        counts.append(sum(path.name.isdigit() for path in found))
    return min(counts)
