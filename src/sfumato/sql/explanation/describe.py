"""A plan as text: an operation above its inputs."""

from collections.abc import Iterator
from typing import Any

from sfumato.sql.plan.nodes import Lines, Step

INDENT = "    "


class Explanation(str):
    """The text of a plan; a prompt or a notebook that shows its value shows its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows: lines, not escapes."""
        printer.text(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def explained(step: Step) -> str:
    """The plan as text, an operation above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    yield step.title()
    known = [("named", step.named and f"{step.named}, in metrics"), ("runs", step.runs)]
    yield from _aligned([*step.lines(), *(line for line in known if line[1])])
    for name, below in step.inputs.items():
        margin = INDENT
        if name:
            yield f"{INDENT}{name}:"
            margin += INDENT
        yield from (margin + line for line in _lines(below))


def _aligned(lines: Lines) -> Iterator[str]:
    width = max((len(name) for name, _ in lines), default=0)
    return (f"{INDENT}{name.ljust(width)}  {value}" for name, value in lines)
