"""Write the scaling page: growth, one and two executors, and a model of a hundred."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster.scaling import (
    BATCHES,
    JOINED,
    KEYS,
    LARGE,
    SAMPLES,
    SMALL,
    SPREAD,
    WINDOW,
    model,
    reckoned,
)
from benchmarks.page import table

EXECUTORS = (1, 2, 10, 32, 100)
SIZES = (100_000, 1_000_000, 10_000_000)

HEAD = """# Scaling

`python -m benchmarks.cluster scaling` writes this page; no number is typed. All measurements
are from one machine. Extrapolated numbers are marked.

## What grows with what

Measured in one process, without Spark, with one quantity varied at a time: microseconds per row
(for a join, per arrival), and the state of an operator. In words:

- *Rows.* Nothing grows with the number of processed rows. State is what windows and controllers
  hold.
- *Keys.* State grows with the number of keys. The time per row grows slowly, because the rows
  of a key are farther apart. Spark distributes keys over executors, in 32 buckets by default
  (`spark.sfumato.buckets`).
- *Window.* Means and extremes over a window of rows cost about the same at any length. A join
  reads the tuples within reach, and a longer window has more of them.
- *Samples.* The cost of a window grows more slowly than the number of samples. A join compares
  the samples of tuples that its regions do not decide. State grows in proportion.
- *Tasks.* Each task of a join holds its part of the samples, and the numbers of all tuples.
"""

MACHINE = f"""## One executor and two

Measured on a standalone cluster of separate processes on one machine of two cores, with one
core per executor. The driver has no separate core, so two executors and the driver share two
cores. Two applications take turns, with {BATCHES} micro-batches per turn. Seconds per
micro-batch are the median of Spark's own figure over the later half of each turn. The first
query is `reorder` by {KEYS:,} keys with a window by time downstream. The second is a join
without key of {SAMPLES} samples in three dimensions over windows of {WINDOW:,}, with {JOINED:,}
rows per micro-batch.
"""

MODEL = """## A hundred executors

**Extrapolated, not measured.** The first query with R rows per micro-batch and E executors of
one core:

    seconds = fixed + R / E * imbalance * row + (E - 2) * partition

- `row` and `fixed` come from micro-batches of two sizes on two executors.
- `partition` comes from the same rows in {few} and in {many} partitions. It is the cost of one
  more partition, as if the driver did all of it. The best case omits the last term, the worst
  case includes all of it.
- `imbalance` is that of the busiest executor, with evenly distributed keys and twice as many
  buckets as executors, at least 32, dealt out evenly.

The model does not include the network (here rows go through memory), state that is read again
after a failure, a slower source or sink, and uneven keys (a hot key of a join: `tasks`).
"""

FIGURES = "Figures: row {row:.2f} us, fixed {fixed:.3f} s, partition {partition:.1f} ms."
MISSING = "Not measured on a quiet machine yet: run `python -m benchmarks.cluster scaling`."

TAIL = """## Trying it

`python -m benchmarks.cluster` has these commands:

- `up FOLDER` starts a master and two workers on loopback, at free ports;
- `submit FOLDER JOB.py` runs `spark-submit` on this cluster;
- `down FOLDER` stops it;
- `archive FILE.tar.gz` packs an environment (venv-pack) that is shipped with a job, `--archive
  FILE.tar.gz`;
- `check` makes comparisons on such a cluster.

`check` compares:

- the first look in Python with the same in SQL;
- a stream whose worker is killed in the middle of a micro-batch with the static frame, row for
  row;
- Spark's adaptive plans, set to split and join partitions wherever possible, with plans that
  are not adaptive;
- two tasks of a hot key with one task.

Observations on a cluster:

- **Kernels.** Executors of one machine share compiled kernels if the package is installed
  there. An archive is unpacked again for every executor of every application. Kernels that are
  not in the archive are compiled there each time. Run `sfumato warm-up` in the environment
  before packing (`archive` does this), or set `spark.executorEnv.SFUMATO_KERNEL_CACHE` to a
  folder of the machine.
- **Archives.** To plan a query with state or a Python source, Spark also starts the workers'
  Python next to the driver. In client mode nothing is unpacked there. The folder in which the
  driver runs needs `environment` as well, unpacked or as a link.
- **Checkpoints** are in a folder that is visible to all machines. Set `local_disk=True` only
  where renaming a file is atomic. A worker that returns, or another one, loads state from this
  folder.
- **The master in the program.** A master set in a program (`.master("local[2]")`) takes
  precedence over the master of `spark-submit`, so do not set it in the program.
"""


def written(figures: dict[str, Any]) -> str:
    """Build the page."""
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
    """Compare one executor with two."""
    rows = []
    for size in (SMALL, LARGE):
        one, two = (found[f"extents, {size} rows, {n}"] for n in (1, 2))
        rows.append(_pair(f"reorder, window, {size:,} rows", size, one, two))
    one, two = found["join, 2 tasks, 1"], found["join, 2 tasks, 2"]
    rows.append(_pair("join, tasks=2", JOINED, one, two))
    rows.append(
        _pair("join, one task on one, tasks=2 on two", JOINED, found["join, 1 tasks, 1"], two)
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
    """Return the rows per second of the model, from worst to best."""
    rows = []
    for executors in EXECUTORS:
        row: dict[str, Any] = {"executors": str(executors)}
        for size in SIZES:
            best, worst = (size / s for s in reckoned(of, executors, size))
            near = round(worst / 1000), round(best / 1000)
            text = f"{near[1]:,}" if near[0] == near[1] else f"{near[0]:,} to {near[1]:,}"
            row[f"thousand rows/s, {size:,} per micro-batch"] = text
        rows.append(row)
    return rows
