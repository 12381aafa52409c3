"""Run an operator over tables on chunks, one instance a bucket: a stream's, with state, or a whole
frame's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from sfumato.spark.runtime import chunks
from sfumato.spark.runtime.bucket_state import BucketProcessor
from sfumato.spark.runtime.bucket_steps import answer_rows, difference

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
    idle_timeout : milliseconds; streams only
    """
    counters = ", ".join(f"{name} long" for name in blueprint.counters)
    gauges = "".join(f", {name} {of}" for name, (of, _) in blueprint.gauges.items())
    schema = f"chunk binary, {counters}{gauges}"
    if packed.isStreaming:
        answers = packed.groupBy(chunks.BUCKET).transformWithState(
            BucketProcessor(blueprint, fingerprint, idle_timeout),
            schema,
            "Append",
            "None" if idle_timeout is None else "ProcessingTime",
        )
    else:

        def whole(table: pa.Table) -> pa.Table:
            operator = blueprint.make()
            batch = [
                (side, chunks.from_bytes(chunk))
                for side, chunk in zip(
                    table.column("side").to_pylist(), table.column("chunk").to_pylist(), strict=True
                )
            ]
            outputs = [*operator.process(batch, 0), *operator.flush()]
            fields = [pa.field("chunk", pa.binary())]
            fields += [pa.field(name, pa.int64()) for name in blueprint.counters]
            for name, (of, _) in blueprint.gauges.items():
                fields.append(pa.field(name, pa.string() if of == "string" else pa.int64()))
            form = pa.schema(fields)
            rows = answer_rows(outputs, difference({}, operator.counters()), operator.gauges())
            # A batch for each chunk: an array of Arrow holds 2 GB, and a frame may give more.
            parts = [pa.RecordBatch.from_pylist([row], schema=form) for row in rows]
            return pa.Table.from_batches(parts, schema=form)

        answers = packed.groupBy(chunks.BUCKET).applyInArrow(whole, schema)
    return answers
