"""A pipeline as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.cli.pipeline.environment import Environment

CONSOLE = "console"


@dataclass(frozen=True)
class SparkPart:
    """What the session is made with: [spark]. hidden : options whose values Spark must not show"""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A frame with a name: any format of Spark's, or a file that is played in order of arrival.

    format, options, schema (DDL), path : as for ``spark.readStream``; of a played file the format
        is "replay"; with a `table`, "" where none is given
    static : read as it is at the start, as a table that does not grow
    value : how the column `value` is decoded      metadata : columns beside those decoded
    avro_schema : of values in Avro, as JSON
    dead_letters : name of the table of rows that could not be decoded
    """

    name: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    path: str | None = None
    static: bool = False
    table: str | None = None
    value: str | None = None
    metadata: tuple[str, ...] = ()
    dead_letters: str | None = None
    avro_schema: str | None = None

    @property
    def is_avro(self) -> bool:
        """Whether they are Avro's."""
        return self.value is not None and self.value.endswith("avro")


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
    value : how a row becomes one column    key : the column that is Kafka's key
    late : of the query's rows those that came too late, or (False) all others; None: all rows
    """

    name: str
    query: str
    format: str = CONSOLE
    path: str | None = None
    mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)
    trigger: str | None = None
    rows: int = 10
    table: str | None = None
    value: str | None = None
    key: str | None = None
    late: bool | None = None


@dataclass(frozen=True)
class Pipeline:
    """A whole file, or the files of a folder.

    checkpoint : folder in which each sink has a subfolder, or None: no restart
    flush : a run that ends lets out all that operators hold, see `sf.ops.run_to_end`
    environment : the variables that it used, which must not be printed
    """

    file: Path
    sources: tuple[Source, ...]
    queries: tuple[Query, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None = None
    flush: bool = False
    spark: SparkPart = SparkPart()
    environment: Environment = field(default_factory=lambda: Environment({}), repr=False)
