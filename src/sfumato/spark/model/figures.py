"""What is known of a query before it runs, as numbers; EXPLAIN puts them in words."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from sfumato.operators.ranking.timetable import Timetable, timetable
from sfumato.operators.windows.uncertain_window import expected_tuples, join_confidence
from sfumato.tables.joins.similarity_query import cost, rows_held, tasks_for
from sfumato.windows import JoinWindow

__all__ = [
    "Timetable",
    "expected_tuples",
    "join_confidence",
    "join_sharing",
    "row_bytes",
    "timetables",
]


def row_bytes(df: DataFrame) -> int:
    """About how many bytes a row takes in a buffer: 8 a number or time, 20 a text, 16 an item."""
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
    """Return the timetable of (name, k, every) by a plan, and that with every query alone."""
    asked = [(k, every) for _, k, every in queries]
    return timetable(asked, plan), timetable(asked, "none")


def join_sharing(windows: Sequence[JoinWindow]) -> tuple[int, float, int, float] | None:
    """Of a join without key: how many tasks share it; microseconds an arrival in one task, and in
    each of how many others. None where nothing is known of the windows' sizes."""
    held, tasks = rows_held(windows), tasks_for(windows, 0)
    if held is None:
        return None
    return tasks, cost(held, 1), max(tasks, 2), cost(held, max(tasks, 2))
