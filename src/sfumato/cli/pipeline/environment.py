"""`${NAME}` in a pipeline file: values of the environment, which are used and never printed."""

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

from sfumato.cli.pipeline.secrets import SHORTEST, hide, plain_length

PLACE = re.compile(r"\$(?P<plain>\$(?=\{))|\$\{(?P<name>[^}]*)\}?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Environment:
    """The variables, those that a file has used, and the options whose values have some."""

    variables: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict, repr=False)
    options: set[str] = field(default_factory=set)

    def filled(self, text: str) -> str:
        """Return the text with its variables; `$${` is `${`.

        Raises ValueError for one that is not set, or too short to be found where it is printed.
        """

        def value(place: re.Match[str]) -> str:
            if place["plain"]:
                return "$"
            name = place["name"]
            if not place[0].endswith("}") or not NAME.fullmatch(name):
                why = f"has {place[0]!r}; a variable is written ${{NAME}}, and $${{ means ${{"
                raise ValueError(why)
            if name not in self.variables:
                raise ValueError(f"needs the environment variable {name}, which is not set")
            value = self.variables[name]
            if plain_length(value) < SHORTEST:
                why = f"cannot use the environment variable {name}: its value has fewer than "
                why += f"{SHORTEST} characters, too few to be hidden wherever it is printed; "
                raise ValueError(why + "if it is no secret, write it into the file itself")
            self.used[name] = value
            return value

        return PLACE.sub(value, text)

    def hidden(self, text: str) -> str:
        """Return the text with `${NAME}` for each value that was used, however it is written."""
        return hide(text, self.used) if self.used else text


class DiscreetConsole(Console):
    """A console that prints no value of an environment that is given to it."""

    environment: Environment | None = None

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*map(self.hidden, objects), **how)

    def hidden(self, shown: Any) -> Any:
        """Return a text, a table or a group of them without values: before it is cut into lines."""
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


class DiscreetStream:
    """A text stream that writes no value of an environment."""

    def __init__(self, stream: TextIO, hidden: Callable[[str], str]) -> None:
        self._stream, self._hidden = stream, hidden

    def write(self, text: str) -> int:
        """Write a text without values."""
        self._stream.write(self._hidden(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts without values."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def discreet_streams(environment: Environment) -> Iterator[None]:
    """Hide values in whatever this process prints in here: logs, warnings, traces of threads."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, DiscreetStream(sys.stdout, environment.hidden))
    sys.stderr = cast(TextIO, DiscreetStream(sys.stderr, environment.hidden))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def discreet_children(environment: Environment) -> Iterator[None]:
    """Let processes that start in here, Spark and its workers, print no values on standard error.

    What they print passes through a thread of this process, line by line.
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
