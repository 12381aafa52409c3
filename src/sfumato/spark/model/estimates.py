"""Sizes, timetables and task counts of a query before it runs; EXPLAIN formats them."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from sfumato.operators.joins.arrivals import window_pair as window_pair
from sfumato.operators.ranking.timetable import Timetable as Timetable
from sfumato.operators.ranking.timetable import timetable
from sfumato.operators.windows.uncertain_window import expected_tuples as expected_tuples
from sfumato.operators.windows.uncertain_window import join_confidence as join_confidence
from sfumato.tables.joins.similarity_query import cost, rows_held, tasks_for
from sfumato.windows import JoinWindow


def row_bytes(df: DataFrame) -> int:
    """Estimate a row's bytes in a buffer: 8 per number or time, 20 per string, 16 per field."""
    total = 0
    for declared in df.schema.fields:
        kind = declared.dataType.simpleString()
        if kind.startswith(("array", "map", "struct")):
            total += 16 * max(1, kind.count(":"))
        else:
            total += 20 if kind in ("string", "binary") else 8
    return total


def timetables(
    queries: Sequence[tuple[str, int, int]], plan: str = "dp"
) -> tuple[Timetable, Timetable]:
    """Return the timetables of queries (name, k, every): with a plan, and without sharing."""
    asked = [(k, every) for _, k, every in queries]
    return timetable(asked, plan), timetable(asked, "none")


def join_sharing(windows: Sequence[JoinWindow]) -> tuple[int, float, int, float] | None:
    """Return how a join without a key is shared, or None if the windows' sizes are unknown.

    Returns (tasks, microseconds per arrival in a single task, a number n >= 2 of tasks,
    microseconds per arrival in each of n tasks).
    """
    held, tasks = rows_held(windows), tasks_for(windows, 0)
    if held is None:
        return None
    return tasks, cost(held, 1), max(tasks, 2), cost(held, max(tasks, 2))
