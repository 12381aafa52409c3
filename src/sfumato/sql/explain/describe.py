"""What a plan will do, in words: operators, keys, windows, state, and what is guaranteed."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.sql.explain import describe_joins as joins
from sfumato.sql.explain import describe_ranking
from sfumato.sql.explain import describe_windows as windows
from sfumato.sql.explain.wording import one_line
from sfumato.sql.plan.nodes import (
    Aggregated,
    ExtentJoin,
    Imputed,
    JoinStep,
    Ranked,
    Remembered,
    Reorder,
    Select,
    Step,
    Table,
    Where,
)

INDENT = "    "


def explained(step: Step) -> str:
    """The plan as text, an operator above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    if isinstance(step, Select):
        yield from _select(step)
    elif isinstance(step, Where):
        yield f"filter on alternatives: {one_line(step.condition)}"
        yield from _indented(step.input)
    elif isinstance(step, Reorder):
        yield "reorder by event time"
        yield from _table(windows.reordering(step.arguments, step.row_bytes))
        yield from _indented(step.input)
    elif isinstance(step, Aggregated):
        yield f"aggregates over windows: {', '.join(step.aggregates)}"
        yield from _table(list(windows.aggregates(step)))
        yield from _indented(step.input)
    elif isinstance(step, ExtentJoin):
        yield "join of two windowed streams, extent by extent"
        yield from _table(windows.extent_join(step))
        for side, name in ((step.left, "left"), (step.right, "right")):
            yield f"{INDENT}{name}:"
            yield from (INDENT + line for line in _indented(side))
    elif isinstance(step, Imputed):
        yield f"impute {', '.join(step.arguments.attributes)}"
        yield from _table(joins.imputation_of(step.arguments))
        yield from _indented(step.input)
    elif isinstance(step, Remembered):
        yield f"earlier values of {', '.join(step.arguments.attributes)}"
        yield from _table(joins.earlier_values(step.arguments))
        yield from _indented(step.input)
    elif isinstance(step, Ranked):
        yield f"top-k answers of {step.name}"
        yield from _table(list(describe_ranking.ranking(step)))
        yield from _indented(step.input)
    elif isinstance(step, JoinStep):
        fused = step.imputation
        kind = "uncertain windows" if fused is None else "incomplete windows, imputed as they meet"
        yield f"similarity join of two {kind}"
        yield from _table(
            joins.similarity_join(step) if fused is None else joins.incomplete_join(step, fused)
        )
        for side, name in ((step.left, "left"), (step.right, "right")):
            yield f"{INDENT}{name}:"
            yield from (INDENT + line for line in _indented(side))
    else:
        yield _described(step)


def _indented(step: Step) -> Iterator[str]:
    return (INDENT + line for line in _lines(step))


def _select(step: Select) -> Iterator[str]:
    yield f"Spark SQL{'' if step.inputs else ', as it stands'}: {one_line(step.text)}"
    for i, part in enumerate(step.inputs):
        yield f"{INDENT}{{d{i}}}:"
        yield from (INDENT + line for line in _indented(part))


def _described(table: Table) -> str:
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
    added = "; arrival added: when Spark received the row" if table.received else ""
    return f"{'stream' if table.streaming else 'static table'} {table.name} ({columns}){added}"


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    return (f"{INDENT}{name.ljust(width)}  {value}" for name, value in rows)
