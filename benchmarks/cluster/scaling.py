"""One executor and two: rows a second, in turns, and a model that carries it to a hundred.

Two applications run on one cluster of three workers, one with one executor of one core, one with
two; only one of them has work at a time. Times are Spark's own of a micro-batch, the median of the
later half of each turn.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.cluster.standalone import Cluster
from benchmarks.data.streams import alternatives, around_centres, readings
from benchmarks.spark_streams import later, write_files

JOB = Path(__file__).parent / "jobs" / "measure.py"
SMALL, LARGE, BATCHES, KEYS = 10_000, 100_000, 6, 1_000
JOINED, SAMPLES, WINDOW = 3_000, 100, 3_000
PATIENCE = 300.0  # seconds for an answer
SPREAD = (2, 16)  # partitions, to tell what one of them costs


class Application:
    """A job that was submitted, and answers."""

    def __init__(self, cluster: Cluster, folder: Path, executors: int) -> None:
        self.folder, self.asked, self.executors = folder / f"of{executors}", 0, executors
        self.folder.mkdir()
        conf = {"spark.cores.max": str(executors), "spark.executor.extraJavaOptions": ""}
        conf["spark.driver.extraJavaOptions"] = ""
        self.job: subprocess.Popen[str] = cluster.submit(
            JOB, str(folder), self.folder.name, conf=conf, log=self.folder / "log"
        )
        self._await(self.folder / "ready")

    def ask(self, **asked: Any) -> list[float]:
        """Seconds of each micro-batch."""
        self._put(asked)
        file = self.folder / f"{self.asked}.answer"
        self._await(file)
        self.asked += 1
        found: list[float] = json.loads(file.read_text())
        return found

    def end(self) -> None:
        self._put({})
        self.job.wait(PATIENCE)

    def _put(self, asked: dict[str, Any]) -> None:
        unfinished = self.folder / "unfinished"
        unfinished.write_text(json.dumps(asked))
        unfinished.rename(self.folder / f"{self.asked}.ask")

    def _await(self, file: Path) -> None:
        until = time.monotonic() + PATIENCE
        while not file.exists():
            if self.job.poll() is not None or time.monotonic() > until:
                log = (self.folder / "log").read_text()[-3000:]
                raise RuntimeError(f"no {file.name} of {self.executors} executors:\n{log}")
            time.sleep(0.05)


def points(rows: int, samples: int) -> pa.Table:
    """Numbered tuples whose centres are in a cube, their samples in a ball around them."""
    x, y, z = np.moveaxis(around_centres(rows, samples, 3, 100, 5.0), 2, 0)
    tuples = alternatives(1 / samples, x=x, y=y, z=z)
    return pa.table({"number": pa.array(np.arange(rows)), "alternatives": tuples})


def measured(turns: int) -> dict[str, Any]:
    """Seconds of a micro-batch by what ran, and the machine's load."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name), workers=3) as cluster:
        folder = cluster.folder
        for size in (SMALL, LARGE):
            rows = readings(size * BATCHES, KEYS, 3, seed=1)
            write_files(rows, size, folder / f"rows{size}")
        write_files(points(JOINED * BATCHES, SAMPLES), JOINED, folder / "points")
        applications = [Application(cluster, folder, executors) for executors in (1, 2)]
        for turn in range(turns + 1):
            for application in applications:
                for what, asked in _asked(application.executors).items():
                    found = application.ask(**asked)
                    if turn:  # the first warms up
                        times.setdefault(what, []).extend(later(found))
        for application in applications:
            application.end()
    return {"load": os.getloadavg()[0], **{w: statistics.median(t) for w, t in times.items()}}


def _asked(executors: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for size in (SMALL, LARGE):
        of = {"query": "extents", "source": f"rows{size}", "partitions": executors}
        found[f"extents, {size} rows, {executors}"] = of
    joined = {"query": "join", "source": "points", "window": WINDOW}
    for tasks in (1, 2) if executors == 1 else (2,):
        of = {**joined, "tasks": tasks, "partitions": executors}
        found[f"join, {tasks} tasks, {executors}"] = of
    if executors == 2:
        for partitions in SPREAD:
            of = {"query": "extents", "source": f"rows{SMALL}", "partitions": partitions}
            found[f"partitions, {partitions}"] = of
    return found


# ---- the model


def model(found: dict[str, Any]) -> dict[str, float]:
    """The figures of the model, from what was measured.

    fixed : seconds of a micro-batch whatever its rows, one partition an executor
    row : seconds of a row on one executor
    partition : seconds of one more partition, done by two executors
    """
    small, large = (found[f"extents, {size} rows, 2"] for size in (SMALL, LARGE))
    row = 2 * (large - small) / (LARGE - SMALL)
    spread = [found[f"partitions, {n}"] for n in SPREAD]
    return {
        "row": row,
        "fixed": max(0.0, small - SMALL * row / 2),
        "partition": max(0.0, (spread[1] - spread[0]) / (SPREAD[1] - SPREAD[0])),
    }


def reckoned(of: dict[str, float], executors: int, rows: int) -> tuple[float, float]:
    """Seconds of a micro-batch: at best, and if the driver does all that a partition costs.

    Buckets: twice as many as executors (at least 32), dealt out evenly, so that the busiest
    executor has ceil(buckets / executors) of them.
    """
    buckets = max(32, 2 * executors)
    share = -(-buckets // executors) / buckets
    best = of["fixed"] + rows * share * of["row"]
    return best, best + of["partition"] * max(0, executors - 2)
