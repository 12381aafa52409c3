"""What a pipeline file may say: every key once, for the reader, the JSON schema and the errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REPLAY = "replay"
MODES = ("append", "update", "complete")
DECODERS = ("json", "avro", "confluent-avro")
ENCODERS = ("json",)
METADATA = ("key", "topic", "partition", "offset", "timestamp", "headers")
MOST_ROWS = 1000  # that a console table shows


@dataclass(frozen=True)
class Kind:
    """A kind of value. wanted : in errors     schema : its JSON schema"""

    types: tuple[type, ...]
    wanted: str
    schema: Mapping[str, Any]


SCALAR = {"type": ["string", "number", "boolean"]}
TEXTS = {"type": "array", "items": {"type": "string"}}
TEXT = Kind((str,), "a text", {"type": "string", "minLength": 1})
BOOL = Kind((bool,), "true or false", {"type": "boolean"})
WHOLE = Kind((int,), "a whole number of rows", {"type": "integer", "minimum": 1})
SPEED = Kind(
    (int, float), "a number, 60 for a minute a second", {"type": "number", "exclusiveMinimum": 0}
)
OPTIONS = Kind((dict,), "a table of options", {"type": "object", "additionalProperties": SCALAR})
LIST = Kind((list,), "a list of texts", TEXTS)


@dataclass(frozen=True)
class Key:
    """One key of a table: its kind, what it means, and the texts it may be, if those are few."""

    name: str
    about: str
    kind: Kind = TEXT
    choices: tuple[str, ...] = ()


TOP = (
    Key("checkpoint", "folder in which each sink keeps its place"),
    Key("flush", "a run with --once lets out, at its end, all that operators hold", BOOL),
)
SPARK = (
    Key("master", "where Spark runs: local[4], spark://host:7077, yarn, k8s://..."),
    Key("settings", "settings of Spark's, by name", OPTIONS),
    Key("packages", "Maven coordinates of connectors, group:artifact:version", LIST),
    Key("jars", "files of connectors", LIST),
)
_SCHEMA = Key("schema", 'columns and types in Spark\'s DDL, "id string, t timestamp"')
_AVRO = Key("avro_schema", "Avro's schema of the values, or the path of a file .avsc that has it")
_OPTIONS = Key("options", "the format's options, by name", OPTIONS)
_STATIC = Key("static", "read as it is at the start: a table that does not grow", BOOL)
READ = (
    Key("format", "a format of Spark's: json, csv, parquet, kafka, delta, ..."),
    Key("path", "the file or folder, where the format has one"),
    _SCHEMA,
    _OPTIONS,
    _STATIC,
    Key("table", "a table of a catalog, lake.db.t"),
    Key("value", "how the column `value` is decoded into the columns of `schema`", TEXT, DECODERS),
    _AVRO,
    Key("metadata", f"columns that stay beside the decoded ones: {', '.join(METADATA)}", LIST),
    Key("dead_letters", "name of the table of those rows that could not be decoded"),
)
PLAYED = (
    Key(REPLAY, "a file, or folder of files, that is played in order of arrival"),
    Key("order", "the column that gives the order of arrival"),
    Key("speed", "how much faster than the clock of `order`", SPEED),
    Key("rows_per_batch", "at most so many rows in a micro-batch", WHOLE),
    _SCHEMA,
    _OPTIONS,
    _STATIC,
)
QUERY = (Key("sql", "one query"),)
SINK = (
    Key("query", "the query, source or dead letters whose rows it gets"),
    Key("format", "a format of Spark's, or console (the default)"),
    Key("path", "the folder, where the format has one"),
    Key("table", "a table of a catalog, lake.db.t"),
    Key("value", "how rows become one column `value`, for Kafka", TEXT, ENCODERS),
    Key("key", "the column that is Kafka's key"),
    Key("mode", "append (the default), update or complete", TEXT, MODES),
    Key("late", "the sink, or the folder with a /, that gets the rows that came too late"),
    _OPTIONS,
    Key("trigger", 'time between two micro-batches, "1 second"'),
    Key("rows", f"how many rows a console shows, 1 to {MOST_ROWS}", WHOLE),
)
SOURCE_TABLES = (READ, PLAYED)
TABLES = {"sources": SOURCE_TABLES, "queries": (QUERY,), "sinks": (SINK,)}
NEEDED = {"queries": ("sql",), "sinks": ("query",)}


def source_keys(content: Mapping[str, Any]) -> tuple[Key, ...]:
    """The keys that a source with this content may have."""
    if REPLAY in content:
        return PLAYED
    if "format" in content or "table" in content:
        return READ
    return tuple({key.name: key for key in (*READ, *PLAYED)}.values())
