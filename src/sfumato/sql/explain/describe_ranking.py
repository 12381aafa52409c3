"""What `explain` says of top-k queries and their timetable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sfumato.sql.explain.wording import one_line, per_key, percent, span
from sfumato.sql.plan.nodes import Ranked, Reorder, Where
from sfumato.windows import Range

if TYPE_CHECKING:
    from sfumato.spark.top_k import Timetable

RUNS_SHOWN = 8  # of a timetable


def ranking(step: Ranked) -> Iterator[tuple[str, str]]:
    """The rows about `sf.top_k`."""
    from sfumato.spark.top_k import timetables

    yield "queries", "; ".join(f"{n} (k = {k}, every {span(f)})" for n, k, f in step.queries)
    yield "ranked by", f"{one_line(step.by)}, {'lowest' if step.ascending else 'highest'} first"
    yield "answers", step.semantics
    yield "rules", step.rules or "none: tuples are independent"
    window = step.window
    if isinstance(window, Range):
        yield "window", f"the last {span(window.span)} before an instant"
    else:
        level = percent(window.confidence)
        yield (
            "window",
            f"the newest tuples that hold {window.rows} existing ones with confidence {level}",
        )
    below = step.input.input if isinstance(step.input, Where) else step.input
    if isinstance(window, Range) and isinstance(below, Reorder):
        yield "answered", "once the punctuation has reached the instant"
    else:
        yield "answered", "once a row of that time or a later one came"
    shared, alone = timetables(step.queries, "dp")
    runs = _runs(step, shared)
    yield "timetable", f"a cycle of {span(shared.cycle)}: {runs}"
    hour = 3_600_000_000
    cost, most = shared.cost_per_unit * hour, alone.cost_per_unit * hour
    yield "cost", f"{cost:.6g} (sum of k) an hour; {most:.6g} without sharing (NS)"
    yield "saving", f"{most / cost:.3g} times"
    yield "order", ", ".join(step.order)
    yield "rankings", per_key(step.key, "one, in one task")
    yield "state", "the tuples of one window, with their rows"
    yield "guarantee", "no query waits longer than its FREQUENCY; probabilities to 1e-12"


def _runs(step: Ranked, table: Timetable) -> str:
    listed: list[str] = []
    for time, group in table.until(0, table.cycle):
        if len(listed) == RUNS_SHOWN:
            listed.append("...")
            break
        names = ", ".join(step.queries[i][0] for i in table.answers(group))
        listed.append(f"at {span(time)} {names}")
    return "; ".join(listed)
