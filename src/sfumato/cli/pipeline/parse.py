"""Read a pipeline file, or a folder of them.

Parsing checks only the form: it opens no source and parses no query. Each problem raises
PipelineError with the position in the file, the expected value and a likely word.
"""

import os
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from sfumato.cli.pipeline.environment import Environment
from sfumato.cli.pipeline.model import (
    IS_NAME,
    FileTable,
    Pipeline,
    PipelineError,
    PipelineFile,
)
from sfumato.cli.pipeline.parts import absolute, build_sinks, build_source, build_spark
from sfumato.near_misses import did_you_mean

T = TypeVar("T")
OPTIONS_PLACE = re.compile(r"(sources|sinks)\.[^.]+\.options|spark\.settings")
SQL = re.compile(r"queries\.[^.]+\.sql")


def read_pipeline(file: Path) -> Pipeline:
    """Read the pipeline from a TOML file, or from all TOML files of a folder."""
    if not file.is_dir():
        return parse_pipeline(_text(file), file)
    files = sorted(file.glob("*.toml"))
    if not files:
        raise PipelineError(f"there is no file *.toml in the folder {file}")
    return _pipeline(_merge([(each, _content(_text(each), each)) for each in files]), file, file)


def parse_pipeline(text: str, file: Path) -> Pipeline:
    """Parse the text of a pipeline file; see `read_pipeline`."""
    return _pipeline(_content(text, file), file, file.resolve().parent)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"there is no file {file}") from None
    except UnicodeDecodeError as error:
        where = f"byte {error.start + 1} is not valid"
        raise PipelineError(f"{file} is not UTF-8 text: {where}; save the file as UTF-8") from error
    except OSError as error:
        raise PipelineError(f"{file} cannot be read: {error}") from error


def _content(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{file} is not valid TOML: {error}") from error


def _merge(contents: Iterable[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """Merge the contents of several files. Raises PipelineError for duplicate definitions."""
    whole: dict[str, Any] = {}
    defined: dict[str, Path] = {}
    for file, content in contents:
        for key, value in content.items():
            has_names = key in ("sources", "queries", "sinks") and isinstance(value, dict)
            for name, one in value.items() if has_names else [("", value)]:
                place = f"{key}.{name}" if has_names else key
                if place in defined:
                    why = f"is in {defined[place].name} and in {file.name}: remove one of them"
                    raise PipelineError.at(place, why)
                defined[place] = file
                if has_names:
                    whole.setdefault(key, {})[name] = one
                else:
                    whole[key] = one
    return whole


def _pipeline(content: Mapping[str, Any], file: Path, folder: Path) -> Pipeline:
    environment, folder = Environment(os.environ), folder.resolve()
    try:
        read = convert(_fill(content, "", environment), PipelineFile)
        pipeline = Pipeline(
            file,
            tuple(build_source(name, table, folder) for name, table in read.sources.items()),
            tuple(replace(query, name=name) for name, query in read.queries.items()),
            build_sinks(read.sinks, content.get("sinks", {}), folder),
            absolute(read.checkpoint, folder),
            read.flush,
            build_spark(read.spark, folder, tuple(sorted(environment.options))),
            environment,
        )
        _check_names(pipeline)
    except PipelineError as error:
        raise PipelineError(environment.hidden(str(error))) from None
    return pipeline


def _fill(value: Any, place: str, environment: Environment) -> Any:
    """Substitute environment variables in all texts of a file except queries."""
    if isinstance(value, dict):
        found = {key: _fill(each, _join(place, key), environment) for key, each in value.items()}
        if OPTIONS_PLACE.fullmatch(place):
            environment.options |= {key for key in value if found[key] != value[key]}
            return {key: _option_text(each) for key, each in found.items()}
        return found
    if isinstance(value, list):
        return [_fill(each, place, environment) for each in value]
    if not isinstance(value, str) or SQL.fullmatch(place):
        return value
    try:
        return environment.fill(value)
    except ValueError as error:
        raise PipelineError.at(place, str(error)) from None


def _option_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _check_names(pipeline: Pipeline) -> None:
    if not pipeline.sources:
        why = 'add [sources.NAME] with replay = "file.parquet" or format = "..."'
        raise PipelineError(f"no source is defined: {why}")
    if not pipeline.sinks:
        why = 'add [sinks.NAME] with query = "...", which shows its rows'
        raise PipelineError(f"no sink is defined: {why}")
    named: list[tuple[str, str]] = []
    for source in pipeline.sources:
        named.append((f"sources.{source.name}", source.name))
        if source.dead_letters is not None:
            named.append((f"sources.{source.name}.dead_letters", source.dead_letters))
    named += [(f"queries.{query.name}", query.name) for query in pipeline.queries]
    places: dict[str, str] = {}
    for place, name in named:
        other = places.setdefault(name.lower(), place)
        if other != place:
            why = f"has the name of `{other}` (SQL does not distinguish upper and lower case): "
            raise PipelineError.at(place, f"{why}rename one")
    views = [name for _, name in named]
    for sink in pipeline.sinks:
        if sink.query not in views:
            why = f"is {sink.query!r}, which is not a query or source of this file; it has "
            why += f"{', '.join(views)}{did_you_mean(sink.query, views)}"
            raise PipelineError.at(f"sinks.{sink.name}.query", why)


# ---- errors of msgspec, with the position in the file and a likely word --------------------------


def convert(content: Any, kind: type[T], place: str = "") -> T:
    """Convert a table of the file. Raises PipelineError for the first key of the wrong type."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError:
        raise _problem(content, kind, place) from None


def _problem(value: Any, kind: Any, place: str) -> PipelineError:
    """Describe the first type error of a value."""
    bare, notes = _unwrap(kind)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    is_table = isinstance(bare, type) and issubclass(bare, FileTable)
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(value, dict) and is_table:
        written = (of for of in msgspec.structs.fields(bare) if of.name == of.encode_name)
        fields = {each.name: each for each in written}
        for key in (key for key in value if key not in fields):
            whose = f"the table [{place}]" if place else "a pipeline"
            known = f"{', '.join(fields)}{did_you_mean(key, fields)}"
            return PipelineError.at(_join(place, key), f"is not known; {whose} may have {known}")
        for key in (key for key, each in fields.items() if each.required and key not in value):
            (example,) = next(
                each.examples for each in _unwrap(fields[key].type)[1] if each.examples
            )
            why = f'is missing, for example {key} = "{example}"'
            return PipelineError.at(_join(place, key), why)
        parts = [(_join(place, key), each, fields[key].type) for key, each in value.items()]
    elif isinstance(value, dict) and origin is dict:
        for key in (key for key in value if not _fits(key, arguments[0])):
            return PipelineError.at(_join(place, key), f": must be {IS_NAME}")
        parts = [(_join(place, key), each, arguments[1]) for key, each in value.items()]
    elif isinstance(value, list) and origin is tuple:
        parts = [(place, each, arguments[0]) for each in value]
    for where, each, inner in parts:
        if not _fits(each, inner):
            return _problem(each, inner, where)
    hint, expected = "", f"a table [{place}]"
    if origin is typing.Literal:
        hint, expected = did_you_mean(str(value), arguments), f"one of {', '.join(arguments)}"
    expected = next((each.extra["expected"] for each in notes if each.extra), expected)
    return PipelineError.at(place, f"must be {expected}; got {value!r}{hint}")


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _unwrap(kind: Any) -> tuple[Any, list[msgspec.Meta]]:
    """Return a type without annotations and None, and the annotations."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Annotated:
        bare, notes = _unwrap(arguments[0])
        return bare, [*kind.__metadata__, *notes]
    return _unwrap(arguments[0]) if NoneType in arguments else (kind, [])


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
