"""One table of a pipeline file, read key by key; what is wrong is said with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato.cli.pipeline.environment import Environment
from sfumato.cli.pipeline.keys import Key
from sfumato.near_misses import did_you_mean

TABLE = re.compile(r"[^.`\s]+(\.[^.`\s]+)*")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# "s3://bucket" and "file:/tmp", but not "C:\\data": a scheme has two letters at least.
WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class PipelineError(ValueError):
    """A pipeline file that cannot be used; nothing has been started."""

    @classmethod
    def at(cls, place: str, why: str) -> PipelineError:
        """The error about a place in the file."""
        return cls(f"`{place}`{why if why.startswith(':') else f' {why}'}")


class Section:
    """One table of the file, with its place, read key by key.

    allowed : the keys it may have, which say of what kind their values are
    inner : names of tables in it
    """

    def __init__(
        self,
        place: str,
        content: Mapping[str, Any],
        allowed: tuple[Key, ...],
        folder: Path,
        environment: Environment,
        inner: tuple[str, ...] = (),
    ) -> None:
        self.place, self.content, self.folder = place, content, folder
        self.environment = environment
        self.allowed = {key.name: key for key in allowed}
        names = (*self.allowed, *inner)
        for key in content:
            if key not in names:
                whose = "this table" if place else "a pipeline"
                known = f"{', '.join(names)}{did_you_mean(key, names)}"
                raise self.wrong(key, f"is not known; {whose} may have {known}")

    @property
    def name(self) -> str:
        return self.place.rpartition(".")[2]

    def at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, key: str, why: str) -> PipelineError:
        return PipelineError.at(self.at(key), why)

    def get(self, key: str) -> Any:
        """The value of a key, None where it is not given."""
        kind = self.allowed[key].kind
        return self._checked(key, kind.types, kind.wanted)

    def _checked(self, key: str, kinds: tuple[type, ...], wanted: str) -> Any:
        value = self.content.get(key)
        is_stray_bool = isinstance(value, bool) and bool not in kinds  # True is an int in Python
        if value is not None and (is_stray_bool or not isinstance(value, kinds)):
            raise self.wrong(key, f"must be {wanted}; got {value!r}")
        return value

    def _filled(self, key: str, text: str) -> str:
        try:
            return self.environment.filled(text)
        except ValueError as error:
            raise self.wrong(key, str(error)) from None

    def text(self, key: str) -> str | None:
        """A text, with the environment's variables; one of the key's choices, if it has any."""
        value = self.get(key)
        if value is None:
            return None
        if not value.strip():
            raise self.wrong(key, "must not be empty")
        value = self._filled(key, value)
        choices = self.allowed[key].choices
        if choices and value not in choices:
            why = f"must be {', '.join(choices)}; got {value!r}{did_you_mean(value, choices)}"
            raise self.wrong(key, why)
        return str(value)

    def needed(self, key: str, example: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.wrong(key, f"is missing, for example {key} = {example}")
        return value

    def verbatim(self, key: str, example: str) -> str:
        """A text that is needed, as it is written."""
        value = self.get(key)
        if value is None:
            raise self.wrong(key, f"is missing, for example {key} = {example}")
        if not value.strip():
            raise self.wrong(key, "must not be empty")
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, with the variables of the environment."""
        values = self.get(key) or []
        for value in values:
            if not isinstance(value, str) or not value.strip():
                raise self.wrong(key, f"must be a list of texts; got {value!r} in it")
        return tuple(self._filled(key, value) for value in values)

    def path(self, key: str) -> str | None:
        """A path, made absolute; one with a scheme stays as it is."""
        value = self.text(key)
        return None if value is None else self.absolute(value)

    def catalog_table(self) -> str | None:
        """A table of a catalog, which stands instead of a path."""
        table = self.text("table")
        if table is None:
            return None
        if not TABLE.fullmatch(table):
            why = f"must be the name of a table, lake.db.t; got {table!r}: a folder is a `path`"
            raise self.wrong("table", why)
        if "path" in self.content:
            raise self.wrong("path", f"and `{self.at('table')}` are two places: leave one out")
        return table

    def absolute(self, path: str) -> str:
        """A path from the file's folder on."""
        return path if WITH_SCHEME.match(path) else str(self.folder / path)

    def options(self) -> dict[str, str]:
        """The options as texts, as Spark takes them."""
        chosen = self.scalars("options")
        for key in chosen:
            if key.lower() == "checkpointlocation":
                why = ": each sink keeps its place in a subfolder of the pipeline's folder: give "
                why += 'that, checkpoint = "..." at the top of the file'
                raise self.wrong(f"options.{key}", why)
            if key.lower() == "path":
                why = f': give the path as `{self.at("path")}` = "..."'
                raise self.wrong("options.path", why)
        return chosen

    def scalars(self, key: str) -> dict[str, str]:
        """A table of texts, numbers and booleans, as texts, as Spark takes them."""
        chosen = {}
        for name, value in (self.get(key) or {}).items():
            if not isinstance(value, str | bool | int | float):
                why = f"must be a text, a number, true or false; got {value!r}"
                raise self.wrong(f"{key}.{name}", why)
            if isinstance(value, str):
                chosen[name] = self._filled(f"{key}.{name}", value)
                if chosen[name] != value:
                    self.environment.options.add(name)
            else:
                chosen[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return chosen

    def table(self, key: str, allowed: tuple[Key, ...]) -> Section:
        """The table [key], empty where it is not given."""
        content = self._checked(key, (dict,), f"a table [{key}]") or {}
        return Section(self.at(key), content, allowed, self.folder, self.environment)

    def tables(
        self, kind: str, allowed: Callable[[Mapping[str, Any]], tuple[Key, ...]]
    ) -> list[Section]:
        """The tables [kind.NAME]; `allowed`: the keys that one with this content may have."""
        sections = []
        for name, content in (self._checked(kind, (dict,), f"tables [{kind}.NAME]") or {}).items():
            place = f"{kind}.{name}"
            if not NAME.fullmatch(name):
                why = ": a name is made of letters, digits and _, and does not begin with a digit"
                raise PipelineError.at(place, why)
            if not isinstance(content, dict):
                raise PipelineError.at(place, f"must be a table [{place}]; got {content!r}")
            keys = allowed(content)
            sections.append(Section(place, content, keys, self.folder, self.environment))
        return sections
