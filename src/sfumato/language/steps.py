"""Steps of a plan, their EXPLAIN text, and the formatting of numbers, sizes and durations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sfumato.duration import spelled

Lines = list[tuple[str, str]]
"""Lines of a plan: a heading and its text."""
INDENT = "    "


@dataclass(frozen=True)
class Step:
    """One operation on rows.

    title : the operation in one line
    lines : its parameters, state and guarantees; lines without text are omitted
    inputs : its input steps by name; "" for a single input
    facts : values for charts and later steps, such as the drop ratio
    runs : the operators that run with it in one Spark step, if any
    named : the metrics name of its operator, if the text gives one
    """

    title: str
    lines: Lines = field(default_factory=list)
    inputs: Mapping[str, Step] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    runs: str = field(default="", compare=False)
    named: str = field(default="", compare=False)

    def walk(self) -> Iterator[Step]:
        yield self
        for step in self.inputs.values():
            yield from step.walk()


def table_step(name: str, streaming: bool, columns: Sequence[tuple[str, str]] = ()) -> Step:
    """Return the step of a table or view. columns : names and Spark types"""
    listed = ", ".join(f"{column} {kind}" for column, kind in columns)
    kind = "stream" if streaming else "static table"
    return Step(f"{kind} {name} ({listed})", facts={"table": name})


class Explanation(str):
    """The text of a plan, which prompts and notebooks display line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def explain_step(step: Step) -> str:
    """Return the plan as text, each operation above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    yield step.title
    known = [("named", step.named and f"{step.named}, in metrics"), ("runs", step.runs)]
    lines = [line for line in [*step.lines, *known] if line[1]]
    width = max((len(name) for name, _ in lines), default=0)
    yield from (f"{INDENT}{name.ljust(width)}  {value}" for name, value in lines)
    for name, below in step.inputs.items():
        margin = INDENT
        if name:
            yield f"{INDENT}{name}:"
            margin += INDENT
        yield from (margin + line for line in _lines(below))


# ---- words of EXPLAIN ----------------------------------------------------------------------------


def list_names(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def per_key(key: str | Sequence[str] | None, without: str = "one, in one task") -> str:
    """Describe one item per value of the key; without a key, return `without`."""
    return f"one per value of ({', '.join(list_names(key))}), in parallel" if key else without


def argument_lines(arguments: Mapping[str, Any]) -> Lines:
    """Return a function's arguments as lines, without None."""
    return [(name, _written(value)) for name, value in arguments.items() if value is not None]


def _written(value: Any) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_written(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_written, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_percent(ratio: float) -> str:
    return f"{ratio * 100:.6g}%"


def format_duration(length: int | timedelta) -> str:
    """Format a duration with `spelled`; a number is in microseconds."""
    if isinstance(length, timedelta):
        length = length // timedelta(microseconds=1)
    return spelled(length)


def format_bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def one_line(text: str) -> str:
    return " ".join(text.split())
