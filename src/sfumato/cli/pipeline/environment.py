"""`${NAME}` in a pipeline file: values of the environment, which are never printed."""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.cli.pipeline.secrets import MIN_SECRET, hide, normal_length

VARIABLE_PLACE = re.compile(r"\$(?P<plain>\$(?=\{))|\$\{(?P<name>[^}]*)\}?")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Environment:
    """The environment's variables, those that a file uses, and the options that have some."""

    variables: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict, repr=False)
    options: set[str] = field(default_factory=set)

    def fill(self, text: str) -> str:
        """Return the text with the values of its variables; `$${` is `${`.

        Raises ValueError for a variable that is not set, or whose value is too short to be hidden.
        """

        def value(place: re.Match[str]) -> str:
            if place["plain"]:
                return "$"
            name = place["name"]
            if not place[0].endswith("}") or not VARIABLE_NAME.fullmatch(name):
                why = f"has {place[0]!r}; a variable is written ${{NAME}}, and $${{ means ${{"
                raise ValueError(why)
            if name not in self.variables:
                raise ValueError(f"needs the environment variable {name}, which is not set")
            value = self.variables[name]
            if normal_length(value) < MIN_SECRET:
                why = f"cannot use the environment variable {name}: its value has fewer than "
                why += f"{MIN_SECRET} characters, too few to hide it wherever it is printed; "
                raise ValueError(why + "if it is not a secret, write it into the file itself")
            self.used[name] = value
            return value

        return VARIABLE_PLACE.sub(value, text)

    def hidden(self, text: str) -> str:
        """Return the text with `${NAME}` in the place of each value, in whatever form it is."""
        return hide(text, self.used) if self.used else text


class RedactingConsole(Console):
    """A console that never prints a value of its environment."""

    environment: Environment | None = None

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*map(self.hidden, objects), **how)

    def hidden(self, shown: Any) -> Any:
        """Return a text, a table or a group without values, before it is cut into lines."""
        known = self.environment
        if known is None or not known.used:
            return shown
        if isinstance(shown, str):
            return known.hidden(shown)
        if isinstance(shown, Text):
            text = known.hidden(shown.plain)
            return shown if text == shown.plain else Text(text, style=shown.style)
        if isinstance(shown, Group):
            return Group(*map(self.hidden, shown.renderables))
        if isinstance(shown, Table):
            for column in shown.columns:
                column.header = self.hidden(column.header)
                column._cells = [self.hidden(cell) for cell in column._cells]
        return shown


class RedactingStream:
    """A text stream that never writes a value of an environment."""

    def __init__(self, stream: TextIO, hidden: Callable[[str], str]) -> None:
        self._stream, self._hidden = stream, hidden

    def write(self, text: str) -> int:
        """Write a text, without values."""
        self._stream.write(self._hidden(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, without values."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def redact_streams(environment: Environment) -> Iterator[None]:
    """Hide values in all that this process prints in here: logs, warnings, traces of threads."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, RedactingStream(sys.stdout, environment.hidden))
    sys.stderr = cast(TextIO, RedactingStream(sys.stderr, environment.hidden))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def redact_children(environment: Environment) -> Iterator[None]:
    """Hide values in what processes that start in here, Spark and its workers, print as errors.

    A thread of this process passes their standard error on, line by line.
    """
    sys.stderr.flush()
    kept, printed = os.dup(2), os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)

    def pass_on() -> None:
        how: Any = {"encoding": "utf-8", "errors": "backslashreplace"}
        with open(reading, **how) as lines, open(printed, "w", **how) as out:
            for line in lines:
                out.write(environment.hidden(line))
                out.flush()

    threading.Thread(target=pass_on, name="sfumato-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
