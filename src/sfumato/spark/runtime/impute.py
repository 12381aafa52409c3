"""Imputation over Spark frames, in Python workers."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType

from sfumato.spark.crossing.figures import MetricsName
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import column, without_constraints
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.repository import PreparedRepository
from sfumato.spark.model.validity import clipped
from sfumato.spark.runtime.run import answers_of, metrics_name, result_of
from sfumato.tables.imputation.imputation_arguments import FAR_DONORS, FEW_ROWS, IMPUTED_BY
from sfumato.tables.imputation.table_imputation import (
    UNIMPUTABLE,
    ImputationSettings,
    impute_table,
    numbers_of,
)
from sfumato.tables.reading.results import NUMBER, TEXT, Field, ListOf, Output, Struct, passed


def imputed(
    frame: SparkFrame, settings: ImputationSettings, prepared: PreparedRepository, name: str | None
) -> DataFrame:
    """Implement `impute` for a Spark frame."""
    df = frame.df
    wanted = [column(n).cast("double") for n in frame.resolved("attributes", settings.names)]
    if "existence" in df.columns:
        wanted.append(clipped(column("existence")))
    attributes = [Field(of, NUMBER) for of in settings.attributes]
    kind = ListOf(Struct((Field("prob", NUMBER), *attributes)))
    outputs = [*passed(frame, df.columns), Output(ALTERNATIVES, (ALTERNATIVES,), kind)]
    outputs.append(Output(IMPUTED_BY, (IMPUTED_BY,), TEXT))
    answers = answers_of(outputs).add(FAR_DONORS, BooleanType()).add(FEW_ROWS, BooleanType())
    read = df.select("*", *wanted)
    read = without_constraints(read.toDF(*(f"c{i}" for i in range(len(read.columns)))))
    done = read.mapInArrow(_worker(prepared, len(df.columns)), answers)
    observed = _observed(done, metrics_name("impute", name))
    return observed.select(*map(result_of, outputs))


def _worker(prepared: PreparedRepository, own: int):  # type: ignore[no-untyped-def]
    """Return the worker function for batches whose first `own` columns belong to the frame."""

    def imputed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        imputer, names = prepared.newest(), (ALTERNATIVES, IMPUTED_BY, FAR_DONORS, FEW_ROWS)
        values_end = own + len(imputer.names)
        for batch in batches:
            table = pa.table(batch)
            given = table.column_names
            existence = None
            if len(given) > values_end:
                existence = numbers_of(table, given[values_end:])[:, 0]
            rows = table.select(list(range(own)))
            values = numbers_of(table, given[own:values_end])
            for part, columns in impute_table(imputer, values, existence):
                whole = rows.slice(part.start, part.stop - part.start)
                for added, cells in zip(names, columns.columns, strict=True):
                    whole = whole.append_column(added, cells)
                yield from whole.to_batches()

    return imputed


def _observed(df: DataFrame, metrics: MetricsName) -> DataFrame:
    by = F.col(IMPUTED_BY)
    unimputable = F.coalesce(by.startswith(UNIMPUTABLE), F.lit(False))

    def counted(condition, name):  # type: ignore[no-untyped-def]
        return F.coalesce(F.sum(condition.cast("long")), F.lit(0)).alias(name)

    return df.observe(
        metrics,
        *metrics.identity(),
        F.count(F.lit(1)).alias("rows"),
        counted(by.isNull(), "complete"),
        counted(by.isNotNull() & ~unimputable, "imputed"),
        counted(unimputable, "unimputable"),
        counted(F.col(FAR_DONORS), FAR_DONORS),
        counted(F.col(FEW_ROWS), "few_rows"),
    )
