"""`draw_worlds`, `merge_worlds` and `assume_independent` over Spark frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from sfumato.spark.model.columns import column, computed, named, table_of, without_constraints
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.rows import REASON_COLUMN, invalid_row_metrics
from sfumato.spark.runtime.run import answers_of, metrics_name, result_of, warn_of_invalid_rows
from sfumato.tables.reading.frame import EXISTENCE, error_of
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import ASSUMED_KEY
from sfumato.tables.reading.worlds import Draw, Merge


def draw_worlds(frame: SparkFrame, draw: Draw, name: str | None) -> DataFrame:
    df = frame.df
    read = [name for name in (ALTERNATIVES, EXISTENCE, *draw.ids) if name in frame.columns]
    if df.isStreaming:
        warn_of_invalid_rows(df.sparkSession)

    def reasons(rows: pa.Array) -> pa.Array:
        return draw.why_invalid(table_of(rows)).column()

    metrics = metrics_name("draw_worlds", name)
    given = df.withColumn(
        REASON_COLUMN, computed(reasons, StringType(), *map(column, dict.fromkeys(read)))
    )
    given = given.observe(
        f"{metrics}_input", *metrics.identity("input"), *invalid_row_metrics(F.col(REASON_COLUMN))
    )
    valid = given.where(F.col(REASON_COLUMN).isNull()).drop(REASON_COLUMN)
    valid = without_constraints(valid.toDF(*(f"c{i}" for i in range(len(frame.columns)))))
    outputs, columns = draw.outputs(frame), list(frame.columns)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in draw.parts(pa.table(batch).rename_columns(columns)):
                yield from part.to_batches()

    return valid.mapInArrow(rows, answers_of(outputs)).select(*map(result_of, outputs))


def merge_worlds(frame: SparkFrame, merge: Merge) -> DataFrame:
    """Implement `merge_worlds` for a Spark frame: count per answer and value, then per answer."""
    keys = [f"k{i}" for i in range(len(merge.key))]
    values = [column(name).alias(f"v{i}") for i, name in enumerate(merge.columns)]
    rows = frame.df.select(
        *(column(name).alias(key) for name, key in zip(merge.key, keys, strict=True)),
        F.struct(*values, F.lit(0).alias("none")).alias("v"),
        column(merge.world).alias("w"),
    )
    counted = rows.groupBy(*keys, "v").agg(F.collect_list("w").alias("w"))
    each = F.struct("v", F.size("w").alias("n"))
    found = counted.groupBy(*keys).agg(
        F.sort_array(F.collect_list(each)).alias("v"), F.flatten(F.collect_list("w")).alias("w")
    )

    def share(count: Column) -> Column:
        return count / F.lit(float(merge.worlds))

    answer = share(F.size("w"))
    if merge.columns:
        names = list(enumerate(merge.columns))
        answer = F.transform(
            "v",
            lambda of: F.struct(
                share(of["n"]).alias("prob"), *(of["v"][f"v{i}"].alias(n) for i, n in names)
            ),
        )
    known = (F.array_min("w") >= 0) & (F.array_max("w") < merge.worlds)
    checked = (
        F.when(~known, F.raise_error(F.lit(merge.unknown_world_error)))
        .when(
            F.size("w") != F.size(F.array_distinct("w")),
            F.raise_error(F.lit(merge.duplicate_answer_error)),
        )
        .otherwise(answer)
    )
    outputs = merge.outputs(frame)
    result = [F.col(key) for key in keys] + [checked, F.lit(error_of(merge.worlds))]
    return found.select(
        *(named(of, out.name, out.metadata) for of, out in zip(result, outputs, strict=True))
    )


def assume_independent(frame: SparkFrame, columns: Sequence[str]) -> DataFrame:
    """Implement `assume_independent` for a Spark frame: mark the columns."""
    marked = {
        name: named(column(name), name, {**frame.metadata(name), ASSUMED_KEY: "true"})
        for name in columns
    }
    return frame.df.select(*(marked.get(name, column(name)) for name in frame.columns))
