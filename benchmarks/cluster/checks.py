"""Checks that a cluster gives the same answers: the first look, a killed worker, skew."""

import re
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.cluster.standalone import Cluster, finished
from benchmarks.spark_streams import write_files

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).parent / "jobs" / "check.py"
PARTS = ("first_look", "stream", "skew", "hot_key")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
KILLED_IN = 3  # the micro-batch in which a worker is killed


def checked(
    cluster: Cluster,
    rows: pa.Table,
    files: int,
    parts: tuple[str, ...] = PARTS,
    archive: Path | None = None,
    seconds: float = 300,
) -> dict[str, dict[str, Any]]:
    """Return outcomes by part; in `stream`, a worker is killed in mid-batch and restarted."""
    folder = cluster.folder / "check"
    write_files(rows, -(-rows.num_rows // files), folder / "in")
    blocks = BLOCK.findall((ROOT / "docs" / "tutorials" / "first-look.md").read_text())
    (folder / "first_look.py").write_text("\n".join(blocks))
    log = folder / "job.log"
    job = cluster.submit(JOB, str(folder), *parts, archive=archive, log=log)
    killed: list[int] = []
    killer = threading.Thread(target=_kill_in_mid_batch, args=(cluster, folder, job, killed))
    killer.start()
    try:
        said = finished(job, seconds, [log])
    finally:
        killer.join()
    found = {line.pop("part"): line for line in said}
    if "stream" in found:
        found["stream"] |= {"killed in micro-batch": killed[0] if killed else None}
    return found


def _kill_in_mid_batch(cluster: Cluster, folder: Path, job: Any, killed: list[int]) -> None:
    """Send SIGKILL to a worker while a micro-batch is running."""
    begun, done = (folder / "checkpoint" / name for name in ("offsets", "commits"))
    while job.poll() is None:
        numbers = _numbers(begun)
        newest = max(numbers, default=-1)
        if newest >= KILLED_IN and newest not in _numbers(done):
            time.sleep(0.15)  # its tasks have started by then
            if newest in _numbers(done):
                continue
            cluster.kill_worker(1)
            killed.append(newest)
            cluster.add_worker(1)
            return
        time.sleep(0.02)


def _numbers(folder: Path) -> set[int]:
    try:
        return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}
    except OSError:
        return set()
