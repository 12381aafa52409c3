"""`${NAME}` in a pipeline file: values of the environment, which are used and never printed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape

PLACE = re.compile(r"\$(?P<plain>\$(?=\{))|\$\{(?P<name>[^}]*)\}?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHORTEST = 4  # characters of a value that is hidden: a shorter one would be found everywhere


@dataclass
class Environment:
    """The variables, those that a file has used, and the options whose values have some."""

    variables: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict, repr=False)
    options: set[str] = field(default_factory=set)

    def filled(self, text: str) -> str:
        """The text with its variables; `$${` is `${`. Raises ValueError for one that is not set."""

        def value(place: re.Match[str]) -> str:
            if place["plain"]:
                return "$"
            name = place["name"]
            if not place[0].endswith("}") or not NAME.fullmatch(name):
                why = f"has {place[0]!r}; a variable is written ${{NAME}}, and $${{ means ${{"
                raise ValueError(why)
            if name not in self.variables:
                raise ValueError(f"needs the environment variable {name}, which is not set")
            self.used[name] = self.variables[name]
            return self.used[name]

        return PLACE.sub(value, text)

    def hidden(self, text: str) -> str:
        """The text with `${NAME}` for each value that was used, however it was written."""
        by_length = sorted(self.used.items(), key=lambda item: -len(item[1]))
        for name, value in by_length:
            if len(value) >= SHORTEST:
                for form in _forms(value):
                    text = text.replace(form, f"${{{name}}}")
        return text


def _forms(value: str) -> set[str]:
    written = {value, json.dumps(value)[1:-1], repr(value)[1:-1]}
    return written | {escape(form) for form in written}


class DiscreetConsole(Console):
    """A console that prints no value of an environment that is given to it."""

    environment: Environment | None = None

    def print(self, *objects: Any, **how: Any) -> None:
        known = self.environment
        if known is not None:
            objects = tuple(known.hidden(o) if isinstance(o, str) else o for o in objects)
        super().print(*objects, **how)
