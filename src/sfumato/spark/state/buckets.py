"""Run an operator over a stream's chunks, one instance a bucket, with state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.figures import Figures
from sfumato.spark.state.bucket_state import BucketProcessor

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.operator import OperatorConfig


def run_buckets(
    packed: DataFrame,
    blueprint: OperatorConfig,
    fingerprint: str,
    idle_timeout: int | None = None,
) -> DataFrame:
    """Chunks in (as `chunks.pack` makes them), chunks of answers, counters and gauges out.

    fingerprint : JSON text that differs where a checkpoint of another query cannot be continued
    idle_timeout : milliseconds
    """
    return packed.groupBy(chunks.BUCKET).transformWithState(
        BucketProcessor(blueprint, fingerprint, idle_timeout),
        answer_type(blueprint),
        "Append",
        "None" if idle_timeout is None else "ProcessingTime",
    )


def answer_type(blueprint: OperatorConfig) -> StructType:
    """The columns of answers to a bucket: a chunk of rows, counters and gauges."""
    return StructType([StructField("chunk", BinaryType()), *Figures.of(blueprint).columns])
