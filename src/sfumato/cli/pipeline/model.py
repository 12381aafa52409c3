"""The tables of a pipeline file, which msgspec checks and describes, and the parsed pipeline.

Each key is a field: its type checks the value, and its line in the docstring is shown by editors
and in the documentation. `_expect` completes the error "must be ...".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sfumato.cli.pipeline.environment import Environment

CONSOLE, REPLAY = "console", "replay"
CONSOLE_ROWS = 10
KEY_LINE = re.compile(r"^(\w+) : (.*)$", re.MULTILINE)  # a key's line in a docstring


class PipelineError(ValueError):
    """Error in a pipeline file, raised before anything has been started."""

    @classmethod
    def at(cls, place: str, why: str) -> PipelineError:
        return cls(f"`{place}`{why if why.startswith(':') else f' {why}'}")


def _expect(expected: str, **limits: Any) -> Meta:
    return Meta(extra={"expected": expected}, **limits)


SCALAR = {"type": ["string", "number", "boolean"]}
NonEmptyText = Annotated[str, _expect("a non-empty string", pattern=r"\S")]
IS_NAME = "a name of letters, digits and _ that does not begin with a digit"
Identifier = Annotated[str, _expect(IS_NAME, pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
Flag = Annotated[bool, _expect("true or false")]
RowCount = Annotated[int, _expect("an integer of at least 1", ge=1)]
ConsoleRows = Annotated[int, _expect("an integer from 1 to 1000", ge=1, le=1000)]
Speed = Annotated[float, _expect("a number above 0 (60 replays 1 minute per second)", gt=0, le=1e9)]
OptionValue = Annotated[str, _expect("a string, a number, true or false", extra_json_schema=SCALAR)]
OptionTable = Annotated[dict[str, OptionValue], _expect("a table of options")]
Texts = Annotated[tuple[NonEmptyText, ...], _expect("a list of strings")]
CatalogTable = Annotated[
    str, _expect("the name of a table, lake.db.t", pattern=r"^[^.`\s]+(\.[^.`\s]+)*$")
]
IS_MASTER = r"^(local(\[.+\])?|yarn|(spark|k8s)://\S+)$"
Master = Annotated[
    str, _expect("local[N], spark://HOST:PORT, yarn or k8s://URL", pattern=IS_MASTER)
]
IS_COORDINATES = "Maven coordinates, group:artifact:version"
Coordinates = Annotated[str, _expect(IS_COORDINATES, pattern=r"^[^\s:,]+:[^\s:,]+:[^\s:,]+$")]
KafkaColumn = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]


class FileTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a pipeline file."""


def _internal(name: str, default: Any = None) -> Any:
    """Return a field that parsing sets. Files cannot set it, because its key is not a word."""
    return msgspec.field(default=default, name=f"({name})")


class SparkPart(FileTable, frozen=True, kw_only=True):
    """The session that runs the pipeline.

    master : where Spark runs: local[4], spark://host:7077, yarn, k8s://...
    settings : Spark settings, by name
    packages : Maven coordinates of connectors, group:artifact:version
    jars : files of connectors
    """

    master: Master | None = None
    settings: OptionTable = {}
    packages: Annotated[tuple[Coordinates, ...], _expect("a list of strings")] = ()
    jars: Texts = ()
    hidden: tuple[str, ...] = _internal("hidden", ())  # options that Spark must redact


class PipelineSource(FileTable, frozen=True, kw_only=True):
    """A Spark format, a catalog table, or a replayed file.

    format : a Spark format: json, csv, parquet, kafka, delta, ...
    path : the file or folder, for formats with files
    schema : columns and types in Spark's DDL, "id string, t timestamp"
    options : the format's options, by name
    static : read once at the start, as a table that does not grow
    table : a catalog table, lake.db.t
    value : format of the column `value`, which is decoded into the columns of `schema`
    avro_schema : the Avro schema of the values, or the path of its *.avsc file
    metadata : Kafka columns that are kept next to the decoded columns
    dead_letters : name of the table of rows that could not be decoded
    required : decoded columns that must not be NULL
    replay : a file that is replayed in order of arrival
    order : for a replay: the column that gives the order of arrival
    speed : for a replay: the speed relative to the times in `order`
    rows_per_batch : for a replay: maximum number of rows per micro-batch
    """

    format: NonEmptyText = ""  # "replay" for a replayed file
    path: NonEmptyText | None = None
    schema: NonEmptyText | None = None
    options: OptionTable = {}
    static: Flag = False
    table: CatalogTable | None = None
    value: Literal["json", "avro", "confluent-avro"] | None = None
    avro_schema: NonEmptyText | None = None
    metadata: Annotated[tuple[KafkaColumn, ...], _expect("a list of strings")] = ()
    dead_letters: Identifier | None = None
    required: Annotated[tuple[NonEmptyText, ...], _expect("a list of column names")] = ()
    replay: NonEmptyText | None = None
    order: NonEmptyText | None = None
    speed: Speed | None = None
    rows_per_batch: RowCount | None = None
    name: str = _internal("name", "")

    @property
    def is_avro(self) -> bool:
        return self.value is not None and self.value.endswith("avro")


class Query(FileTable, frozen=True, kw_only=True):
    """A query, which later queries and sinks read by its name.

    sql : one query
    """

    sql: Annotated[NonEmptyText, Meta(examples=["SELECT * FROM ..."])]
    name: str = _internal("name", "")


class Sink(FileTable, frozen=True, kw_only=True):
    """A sink: the place to which the rows of a query or source are written.

    query : the query, source or dead letters whose rows are written
    format : a Spark format, or console (the default)
    path : the folder, for formats with files
    table : a catalog table, lake.db.t
    value : format of the column `value` in which rows are encoded, for Kafka
    key : the column that is the key of a Kafka record
    mode : append (the default), update or complete
    late : the sink, or the folder (written with a /), for late rows
    options : the format's options, by name
    trigger : time between two micro-batches, "1 second"
    rows : number of rows that a console shows, 1 to 1000
    """

    query: Annotated[NonEmptyText, Meta(examples=["answers"])]
    format: NonEmptyText = CONSOLE
    path: NonEmptyText | None = None
    table: CatalogTable | None = None
    value: Literal["json"] | None = None
    key: NonEmptyText | None = None
    mode: Literal["append", "update", "complete"] = "append"
    late: NonEmptyText | None = None
    options: OptionTable = {}
    trigger: NonEmptyText | None = None
    rows: ConsoleRows = CONSOLE_ROWS
    name: str = _internal("name", "")
    late_rows: bool | None = _internal("late_rows")  # True: only late rows; False: all other rows


class PipelineFile(FileTable, frozen=True, kw_only=True):
    """A pipeline file, or the files of a folder.

    checkpoint : folder in which each sink keeps its progress
    flush : a run with --once emits all held rows at its end
    """

    checkpoint: NonEmptyText | None = None
    flush: Flag = False
    spark: SparkPart = SparkPart()
    sources: Annotated[dict[Identifier, PipelineSource], _expect("tables [sources.NAME]")] = {}
    queries: Annotated[dict[Identifier, Query], _expect("tables [queries.NAME]")] = {}
    sinks: Annotated[dict[Identifier, Sink], _expect("tables [sinks.NAME]")] = {}


@dataclass(frozen=True)
class Pipeline:
    """A pipeline file, or the files of a folder, with absolute paths and Avro schemas as JSON.

    checkpoint : folder with one subfolder per sink; None: the run cannot be resumed
    environment : the used variables, whose values must not be printed
    """

    sources: tuple[PipelineSource, ...]
    queries: tuple[Query, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None = None
    flush: bool = False
    spark: SparkPart = field(default_factory=SparkPart)
    environment: Environment = field(default_factory=lambda: Environment({}), repr=False)

    def endpoints(self) -> list[tuple[str, PipelineSource | Sink]]:
        sources = [(f"sources.{source.name}", source) for source in self.sources]
        return [*sources, *((f"sinks.{sink.name}", sink) for sink in self.sinks)]


def json_schema() -> Mapping[str, Any]:
    """Return the JSON schema for editors, which checks less than `sfumato check`."""
    found = _without_null(msgspec.json.schema(PipelineFile))
    tables = found["$defs"]
    for kind in (SparkPart, PipelineSource, Query, Sink, PipelineFile):
        about = inspect.getdoc(kind) or ""
        tables[kind.__name__]["description"] = about.split("\n")[0]
        for key, text in KEY_LINE.findall(about):
            tables[kind.__name__]["properties"][key]["description"] = text
    whole = {**tables.pop("PipelineFile"), "title": "sfumato pipeline"}
    draft = "http://json-schema.org/draft-07/schema#"
    return {"$schema": draft, **whole, "required": ["sources", "sinks"], "$defs": tables}


def _without_null(part: Any) -> Any:
    """Remove null, which does not exist in TOML, and default values from a JSON schema."""
    if isinstance(part, list):
        return [_without_null(each) for each in part if each not in (None, {"type": "null"})]
    if not isinstance(part, dict):
        return part
    kept = {
        key: _without_null(of) for key, of in part.items() if key != "default" and key[:1] != "("
    }
    if len(kept.get("anyOf", ())) == 1:
        kept |= kept.pop("anyOf")[0]
    return kept
