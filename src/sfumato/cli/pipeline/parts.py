"""Build sources, sinks and the session of a pipeline; check rules about several keys."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sfumato.cli.pipeline.model import (
    CONSOLE,
    REPLAY,
    PipelineError,
    PipelineSource,
    Sink,
    SparkPart,
)
from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean

# "s3://bucket" and "file:/tmp", but not "C:\\data": a scheme has at least two letters.
WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
REPLAY_KEYS = ("order", "speed", "rows_per_batch")
READ_KEYS = ("format", "path", "table", "value", "avro_schema", "metadata", "dead_letters")


def absolute(path: str | None, folder: Path) -> Any:
    """Resolve a path relative to the file's folder; a path with a scheme is unchanged."""
    return path if path is None or WITH_SCHEME.match(path) else str(folder / path)


def build_spark(table: SparkPart, folder: Path, hidden: tuple[str, ...]) -> SparkPart:
    """Build the session settings. hidden : options whose values Spark must redact"""
    for name, key in (("spark.master", "master"), ("spark.jars.packages", "packages")):
        if name in table.settings:
            raise PipelineError.at(f"spark.settings.{name}", f": give it as `spark.{key}`")
    jars = tuple(absolute(jar, folder) for jar in table.jars)
    return replace(table, jars=jars, hidden=hidden)


def build_source(name: str, table: PipelineSource, folder: Path) -> PipelineSource:
    """Build a source. Raises PipelineError for incompatible keys."""
    place = f"sources.{name}"
    _check_place(place, table)
    table = replace(table, name=name)
    if table.replay is not None:
        return _replayed(place, table, folder)
    if not table.format and table.table is None:
        why = "needs a Spark format and its options, or a file to replay: "
        raise PipelineError.at(place, why + 'format = "json" or replay = "file.parquet"')
    for key in REPLAY_KEYS:
        if getattr(table, key) is not None:
            why = f': only a replayed file has it; add {place}.replay = "file.parquet"'
            raise PipelineError.at(f"{place}.{key}", why)
    decodes, schema = table.value is not None, table.avro_schema
    if table.is_avro:
        schema = _avro_schema(place, table, folder)
    elif table.avro_schema is not None:
        why = f': the values are not decoded from Avro; add {place}.value = "avro"'
        raise PipelineError.at(f"{place}.avro_schema", why)
    if table.dead_letters is not None and not decodes and table.format != "json":
        why = f': nothing is decoded here; add {place}.value = "json"'
        raise PipelineError.at(f"{place}.dead_letters", why)
    for key in ("value", "dead_letters"):
        if getattr(table, key) and not table.is_avro and table.schema is None:
            why = f'needs the names of the columns: add {place}.schema = "id string"'
            raise PipelineError.at(f"{place}.{key}", why)
    if table.metadata and (table.format != "kafka" or not decodes):
        why = f': these are columns of Kafka next to a decoded value; add {place}.value = "json" '
        raise PipelineError.at(f"{place}.metadata", f'{why}to a source of format "kafka"')
    return replace(table, path=absolute(table.path, folder), avro_schema=schema)


def _replayed(place: str, table: PipelineSource, folder: Path) -> PipelineSource:
    """Build a source that replays a file; the replay keys become options."""
    for key in READ_KEYS:
        if getattr(table, key):
            why = f"and `{place}.replay` are two ways to read a source: remove one of them"
            raise PipelineError.at(f"{place}.{key}", why)
    if table.speed is not None and table.order is None:
        why = f"needs `{place}.order`: the column that says when a row arrives"
        raise PipelineError.at(f"{place}.speed", why)
    for key in ("speed", "rows_per_batch"):
        if table.static and getattr(table, key) is not None:
            why = "says how to replay a file, and a static source is read at once: remove one of "
            raise PipelineError.at(f"{place}.{key}", f"{why}them")
    chosen = {key: getattr(table, key) for key in REPLAY_KEYS}
    how = {key: str(value) for key, value in chosen.items() if value is not None}
    unused = dict.fromkeys(("replay", *REPLAY_KEYS))
    path, options = absolute(table.replay, folder), {**table.options, **how}
    return replace(table, format=REPLAY, path=path, options=options, **unused)


def _avro_schema(place: str, table: PipelineSource, folder: Path) -> str:
    """Return an Avro record schema as JSON, given as JSON or as the path of a file."""
    if table.schema is not None:
        why = "and `avro_schema` both name the columns: remove it for values in Avro"
        raise PipelineError.at(f"{place}.schema", why)
    place, given = f"{place}.avro_schema", table.avro_schema
    if given is None:
        raise PipelineError.at(place, 'is missing, for example avro_schema = "reading.avsc"')
    if not given.lstrip().startswith("{"):
        path = absolute(given, folder)
        if WITH_SCHEME.match(path):
            why = f"must be a file of this machine, or the schema itself; got {given!r}"
            raise PipelineError.at(place, why)
        try:
            given = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise PipelineError.at(place, f": there is no text file {path}") from None
    try:
        kind = json.loads(given)
        if not (isinstance(kind, dict) and kind.get("type") == "record" and kind.get("fields")):
            raise ValueError('it must be {"type": "record", "name": ..., "fields": [...]}')
        for field in kind["fields"]:
            if not (isinstance(field, dict) and field.get("name") and "type" in field):
                raise ValueError(f"a field has no name or type: {field!r}")
    except ValueError as error:
        raise PipelineError.at(place, f"is not the schema of an Avro record: {error}") from None
    return given


def build_sinks(
    tables: Mapping[str, Sink], given: Mapping[str, Any], folder: Path
) -> tuple[Sink, ...]:
    """Build the sinks, and one for each folder of late rows. given : the tables as written"""
    found = {name: _sink(name, table, given[name], folder) for name, table in tables.items()}
    for name, table in tables.items():
        if table.late is None:
            continue
        sink, place = found[name], f"sinks.{name}.late"
        if sink.late_rows is not None:
            why = ": this sink gets the late rows of another sink: remove it"
            raise PipelineError.at(place, why)
        if "/" in table.late:
            late = Sink(name=f"{name}_late", query=sink.query, format="parquet")
            if late.name in found:
                why = f": the folder would be the sink {late.name}, which exists: give that, "
                raise PipelineError.at(place, f'{why}late = "{late.name}"')
            late = replace(late, path=absolute(table.late, folder), trigger=sink.trigger)
        else:
            late = _late_sink(place, sink, table.late, found)
        found[name] = replace(sink, late_rows=False)
        found[late.name] = replace(late, late_rows=True)
    return tuple(found.values())


def _late_sink(place: str, sink: Sink, name: str, sinks: Mapping[str, Sink]) -> Sink:
    """Return the sink of this name, if it can receive the late rows of another sink."""
    other = sinks.get(name)
    if other is None or other is sink:
        others = [known for known in sinks if known != sink.name]
        why = f"is {name!r}, which is not another sink of this file{did_you_mean(name, others)}; "
        raise PipelineError.at(place, f'{why}a folder is written with a /: "./{name}"')
    if other.query != sink.query:
        why = f"names a sink of {other.query!r}: it must have the same query, {sink.query!r}"
        raise PipelineError.at(place, why)
    if other.late_rows is not None:
        why = f"names {name!r}, whose late rows have another sink, or which gets those of another"
        raise PipelineError.at(place, why)
    return other


def _sink(name: str, table: Sink, given: Mapping[str, Any], folder: Path) -> Sink:
    place = f"sinks.{name}"
    _check_place(place, table)
    form = "" if "table" in given and "format" not in given else table.format
    for key in ("path", "table"):
        if form == CONSOLE and getattr(table, key) is not None:
            why = f': a console has no {key}; add a format, for example format = "parquet"'
            raise PipelineError.at(f"{place}.{key}", why)
    if table.key is not None and table.value is None:
        why = f': rows are not encoded; add {place}.value = "json"'
        raise PipelineError.at(f"{place}.key", why)
    if "rows" in given and form != CONSOLE:
        why = f"is the number of rows that a console shows; this sink writes {form}: remove it"
        raise PipelineError.at(f"{place}.rows", why)
    if table.trigger is not None:
        try:
            microseconds(f"{place}.trigger", table.trigger)
        except ValueError as error:
            raise PipelineError(str(error)) from error
    path = absolute(table.path, folder)
    return replace(table, name=name, format=form, path=path, late_rows=None)


def _check_place(place: str, table: PipelineSource | Sink) -> None:
    """Check that exactly one location is given to read or write, and no option names another."""
    for key in table.options:
        if key.lower() == "checkpointlocation":
            why = ": each sink keeps its progress in a subfolder of the pipeline's folder: give "
            why += 'that, checkpoint = "..." at the top of the file'
            raise PipelineError.at(f"{place}.options.{key}", why)
        if key.lower() == "path":
            why = f': give the path as `{place}.path` = "..."'
            raise PipelineError.at(f"{place}.options.path", why)
    if table.table is not None and table.path is not None:
        why = f"and `{place}.table` are two places: remove one of them"
        raise PipelineError.at(f"{place}.path", why)
