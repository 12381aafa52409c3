"""Among how many tasks the work of a join is worth sharing: a model of what an arrival costs.

Every task pays for every arrival: reading it, knowing the windows, summing up its alternatives.
What grows with the tuples held opposite is shared. How many alternatives there are, and how many
tuples lie in reach, is not known before the query runs, so the model supposes few of both: it
shares too little rather than too much, and `tasks` says otherwise.
"""

from collections.abc import Sequence
from typing import Any

from sfumato.operators.arguments import whole
from sfumato.windows import JoinWindow

# Microseconds, with ten alternatives in three dimensions: a few in the operator and as many for one
# more copy of the row through Spark; a third of what benchmarks/join_tasks.py has for tuples held,
# where 1 in 300 is near enough.
EVERY_TASK = 10.0
A_TUPLE_OPPOSITE = 0.002
CHOICES = (8, 4, 2)
MOST_TASKS = 1024
LEAST_USE = 0.7  # of the work of all tasks, the part that one alone would have as well


def cost(rows: int, tasks: int) -> float:
    """Microseconds of each task for an arrival, windows of so many rows."""
    return EVERY_TASK + A_TUPLE_OPPOSITE * rows / tasks


def rows_held(windows: Sequence[JoinWindow]) -> int | None:
    """Rows of the smaller window; None where a window does not say how many."""
    rows = [window.rows for window in windows]
    return None if None in rows else min(number for number in rows if number is not None)


def tasks_for(windows: Sequence[JoinWindow], keys: int) -> int:
    """How many tasks share a join. One with a key has its keys to share."""
    held = rows_held(windows)
    if keys or held is None:
        return 1
    alone = cost(held, 1)
    return next((n for n in CHOICES if alone >= LEAST_USE * n * cost(held, n)), 1)


def tasks_of(tasks: Any) -> int:
    """The argument `tasks`, checked. Raises TypeError or ValueError."""
    if not whole("tasks", tasks) <= MOST_TASKS:
        raise ValueError(f"`tasks` must be at most {MOST_TASKS}: each gets all rows; got {tasks}")
    return int(tasks)
