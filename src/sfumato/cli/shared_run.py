"""One streaming query for what several sinks read: TOP queries that can be answered together, and
a query whose late rows have a sink of their own.

Every sink is a streaming query of its own, which computes what it reads. So that many sinks of one
ranking do not rank many times, the ranking is a streaming query too: it writes the answers to all
of its queries to a folder beside the checkpoints, by Spark's file sink, which commits each
micro-batch once; the sinks read that folder as a stream, each its own answers. A crash anywhere
loses and doubles nothing, for each of these queries keeps its own place.

Queries come and go while the checkpoints stay. So the folder is named after what is ranked, not
after a query, and where there are checkpoints the run is made for one query, too: the sink of a
query reads the same folder whichever other queries there are.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sfumato.cli.pipeline.model import Sink
from sfumato.cli.pipeline.section import WITH_SCHEME, PipelineError
from sfumato.duration import microseconds
from sfumato.language.ranking import RankingGroup
from sfumato.language.tables import Frame

UNSTORABLE = ("void", "interval")  # types that files cannot have


@dataclass(frozen=True)
class SharedRun:
    """The answers to several queries, and the folder that they go to.

    name : of its folder and checkpoint;  queries : what a table of progress calls them
    readers : the names of the queries;  fresh : whether the folder was not there before
    """

    name: str
    queries: tuple[str, ...]
    frame: DataFrame
    folder: str
    readers: tuple[str, ...]
    fresh: bool

    @property
    def sink(self) -> Sink:
        """The run as a sink, whose checkpoint is beside its files."""
        return Sink(f"shared-{self.name}", self.name, "parquet", f"{self.folder}/answers")

    @property
    def title(self) -> str:
        """What a table of progress calls it."""
        return ", ".join(self.queries) + (" together" if len(self.queries) > 1 else " ranked")


class SharedRuns:
    """Those of a pipeline, noted while its queries are planned.

    folder : of the checkpoints;  kept : whether the next run finds it, and maybe other queries
    """

    def __init__(self, spark: SparkSession, folder: str, *, kept: bool = True) -> None:
        self.spark, self.folder, self.kept = spark, folder.rstrip("/"), kept
        self.runs: list[SharedRun] = []

    def share(self, group: RankingGroup, answers: Frame) -> Frame:
        """Let the queries of a group read the folder of their run, and note the run."""
        frame, queries = answers.df, tuple(dict.fromkeys(group.members))
        if not frame.isStreaming or any(word in str(frame.dtypes) for word in UNSTORABLE):
            return answers
        if len(queries) < 2 and not self.kept:
            return answers
        name = f"ranking-{hashlib.sha256(' '.join(group.key).encode()).hexdigest()[:12]}"
        # One file a micro-batch, and the sinks take one at a time: in the order of the answers.
        df = self._shared(name, queries, queries, frame.repartition(1), 1)
        return replace(answers, df=df)

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
        return self._shared(f"late-{query}", (query, "its late rows"), (query,), frame, None)

    def check(self, sinks: Iterable[Sink], read: Callable[[str], set[str]]) -> None:
        """Raise PipelineError for a sink that has a checkpoint and is to read a folder that is new:
        it has written answers of another run, and would write them again.

        read : the names of the queries that are read for one of them
        """
        for run in self.runs:
            for sink in sinks:
                if not run.fresh or read(sink.query).isdisjoint(run.readers):
                    continue
                checkpoint = f"{self.folder}/{sink.name}"
                if _is_there(self.spark, f"{checkpoint}/offsets"):
                    why = f"has a checkpoint, {checkpoint}, of a run in which it read something "
                    why += f"else than the answers to {', '.join(run.readers)}: what is ranked "
                    why += "has changed since (table, window, filter, or RANK BY), or the "
                    why += "checkpoint is of an earlier version. Give the sink another name, or "
                    why += "take another checkpoint folder, to begin again"
                    raise PipelineError.at(f"sinks.{sink.name}", why)

    def _shared(
        self,
        name: str,
        queries: tuple[str, ...],
        readers: tuple[str, ...],
        frame: DataFrame,
        files: int | None,
    ) -> DataFrame:
        """A stream of what a run writes. files : that a micro-batch reads at most; None: all"""
        folder = f"{self.folder}/shared-{name}"
        # Its own checkpoint: the folder of the answers is made before anything is refused.
        fresh = not _is_there(self.spark, f"{self.folder}/shared-{name}/offsets")
        run = SharedRun(name, queries, frame, folder, readers, fresh)
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


def _is_there(spark: SparkSession, folder: str) -> bool:
    """Whether there is a folder, on any file system that Spark knows."""
    if not WITH_SCHEME.match(folder):
        return Path(folder).is_dir()
    try:
        spark.read.text(folder)
    except AnalysisException:
        return False
    return True


def quickest(sinks: Sequence[Sink]) -> str | None:
    """The shortest trigger of some sinks; None if one of them has none."""
    triggers = [sink.trigger for sink in sinks]
    if not triggers or None in triggers:
        return None
    return min((t for t in triggers if t is not None), key=lambda t: microseconds("trigger", t))
