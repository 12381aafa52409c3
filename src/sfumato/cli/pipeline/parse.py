"""A pipeline file, or a folder of them, read into frozen values.

Reading checks the form and nothing else: no source is opened, no query is parsed. Whatever is wrong
raises PipelineError with the place in the file, what was expected and the likely word.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.cli.pipeline import keys
from sfumato.cli.pipeline.environment import Environment
from sfumato.cli.pipeline.keys import METADATA, MOST_ROWS, REPLAY
from sfumato.cli.pipeline.model import CONSOLE, Pipeline, Query, Sink, Source, SparkPart
from sfumato.cli.pipeline.section import NAME, PipelineError, Section
from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean

INNER = ("spark", "sources", "queries", "sinks")
TABLE = re.compile(r"[^.`\s]+(\.[^.`\s]+)*")
COORDINATE = re.compile(r"[^\s:,]+:[^\s:,]+:[^\s:,]+")
MASTER = re.compile(r"local(\[.+\])?|yarn|(spark|k8s)://\S+")


def read_pipeline(file: Path) -> Pipeline:
    """The pipeline of a TOML file, or of all such files in a folder; relative paths in it start at
    the file's folder.

    Raises PipelineError for a file that is missing, is no TOML, or says something wrong.
    """
    if not file.is_dir():
        return parse_pipeline(_text(file), file)
    files = sorted(file.glob("*.toml"))
    if not files:
        raise PipelineError(f"there is no file *.toml in the folder {file}")
    return _pipeline(_together([(each, _content(_text(each), each)) for each in files]), file, file)


def parse_pipeline(text: str, file: Path) -> Pipeline:
    """The pipeline of a file's text; see `read_pipeline`."""
    return _pipeline(_content(text, file), file, file.resolve().parent)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{file} cannot be read: {error}") from error


def _content(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{file} is no TOML file: {error}") from error


def _together(contents: Iterable[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """The content of several files as that of one; no two may say the same."""
    whole: dict[str, Any] = {}
    said: dict[str, Path] = {}
    for file, content in contents:
        for key, value in content.items():
            named = key in INNER and key != "spark" and isinstance(value, dict)
            for name, one in value.items() if named else [("", value)]:
                place = f"{key}.{name}" if named else key
                if place in said:
                    why = f"is in {said[place].name} and in {file.name}: leave one of them out"
                    raise PipelineError.at(place, why)
                said[place] = file
                if named:
                    whole.setdefault(key, {})[name] = one
                else:
                    whole[key] = one
    return whole


def _pipeline(content: Mapping[str, Any], file: Path, folder: Path) -> Pipeline:
    environment = Environment(os.environ)
    try:
        top = Section("", content, keys.TOP, folder.resolve(), environment, INNER)
        pipeline = Pipeline(
            file,
            tuple(_source(section) for section in top.tables("sources", keys.source_keys)),
            tuple(_query(section) for section in top.tables("queries", lambda _: keys.QUERY)),
            _sinks(top.tables("sinks", lambda _: keys.SINK)),
            top.path("checkpoint"),
            bool(top.get("flush")),
            _spark(top.table("spark", keys.SPARK)),
            environment,
        )
        _check_names(pipeline)
    except PipelineError as error:
        raise PipelineError(environment.hidden(str(error))) from None
    return pipeline


def _spark(section: Section) -> SparkPart:
    master = section.text("master")
    if master is not None and not MASTER.fullmatch(master):
        why = f"must be local[N], spark://HOST:PORT, yarn or k8s://URL; got {master!r}"
        raise section.wrong("master", why)
    packages = section.texts("packages")
    for package in packages:
        if not COORDINATE.fullmatch(package):
            why = f"must be Maven coordinates, group:artifact:version; got {package!r}"
            raise section.wrong("packages", why)
    jars = tuple(section.absolute(jar) for jar in section.texts("jars"))
    settings = section.scalars("settings")
    for name, key in (("spark.master", "master"), ("spark.jars.packages", "packages")):
        if name in settings:
            raise section.wrong(f"settings.{name}", f": give it as `{section.at(key)}`")
    return SparkPart(master, settings, packages, jars)


def _source(section: Section) -> Source:
    content = section.content
    static = bool(section.get("static"))
    if REPLAY in content:
        options = {**section.options(), **_replay_options(section, static)}
        schema = section.text("schema")
        return Source(section.name, REPLAY, options, schema, section.path(REPLAY), static)
    table = _table(section)
    if table is None and "format" not in content:
        why = "needs a format of Spark's and its options, or a file to play: "
        raise PipelineError.at(section.place, why + 'format = "json" or replay = "file.parquet"')
    form = section.text("format") or ""
    value, metadata = section.text("value"), _metadata(section, form)
    if value is not None and "schema" not in content:
        why = f'says how to decode; name the columns too: {section.at("schema")} = "id string"'
        raise section.wrong("value", why)
    letters = section.text("dead_letters")
    if letters is not None and not NAME.fullmatch(letters):
        why = "must be a name of letters, digits and _, that does not begin with a digit; got "
        raise section.wrong("dead_letters", f"{why}{letters!r}")
    if letters is not None and value is None and form != "json":
        why = f': nothing is decoded here; add {section.at("value")} = "json"'
        raise section.wrong("dead_letters", why)
    if letters is not None and "schema" not in content:
        why = f'needs the columns that rows should have: {section.at("schema")} = "id string"'
        raise section.wrong("dead_letters", why)
    return Source(
        section.name,
        form,
        section.options(),
        section.text("schema"),
        section.path("path"),
        static,
        table,
        value,
        metadata,
        letters,
    )


def _table(section: Section) -> str | None:
    """A table of a catalog, which stands instead of a path."""
    table = section.text("table")
    if table is None:
        return None
    if not TABLE.fullmatch(table):
        why = f"must be the name of a table, lake.db.t; got {table!r}: a folder is a `path`"
        raise section.wrong("table", why)
    if "path" in section.content:
        raise section.wrong("path", f"and `{section.at('table')}` are two places: leave one out")
    return table


def _metadata(section: Section, form: str) -> tuple[str, ...]:
    chosen = section.texts("metadata")
    for name in chosen:
        if name not in METADATA:
            why = f"may have {', '.join(METADATA)}; got {name!r}{did_you_mean(name, METADATA)}"
            raise section.wrong("metadata", why)
    if chosen and (form != "kafka" or "value" not in section.content):
        why = f": these are columns of Kafka's beside a decoded value; add {section.at('value')} "
        raise section.wrong("metadata", why + '= "json" to a source of format "kafka"')
    return chosen


def _replay_options(section: Section, static: bool) -> dict[str, str]:
    """How a file is played, as options of the replay source."""
    order = section.text("order")
    speed, rows = section.get("speed"), section.get("rows_per_batch")
    if speed is not None and not (math.isfinite(speed) and speed > 0):
        why = f"must be a number above 0 (leave it out: as fast as possible); got {speed}"
        raise section.wrong("speed", why)
    if speed is not None and order is None:
        why = f"needs `{section.at('order')}`: the column that says when a row arrives"
        raise section.wrong("speed", why)
    if rows is not None and rows < 1:
        raise section.wrong("rows_per_batch", f"must be at least 1; got {rows}")
    chosen = {"order": order, "speed": speed, "rows_per_batch": rows}
    for key in ("speed", "rows_per_batch"):
        if static and chosen[key] is not None:
            why = "says how to play a file, and a static source is read at once: leave one of "
            raise section.wrong(key, why + "them out")
    return {key: str(value) for key, value in chosen.items() if value is not None}


def _query(section: Section) -> Query:
    return Query(section.name, section.verbatim("sql", '"""SELECT * FROM ..."""'))


def _sinks(sections: list[Section]) -> tuple[Sink, ...]:
    """The sinks, and one for each folder of late rows."""
    found = {section.name: _sink(section) for section in sections}
    for section in sections:
        place = section.text("late")
        if place is None:
            continue
        sink = found[section.name]
        if sink.late is not None:
            raise section.wrong(
                "late", ": this sink has the late rows of another one: leave it out"
            )
        if "/" in place:
            name = f"{sink.name}_late"
            if name in found:
                why = f": its late rows would be the sink {name}, which there is: give that"
                raise section.wrong("late", f'{why}, late = "{name}"')
            path = section.absolute(place)
            other = Sink(name, sink.query, "parquet", path, trigger=sink.trigger)
        else:
            other = _late_sink(section, sink, place, found)
        found |= {sink.name: replace(sink, late=False), other.name: replace(other, late=True)}
    return tuple(found.values())


def _late_sink(section: Section, sink: Sink, name: str, sinks: Mapping[str, Sink]) -> Sink:
    """The sink of this name, if it can have the late rows of another one."""
    other = sinks.get(name)
    if other is None or other is sink:
        others = [known for known in sinks if known != sink.name]
        why = f"names {name!r}, which is no other sink of this file{did_you_mean(name, others)}; "
        raise section.wrong("late", f'{why}a folder is written with a /: "./{name}"')
    if other.query != sink.query:
        why = f"names a sink of {other.query!r}: it must have the same query, {sink.query!r}"
        raise section.wrong("late", why)
    if other.late is not None:
        why = f"names {name!r}, which has given its late rows away, or has those of another sink"
        raise section.wrong("late", why)
    return other


def _sink(section: Section) -> Sink:
    table = _table(section)
    written = section.text("format") or (CONSOLE if table is None else "")
    path = section.path("path")
    if written == CONSOLE and (path is not None or table is not None):
        key = "path" if table is None else "table"
        why = f': a console has no {key}; name a format too, for example format = "parquet"'
        raise section.wrong(key, why)
    value, keyed = section.text("value"), section.text("key")
    if keyed is not None and value is None:
        raise section.wrong("key", f': rows are not encoded; add {section.at("value")} = "json"')
    return Sink(
        section.name,
        section.needed("query", '"answers"'),
        written,
        path,
        section.text("mode") or "append",
        section.options(),
        _trigger(section),
        _rows(section, written),
        table,
        value,
        keyed,
    )


def _trigger(section: Section) -> str | None:
    trigger = section.text("trigger")
    if trigger is not None:
        try:
            microseconds(section.at("trigger"), trigger)
        except ValueError as error:
            raise PipelineError(str(error)) from error
    return trigger


def _rows(section: Section, written: str) -> int:
    rows = section.get("rows")
    if rows is None:
        return Sink.rows
    if written != CONSOLE:
        why = f"says how many rows a console table shows; this sink writes {written}: leave it out"
        raise section.wrong("rows", why)
    if not 1 <= rows <= MOST_ROWS:
        raise section.wrong("rows", f"must lie in 1 to {MOST_ROWS}; got {rows}")
    return int(rows)


def _check_names(pipeline: Pipeline) -> None:
    if not pipeline.sources:
        raise PipelineError(
            'the file names no source: add [sources.NAME] with replay = "file.parquet" or '
            'format = "..."'
        )
    if not pipeline.sinks:
        raise PipelineError(
            'the file names no sink: add [sinks.NAME] with query = "...", which shows its rows'
        )
    places: dict[str, str] = {}
    named = [(f"sources.{source.name}", source.name) for source in pipeline.sources]
    named += [
        (f"sources.{source.name}.dead_letters", source.dead_letters)
        for source in pipeline.sources
        if source.dead_letters is not None
    ]
    named += [(f"queries.{query.name}", query.name) for query in pipeline.queries]
    for place, name in named:
        other = places.setdefault(name.lower(), place)
        if other != place:
            why = f"has the name of `{other}`, and SQL knows both by it (case does not count): "
            raise PipelineError.at(place, why + "rename one")
    views = [name for _, name in named]
    for sink in pipeline.sinks:
        if sink.query not in views:
            why = f"names {sink.query!r}, which is no query or source of this file; it has "
            why += f"{', '.join(views)}{did_you_mean(sink.query, views)}"
            raise PipelineError.at(f"sinks.{sink.name}.query", why)
