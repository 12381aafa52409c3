"""Run an operator over a stream's chunks, one instance a bucket, with state; and what its answers
have beside their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from sfumato.spark.runtime import chunks
from sfumato.spark.runtime.bucket_state import BucketProcessor

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import ChainConfig
    from sfumato.tables.operator import TableConfig

ARROW_TYPES = {  # of gauges, by what Spark calls them
    "long": pa.int64(),
    "string": pa.string(),
    "array<long>": pa.list_(pa.int64()),
}


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
    counters = ", ".join(f"{name} long" for name in blueprint.counters)
    gauges = "".join(f", {name} {of}" for name, (of, _) in blueprint.gauges.items())
    return f"chunk binary, {counters}{gauges}"


def answer_fields(blueprint: TableConfig | ChainConfig) -> pa.Schema:
    """The same for Arrow."""
    fields = [("chunk", pa.binary()), *((name, pa.int64()) for name in blueprint.counters)]
    fields += [(name, ARROW_TYPES[of]) for name, (of, _) in blueprint.gauges.items()]
    return pa.schema(fields)
