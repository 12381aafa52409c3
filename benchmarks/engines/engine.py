"""The shared part of the engines' programs: arguments, times, and the line of output.

A program is started as `python PROGRAM JOB FOLDER RUNS [ANSWERS]` in a separate process session;
ANSWERS is a Parquet file for the answers of the last run, in the columns of `data.py`. This file
imports only the standard library, because it runs in every engine's environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any


def processor_seconds() -> float:
    """Return the processor time of all processes in this session, including Java (Linux)."""
    mine, total = os.getsid(0), 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == mine:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def measure(package: str, jobs: dict[str, Callable[[Path, Path | None], Any]]) -> None:
    """Run the job of the command line, and print its times as one line of JSON.

    jobs : functions by name, called with the folder of the rows and, on the last run, the file for
        answers; without a file, answers are computed and discarded
    """
    job, folder, runs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    answers = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    seconds, processor = [], []
    for run in range(runs):
        used, began = processor_seconds(), time.perf_counter()
        jobs[job](folder, answers if run == runs - 1 else None)
        seconds.append(time.perf_counter() - began)
        processor.append(processor_seconds() - used)
    found = {"version": version(package), "seconds": seconds, "processor": processor}
    found["whole"] = processor_seconds()
    print(json.dumps(found), flush=True)
