"""One table of a pipeline file, read key by key; what is wrong is said with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato.near_misses import did_you_mean

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
    """One table of the file, with its place, read key by key."""

    def __init__(
        self, place: str, content: Mapping[str, Any], allowed: tuple[str, ...], folder: Path
    ) -> None:
        self.place, self.content, self.folder = place, content, folder
        for key in content:
            if key not in allowed:
                whose = "this table" if place else "a pipeline"
                known = f"{', '.join(allowed)}{did_you_mean(key, allowed)}"
                raise self.wrong(key, f"is not known; {whose} may have {known}")

    @property
    def name(self) -> str:
        return self.place.rpartition(".")[2]

    def at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, key: str, why: str) -> PipelineError:
        return PipelineError.at(self.at(key), why)

    def get(self, key: str, kind: type | tuple[type, ...], wanted: str) -> Any:
        """The value of a key, None where it is not given."""
        value = self.content.get(key)
        is_stray_bool = isinstance(value, bool) and kind is not bool  # True is an int in Python
        if value is not None and (is_stray_bool or not isinstance(value, kind)):
            raise self.wrong(key, f"must be {wanted}; got {value!r}")
        return value

    def text(self, key: str) -> str | None:
        value = self.get(key, str, "a text")
        if value is not None and not value.strip():
            raise self.wrong(key, "must not be empty")
        return value

    def needed(self, key: str, example: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.wrong(key, f"is missing, for example {key} = {example}")
        return value

    def path(self, key: str) -> str | None:
        """A path, made absolute; one with a scheme stays as it is."""
        value = self.text(key)
        if value is None or WITH_SCHEME.match(value):
            return value
        return str(self.folder / value)

    def options(self) -> dict[str, str]:
        """The options as texts, as Spark takes them."""
        chosen = {}
        for key, value in (self.get("options", dict, "a table of options") or {}).items():
            if key.lower() == "checkpointlocation":
                why = ": each sink keeps its place in a subfolder of the pipeline's folder: give "
                why += 'that, checkpoint = "..." at the top of the file'
                raise self.wrong(f"options.{key}", why)
            if key.lower() == "path":
                why = f': give the path as `{self.at("path")}` = "..."'
                raise self.wrong("options.path", why)
            if not isinstance(value, str | bool | int | float):
                why = f"must be a text, a number, true or false; got {value!r}"
                raise self.wrong(f"options.{key}", why)
            chosen[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return chosen

    def tables(
        self, kind: str, allowed: Callable[[Mapping[str, Any]], tuple[str, ...]]
    ) -> list[Section]:
        """The tables [kind.NAME]; `allowed`: the keys that one with this content may have."""
        sections = []
        for name, content in (self.get(kind, dict, f"tables [{kind}.NAME]") or {}).items():
            place = f"{kind}.{name}"
            if not NAME.fullmatch(name):
                why = ": a name is made of letters, digits and _, and does not begin with a digit"
                raise PipelineError.at(place, why)
            if not isinstance(content, dict):
                raise PipelineError.at(place, f"must be a table [{place}]; got {content!r}")
            sections.append(Section(place, content, allowed(content), self.folder))
        return sections
