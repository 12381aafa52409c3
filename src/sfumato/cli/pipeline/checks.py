"""Checks of a pipeline that need neither Spark nor data."""

import os
from pathlib import Path

from sfumato.cli.pipeline.model import REPLAY, Pipeline, PipelineError, PipelineSource, Query, Sink
from sfumato.cli.pipeline.parse import WITH_SCHEME
from sfumato.cli.pipeline.permissions import FILE_FORMATS, PATH_SINK_FORMATS, check_connectors
from sfumato.language.planner import parse_script
from sfumato.language.refusals import check_query
from sfumato.language.syntax import SqlError, at, errors_in
from sfumato.language.table_functions import tables_read
from sfumato.near_misses import did_you_mean

KAFKA = "kafka.bootstrap.servers"
TOPIC_OPTIONS = ("subscribe", "subscribepattern", "assign")


def check_before_spark(pipeline: Pipeline, *, trusted: bool = False) -> None:
    """Raise PipelineError for the first problem found without Spark."""
    check_paths(pipeline)
    check_folders(pipeline)
    check_connectors(pipeline)
    for place, part in pipeline.endpoints():
        _check_endpoint(place, part)
    # Without settings that may name a catalog, the session has only the file's tables.
    is_closed = not pipeline.spark.settings and "SPARK_CONF_DIR" not in os.environ
    known = [source.name for source in pipeline.sources]
    known += [source.dead_letters for source in pipeline.sources if source.dead_letters is not None]
    for number, query in enumerate(pipeline.queries):
        later = [each.name for each in pipeline.queries[number + 1 :]]
        try:
            with errors_in(query.sql):
                _check_query(query, known if is_closed else None, later, trusted)
        except SqlError as error:
            raise PipelineError(f"`queries.{query.name}.sql`: {error}") from None
        known.append(query.name)


def check_paths(pipeline: Pipeline) -> None:
    """Raise PipelineError for a missing file or folder; Spark checks URLs and patterns."""
    for source in pipeline.sources:
        path = source.path
        if path is None or WITH_SCHEME.match(path) or any(sign in path for sign in "*?[{"):
            continue
        if not Path(path).exists():
            key = REPLAY if source.format == REPLAY else "path"
            place = f"sources.{source.name}.{key}"
            raise PipelineError.at(place, f": no such file or folder: {path}")
    for jar in pipeline.spark.jars:
        if not WITH_SCHEME.match(jar) and not Path(jar).is_file():
            raise PipelineError.at("spark.jars", f": no such file: {jar}")


def check_folders(pipeline: Pipeline) -> None:
    """Raise PipelineError if a file sink's folder is also used elsewhere in the pipeline."""
    taken: dict[str, str] = {}
    if pipeline.checkpoint is not None:
        taken[_folder(pipeline.checkpoint)] = "the checkpoint of the pipeline"
    for source in pipeline.sources:
        if source.path is not None and source.format != REPLAY:
            taken.setdefault(_folder(source.path), f"the folder of `sources.{source.name}`")
    for sink in pipeline.sinks:
        if sink.path is not None and sink.format.lower() in FILE_FORMATS:
            this = f"the folder of `sinks.{sink.name}`"
            if (what := taken.setdefault(_folder(sink.path), this)) != this:
                why = f"is also {what}: give this sink a separate folder"
                raise PipelineError.at(f"sinks.{sink.name}.path", why)


def _folder(path: str) -> str:
    return path.rstrip("/") if WITH_SCHEME.match(path) else str(Path(path).resolve())


def _check_endpoint(place: str, part: PipelineSource | Sink) -> None:
    form, options = part.format.lower(), {name.lower() for name in part.options}
    source = part if isinstance(part, PipelineSource) else None
    if source and form in FILE_FORMATS and source.schema is None and not source.static:
        why = 'is missing: a stream of files needs its columns, schema = "id string, t timestamp"'
        raise PipelineError.at(f"{place}.schema", f"{why}; or set `static = true`")
    if form in PATH_SINK_FORMATS and part.path is None and part.table is None:
        raise PipelineError.at(
            f"{place}.path", f'is missing: name the folder of the {form} files, path = "data"'
        )
    if form in PATH_SINK_FORMATS and isinstance(part, Sink) and part.mode != "append":
        why = f'must be "append": {form} files cannot be changed later; got {part.mode!r}'
        raise PipelineError.at(f"{place}.mode", why)
    if form != "kafka":
        return
    if KAFKA not in options:
        why = f'is missing the brokers\' addresses: add "{KAFKA}" = "host:9092"'
        raise PipelineError.at(f"{place}.options", why)
    if source and len(options.intersection(TOPIC_OPTIONS)) != 1:
        why = 'must name the topics with one of subscribe = "topic", subscribePattern and assign'
        raise PipelineError.at(f"{place}.options", why)
    if source and source.schema is not None and source.value is None:
        why = f': Kafka has fixed columns; to decode its values, add {place}.value = "json"'
        raise PipelineError.at(f"{place}.schema", why)


def _check_query(query: Query, known: list[str] | None, later: list[str], trusted: bool) -> None:
    """Raise SqlError or PipelineError if a query is invalid or reads an unknown table."""
    script = parse_script(query.sql, trusted=trusted)
    if len(script.statements) != 1:
        why = f"must be one statement; got {len(script.statements)}"
        raise PipelineError.at(
            f"queries.{query.name}.sql", f"{why}. Write one [queries.NAME] per statement"
        )
    body = script.statements[0].body
    check_query(script, body)
    for table in tables_read(body):
        name = table.parts[-1].strip("`")
        if known is None or len(table.parts) > 1 or name.lower() in map(str.lower, known):
            continue
        if name.lower() == query.name.lower():
            why = f"{name} cannot read itself"
        elif name.lower() in map(str.lower, later):
            why = f"{name} is a query further down: move it above this query"
        else:
            above = f"the sources and queries above are {', '.join(known)}"
            why = f"{name} is not a source or query above this query; {above}"
            why += did_you_mean(name, known)
        raise at(table, why)
