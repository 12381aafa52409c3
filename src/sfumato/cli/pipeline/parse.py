"""Read a pipeline file, or a folder of pipeline files.

Parsing only checks the form: it opens no source and parses no query. Each problem raises
PipelineError with the position in the file, the expected value and a similar word.
"""

import json
import os
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec
from msgspec.structs import replace

from sfumato.cli.pipeline.environment import Environment
from sfumato.cli.pipeline.model import (
    CONSOLE,
    IS_NAME,
    REPLAY,
    FileTable,
    Pipeline,
    PipelineError,
    PipelineFile,
    PipelineSource,
    Sink,
    SparkPart,
)
from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean, near

OPTIONS_PLACE = re.compile(r"(sources|sinks)\.[^.]+\.options|spark\.settings")
SQL = re.compile(r"queries\.[^.]+\.sql")


def read_pipeline(file: Path) -> Pipeline:
    """Read a pipeline from a TOML file, or from all TOML files in a folder."""
    if not file.is_dir():
        return parse_pipeline(_read_text(file), file)
    files = sorted(file.glob("*.toml"))
    if not files:
        raise PipelineError(f"the folder {file} has no *.toml file")
    contents = [(each, _parse_toml(_read_text(each), each)) for each in files]
    return _build_pipeline(_merge(contents), file)


def parse_pipeline(text: str, file: Path) -> Pipeline:
    return _build_pipeline(_parse_toml(text, file), file.resolve().parent)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"no such file: {file}") from None
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 text (byte {error.start + 1} is not valid): save the file as UTF-8"
        raise PipelineError(f"{file} {why}") from error
    except OSError as error:
        raise PipelineError(f"cannot read {file}: {error}") from error


def _parse_toml(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{file} is not valid TOML: {error}") from error


def _merge(contents: Iterable[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """Merge the contents of files. Raises PipelineError for duplicate definitions."""
    whole: dict[str, Any] = {}
    defined: dict[str, Path] = {}
    for file, content in contents:
        for key, value in content.items():
            has_names = key in ("sources", "queries", "sinks") and isinstance(value, dict)
            for name, one in value.items() if has_names else [("", value)]:
                place = f"{key}.{name}" if has_names else key
                if place in defined:
                    why = (
                        f"is defined in {defined[place].name} and in {file.name}: remove one of "
                        "the two"
                    )
                    raise PipelineError.at(place, why)
                defined[place] = file
                if has_names:
                    whole.setdefault(key, {})[name] = one
                else:
                    whole[key] = one
    return whole


def _build_pipeline(content: Mapping[str, Any], folder: Path) -> Pipeline:
    environment, folder = Environment(os.environ), folder.resolve()
    try:
        filled = _fill(content, "", environment)
        try:
            read = msgspec.convert(filled, PipelineFile)
        except msgspec.ValidationError:
            raise _problem(filled, PipelineFile, "") from None
        pipeline = Pipeline(
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
    """Substitute environment variables in all strings of a file except queries."""
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
    if "\0" in value and ".options." not in place:
        raise PipelineError.at(place, "contains a NUL character (\\u0000): remove it")
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
            why = (
                f"has the same name as `{other}` (SQL does not distinguish upper and lower case): "
                "rename one"
            )
            raise PipelineError.at(place, why)
    views = [name for _, name in named]
    for sink in pipeline.sinks:
        if sink.query not in views:
            why = (
                f"is {sink.query!r}, which is not a query or source of this file; the file has "
                f"{', '.join(views)}{did_you_mean(sink.query, views)}"
            )
            raise PipelineError.at(f"sinks.{sink.name}.query", why)


# ---- errors of msgspec, with the position in the file and a similar word -------------------------


def _problem(value: Any, kind: Any, place: str) -> PipelineError:
    """Return the first error in a value of the file that is not of this type."""
    bare, notes = _unwrap(kind)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    is_table = isinstance(bare, type) and issubclass(bare, FileTable)
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(value, dict) and is_table:
        written = (of for of in msgspec.structs.fields(bare) if of.name == of.encode_name)
        fields = {each.name: each for each in written}
        for key in (key for key in value if key not in fields):
            whose = f"the table [{place}]" if place else "a pipeline"
            why = f"is not a known key; {whose} accepts {', '.join(fields)}"
            hint = did_you_mean(key, fields)
            if place and not hint and (first := near(key, ("checkpoint", "flush"))):
                hint = f"; did you mean `{first}`? It must be above the first [table] of the file"
            return PipelineError.at(_join(place, key), f"{why}{hint}")
        for key in (key for key, each in fields.items() if each.required and key not in value):
            examples = (each.examples for each in _unwrap(fields[key].type)[1] if each.examples)
            why = f'is missing, for example {key} = "{next(examples)[0]}"'
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
    """Return a type without its annotations and None, and the annotations."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Annotated:
        bare, notes = _unwrap(arguments[0])
        return bare, [*kind.__metadata__, *notes]
    return _unwrap(arguments[0]) if NoneType in arguments else (kind, [])


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


# Matches "s3://bucket" and "file:/tmp", but not "C:\\data": a scheme has at least two letters.
WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
REPLAY_KEYS = ("order", "speed", "rows_per_batch")
READ_KEYS = (
    "format", "path", "table", "value", "avro_schema", "metadata", "dead_letters", "required",
)  # fmt: skip
CONFLICTS = (("path", "table"), *((key, "replay") for key in READ_KEYS))
"""Pairs of keys that cannot be combined."""
NAMES = 'the names of the columns: add {place}.schema = "id string"'
KAFKA_VALUE = 'a decoded Kafka value: add {place}.value = "json" to a source of format "kafka"'
NEEDS: tuple[tuple[tuple[str, ...], str, Callable[[Any], Any]], ...] = (
    (("speed",), "`{place}.order`, the column of arrival times", lambda t: t.order or not t.replay),
    (REPLAY_KEYS, 'a file to replay: add {place}.replay = "file.parquet"', lambda t: t.replay),
    (("avro_schema",), 'values decoded from Avro: add {place}.value = "avro"', lambda t: t.is_avro),
    (
        ("dead_letters",),
        'decoded values: add {place}.value = "json"',
        lambda t: t.value or t.format == "json",
    ),
    (
        ("required",),
        'decoded values: add {place}.value = "json", or {place}.dead_letters to files of JSON',
        lambda t: t.value or t.dead_letters,
    ),
    (("value", "dead_letters"), NAMES, lambda t: t.is_avro or t.schema),
    (("metadata",), KAFKA_VALUE, lambda t: t.value and t.format == "kafka"),
)
"""Keys of a source that need other keys: the keys, the needed keys in words, and a check."""


def absolute(path: str | None, folder: Path) -> Any:
    """Resolve a path relative to the file's folder; a path with a scheme is unchanged."""
    return path if path is None or WITH_SCHEME.match(path) else str(folder / path)


def build_spark(table: SparkPart, folder: Path, hidden: tuple[str, ...]) -> SparkPart:
    """Build the session settings. hidden : options whose values Spark must redact"""
    for name, key in (("spark.master", "master"), ("spark.jars.packages", "packages")):
        if name in table.settings:
            why = f": write this setting as `spark.{key}`"
            raise PipelineError.at(f"spark.settings.{name}", why)
    jars = tuple(absolute(jar, folder) for jar in table.jars)
    return replace(table, jars=jars, hidden=hidden)


def build_source(name: str, table: PipelineSource, folder: Path) -> PipelineSource:
    """Build a source; the keys of a replay become options. Raises PipelineError."""
    place = f"sources.{name}"
    _check_place(place, table)
    if not (table.format or table.table or table.replay):
        why = (
            "needs a Spark format and its options, or a file to replay: "
            'format = "json" or replay = "file.parquet"'
        )
        raise PipelineError.at(place, why)
    for keys, needed, has_it in NEEDS:
        for key in keys:
            if getattr(table, key) not in (None, ()) and not has_it(table):
                raise PipelineError.at(f"{place}.{key}", f"needs {needed.format(place=place)}")
    chosen = {key: getattr(table, key) for key in REPLAY_KEYS}
    how = {key: str(value) for key, value in chosen.items() if value is not None}
    for key in ("speed", "rows_per_batch"):
        if table.static and key in how:
            why = (
                "and `static` cannot be combined, because a static source is not replayed: remove "
                "one of them"
            )
            raise PipelineError.at(f"{place}.{key}", why)
    if table.replay is not None:
        unused = dict.fromkeys(("replay", *REPLAY_KEYS))
        path, options = absolute(table.replay, folder), {**table.options, **how}
        return replace(table, name=name, format=REPLAY, path=path, options=options, **unused)
    schema = _avro_schema(place, table, folder) if table.is_avro else None
    return replace(table, name=name, path=absolute(table.path, folder), avro_schema=schema)


def _avro_schema(place: str, table: PipelineSource, folder: Path) -> str:
    """Return an Avro record schema as JSON, from JSON or from a file."""
    if table.schema is not None:
        why = (
            "and `avro_schema` cannot be combined: remove `schema`, because the Avro schema names "
            "the columns"
        )
        raise PipelineError.at(f"{place}.schema", why)
    place, given = f"{place}.avro_schema", table.avro_schema
    if given is None:
        raise PipelineError.at(place, 'is missing, for example avro_schema = "reading.avsc"')
    if not given.lstrip().startswith("{"):
        path = absolute(given, folder)
        if WITH_SCHEME.match(path):
            why = f"must be a file on this machine or the schema itself; got {given!r}"
            raise PipelineError.at(place, why)
        try:
            given = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise PipelineError.at(place, f": no such text file: {path}") from None
    try:
        kind = json.loads(given)
        if not (isinstance(kind, dict) and kind.get("type") == "record" and kind.get("fields")):
            raise ValueError('it must be {"type": "record", "name": ..., "fields": [...]}')
        for field in kind["fields"]:
            if not (isinstance(field, dict) and field.get("name") and "type" in field):
                raise ValueError(f"a field has no name or type: {field!r}")
    except ValueError as error:
        raise PipelineError.at(place, f"is not an Avro record schema: {error}") from None
    return given


def build_sinks(
    tables: Mapping[str, Sink], given: Mapping[str, Any], folder: Path
) -> tuple[Sink, ...]:
    """Build the sinks, and one sink per folder of late rows. given : the tables as written"""
    found = {name: _build_sink(name, table, given[name], folder) for name, table in tables.items()}
    for name, table in tables.items():
        if table.late is None:
            continue
        sink, place = found[name], f"sinks.{name}.late"
        if sink.late_rows is not None:
            why = (
                "is not allowed, because this sink receives the late rows of another sink: "
                "remove `late`"
            )
            raise PipelineError.at(place, why)
        if "/" in table.late:
            late = Sink(name=f"{name}_late", query=sink.query, format="parquet")
            if late.name in found:
                why = (
                    f"names a folder, whose sink would be called {late.name}, but a sink with this "
                    f'name already exists: write late = "{late.name}"'
                )
                raise PipelineError.at(place, why)
            late = replace(late, path=absolute(table.late, folder), trigger=sink.trigger)
        else:
            late = _late_sink(place, sink, table.late, found)
        found[name] = replace(sink, late_rows=False)
        found[late.name] = replace(late, late_rows=True)
    return tuple(found.values())


def _late_sink(place: str, sink: Sink, name: str, sinks: Mapping[str, Sink]) -> Sink:
    """Return the sink `name`. Raises PipelineError if it cannot receive the late rows of `sink`."""
    other = sinks.get(name)
    if other is None or other is sink:
        others = [known for known in sinks if known != sink.name]
        why = (
            f"is {name!r}, which is not a different sink in this file{did_you_mean(name, others)}; "
            f'for a folder, write a /, as in "./{name}"'
        )
        raise PipelineError.at(place, why)
    if other.query != sink.query:
        why = (
            f"must name a sink with the same query, {sink.query!r}; this sink has the query "
            f"{other.query!r}"
        )
        raise PipelineError.at(place, why)
    if other.late_rows is not None:
        why = f"names {name!r}, which already has or is a sink for late rows"
        raise PipelineError.at(place, why)
    return other


def _build_sink(name: str, table: Sink, given: Mapping[str, Any], folder: Path) -> Sink:
    place = f"sinks.{name}"
    _check_place(place, table)
    form = "" if "table" in given and "format" not in given else table.format
    for key in ("path", "table"):
        if form == CONSOLE and getattr(table, key) is not None:
            why = 'is not allowed for a console: add a format, for example format = "parquet"'
            raise PipelineError.at(f"{place}.{key}", why)
    if table.key is not None and table.value is None:
        raise PipelineError.at(f"{place}.key", f'needs encoded rows: add {place}.value = "json"')
    if "rows" in given and form != CONSOLE:
        why = f"applies only to console sinks; this sink writes {form}: remove `rows`"
        raise PipelineError.at(f"{place}.rows", why)
    if table.trigger is not None:
        try:
            microseconds(f"{place}.trigger", table.trigger)
        except ValueError as error:
            raise PipelineError(str(error)) from error
    path = absolute(table.path, folder)
    return replace(table, name=name, format=form, path=path, late_rows=None)


def _check_place(place: str, table: PipelineSource | Sink) -> None:
    """Check that at most one location is given, and none in the options."""
    for key in table.options:
        if key.lower() == "checkpointlocation":
            why = (
                "is not allowed, because each sink keeps its progress in a subfolder of the "
                'pipeline\'s folder: write checkpoint = "..." at the top of the file'
            )
            raise PipelineError.at(f"{place}.options.{key}", why)
        if key.lower() == "path":
            why = f'is not allowed: write `{place}.path` = "..."'
            raise PipelineError.at(f"{place}.options.path", why)
    for key, other in CONFLICTS:
        if getattr(table, key, None) and getattr(table, other, None):
            why = f"and `{place}.{other}` cannot be combined: remove one of the two"
            raise PipelineError.at(f"{place}.{key}", why)
