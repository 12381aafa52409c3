"""One streaming query for what several sinks read: TOP queries that can be answered together, and
a query whose late rows have a sink of their own.

Every sink is a streaming query of its own, which computes what it reads. So that many sinks of one
ranking do not rank many times, the ranking is a streaming query too: it writes the answers to all
of its queries to a folder beside the checkpoints, by Spark's file sink, which commits each
micro-batch once; the sinks read that folder as a stream, each its own answers. A crash anywhere
loses and doubles nothing, for each of these queries keeps its own place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sfumato.cli.pipeline.model import Sink
from sfumato.cli.pipeline.section import WITH_SCHEME, PipelineError
from sfumato.duration import microseconds
from sfumato.sql.plan.ranking_groups import RankingGroup
from sfumato.sql.plan.sources import Frame

UNSTORABLE = ("void", "interval")  # types that files cannot have


@dataclass(frozen=True)
class SharedRun:
    """The answers to several queries, and the folder that they go to.

    name : of its folder and checkpoint;  queries : what a table of progress calls them
    """

    name: str
    queries: tuple[str, ...]
    frame: DataFrame
    folder: str

    @property
    def sink(self) -> Sink:
        """The run as a sink, whose checkpoint is beside its files."""
        return Sink(f"shared-{self.name}", self.name, "parquet", f"{self.folder}/answers")

    @property
    def title(self) -> str:
        """What a table of progress calls it."""
        return f"{', '.join(self.queries)} together"


class SharedRuns:
    """Those of a pipeline, noted while its queries are planned. `folder`: of the checkpoints."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark, self.folder = spark, folder.rstrip("/")
        self.runs: list[SharedRun] = []

    def share(self, group: RankingGroup, answers: Frame) -> Frame:
        """Let the queries of a group read the folder of their run, and note the run."""
        frame, name = answers.df, group.members[0]
        if not frame.isStreaming or any(word in str(frame.dtypes) for word in UNSTORABLE):
            return answers
        # One file a micro-batch, and the sinks take one at a time: in the order of the answers.
        queries = tuple(dict.fromkeys(group.members))
        return replace(answers, df=self._shared(name, queries, frame.repartition(1), 1))

    def share_rows(self, query: str, frame: DataFrame) -> DataFrame:
        """Let several sinks read the rows of a query from the folder of its run, and note the run.

        Raises PipelineError for rows that no file can have.
        """
        if not frame.isStreaming:
            return frame
        for name, kind in frame.dtypes:
            if any(word in kind for word in UNSTORABLE):
                why = f"gives a column `{name}` of type {kind}, which no file can have: cast it, "
                why += "so that its late rows can be parted from the others"
                raise PipelineError.at(f"queries.{query}", why)
        return self._shared(f"late-{query}", (query, "its late rows"), frame, None)

    def _shared(
        self, name: str, queries: tuple[str, ...], frame: DataFrame, files: int | None
    ) -> DataFrame:
        """A stream of what a run writes. files : that a micro-batch reads at most; None: all"""
        run = SharedRun(name, queries, frame, f"{self.folder}/shared-{name}")
        path = run.sink.path
        assert path is not None
        if WITH_SCHEME.match(path):
            self.spark.createDataFrame([], frame.schema).write.mode("append").parquet(path)
        else:
            Path(path).mkdir(parents=True, exist_ok=True)
        self.runs.append(run)
        reader: Any = self.spark.readStream.schema(frame.schema)
        if files is not None:
            reader = reader.option("maxFilesPerTrigger", files)
        found: DataFrame = reader.parquet(path)
        return found


def quickest(sinks: Sequence[Sink]) -> str | None:
    """The shortest trigger of some sinks; None if one of them has none."""
    triggers = [sink.trigger for sink in sinks]
    if not triggers or None in triggers:
        return None
    return min((t for t in triggers if t is not None), key=lambda t: microseconds("trigger", t))
