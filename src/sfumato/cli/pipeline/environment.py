"""`${NAME}` in a pipeline file: environment variables, whose values are never printed."""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.cli.configure import children_print_to
from sfumato.cli.pipeline.secrets import MIN_SECRET, hide, normal_length

VARIABLE_PLACE = re.compile(r"\$(?P<plain>\$(?=\{))|\$\{(?P<name>[^}]*)\}?")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Environment:
    """The environment variables, the subset used by the file, and the options that contain them."""

    variables: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict, repr=False)
    options: set[str] = field(default_factory=set)

    def fill(self, text: str) -> str:
        """Replace the variables in a text by their values; `$${` is an escaped `${`."""

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
        """Replace each value in a text, in any encoding, by `${NAME}`."""
        return hide(text, self.used) if self.used else text


class RedactingConsole(Console):
    """A console that never prints a value of its environment."""

    environment: Environment | None = None

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*map(self.hidden, objects), **how)

    def hidden(self, shown: Any) -> Any:
        """Hide the values in a text, table or group before it is broken into lines."""
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
        """Write a text with its values hidden."""
        self._stream.write(self._hidden(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def redact_streams(environment: Environment) -> Iterator[None]:
    """Hide values in all output of this process: logs, warnings, tracebacks of threads."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, RedactingStream(sys.stdout, environment.hidden))
    sys.stderr = cast(TextIO, RedactingStream(sys.stderr, environment.hidden))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def redact_children(environment: Environment) -> AbstractContextManager[None]:
    """Hide values in the standard error of processes started in this context, such as Spark's."""
    printed = os.dup(2)
    reading, writing = os.pipe()

    def pass_on() -> None:
        how: Any = {"encoding": "utf-8", "errors": "backslashreplace"}
        with open(reading, **how) as lines, open(printed, "w", **how) as out:
            for line in lines:
                out.write(environment.hidden(line))
                out.flush()

    threading.Thread(target=pass_on, name="sfumato-stderr", daemon=True).start()
    return children_print_to(writing)
