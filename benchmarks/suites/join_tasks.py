"""One join shared by several tasks: the work of the busiest task, and two tasks in parallel.

This is the operator over tables, as a bucket of a stream runs it: it reads chunks, which every task
decodes, and returns tables of answers without their samples. Windows are full before anything is
timed. "Task by task" runs each task alone, one after the other, and gives the busiest task's work
as a share of one task's work. "Two at once" runs two processes with one task each, and compares the
time until both are done with one process that has the whole join, in turns. "The machine's" runs
two processes with the whole join each, which is the most that two processors give here. Before
that, the answers of all tasks are compared with the answers of one task.
"""

import multiprocessing
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.streams import alternatives, around_centres, operator_rows
from benchmarks.harness import Row
from sfumato.spark.crossing.chunks import from_bytes, to_bytes
from sfumato.tables.joins.table_similarity_join import (
    SimilarityJoinTableConfig,
    TableSimilarityJoin,
)
from sfumato.windows import JoinWindow

TURNS = 3  # turns of the compared processes
BATCH, BATCHES = 1_000, 5  # rows per side in a timed micro-batch; micro-batches
CHECKED = 2_000  # rows of each window in which answers are compared


@dataclass(frozen=True)
class Setting:
    """A stream whose tuples have centres in a cube of side `extent` and samples in a ball."""

    name: str
    rows: int
    dimensions: int
    samples: int
    extent: float
    noise: float
    within: float
    goals: dict[int, float]  # tasks: largest share of one task's work for the busiest


SETTINGS = (
    Setting("3-D, 100 samples", 20_000, 3, 100, 100.0, 5.0, 9.0, {8: 1 / 6}),
    Setting("3-D, 10 samples", 20_000, 3, 10, 100.0, 5.0, 9.0, {}),
    Setting("3-D, 10 samples", 2_000, 3, 10, 100.0, 5.0, 9.0, {}),
)
SPEED_UP = {("3-D, 100 samples", 20_000): 1.8}
QUICK = {
    "SETTINGS": (Setting("3-D, 10 samples", 500, 3, 10, 100.0, 5.0, 9.0, {}),),
    "TURNS": 1,
    "BATCHES": 1,
    "CHECKED": 500,
}


def stream(setting: Setting, rows: int) -> pa.Table:
    """Build rows as the operator reads them; left and right alternate."""
    d, samples = setting.dimensions, setting.samples
    points = around_centres(rows, samples, d, setting.extent, setting.noise)
    values = {f"on{i}": points[..., i] for i in range(d)}
    number = pa.array(np.arange(rows))
    tuples = alternatives(1 / samples, **values)
    return operator_rows({"c0": number}, alternatives=tuples, order0=number)


def chunks_of(rows: pa.Table, begin: int, end: int) -> list[tuple[int, bytes]]:
    part = rows.slice(begin, end - begin)
    side = np.arange(begin, end) % 2
    return [(s, to_bytes(part.filter(pa.array(side == s)))) for s in (0, 1)]


def filled(setting: Setting, rows: pa.Table, tasks: int, task: int) -> TableSimilarityJoin:
    """Return the operator of one task, with full windows."""
    join = SimilarityJoinTableConfig(
        within=setting.within,
        probability=0.49995,
        windows=(JoinWindow(setting.rows),) * 2,
        on=tuple(f"on{i}" for i in range(setting.dimensions)),
        alternatives=False,
        tasks=tasks,
        task=task,
    ).make()
    for begin in range(0, 2 * setting.rows, 2 * BATCH):
        fed(join, chunks_of(rows, begin, begin + 2 * BATCH))
    return join


def fed(join: TableSimilarityJoin, batch: list[tuple[int, bytes]]) -> list[pa.Table]:
    return join.process([(side, from_bytes(chunk)) for side, chunk in batch], 0)


def timed(setting: Setting, rows: pa.Table, tasks: int, task: int, gate: Any = None) -> float:
    """Return median microseconds per arrival; at `gate`, several processes start together."""
    join = filled(setting, rows, tasks, task)
    first = 2 * setting.rows
    batches = [
        chunks_of(rows, begin, begin + 2 * BATCH)
        for begin in range(first, first + 2 * BATCH * BATCHES, 2 * BATCH)
    ]
    times = []
    for batch in batches:
        if gate is not None:
            gate.wait()
        start = time.perf_counter()
        fed(join, batch)
        if gate is not None:
            gate.wait()
        times.append((time.perf_counter() - start) / (2 * BATCH) * 1e6)
    return statistics.median(times)


def check(setting: Setting) -> None:
    """Raise RuntimeError unless three tasks give the answers of one."""
    small = Setting(**{**vars(setting), "rows": CHECKED})
    rows = stream(small, 2 * CHECKED + 2 * BATCH)
    last = chunks_of(rows, 2 * CHECKED, 2 * CHECKED + 2 * BATCH)
    one = _pairs(fed(filled(small, rows, 1, 0), last))
    shared = [fed(filled(small, rows, 3, task), last) for task in range(3)]
    if not one or one != sorted(pair for tables in shared for pair in _pairs(tables)):
        raise RuntimeError(f"three tasks do not give the answers of one: {setting.name}")


def _pairs(tables: list[pa.Table]) -> list[tuple[int, int, float]]:
    return sorted(
        (row["left"]["c0"], row["right"]["c0"], row["probability"])
        for table in tables
        for row in table.select(["left", "right", "probability"]).to_pylist()
    )


def at_once(setting: Setting, rows: pa.Table, tasks: list[int]) -> float:
    """Return microseconds per arrival until concurrent processes, each with one task, are done.

    [0] stands for the whole join in one process, [0, 0] for the whole join in each of two.
    """
    context = multiprocessing.get_context("fork")
    gate, found = context.Barrier(len(tasks)), context.Queue()
    shared = len(set(tasks))

    def run(task: int) -> None:
        found.put(timed(setting, rows, shared, task, gate))

    processes = [context.Process(target=run, args=(task,)) for task in tasks]
    for process in processes:
        process.start()
    times = [found.get() for _ in processes]
    for process in processes:
        process.join()
    return max(times)


def two_at_once(setting: Setting, rows: pa.Table, name: str) -> Row:
    turns = [
        [at_once(setting, rows, tasks) for tasks in ([0], [0, 1], [0, 0])] for _ in range(TURNS)
    ]
    speed_up = statistics.median(alone / two for alone, two, _ in turns)
    found = {
        "name": f"{name}: two at once",
        "µs per arrival": round(statistics.median(two for _, two, _ in turns), 1),
        "speed-up": round(speed_up, 2),
        "speed-up of the machine": round(
            statistics.median(2 * alone / both for alone, _, both in turns), 2
        ),
    }
    least = SPEED_UP.get((setting.name, setting.rows))
    if least is not None:
        found |= {"goal": f">= {least:g}", "met": speed_up >= least}
    return found


def run() -> list[Row]:
    results = []
    for setting in SETTINGS:
        check(setting)
        rows = stream(setting, 2 * setting.rows + 2 * BATCH * BATCHES)
        name = f"{setting.name}, w = {setting.rows:,}"
        one = statistics.median(timed(setting, rows, 1, 0) for _ in range(2))
        results.append({"name": f"{name}: one task", "µs per arrival": round(one, 1)})
        for tasks in (2, 4, 8):
            busiest = max(timed(setting, rows, tasks, task) for task in range(tasks))
            goal = setting.goals.get(tasks)
            found = {
                "name": f"{name}: {tasks} tasks, task by task",
                "µs per arrival": round(busiest, 1),
                "busiest / one": round(busiest / one, 3),
            }
            if goal is not None:
                found |= {"goal": f"<= {goal:.3f}", "met": busiest / one <= goal}
            results.append(found)
        results.append(two_at_once(setting, rows, name))
    return results
