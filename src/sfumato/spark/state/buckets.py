"""Run an operator over a stream's chunks, one instance a bucket, with state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.counts import figure_kinds
from sfumato.spark.state.bucket_state import BucketProcessor

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import ChainConfig
    from sfumato.tables.operator import TableConfig


def run_buckets(
    packed: DataFrame,
    blueprint: TableConfig | ChainConfig,
    fingerprint: str,
    idle_timeout: int | None = None,
) -> DataFrame:
    """Chunks in (as `chunks.pack` makes them), chunks of answers, counters and gauges out.

    fingerprint : JSON text that differs where a checkpoint of another query cannot be continued
    idle_timeout : milliseconds
    """
    return packed.groupBy(chunks.BUCKET).transformWithState(
        BucketProcessor(blueprint, fingerprint, idle_timeout),
        answer_schema(blueprint),
        "Append",
        "None" if idle_timeout is None else "ProcessingTime",
    )


def answer_schema(blueprint: TableConfig | ChainConfig) -> str:
    """The columns of answers to a bucket: a chunk of rows, counters and gauges."""
    return ", ".join(["chunk binary", *(f"{n} {of}" for n, of in figure_kinds(blueprint).items())])
