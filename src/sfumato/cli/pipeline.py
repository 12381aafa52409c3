"""The pipeline file: sources, queries and sinks in one TOML file, as frozen values.

Reading a file checks its form and nothing else: no source is opened, no query is parsed. Whatever
is wrong raises PipelineError with the place in the file, what was expected and the likely word.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.cli.section import WITH_SCHEME, PipelineError, Section
from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean

MODES = ("append", "update", "complete")
CONSOLE, REPLAY = "console", "replay"
MOST_ROWS = 1000  # that a console table shows

TOP_KEYS = ("checkpoint", "flush", "sources", "queries", "sinks")
READ_KEYS = ("format", "path", "schema", "options", "static")
REPLAY_KEYS = ("replay", "order", "speed", "rows_per_batch", "schema", "options", "static")
QUERY_KEYS = ("sql",)
SINK_KEYS = ("query", "format", "path", "mode", "options", "trigger", "rows")


@dataclass(frozen=True)
class Source:
    """A frame with a name: any format of Spark's, or a file that is played in order of arrival.

    format, options, schema (DDL), path : as for ``spark.readStream``; of a played file the format
        is "replay"
    static : read as it is at the start, as a table that does not grow
    """

    name: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    path: str | None = None
    static: bool = False


@dataclass(frozen=True)
class Query:
    """A query in our SQL; later queries and sinks read its answer under its name."""

    name: str
    sql: str


@dataclass(frozen=True)
class Sink:
    """Where the rows of a query or source go.

    format : of Spark's, or "console": a table of the newest `rows` rows
    trigger : time between the starts of two micro-batches, or None: as fast as possible
    """

    name: str
    query: str
    format: str = CONSOLE
    path: str | None = None
    mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)
    trigger: str | None = None
    rows: int = 10


@dataclass(frozen=True)
class Pipeline:
    """A whole file.

    checkpoint : folder in which each sink has a subfolder, or None: no restart
    flush : a run that ends lets out all that operators hold, see `sf.run_to_end`
    """

    file: Path
    sources: tuple[Source, ...]
    queries: tuple[Query, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None = None
    flush: bool = False


def read_pipeline(file: Path) -> Pipeline:
    """The pipeline of a TOML file; relative paths in it start at the file's folder.

    Raises PipelineError for a file that is missing, is no TOML, or says something wrong.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{file} cannot be read: {error}") from error
    return parse_pipeline(text, file)


def check_paths(pipeline: Pipeline) -> None:
    """Raise PipelineError for a source's file or folder that is not there; those with a scheme or a
    pattern are Spark's to find."""
    for source in pipeline.sources:
        path = source.path
        if path is None or WITH_SCHEME.match(path) or any(sign in path for sign in "*?[{"):
            continue
        if not Path(path).exists():
            key = REPLAY if source.format == REPLAY else "path"
            place = f"sources.{source.name}.{key}"
            raise PipelineError.at(place, f": there is no file or folder {path}")


def parse_pipeline(text: str, file: Path) -> Pipeline:
    """The pipeline of a file's text; see `read_pipeline`."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{file} is no TOML file: {error}") from error
    top = Section("", content, TOP_KEYS, file.resolve().parent)
    pipeline = Pipeline(
        file,
        tuple(_source(section) for section in top.tables("sources", _source_keys)),
        tuple(_query(section) for section in top.tables("queries", lambda _: QUERY_KEYS)),
        tuple(_sink(section) for section in top.tables("sinks", lambda _: SINK_KEYS)),
        top.path("checkpoint"),
        bool(top.get("flush", bool, "true or false")),
    )
    _check_names(pipeline)
    return pipeline


def _source_keys(content: Mapping[str, Any]) -> tuple[str, ...]:
    if REPLAY in content:
        return REPLAY_KEYS
    return READ_KEYS if "format" in content else tuple(dict.fromkeys(READ_KEYS + REPLAY_KEYS))


def _source(section: Section) -> Source:
    static = bool(section.get("static", bool, "true or false"))
    played = REPLAY in section.content
    if not played and "format" not in section.content:
        why = "needs a format of Spark's and its options, or a file to play: "
        raise PipelineError.at(section.place, why + 'format = "json" or replay = "file.parquet"')
    return Source(
        section.name,
        REPLAY if played else section.needed("format", '"json"'),
        {**section.options(), **(_replay_options(section, static) if played else {})},
        section.text("schema"),
        section.path(REPLAY if played else "path"),
        static,
    )


def _replay_options(section: Section, static: bool) -> dict[str, str]:
    """How a file is played, as options of the replay source."""
    order = section.text("order")
    speed = section.get("speed", (int, float), "a number, 60 for a minute a second")
    rows = section.get("rows_per_batch", int, "a whole number of rows")
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
    return Query(section.name, section.needed("sql", '"""SELECT * FROM ..."""'))


def _sink(section: Section) -> Sink:
    written = section.text("format") or CONSOLE
    path = section.path("path")
    if written == CONSOLE and path is not None:
        why = ': a console has no path; name a format too, for example format = "parquet"'
        raise section.wrong("path", why)
    mode = section.text("mode") or "append"
    if mode not in MODES:
        why = f"must be {', '.join(MODES)}; got {mode!r}{did_you_mean(mode, MODES)}"
        raise section.wrong("mode", why)
    return Sink(
        section.name,
        section.needed("query", '"answers"'),
        written,
        path,
        mode,
        section.options(),
        _trigger(section),
        _rows(section, written),
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
    rows = section.get("rows", int, "a whole number of rows")
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
