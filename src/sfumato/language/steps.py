"""The steps of a plan, EXPLAIN's text of them, and numbers, sizes and durations in its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sfumato.duration import spelled
from sfumato.spark.model.figures import expected_tuples
from sfumato.windows import JoinWindow, Rows

Lines = list[tuple[str, str]]
"""Rows of a plan: a heading, and what there is to say."""
INDENT = "    "
EXISTENCES = (1.0, 0.9, 0.5)  # for which EXPLAIN gives the size of a window
TYPICAL = 0.9  # existence of the tuples whose state it gives


@dataclass(frozen=True)
class Step:
    """One operation on rows.

    title : the operation in one line
    lines : its parameters, its state and what it guarantees
    inputs : the steps below it, by the name of each; "" where there is only one
    facts : what charts and later steps look up, such as whether rows come by punctuations
    runs : with which others it runs in one step of Spark's, where there is something to say
    named : what its operator is called in metrics, where the text says it
    """

    title: str
    lines: Lines = field(default_factory=list)
    inputs: Mapping[str, Step] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    runs: str = field(default="", compare=False)
    named: str = field(default="", compare=False)

    def walk(self) -> Iterator[Step]:
        """Yield the step and all below it."""
        yield self
        for step in self.inputs.values():
            yield from step.walk()


def table_step(name: str, streaming: bool, columns: Sequence[tuple[str, str]] = ()) -> Step:
    """Return the step of a table or view; `columns` : name and Spark type."""
    listed = ", ".join(f"{column} {kind}" for column, kind in columns)
    kind = "stream" if streaming else "static table"
    return Step(f"{kind} {name} ({listed})", facts={"table": name})


class Explanation(str):
    """The text of a plan; a prompt or a notebook that shows its value shows its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print lines in IPython, not escapes."""
        printer.text(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def explained(step: Step) -> str:
    """Return the plan as text, an operation above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    yield step.title
    known = [("named", step.named and f"{step.named}, in metrics"), ("runs", step.runs)]
    lines = [*step.lines, *(line for line in known if line[1])]
    width = max((len(name) for name, _ in lines), default=0)
    yield from (f"{INDENT}{name.ljust(width)}  {value}" for name, value in lines)
    for name, below in step.inputs.items():
        margin = INDENT
        if name:
            yield f"{INDENT}{name}:"
            margin += INDENT
        yield from (margin + line for line in _lines(below))


# ---- words of EXPLAIN ----------------------------------------------------------------------------


def names_in(value: str | Sequence[str] | None) -> list[str]:
    """Return one name, several or none as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def per_key(key: str | Sequence[str] | None, without: str) -> str:
    """Say that there is one of something per value of the key, or what holds without one."""
    return f"one a value of ({', '.join(names_in(key))}), in parallel" if key else without


def percent(ratio: float) -> str:
    """Return a ratio as users write it: 1%, 99.9%."""
    return f"{ratio * 100:.6g}%"


def span(length: int | timedelta) -> str:
    """Return a duration, of microseconds if it is a number, as `spelled` does."""
    if isinstance(length, timedelta):
        length = length // timedelta(microseconds=1)
    return spelled(length)


def size(count: float) -> str:
    """Return a number of bytes in the unit that fits."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def one_line(text: str) -> str:
    """Return a text with each gap as one space."""
    return " ".join(text.split())


def newest(window: Rows | JoinWindow) -> str:
    """Describe a window of rows."""
    return (
        f"the newest tuples that hold {window.rows} existing ones with confidence "
        f"{percent(window.confidence)}"
    )


def held(rows: int, confidence: float) -> str:
    """Say how many tuples a window of rows holds, for several probabilities of existence."""
    sizes = ", ".join(f"{p:g}: {_about(rows, p, confidence)}" for p in EXISTENCES)
    return f"at existence {sizes}"


def typical_bytes(rows: int, confidence: float, each: int) -> tuple[str, str]:
    """Return w' of a window of rows, and its bytes (" = 3 MB"; "" without bound)."""
    count = expected_tuples(rows, TYPICAL, confidence)
    if count is None:
        return "w'", ""
    return f"w' = {count} (existence {TYPICAL:g})", f" = {size(count * each)}"


def _about(rows: int, existence: float, confidence: float) -> str:
    count = expected_tuples(rows, existence, confidence)
    return "no bound" if count is None else f"{count}" if existence == 1 else f"about {count}"
