"""Stateless functions of rows over Spark frames, such as split_invalid, where and impute."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, DoubleType, StringType, StructType
from pyspark.sql.window import Window, WindowSpec

from sfumato.operators.arguments import SUM_TOLERANCE
from sfumato.spark.crossing.chunks import MetricsName
from sfumato.spark.model.alternatives import existence
from sfumato.spark.model.columns import column, computed, table_of, with_alias, without_constraints
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.repository import PreparedRepository
from sfumato.spark.model.untrusted_sql import check_expression
from sfumato.spark.runtime.run import answers_of, metrics_name, result_of, warn_of_invalid_rows
from sfumato.sql_tokens import quote_name
from sfumato.tables.arrow import numbers_of
from sfumato.tables.imputation.discovery_query import AttributeRanges, valued_columns, warn_of_gaps
from sfumato.tables.imputation.imputation_arguments import IMPUTED_BY
from sfumato.tables.imputation.repositories import ImputationSettings
from sfumato.tables.imputation.table_imputation import (
    FLAGS,
    UNIMPUTABLE,
    impute_table,
    imputed_outputs,
)
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.alternatives import fused, pruned
from sfumato.tables.reading.frame import EXISTENCE, Names, error_of
from sfumato.tables.reading.job import filtered_metadata, union_metadata
from sfumato.tables.reading.results import passthrough_outputs
from sfumato.tables.reading.tuples import ALTERNATIVES, CONFLICT, PRUNED
from sfumato.tables.reading.user_warnings import ASSUMED_KEY, SAME_REVISION, warn_of_left_out
from sfumato.tables.reading.validity import (
    RULE_ABOVE_ONE,
    check_attributes,
    generalize_reason,
    invalid_radius_reason,
    require_order,
    why_invalid,
    why_invalid_after_filter,
)
from sfumato.tables.reading.worlds import Draw, Merge

LEFT = "__left"  # the alternatives that satisfy the condition
REASON_COLUMN = "__reason"  # why a row is invalid
NEWER = "__newer"  # the rows to be merged


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
    df, most = frame.df, frame.max_alternatives
    wanted = check_attributes(frame, attributes)
    bounds = bounds_of(metric, wanted)

    def why(rows: pa.Array) -> pa.Array:
        return why_invalid(table_of(rows), wanted, bounds=bounds, max_alternatives=most).column()

    read = [name for name in (ALTERNATIVES, EXISTENCE) if name in frame.columns]
    read = read[:1] if frame.uncertain else list(dict.fromkeys([*read, *(wanted or ())]))
    reason = computed(why, StringType(), *map(column, read)) if read else F.lit(None)
    reasons = [reason.cast("string")]
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
    # Spark accepts window functions, which `exclusive` needs, only as columns.
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
    condition = check_expression(
        "condition", condition, df.sparkSession, frame.quoting_hint(condition)
    )
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
            known = {generalize_reason(each) for each in found.unique().to_pylist() if each}
            warn_of_left_out(("where", each) for each in known)
        return found

    reason = computed(reasons, StringType(), F.col(ALTERNATIVES), left.alias("kept"))
    df = df.withColumn(LEFT, _filtered_alternatives(frame, condition))
    counted = _count_invalid(df, reason, metrics_name("where", name))
    some = counted.where(left & F.col(REASON_COLUMN).isNull())
    kept = with_alias(F.col(LEFT), ALTERNATIVES, filtered_metadata(frame, condition))
    return some.withColumn(ALTERNATIVES, kept).drop(LEFT, REASON_COLUMN)


def _filtered_alternatives(frame: SparkFrame, condition: str) -> Column:
    """Return the alternatives that satisfy a condition."""
    bound = frame.bind_attributes(condition, "({}\n)", "exists({}, {})")
    return F.expr(f"filter({quote_name(ALTERNATIVES)}, `:a` -> {bound})")


def _count_invalid(df: DataFrame, reason: Column, metrics: MetricsName) -> DataFrame:
    """Return the rows with the reasons why they are invalid.

    The number of rows, the number of invalid rows, and the most common reason are observed.
    """
    if df.isStreaming:
        warn_of_invalid_rows(df.sparkSession)
    invalid = F.col(REASON_COLUMN).isNotNull()
    kind = F.regexp_replace(REASON_COLUMN, r" sum to \S+$", " sum to more than 1")
    return df.withColumn(REASON_COLUMN, reason).observe(
        f"{metrics}_input",
        *metrics.identity("input"),
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(invalid.cast("long")), F.lit(0)).alias("invalid"),
        F.mode(F.when(invalid, kind)).alias("reason"),
    )


def prune(frame: SparkFrame, min_prob: float, top: int, normalize: bool) -> DataFrame:
    given, kind = F.col(ALTERNATIVES), frame.type(ALTERNATIVES)
    if normalize and not isinstance(frame.attribute_type("prob"), DoubleType):
        given = F.transform(given, lambda a: a.withField("prob", a["prob"].cast("double")))
        kind = frame.df.select(given).schema[0].dataType

    def function(rows: pa.Array) -> pa.Array:
        return pruned(rows.field(0), min_prob, top, normalize)

    marks = filtered_metadata(frame, f"prune({min_prob}, {top}, {normalize})")
    return _replace_alternatives(frame, function, [given], kind, PRUNED, marks)


def fuse(frame: SparkFrame, measurements: Sequence[str]) -> DataFrame:
    names = frame.common_attributes(measurements)
    frame.group_columns("measurements", measurements)  # raises for values with a collation
    kind = StructType().add("prob", DoubleType())
    for name in names:
        kind = kind.add(name, frame.attribute_type(name, measurements[0]))

    def function(rows: pa.Array) -> pa.Array:
        return fused(rows.flatten(), names)

    given = [*map(column, measurements)]
    return _replace_alternatives(frame, function, given, ArrayType(kind), CONFLICT)


def _replace_alternatives(
    frame: SparkFrame,
    function: Callable[[pa.Array], pa.Array],
    read: Sequence[Column],
    kind: DataType,
    added: str,
    marks: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the frame with new alternatives and an added column of doubles.

    function : takes structs of `read`, returns structs of the alternatives and the added column
    kind : type of the alternatives
    marks : metadata added to replaced alternatives
    """
    name = frame.free_name("__both")
    both = computed(function, StructType().add(ALTERNATIVES, kind).add(added, DoubleType()), *read)
    columns = {of: column(of) for of in frame.columns}
    metadata = {**frame.metadata(ALTERNATIVES), **(marks or {})} if frame.uncertain else None
    columns[ALTERNATIVES] = with_alias(F.col(name)[ALTERNATIVES], ALTERNATIVES, metadata)
    columns[added] = F.col(name)[added].alias(added)
    return frame.df.withColumn(name, both).select(*columns.values())


def impute(
    frame: SparkFrame, settings: ImputationSettings, prepared: PreparedRepository, name: str | None
) -> DataFrame:
    df = frame.df
    attributes = frame.resolve("attributes", settings.names)
    wanted = _values(frame, attributes)
    wanted += [column(n) for n in frame.resolve("key", settings.key)]
    if "existence" in df.columns:
        wanted.append(column("existence").cast("double"))
    imputed = imputed_outputs(settings.attributes, prepared.imputer().categories, frame)
    outputs = [*passthrough_outputs(frame, df.columns), *imputed]
    function = _imputer_function(prepared, len(df.columns))
    done = _renamed(df.select("*", *wanted)).mapInArrow(function, answers_of(outputs))
    metrics, by = metrics_name("impute", name), F.col(IMPUTED_BY)
    unimputable = F.coalesce(by.startswith(UNIMPUTABLE), F.lit(False))
    counted = {
        "complete": by.isNull(),
        "imputed": by.isNotNull() & ~unimputable,
        "unimputable": unimputable,
        **{flag: F.col(flag) for flag in FLAGS},
    }
    observed = done.observe(
        metrics,
        *metrics.identity(),
        F.count(F.lit(1)).alias("rows"),
        *(F.coalesce(F.sum(of.cast("long")), F.lit(0)).alias(n) for n, of in counted.items()),
    )
    return observed.select(*map(result_of, outputs[: -len(FLAGS)]))


def _imputer_function(prepared: PreparedRepository, own: int):  # type: ignore[no-untyped-def]
    """Return the function that imputes batches, whose first `own` columns belong to the frame."""

    def imputed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        imputer, added = prepared.newest(), (ALTERNATIVES, IMPUTED_BY, *FLAGS)
        values_end = own + len(prepared.settings.names)
        keys_end = values_end + len(prepared.settings.key)
        for batch in batches:
            table = pa.table(batch)
            names = table.column_names
            values, texts = imputer.values_of(table.columns[own:values_end])
            keys = table.select(names[values_end:keys_end]) if prepared.settings.key else None
            weights = names[keys_end:]
            existence = numbers_of(table, weights)[:, 0] if weights else None
            for part, columns in impute_table(imputer, values, existence, keys, texts):
                rows = table.select(names[:own]).slice(part.start, part.stop - part.start)
                cells = [*rows.columns, *columns.columns]
                yield from pa.Table.from_arrays(cells, [*names[:own], *added]).to_batches()

    return imputed


def _values(frame: SparkFrame, names: Sequence[str]) -> list[Column]:
    """Return columns as doubles, or as strings if they are strings."""
    return [column(n) if frame.kind(n) == "text" else column(n).cast("double") for n in names]


def rows_of(frame: SparkFrame, wanted: Sequence[str], key: Sequence[str] = ()) -> pa.Table:
    """Collect columns as doubles or strings, and the key unchanged. Raises for missing columns."""
    cells = _values(frame, frame.resolve("repository", list(wanted)))
    named = [cell.alias(name) for cell, name in zip(cells, wanted, strict=True)]
    return frame.df.select(*named, *(column(name).alias(name) for name in key)).toArrow()


def complete_rows(
    frame: SparkFrame, asked: Sequence[str], max_rows: int, seed: int
) -> tuple[pa.Table, AttributeRanges] | None:
    """Return at most `max_rows` complete rows, and the columns' ranges over all complete rows.

    Returns None for fewer than two rows or columns.
    """
    rows = frame.df.select(*(column(name).cast("double").alias(name) for name in asked))
    # In Spark, NaN is greater than every number.
    finite = {name: F.abs(column(name)) < float("inf") for name in asked}
    counted = rows.agg(F.count(F.lit(1)), *(F.count_if(each) for each in finite.values())).first()
    assert counted is not None
    total, known = counted[0], dict(zip(asked, counted[1:], strict=True))
    wanted = valued_columns(asked, known)
    rows = rows.select(*map(column, wanted))
    for name in wanted:
        rows = rows.where(finite[name])
    if len(wanted) < 2:
        warn_of_gaps(wanted, known, total, 0)
        return None
    ends = rows.agg(
        F.count(F.lit(1)), *(end(column(name)) for name in wanted for end in (F.min, F.max))
    ).first()
    assert ends is not None
    warn_of_gaps(wanted, known, total, ends[0])
    if ends[0] < 2:
        return None
    pairs = zip(wanted, ends[1::2], ends[2::2], strict=True)
    extents = {name: (low, (high - low) or 1.0) for name, low, high in pairs}
    hashed = F.xxhash64(F.lit(seed), *(column(name) for name in wanted))
    return rows_of(SparkFrame(rows.orderBy(hashed).limit(max_rows)), wanted), extents


def _renamed(df: DataFrame) -> DataFrame:
    """Return the frame with the column names c0, c1, ..., for a function over Arrow batches."""
    return without_constraints(df.toDF(*(f"c{i}" for i in range(len(df.columns)))))


def draw_worlds(frame: SparkFrame, draw: Draw, name: str | None) -> DataFrame:
    df = frame.df
    read = [name for name in (ALTERNATIVES, EXISTENCE, *draw.ids) if name in frame.columns]

    def reasons(rows: pa.Array) -> pa.Array:
        return draw.why_invalid(table_of(rows)).column()

    reason = computed(reasons, StringType(), *map(column, dict.fromkeys(read)))
    counted = _count_invalid(df, reason, metrics_name("draw_worlds", name))
    valid = counted.where(F.col(REASON_COLUMN).isNull()).drop(REASON_COLUMN)
    outputs, columns = draw.outputs(frame), list(frame.columns)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in draw.parts(pa.table(batch).rename_columns(columns)):
                yield from part.to_batches()

    drawn = _renamed(valid).mapInArrow(rows, answers_of(outputs))
    return drawn.select(*map(result_of, outputs))


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

    def outcome(of: Column) -> Column:
        values = (of["v"][f"v{i}"].alias(name) for i, name in enumerate(merge.columns))
        return F.struct(share(of["n"]).alias("prob"), *values)

    answer = F.transform("v", outcome) if merge.columns else share(F.size("w"))
    unknown = (F.array_min("w") < 0) | (F.array_max("w") >= merge.worlds)
    twice = F.size("w") != F.size(F.array_distinct("w"))
    errors = F.lit(merge.unknown_world_error), F.lit(merge.duplicate_answer_error)
    checked = F.when(unknown, F.raise_error(errors[0])).when(twice, F.raise_error(errors[1]))
    result = [*map(F.col, keys), checked.otherwise(answer), F.lit(error_of(merge.worlds))]
    named = zip(result, merge.outputs(frame), strict=True)
    return found.select(*(with_alias(of, out.name, out.metadata) for of, out in named))


def assume_independent(frame: SparkFrame, columns: Sequence[str]) -> DataFrame:
    """Implement `assume_independent` for a Spark frame: mark the columns."""
    mark = {ASSUMED_KEY: "true"}
    marked = {n: with_alias(column(n), n, {**frame.metadata(n), **mark}) for n in columns}
    return frame.df.select(*(marked.get(name, column(name)) for name in frame.columns))


def union(
    df: SparkFrame, other: SparkFrame, metadata: Mapping[str, Mapping[str, Any]]
) -> DataFrame:
    """Implement `union` for Spark frames. metadata : of the result's columns"""
    return with_metadata(df.df.unionByName(other.df), [metadata[name] for name in df.columns])


def mark_union(df: DataFrame, parts: Sequence[DataFrame]) -> DataFrame:
    """Return a union by Spark with the metadata of `sf.union`; Spark keeps the first part's."""
    frames = [SparkFrame(part) for part in parts]
    names = zip(*(frame.columns for frame in frames), strict=True)
    return with_metadata(df, union_metadata(frames, names))


def with_metadata(df: DataFrame, metadata: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return a frame with this metadata of its columns, whose names need not be unique."""
    places = list(map(str, range(len(metadata))))
    cells = []
    for place, field, of in zip(places, df.schema.fields, metadata, strict=True):
        # An alias without metadata would keep its column's, so it is given an expression.
        is_new = of or not field.metadata
        cells.append(with_alias(column(place) if is_new else F.coalesce(place), field.name, of))
    return df.toDF(*places).select(*cells)


def concatenate(parts: Sequence[tuple[DataFrame, Mapping[str, str]]]) -> DataFrame:
    """Return the union of results, each with leading columns of constant strings."""
    labelled = (
        df.select(*(F.lit(text).alias(name) for name, text in texts.items()), "*")
        for df, texts in parts
    )
    return reduce(lambda a, b: a.union(b), labelled)


def newest_rows(frame: SparkFrame, by: Sequence[str]) -> DataFrame:
    """Implement `newest_revisions` for a Spark frame. by : key columns and the window"""
    df = frame.df
    rows, revision = F.struct(*map(column, df.columns)), column("revision")
    twice = F.count_distinct(revision) < F.count(revision)
    newest = F.when(twice, F.raise_error(F.lit(SAME_REVISION))).otherwise(F.max_by(rows, revision))
    return df.groupBy(*map(column, by)).agg(newest.alias(NEWER)).select(f"{NEWER}.*")


def merge_newer(rows: DataFrame, table: str, keys: Sequence[str]) -> None:
    """Merge rows into a table with one row per key and window, but replace only older revisions."""
    same = [f"{table}.{name} <=> {NEWER}.{name}" for name in map(quote_name, [*keys, "window"])]
    newer = f"{table}.revision < {NEWER}.revision"
    merge = rows.alias(NEWER).mergeInto(table, F.expr(" AND ".join(same)))
    merge.whenMatched(F.expr(newer)).updateAll().whenNotMatched().insertAll().merge()
