"""Stateless row functions over Spark frames: split_invalid, where and impute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StringType
from pyspark.sql.window import Window, WindowSpec

from sfumato.operators.arguments import SUM_TOLERANCE
from sfumato.spark.crossing.chunks import MetricsName
from sfumato.spark.model.alternatives import ALTERNATIVES, existence
from sfumato.spark.model.columns import column, computed, named, table_of, without_constraints
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.repository import PreparedRepository
from sfumato.spark.model.untrusted_sql import check_expression
from sfumato.spark.runtime.run import answers_of, metrics_name, result_of, warn_of_invalid_rows
from sfumato.sql_tokens import quote_name
from sfumato.tables.arrow import numbers_of
from sfumato.tables.imputation.imputation_arguments import IMPUTED_BY
from sfumato.tables.imputation.repositories import ImputationSettings
from sfumato.tables.imputation.table_imputation import FLAGS, UNIMPUTABLE, impute_table
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.frame import FILTERED, Names
from sfumato.tables.reading.results import (
    DOUBLE_TYPE,
    STRING_TYPE,
    Field,
    Output,
    alternatives_type,
    passthrough_outputs,
)
from sfumato.tables.reading.user_warnings import warn_of_skipped
from sfumato.tables.reading.validity import (
    RULE_ABOVE_ONE,
    Bounds,
    check_attributes,
    generalize_reason,
    invalid_radius_reason,
    require_order,
    why_invalid,
    why_invalid_after_filter,
)

LEFT = "__left"  # the alternatives that satisfy the condition
REASON_COLUMN = "__reason"  # why a row is invalid


def invalid_reason(
    frame: SparkFrame, attributes: str | Sequence[str] | None = None, bounds: Bounds = ()
) -> Column:
    """Return the reason why a row's alternatives (or existence and values) are invalid, or NULL."""
    wanted, most = check_attributes(frame, attributes), frame.max_alternatives

    def reasons(rows: pa.Array) -> pa.Array:
        return why_invalid(table_of(rows), wanted, bounds=bounds, max_alternatives=most).column()

    if frame.uncertain:
        return computed(reasons, StringType(), F.col(ALTERNATIVES))
    existence_ = ["existence"] if "existence" in frame.columns else []
    read = dict.fromkeys([*existence_, *(wanted or ()), *(name for name, *_ in bounds)])
    return (
        computed(reasons, StringType(), *map(column, read)) if read else F.lit(None).cast("string")
    )


def clip_existence(existence: Column) -> Column:
    """Return the probability that a row exists, clipped to 1."""
    given = existence.cast("double")
    return F.when(given > 1.0, 1.0).otherwise(given)


def split_by(frame: SparkFrame, mark: str) -> tuple[DataFrame, DataFrame]:
    """Return the rows where a boolean column is not true, and the rows where it is true."""
    marked = F.coalesce(F.col(mark), F.lit(False))
    return frame.df.where(~marked), frame.df.where(marked)


def split_rows(
    frame: SparkFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    within: str | None,
    exclusive: str | None,
    strict: bool,
) -> tuple[DataFrame, DataFrame]:
    df, reasons = frame.df, [invalid_reason(frame, attributes, bounds_of(metric, attributes))]
    columns = {"key": frame.resolve("key", key), "order": frame.resolve("order", order)}
    for argument, names_ in columns.items():
        text = F.lit(f"{argument} is NULL")
        reasons += [F.when(column(name).isNull(), text) for name in names_]
    if within is not None:
        frame.require_numbers("within", [within])
        name = frame.single_column("within", within)
        radius = column(name).cast("double")
        valid = F.coalesce((radius >= 0.0) & (radius < math.inf), F.lit(False))  # false for NaN
        reasons.append(F.when(~valid, F.lit(invalid_radius_reason(name))))
    if exclusive is not None:
        if df.isStreaming:
            raise ValueError(
                "`exclusive` needs a static frame, because all rows of a rule are needed; for a "
                "stream, the metric sfumato_top_k_N counts the rows that are left out (`rejected`)"
            )
        require_order(order)
        rule = frame.single_column("exclusive", exclusive)
        members = Window.partitionBy(*map(column, [rule, *columns["key"]]))
        earlier = members.orderBy(*map(column, columns["order"]))
        earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
        above = _above_one(frame, F.coalesce(*reasons), earlier)
        reasons.append(F.when(column(rule).isNotNull(), above))
    reason = F.coalesce(*reasons)
    with_reason = df.withColumn("reason", reason)
    invalid = with_reason.where("reason IS NOT NULL")
    if strict:
        message = F.concat(F.lit("invalid row: "), reason)
        return df.where(F.when(reason.isNull(), True).otherwise(F.raise_error(message))), invalid
    if exclusive is None:
        return df.where(reason.isNull()), invalid
    # Spark accepts window functions only as columns.
    return with_reason.where("reason IS NULL").drop("reason"), invalid


def _above_one(frame: SparkFrame, reason: Column, earlier: WindowSpec) -> Column:
    """Return the reason for a row that raises its rule's total probability above 1, or NULL."""
    if frame.uncertain:
        exists = existence()
    else:
        exists = clip_existence(F.col("existence")) if "existence" in frame.columns else F.lit(1.0)
    exists = F.when(reason.isNull(), exists)

    def with_one_more(mass: Column, p: Column) -> Column:
        return F.when(mass + p <= 1.0 + SUM_TOLERANCE, mass + p).otherwise(mass)

    before = F.collect_list(exists).over(earlier)
    total = F.aggregate(before, F.lit(0.0), with_one_more) + exists
    text = F.concat(F.lit(RULE_ABOVE_ONE), total.cast("string"))
    return F.when(total > 1.0 + SUM_TOLERANCE, text)


def where(frame: SparkFrame, condition: str, name: str | None = None) -> DataFrame:
    df = frame.df
    condition = check_expression("condition", condition, df.sparkSession)
    attributes = frame.mentioned(condition)
    if not attributes:
        return df.where(condition)
    left, most = F.coalesce(F.size(LEFT), F.lit(0)) > 0, frame.max_alternatives
    streams = df.isStreaming

    def reasons(rows: pa.Array) -> pa.Array:
        table = table_of(rows)
        kept = table.column("kept").to_numpy()
        found = why_invalid_after_filter(table, attributes, kept, most).column()
        if not streams:  # the driver warns for streams
            warn_of_skipped(
                {generalize_reason(each) for each in found.unique().to_pylist() if each}
            )
        return found

    reason = computed(reasons, StringType(), F.col(ALTERNATIVES), left.alias("kept"))
    if streams:
        warn_of_invalid_rows(df.sparkSession)
    metrics = metrics_name("where", name)
    counted = (
        df.withColumn(LEFT, _filtered_alternatives(frame, condition))
        .withColumn(REASON_COLUMN, reason)
        .observe(
            f"{metrics}_input",
            *metrics.identity("input"),
            *invalid_row_metrics(F.col(REASON_COLUMN)),
        )
    )
    some = counted.where(left & F.col(REASON_COLUMN).isNull())
    metadata = {**frame.metadata(ALTERNATIVES), FILTERED: "true"}
    kept = named(F.col(LEFT), ALTERNATIVES, metadata)
    return some.withColumn(ALTERNATIVES, kept).drop(LEFT, REASON_COLUMN)


def _filtered_alternatives(frame: SparkFrame, condition: str) -> Column:
    """Return the alternatives that satisfy a condition; see `SparkFrame.mentioned`."""
    bound = f"({condition}\n)"
    for name in frame.mentioned(condition):
        bound = f"exists(array(`:a`.{quote_name(name)}), {quote_name(name)} -> {bound})"
    return F.expr(f"filter({quote_name(ALTERNATIVES)}, `:a` -> {bound})")


def invalid_row_metrics(reason: Column) -> list[Column]:
    """Return the observed metrics: rows, invalid rows, most common reason (without its number)."""
    invalid = reason.isNotNull()
    kind = F.regexp_replace(reason, r" to \S+$", " to more than 1")
    return [
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(invalid.cast("long")), F.lit(0)).alias("invalid"),
        F.mode(F.when(invalid, kind)).alias("reason"),
    ]


def impute(
    frame: SparkFrame, settings: ImputationSettings, prepared: PreparedRepository, name: str | None
) -> DataFrame:
    df = frame.df
    named = frame.resolve("attributes", settings.names)
    wanted = [column(n) if frame.kind(n) == "text" else column(n).cast("double") for n in named]
    wanted += [column(n) for n in frame.resolve("key", settings.key)]
    if "existence" in df.columns:
        wanted.append(clip_existence(column("existence")))
    categories = prepared.imputer().categories
    attributes = [
        Field(of, STRING_TYPE if of in categories else DOUBLE_TYPE) for of in settings.attributes
    ]
    kind = alternatives_type(attributes)
    outputs = [*passthrough_outputs(frame, df.columns), Output(ALTERNATIVES, (ALTERNATIVES,), kind)]
    outputs.append(Output(IMPUTED_BY, (IMPUTED_BY,), STRING_TYPE))
    answers = answers_of(outputs)
    for flag in FLAGS:
        answers = answers.add(flag, BooleanType())
    read = df.select("*", *wanted)
    read = without_constraints(read.toDF(*(f"c{i}" for i in range(len(read.columns)))))
    done = read.mapInArrow(_imputer_function(prepared, len(df.columns)), answers)
    observed = _observe(done, metrics_name("impute", name))
    return observed.select(*map(result_of, outputs))


def _imputer_function(prepared: PreparedRepository, own: int):  # type: ignore[no-untyped-def]
    """Return the function that imputes batches, whose first `own` columns belong to the frame."""

    def imputed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        imputer, names = prepared.newest(), (ALTERNATIVES, IMPUTED_BY, *FLAGS)
        values_end = own + len(prepared.settings.names)
        keys_end = values_end + len(prepared.settings.key)
        for batch in batches:
            table = pa.table(batch)
            given = table.column_names
            existence = None
            if len(given) > keys_end:
                existence = numbers_of(table, given[keys_end:])[:, 0]
            keys = table.select(given[values_end:keys_end]) if keys_end > values_end else None
            rows = table.select(list(range(own)))
            values, texts = imputer.values_of(table.columns[own:values_end])
            for part, columns in impute_table(imputer, values, existence, keys, texts):
                whole = rows.slice(part.start, part.stop - part.start)
                for added, cells in zip(names, columns.columns, strict=True):
                    whole = whole.append_column(added, cells)
                yield from whole.to_batches()

    return imputed


def _observe(df: DataFrame, metrics: MetricsName) -> DataFrame:
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
        *(counted(F.col(flag), flag) for flag in FLAGS),
    )
