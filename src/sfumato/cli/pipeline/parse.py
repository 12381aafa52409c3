"""A pipeline file, or a folder of them, read into frozen values.

Reading checks the form and nothing else: no source is opened, no query is parsed. Whatever is wrong
raises PipelineError with the place in the file, what was expected and the likely word.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.cli.pipeline import keys
from sfumato.cli.pipeline.environment import Environment
from sfumato.cli.pipeline.model import Pipeline, Query, SparkPart
from sfumato.cli.pipeline.section import PipelineError, Section
from sfumato.cli.pipeline.sinks import read_sinks
from sfumato.cli.pipeline.sources import read_source
from sfumato.near_misses import did_you_mean

INNER = ("spark", "sources", "queries", "sinks")
COORDINATE = re.compile(r"[^\s:,]+:[^\s:,]+:[^\s:,]+")
MASTER = re.compile(r"local(\[.+\])?|yarn|(spark|k8s)://\S+")


def read_pipeline(file: Path) -> Pipeline:
    """The pipeline of a TOML file, or of all such files in a folder; relative paths in it start at
    the file's folder.

    Raises PipelineError for a file that is missing, is not valid TOML, or has something wrong.
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
    except UnicodeDecodeError as error:
        where = f"byte {error.start + 1} is none of UTF-8"
        raise PipelineError(f"{file} is not UTF-8 text: {where}; save the file as UTF-8") from error
    except OSError as error:
        raise PipelineError(f"{file} cannot be read: {error}") from error


def _content(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{file} is not valid TOML: {error}") from error


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
            tuple(read_source(section) for section in top.tables("sources", keys.source_keys)),
            tuple(_query(section) for section in top.tables("queries", lambda _: keys.QUERY)),
            read_sinks(top.tables("sinks", lambda _: keys.SINK)),
            top.path("checkpoint"),
            bool(top.get("flush")),
            _spark(top.table("spark", keys.SPARK)),
            environment,
        )
        hidden = tuple(sorted(environment.options))
        pipeline = replace(pipeline, spark=replace(pipeline.spark, hidden=hidden))
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


def _query(section: Section) -> Query:
    return Query(section.name, section.verbatim("sql", '"""SELECT * FROM ..."""'))


def _check_names(pipeline: Pipeline) -> None:
    if not pipeline.sources:
        raise PipelineError(
            'the file names no source: add [sources.NAME] with replay = "file.parquet" or '
            'format = "..."'
        )
    if not pipeline.sinks:
        raise PipelineError(
            'no sink is defined: add [sinks.NAME] with query = "...", which shows its rows'
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
