"""What is wrong with a pipeline that can be told before Spark starts: no data is read."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from sfumato.cli.pipeline.connectors import OF_FILES, WRITTEN, check_connectors
from sfumato.cli.pipeline.ddl import columns
from sfumato.cli.pipeline.keys import METADATA, REPLAY
from sfumato.cli.pipeline.model import Pipeline, Query, Sink, Source
from sfumato.cli.pipeline.section import WITH_SCHEME, PipelineError
from sfumato.language import syntax
from sfumato.language.checks import check_query
from sfumato.language.errors import SqlError, at
from sfumato.language.planner import parsed
from sfumato.language.table_functions import tables_read
from sfumato.near_misses import did_you_mean

NAMING = ("WATTR", "ARRIVAL", "SOURCE", "KEY")  # words in brackets whose value is a column
KAFKA = "kafka.bootstrap.servers"
WHICH_TOPICS = ("subscribe", "subscribepattern", "assign")


def check_before_spark(pipeline: Pipeline, *, trusted: bool = False) -> None:
    """Raise PipelineError for the first thing that is wrong.

    Formats, connectors, paths, schemas, what formats need, and queries so far as their text tells:
    their syntax, the tables they read, the columns of sources that stand in brackets.

    trusted : whether the texts may hold what only Spark knows
    """
    check_paths(pipeline)
    check_folders(pipeline)
    check_connectors(pipeline)
    known: dict[str, list[str] | None] = {}
    for source in pipeline.sources:
        known[source.name.lower()] = _checked_source(source)
        if source.dead_letters is not None:
            known[source.dead_letters.lower()] = None
    for sink in pipeline.sinks:
        _check_sink(sink)
    later = {query.name.lower(): query.name for query in pipeline.queries}
    for query in pipeline.queries:
        try:
            _check_query(query, known, later, closed=_is_closed(pipeline), trusted=trusted)
        except SqlError as error:
            raise PipelineError(f"`queries.{query.name}.sql`: {error}") from None
        known[query.name.lower()] = None


def check_paths(pipeline: Pipeline) -> None:
    """Raise PipelineError for a file or folder that is not there; those with a scheme or a pattern
    are Spark's to find."""
    for source in pipeline.sources:
        path = source.path
        if path is None or WITH_SCHEME.match(path) or any(sign in path for sign in "*?[{"):
            continue
        if not Path(path).exists():
            key = REPLAY if source.format == REPLAY else "path"
            place = f"sources.{source.name}.{key}"
            raise PipelineError.at(place, f": there is no file or folder {path}")
    for jar in pipeline.spark.jars:
        if not WITH_SCHEME.match(jar) and not Path(jar).is_file():
            raise PipelineError.at("spark.jars", f": there is no file {jar}")


def check_folders(pipeline: Pipeline) -> None:
    """Raise PipelineError for a sink of files whose folder is another sink's, a source's or the
    checkpoint's: each would take the other's files for its own."""
    taken: list[tuple[str, str]] = []
    if pipeline.checkpoint is not None:
        taken.append((pipeline.checkpoint, "the checkpoint of the file"))
    for source in pipeline.sources:
        if source.path is not None and source.format != REPLAY:
            taken.append((source.path, f"what `sources.{source.name}` reads"))
    for sink in pipeline.sinks:
        if sink.path is None or sink.format.lower() not in OF_FILES:
            continue
        for path, what in taken:
            if _same_folder(path, sink.path):
                why = f": the folder is {what}; give this sink one of its own"
                raise PipelineError.at(f"sinks.{sink.name}.path", why)
        taken.append((sink.path, f"where `sinks.{sink.name}` writes"))


def _same_folder(path: str, other: str) -> bool:
    if WITH_SCHEME.match(path) or WITH_SCHEME.match(other):
        return path.rstrip("/") == other.rstrip("/")
    return Path(path).resolve() == Path(other).resolve()


def _checked_source(source: Source) -> list[str] | None:
    """The columns of a source, where the file says them."""
    place = f"sources.{source.name}"
    found = None
    if source.schema is not None:
        try:
            found = columns(source.schema)
        except ValueError as error:
            raise PipelineError.at(f"{place}.schema", str(error)) from None
    form = source.format.lower()
    if form in OF_FILES and found is None and not source.static:
        why = 'is missing: a stream of files needs its columns, schema = "id string, t timestamp"'
        raise PipelineError.at(f"{place}.schema", f"{why}; or let it be `static = true`")
    if form in WRITTEN and source.path is None and source.table is None:
        raise PipelineError.at(f"{place}.path", f'is missing: where the {form} is, path = "in"')
    if form == "kafka":
        _check_kafka(place, source.options, topics=True)
        if source.avro_schema is not None:
            found = [field["name"] for field in json.loads(source.avro_schema)["fields"]]
        elif found is None:
            return [*METADATA, "value", "timestampType"]
        if source.value is None:
            why = f': Kafka has columns of its own; to decode its values add {place}.value = "json"'
            raise PipelineError.at(f"{place}.schema", why)
        beside = source.metadata or ("partition",)
        if double := [name for name in beside if name.lower() in map(str.lower, found)]:
            why = f"has {double[0]!r}, and so has {place}.schema: choose others, or rename it"
            raise PipelineError.at(f"{place}.metadata", why)
        return [*found, *beside]
    return found


def _check_kafka(place: str, options: Mapping[str, str], *, topics: bool) -> None:
    if KAFKA not in {name.lower() for name in options}:
        why = f'is missing: the brokers\' addresses, "{KAFKA}" = "host:9092"'
        raise PipelineError.at(f"{place}.options", why)
    given = [name for name in options if name.lower() in WHICH_TOPICS]
    if topics and len(given) != 1:
        why = 'must say which topics, with one of subscribe = "topic", subscribePattern, assign'
        raise PipelineError.at(f"{place}.options", why)


def _check_sink(sink: Sink) -> None:
    place = f"sinks.{sink.name}"
    form = sink.format.lower()
    if form in WRITTEN and sink.path is None and sink.table is None:
        raise PipelineError.at(f"{place}.path", f'is missing: where {form} goes, path = "out"')
    if form in WRITTEN and sink.mode != "append":
        why = f'must be "append": files of {form} cannot be changed afterwards; got {sink.mode!r}'
        raise PipelineError.at(f"{place}.mode", why)
    if form == "kafka":
        _check_kafka(place, sink.options, topics=False)


def _is_closed(pipeline: Pipeline) -> bool:
    """Whether the session has no other tables than the file's: nothing names a catalog."""
    return not pipeline.spark.settings and "SPARK_CONF_DIR" not in os.environ


def _check_query(
    query: Query,
    known: Mapping[str, list[str] | None],
    later: Mapping[str, str],
    *,
    closed: bool,
    trusted: bool,
) -> None:
    """Raise SqlError or PipelineError for a text that cannot be understood as it stands.

    closed : tables with one name are the file's
    """
    script = parsed(query.sql, trusted=trusted)
    statements = script.statements
    if len(statements) != 1:
        why = f"must be one statement; got {len(statements)}: give each a [queries.NAME] of its own"
        raise PipelineError.at(f"queries.{query.name}.sql", why)
    body = statements[0].body
    check_query(script, body)
    for table in tables_read(body):
        name = table.parts[-1].strip("`")
        if closed and len(table.parts) == 1 and name.lower() not in known:
            raise at(query.sql, table, _unknown(name, query.name, known, later))
    for part in body.bodies():
        for relation in part.relations:
            _check_bracket(relation, query.sql, known)


def _unknown(
    name: str, own: str, known: Mapping[str, list[str] | None], later: Mapping[str, str]
) -> str:
    if name.lower() == own.lower():
        return f"{name} cannot read itself"
    if name.lower() in later:
        return f"{name} is a query further below: put it above this one"
    hint = did_you_mean(name, known)
    return f"{name} is no source or query above this one; there are {', '.join(known)}{hint}"


def _check_bracket(
    relation: syntax.Relation, text: str, known: Mapping[str, list[str] | None]
) -> None:
    """Columns in brackets behind a source whose columns the file says."""
    head, bracket = relation.head, relation.bracket
    if not isinstance(head, syntax.Name) or bracket is None or len(head.parts) > 1:
        return
    found = known.get(head.parts[0].strip("`").lower())
    if found is None:
        return
    for option in bracket.options:
        for name in option.names if option.word in NAMING else ():
            first = name.parts[0].strip("`")
            if first.lower() not in map(str.lower, found) and len(name.parts) == 1:
                have = f"{head.parts[0]} has no column {first}; it has {', '.join(found)}"
                raise at(text, name, have + did_you_mean(first, found))
