"""A plan as text: an operation above its inputs."""

from collections.abc import Iterator

from sfumato.sql.plan.nodes import Lines, Step

INDENT = "    "


def explained(step: Step) -> str:
    """The plan as text, an operation above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    yield step.title()
    yield from _aligned([*step.lines(), *([("runs", step.runs)] if step.runs else [])])
    for name, below in step.inputs.items():
        margin = INDENT
        if name:
            yield f"{INDENT}{name}:"
            margin += INDENT
        yield from (margin + line for line in _lines(below))


def _aligned(lines: Lines) -> Iterator[str]:
    width = max((len(name) for name, _ in lines), default=0)
    return (f"{INDENT}{name.ljust(width)}  {value}" for name, value in lines)
