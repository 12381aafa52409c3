"""The page of what grows with what, of one executor and two, and of a hundred, reckoned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .scaling import BATCHES, JOINED, KEYS, LARGE, SAMPLES, SMALL, SPREAD, WINDOW, model, reckoned

EXECUTORS = (1, 2, 10, 32, 100)
SIZES = (100_000, 1_000_000, 10_000_000)

HEAD = """# Scaling

Written by `python -m benchmarks.cluster scaling`; no number is typed. What is measured here was
measured on one machine; what is reckoned says so.

## What grows with what

Measured in one process, without Spark, one quantity varied at a time: microseconds a row (of a
join, an arrival), and the state of an operator. In words:

- *Rows.* Nothing grows with the rows that have passed: state is what windows and controllers
  hold.
- *Keys.* State grows with them; the time of a row grows slowly, as a key's rows lie farther
  apart. Keys are what Spark spreads over executors, in 32 buckets unless
  `spark.sfumato.buckets` says more.
- *Window.* Means and extremes over a window of rows cost about the same at any length; a join
  reads the tuples within reach, of which a longer window has more.
- *Samples.* They cost a window less than in proportion; a join compares those of tuples that
  its regions do not decide. State grows in proportion.
- *Tasks.* Each task of a join holds its part of the samples, and all of the tuples' numbers.
"""

MACHINE = f"""## One executor and two

Measured: a standalone cluster of separate processes on one machine of two cores, an executor of
one core each; the driver has no core of its own, so that two executors and it share two. Two
applications take turns, {BATCHES} micro-batches each time; seconds of a micro-batch are the
median of Spark's own figure over the later half of each turn. The first query is `reorder` by
{KEYS:,} keys and a window by time behind it, the second a join without key of {SAMPLES} samples
in three dimensions over windows of {WINDOW:,}, {JOINED:,} rows a micro-batch.
"""

MODEL = """## A hundred executors

**Reckoned, not measured.** The first query, R rows a micro-batch, E executors of a core each:

    seconds = fixed + R / E * imbalance * row + (E - 2) * partition

`row` and `fixed` come from micro-batches of two sizes on two executors, `partition` from the
same rows in {few} and in {many} partitions: what one partition more costs, as if the driver did
all of it, so the last term is left out at best and taken whole at worst. Imbalance is that of
the busiest executor: there are twice as many buckets as executors, at least 32, dealt out
evenly, and keys are taken to be as even. What the model leaves out: the network (here rows go
through memory), state that is read again after a failure, a source or sink that is slower, keys
that are not even (a hot key of a join: `tasks`).
"""

FIGURES = "Figures: row {row:.2f} us, fixed {fixed:.3f} s, partition {partition:.1f} ms."
MISSING = "Not measured on a quiet machine yet: `python -m benchmarks.cluster scaling` does it."

TAIL = """## Trying it

`python -m benchmarks.cluster up FOLDER` starts a master and two workers on loopback, at free
ports; `submit FOLDER JOB.py` is `spark-submit` to them, `down FOLDER` ends them. `check`
compares, on such a cluster, the first look in Python with its SQL; a stream of which a worker
is killed in mid-batch with the static frame, row for row; Spark's adaptive plans, set to split
and join partitions wherever they may, with plans that are not; and two tasks of a hot key with
one. `archive FILE.tar.gz` packs an environment (venv-pack) that goes with a job, `--archive
FILE.tar.gz`.

What a cluster showed:

- **Kernels.** Executors of one machine share what is compiled, if the package is installed
  there. An archive is unpacked anew for every executor of every application, so kernels that it
  lacks are compiled there each time: run `sfumato warm-up` in the environment before it is
  packed (`archive` does), or set `spark.executorEnv.SFUMATO_KERNEL_CACHE` to a folder of the
  machine.
- **Archives.** Spark starts the workers' Python beside the driver, too, to plan a query with
  state or a Python source. In client mode nothing is unpacked there: the folder in which the
  driver runs needs `environment` as well, unpacked or as a link.
- **Checkpoints** lie on a folder that all machines see; set `local_disk=True` only where
  renaming a file there is atomic. A worker that comes back, or another one, loads state from
  there.
- **The master in the program.** A master named in a program (`.master("local[2]")`) wins over
  that of `spark-submit`: leave it out.
"""


def written(figures: dict[str, Any]) -> str:
    """The page."""
    from page import table

    found = figures.get("cluster")
    parts = [HEAD, table(figures["growth"]), MACHINE]
    if found is None:
        parts += [MISSING, MODEL.format(few=SPREAD[0], many=SPREAD[1])]
    else:
        of = model(found)
        about = of | {"row": of["row"] * 1e6, "partition": of["partition"] * 1e3}
        parts += [
            f"The load of the machine at the end was {found['load']:.1f}.",
            table(compared(found)),
            MODEL.format(few=SPREAD[0], many=SPREAD[1]),
            FIGURES.format(**about),
            table(carried(of)),
        ]
    parts.append(TAIL)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def compared(found: dict[str, Any]) -> list[dict[str, Any]]:
    """One executor beside two."""
    rows = []
    for size in (SMALL, LARGE):
        one, two = (found[f"extents, {size} rows, {n}"] for n in (1, 2))
        rows.append(_pair(f"reorder, window, {size:,} rows", size, one, two))
    one, two = found["join, 2 tasks, 1"], found["join, 2 tasks, 2"]
    rows.append(_pair("join, tasks=2", JOINED, one, two))
    rows.append(
        _pair("join, one task on one beside tasks=2", JOINED, found["join, 1 tasks, 1"], two)
    )
    return rows


def _pair(name: str, size: int, one: float, two: float) -> dict[str, Any]:
    return {
        "name": name,
        "s, one": one,
        "s, two": two,
        "rows/s, one": size / one,
        "rows/s, two": size / two,
        "speed-up": one / two,
    }


def carried(of: dict[str, float]) -> list[dict[str, Any]]:
    """The model: rows a second, from worst to best."""
    rows = []
    for executors in EXECUTORS:
        row: dict[str, Any] = {"executors": str(executors)}
        for size in SIZES:
            best, worst = (size / s for s in reckoned(of, executors, size))
            near = round(worst / 1000), round(best / 1000)
            text = f"{near[1]:,}" if near[0] == near[1] else f"{near[0]:,} to {near[1]:,}"
            row[f"thousand rows/s, {size:,} a micro-batch"] = text
        rows.append(row)
    return rows


def keep(figures: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(figures, indent=1) + "\n")
