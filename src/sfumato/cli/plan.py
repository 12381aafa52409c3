"""Plan of a pipeline: the frames of sources and queries, and the streaming queries of a run.

Each sink is a separate streaming query that computes everything it reads. If several sinks read a
ranking, or a query and its late rows, this part becomes a shared streaming query. Spark's
exactly-once file sink writes its rows to a folder next to the checkpoints, and the sinks read this
folder as a stream. With checkpoints, every ranking is shared, and its folder is named after the
ranking rather than the query, so that queries may change between runs.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.cli.failures import first_cause
from sfumato.cli.pipeline.frames import encode, read_source
from sfumato.cli.pipeline.model import CONSOLE, Pipeline, PipelineError, PipelineSource, Sink
from sfumato.cli.pipeline.parse import WITH_SCHEME
from sfumato.cli.pipeline.permissions import connector_advice
from sfumato.duration import microseconds
from sfumato.language.planner import NamedQueries
from sfumato.language.ranking_answers import RankingGroup
from sfumato.language.steps import Step, explain_step
from sfumato.language.tables import PlannedFrame

LATE_COLUMN = "late"  # the controller's flag for late rows
UNSTORABLE = ("void", "interval")  # types that files cannot store
NOT_FOUND = re.compile(r"Failed to find the data source: ([\w.]+)")
SPARK_ERRORS = (PySparkException, Py4JError)
"""Errors raised by Spark, including Java errors without a PySpark class."""


@dataclass(frozen=True)
class SharedQuery:
    """A streaming query whose rows are read by several sinks.

    sink : the output files; the checkpoint is next to them
    title : name in the progress table      readers : names of the queries that read it
    is_new : whether it has no checkpoint from an earlier run
    """

    sink: Sink
    title: str
    frame: DataFrame
    readers: tuple[str, ...]
    is_new: bool


@dataclass
class Plan:
    """The frames of a pipeline's sources and queries, and their explanations.

    folder : the checkpoints' folder; None: nothing is shared
    keeps_checkpoints : whether the next run uses the same folder, perhaps with different queries
    explanations, steps : by query, its plan in words and its last operation
    queries : the planned queries
    late_split_frames : by query, the rows whose late rows are written to a separate sink
    shared : the queries whose rows several sinks read
    """

    spark: SparkSession
    pipeline: Pipeline
    folder: str | None
    keeps_checkpoints: bool
    frames: dict[str, DataFrame] = field(default_factory=dict)
    explanations: dict[str, str] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    queries: NamedQueries = field(init=False)
    late_split_frames: dict[str, DataFrame] = field(default_factory=dict)
    shared: list[SharedQuery] = field(default_factory=list)

    @property
    def streams(self) -> list[Sink]:
        return [sink for sink in self.pipeline.sinks if self.frames[sink.query].isStreaming]

    def keeps_finals(self, sink: Sink) -> bool:
        """Return whether a sink gets only the final answers of a query with early answers."""
        kinds = dict(self.frames[sink.query].dtypes)
        early = kinds.get("final") == "boolean" and "revision" in kinds
        return early and _omits_revisions(sink)

    def rows_of(self, sink: Sink) -> DataFrame:
        """Return a sink's rows. Raises PipelineError for a missing key column."""
        if sink.late_rows is None:
            rows = self.frames[sink.query]
            rows = rows.where("final") if self.keeps_finals(sink) else rows
        else:
            late = F.coalesce(F.col(LATE_COLUMN), F.lit(False))
            rows = self.late_split_frames[sink.query].where(late if sink.late_rows else ~late)
        try:
            return encode(rows, sink)
        except ValueError as error:
            raise PipelineError(f"`sinks.{sink.name}`: {error}") from None

    def late_target(self, query: str) -> float | None:
        """Return the largest drop ratio of a query and its upstream queries, or None."""
        ratios = [each.facts.get("drop_ratio") for each in self._steps_of(query)]
        return max((ratio for ratio in ratios if ratio is not None), default=None)

    def _steps_of(self, query: str) -> Iterator[Step]:
        """Yield the steps of a query and of its upstream queries."""
        for name in self.queries.upstream_of([query]):
            yield from self.steps[name].walk() if name in self.steps else ()

    # ---- checks of sinks -------------------------------------------------------------------------

    def check_sinks(self) -> None:
        """Raise PipelineError for a sink that cannot write its rows or would duplicate some."""
        for sink in self.pipeline.sinks:
            if sink not in self.streams and sink.format != CONSOLE:
                why = (
                    f"writes the rows of {sink.query}, which reads only static sources: make one "
                    "of these sources a stream, or show the rows on the console"
                )
                raise PipelineError.at(f"sinks.{sink.name}", why)
            names = [name.lower() for name in self.frames[sink.query].columns]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None and sink.format != CONSOLE:
                why = (
                    f"writes the rows of {sink.query}, which have several columns `{twice}`: "
                    "rename them with AS, or leave one out"
                )
                raise PipelineError.at(f"sinks.{sink.name}", why)
            lines = (line for step in self._steps_of(sink.query) for line in step.lines)
            early = any(name == "early" and said for name, said in lines)
            if early and _omits_revisions(sink) and not self.keeps_finals(sink):
                why = (
                    f"writes only final answers, but the rows of {sink.query} do not have both "
                    "`final` and `revision`: add these columns to its SELECT, or write every early "
                    'answer with mode = "update"'
                )
                raise PipelineError.at(f"sinks.{sink.name}", why)
        for shared in self.shared:
            for sink in self.streams if shared.is_new else ():
                checkpoint = f"{self.folder}/{sink.name}"
                is_reader = not self.queries.upstream_of([sink.query]).isdisjoint(shared.readers)
                if is_reader and _folder_exists(self.spark, f"{checkpoint}/offsets"):
                    why = (
                        f"has a checkpoint, {checkpoint}, from a run in which the sink did not "
                        f"read the answers to {', '.join(shared.readers)}: the ranking has since "
                        "changed (table, window, filter or RANK BY), or the checkpoint was written "
                        "by an earlier version. To start again, give the sink a new name, or "
                        "choose a new checkpoint folder"
                    )
                    raise PipelineError.at(f"sinks.{sink.name}", why)

    # ---- shared queries --------------------------------------------------------------------------

    def share_ranking(self, group: RankingGroup, answers: PlannedFrame) -> PlannedFrame:
        """Return the shared answers of a group of queries, as a stream of their folder."""
        frame, queries = answers.df, tuple(dict.fromkeys(group.members))
        if not frame.isStreaming or any(word in str(frame.dtypes) for word in UNSTORABLE):
            return answers
        if len(queries) < 2 and not self.keeps_checkpoints:
            return answers
        name = f"ranking-{hashlib.sha256(' '.join(group.key).encode()).hexdigest()[:12]}"
        # Each micro-batch writes one file, and sinks read one file at a time, so the answers stay
        # in order.
        title = ", ".join(queries) + (" together" if len(queries) > 1 else " ranked")
        df = self._share(name, title, queries, frame.repartition(1), maxFilesPerTrigger=1)
        return replace(answers, df=df)

    def split_late_rows(self, sink: Sink) -> None:
        """Make the sinks of a query's late and other rows read one shared query."""
        query, frame = sink.query, self.frames[sink.query]
        if query in self.late_split_frames:
            return
        if dict(frame.dtypes).get(LATE_COLUMN) != "boolean":
            why = (
                f"needs a boolean column `{LATE_COLUMN}` in {query}, which disorder control adds: "
                "select this column too, from a table with WATTR in brackets"
            )
            raise PipelineError.at(f"sinks.{sink.name}.late", why)
        if self.folder is not None and frame.isStreaming:
            for name, kind in frame.dtypes:
                if any(word in kind for word in UNSTORABLE):
                    why = (
                        f"has a column `{name}` of type {kind}, which files cannot store: cast it, "
                        "so that the late rows can be written separately"
                    )
                    raise PipelineError.at(f"queries.{query}", why)
            title = f"{query} with its late rows"
            frame = self._share(f"late-{query}", title, (query,), frame)
        self.late_split_frames[query] = frame

    def _share(
        self, name: str, title: str, readers: tuple[str, ...], frame: DataFrame, **options: int
    ) -> DataFrame:
        """Register a shared query, and return a stream of its output. options : read options"""
        folder = f"{self.folder}/shared-{name}"
        path = f"{folder}/answers"
        # The checkpoint decides, because the answers' folder is created before sinks are checked.
        is_new = not _folder_exists(self.spark, f"{folder}/offsets")
        if WITH_SCHEME.match(path):
            self.spark.createDataFrame([], frame.schema).write.mode("append").parquet(path)
        else:
            Path(path).mkdir(parents=True, exist_ok=True)
        sink = Sink(name=f"shared-{name}", query=name, format="parquet", path=path)
        self.shared.append(SharedQuery(sink, title, frame, readers, is_new))
        return self.spark.readStream.schema(frame.schema).options(**options).parquet(path)


def _omits_revisions(sink: Sink) -> bool:
    """Return whether a sink gets only final answers, because it cannot replace earlier rows."""
    return sink.mode == "append" and sink.format != CONSOLE


def build_plan(
    spark: SparkSession,
    pipeline: Pipeline,
    folder: str | None = None,
    keeps_checkpoints: bool = True,
) -> Plan:
    """Build the plan, and register each source and query as a temporary view, in file order."""
    folder = None if folder is None else folder.rstrip("/")
    plan = Plan(spark, pipeline, folder, keeps_checkpoints)
    texts = {query.name: query.sql for query in pipeline.queries}
    wanted = [sink.query for sink in pipeline.sinks]
    share = None if folder is None else plan.share_ranking
    queries = plan.queries = NamedQueries(spark, texts, wanted, share)
    for source in pipeline.sources:
        for name, frame in _source_frames(spark, source).items():
            frame.createOrReplaceTempView(name)
            plan.frames[name] = frame
    for query in pipeline.queries:
        name = query.name
        with errors_at(f"queries.{name}.sql"):
            planned = queries.frames(name)[0]
            _ = planned.df.schema  # analyse now, so that an error names its query
        planned.df.createOrReplaceTempView(name)
        plan.frames[name], plan.steps[name] = planned.df, planned.step
        plan.explanations[name] = explain_step(planned.step)
        if others := [other for other in queries.answered_with(name) if other != name]:
            plan.explanations[name] += f"\nanswered together with {', '.join(others)}"
    for sink in pipeline.sinks:
        if sink.late_rows is not None:
            plan.split_late_rows(sink)
    return plan


def _source_frames(spark: SparkSession, source: PipelineSource) -> dict[str, DataFrame]:
    """Return a source's rows and, if named, its dead letters, by name."""
    place = f"sources.{source.name}"
    if source.schema is not None:
        with errors_at(f"{place}.schema"):
            StructType.fromDDL(source.schema)
    with errors_at(place):
        rows, letters = read_source(spark, source)
        found = {source.name: rows, source.dead_letters: letters}
        named = {name: frame for name, frame in found.items() if name and frame is not None}
        _ = [frame.schema for frame in named.values()]
    return named


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Raise Spark errors, ValueError and TypeError as PipelineError with a position in the file."""
    try:
        yield
    except PipelineError:
        raise
    except (ValueError, TypeError) as error:
        raise PipelineError(f"`{place}`: {error}") from error
    except SPARK_ERRORS as error:
        raise PipelineError(f"`{place}`: {first_cause(error)}{missing_connector(error)}") from error


def missing_connector(error: Exception) -> str:
    """Return advice to add a connector that Spark did not find; "" for other errors."""
    found = NOT_FOUND.search(str(error))
    return "" if found is None else f". The file {connector_advice(found[1])}"


def shortest_trigger(sinks: Iterable[Sink]) -> str | None:
    """Return the sinks' shortest trigger; None if a sink has no trigger."""
    triggers = [sink.trigger for sink in sinks]
    given = [trigger for trigger in triggers if trigger is not None]
    if len(given) < len(triggers):
        return None
    return min(given, key=lambda trigger: microseconds("trigger", trigger), default=None)


def _folder_exists(spark: SparkSession, folder: str) -> bool:
    """Return whether a folder exists on any file system known to Spark."""
    if not WITH_SCHEME.match(folder):
        return Path(folder).is_dir()
    try:
        spark.read.text(folder)
    except AnalysisException:
        return False
    return True
