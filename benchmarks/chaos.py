"""Kill drivers, JVMs, workers and process groups, and compare the answers with an undisturbed run.

    python -m benchmarks.chaos [--kills 10] [--out docs/chaos.json --page docs/chaos.md]

Six queries, one of them a pipeline file for `sfumato run`, each read the same disordered stream,
one file per micro-batch. Each query is killed at random moments and restarted, until it has been
killed the requested number of times; then it runs to the end. Its sink must contain, row for row,
the answers of one undisturbed run over the same files in a few micro-batches, with no answer lost
or duplicated; otherwise the program exits with 1. The file `--out` keeps the figures and adds those
from later runs, so that a hundred kills may be split over several runs.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.streams import readings_of_three
from benchmarks.harness import Row
from benchmarks.page import fill, table
from benchmarks.sink_files import committed_files, compared, rounded
from benchmarks.spark_streams import write_files

FILES, ROWS = 60, 80
TARGETS = ("driver", "JVM", "worker", "process group")
SUMS = ("micro_batches", "answers", "lost", "doubled", "seconds")  # added up over several runs
PATIENCE = 300  # seconds without a micro-batch after which a run is treated as hung

COLUMNS = (
    "device string, event timestamp, arrival timestamp, id long, x double, "
    "alternatives array<struct<prob: double, x: double>>"
)
PIPELINE = """
checkpoint = "."

[sources.readings]
format = "parquet"
path = "in"
schema = "{columns}"
options = {{ maxFilesPerTrigger = {files} }}

[queries.extents]
sql = '''
SELECT device, SUM(x) AS total, COUNT(*) AS n
FROM readings [RANGE 60 seconds SLIDE 20 seconds WATTR event ARRIVAL arrival DRATIO 2%]
GROUP BY device
'''

[sinks.checkpoint]
query = "extents"
format = "parquet"
path = "out"
"""
PROGRAM = """
import sys
import sfumato as sf
from pyspark.sql import functions as F
from sfumato.cli.session import session

folder, shape, files, schema = sys.argv[1:]
spark = session("chaos", short=True)
rows = (
    spark.readStream.schema(schema).option("maxFilesPerTrigger", int(files))
    .parquet(folder + "/in")
)

def ordered():
    return sf.reorder(rows, event_time="event", arrival="arrival", key="device", drop_ratio=0.02)

def extents():
    return sf.window_aggregate(
        ordered(), {"total": "sum(x)", "n": "count(*)"}, key="device", order="event",
        window=sf.Range("60 seconds", slide="20 seconds"),
    )

def counts():
    return sf.window_aggregate(
        rows, {"mean": "avg(x)", "top": "max(x)"}, key="device", order=["arrival", "id"],
        window=sf.Rows(40, confidence=0.9),
    )

def pairs():
    return sf.similarity_join(
        rows.where("id % 2 = 0"), rows.where("id % 2 = 1"), on="x", within=0.05, probability=0.4,
        window=sf.Rows(40, confidence=0.9), order=["arrival", "id"], key="device",
    )

def ranking():
    return sf.top_k(
        rows, [sf.Top(3, every="30 seconds", name="three")], by="x", order="arrival",
        window=sf.Rows(50),
    )

shapes = {
    "reorder": ordered, "reorder, extents": extents, "count windows": counts,
    "similarity join": pairs, "top-k": ranking,
}
answers = shapes[shape]()
query = (
    answers.select(F.to_json(F.struct("*")).alias("answer")).writeStream.format("parquet")
    .option("path", folder + "/out").option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
"""
RUN = "`sfumato run`"  # two cores, extents from SQL
SHAPES = ("reorder", "reorder, extents", "count windows", "similarity join", "top-k", RUN)


Outcome = dict[str, Any]  # the outcome of one query; `targets` counts its kills by target


def added(one: Outcome | None, other: Outcome) -> Outcome:
    """Add up the outcomes of two runs of one query."""
    if one is None:
        return other
    targets = Counter(one["targets"]) + Counter(other["targets"])
    sums = {name: round(one[name] + other[name], 1) for name in SUMS}
    return {"query": one["query"], "targets": dict(targets), **sums}


def start(folder: Path, shape: str, files: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, str(folder), shape, str(files), COLUMNS]
    if shape == RUN:
        file = folder / "pipeline.toml"
        file.write_text(PIPELINE.format(columns=COLUMNS, files=files))
        command = [sys.executable, "-m", "sfumato.cli.main", "run", str(file), "--once"]
        command += ["--cores", "2"]
    with (folder / "said").open("a") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def said(folder: Path) -> str:
    return (folder / "said").read_text()[-3000:]


def committed(folder: Path) -> int:
    commits = folder / "checkpoint" / "commits"
    return sum(p.name.isdigit() for p in commits.iterdir()) if commits.is_dir() else 0


def victims(target: str, leader: int) -> list[int]:
    """Return the ids of the processes to kill in a run's process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            if os.getpgid(int(entry.name)) != leader:
                continue
        except (OSError, ProcessLookupError):
            continue
        is_jvm = "org.apache.spark" in words
        is_worker = "pyspark.daemon" in words or "pyspark/daemon" in words
        if {"JVM": is_jvm, "worker": is_worker and int(entry.name) != leader}.get(target):
            found.append(int(entry.name))
    return found


def kill(process: subprocess.Popen[bytes], target: str) -> None:
    """Send SIGKILL to the target, then end what is left of the run."""
    if target == "driver":
        os.kill(process.pid, signal.SIGKILL)
    for victim in victims(target, process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    if target == "worker":  # the run may survive this: Spark starts another worker
        time.sleep(2.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def disturbed(folder: Path, shape: str, kills: int, seed: int) -> list[str]:
    """Run a query until it has been killed `kills` times; return the targets in order."""
    rng = random.Random(seed)
    done: list[str] = []
    while len(done) < kills:
        before = committed(folder)
        process = start(folder, shape, 1)
        early = len(done) % 3 == 0  # every third kill is during the first micro-batch
        since = time.monotonic()
        while process.poll() is None:
            if victims("worker", process.pid) if early else committed(folder) > before:
                break
            if time.monotonic() - since > PATIENCE:
                raise SystemExit(f"{shape} hangs:\n{said(folder)}")
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 1.5))
        if process.poll() is not None:
            if process.returncode:
                raise SystemExit(f"{shape} failed:\n{said(folder)}")
            break
        target = TARGETS[(seed + len(done)) % len(TARGETS)]
        kill(process, target)
        done.append(target)
    return done


def finish(folder: Path, shape: str, files: int) -> None:
    if start(folder, shape, files).wait(timeout=PATIENCE * 2):
        raise SystemExit(f"{shape} failed:\n{said(folder)}")


def answers(folder: Path) -> Counter[str]:
    """Count the answers in the sink's files, as listed by the log that its readers use."""
    found: Counter[str] = Counter()
    for file in committed_files(folder / "out"):
        for row in pq.read_table(file).to_pylist():
            answer = json.loads(row["answer"]) if "answer" in row else row
            found[json.dumps(rounded(answer), sort_keys=True, default=str)] += 1
    return found


def tried(shape: str, kills: int, rows: pa.Table, root: Path, seed: int) -> Outcome:
    since = time.monotonic()
    quiet, loud = (root / f"{shape}-{kind}" for kind in ("quiet", "killed"))
    for folder in (quiet, loud):
        write_files(rows, ROWS, folder / "in")
    finish(quiet, shape, 17)
    targets = Counter(disturbed(loud, shape, kills, seed))
    finish(loud, shape, 1)
    found = compared(answers(quiet), answers(loud))
    about = {"query": shape, "targets": dict(targets), "micro_batches": committed(loud)}
    return {**about, **found, "seconds": round(time.monotonic() - since, 1)}


def rows_of(outcomes: list[Outcome]) -> list[Row]:
    """Return the rows of the page."""
    return [
        {
            "name": of["query"],
            "kills": sum(of["targets"].values()),
            "killed": ", ".join(f"{of['targets'][t]} {t}" for t in TARGETS if t in of["targets"]),
            "micro-batches": of["micro_batches"],
            "answers": of["answers"],
            "lost": of["lost"],
            "duplicated": of["doubled"],
        }
        for of in outcomes
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="over all queries")
    parser.add_argument(
        "--only", choices=SHAPES, action="append", help="this query; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--out", type=Path, help="figures of all runs so far, as JSON")
    chosen = parser.parse_args()
    rows = readings_of_three(FILES * ROWS, chosen.seed)
    root = Path(tempfile.mkdtemp(prefix="sfumato-chaos-"))
    earlier = chosen.out is not None and chosen.out.is_file()
    kept = json.loads(chosen.out.read_text()) if earlier else []
    outcomes = {of["query"]: of for of in kept}
    shapes = chosen.only or SHAPES
    for i, shape in enumerate(shapes):
        kills = chosen.kills // len(shapes) + (i < chosen.kills % len(shapes))
        found = tried(shape, kills, rows, root, chosen.seed + i)
        print(json.dumps(found), flush=True)
        outcomes[shape] = added(outcomes.get(shape), found)
        done = [outcomes[shape] for shape in SHAPES if shape in outcomes]
        if chosen.out:
            chosen.out.write_text(json.dumps(done, indent=1) + "\n")
    if chosen.page:
        fill(chosen.page, table(rows_of(done)))
    wrong = [of["query"] for of in done if of["lost"] or of["doubled"]]
    if wrong:
        raise SystemExit(f"answers lost or duplicated: {', '.join(wrong)}; see {root}")
    shutil.rmtree(root)
    print("nothing lost, nothing duplicated")


if __name__ == "__main__":
    main()
