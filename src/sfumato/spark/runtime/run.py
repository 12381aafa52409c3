"""Execution of operators on frames: buckets, state, metrics, and user names.

Upstream of an operator, columns have fixed names, so that no user name clashes with an operator's
names. Downstream, their names, types and metadata are restored.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from sfumato.reports import (
    ANSWERS_SUFFIX,
    IDENTITY,
    METRIC_PREFIX,
    add_listener,
    is_connect,
    metrics_of,
)
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.chunks import MetricsName, RawRows, raw_rows
from sfumato.spark.crossing.whole_frames import ANSWERS_COLUMN, run_whole
from sfumato.spark.model.columns import arrow_schema, with_alias
from sfumato.spark.model.declared_frame import require_known
from sfumato.spark.runtime.fuse import ChainPlan, FrameLineage, frame_of, lineage_of, record_lineage
from sfumato.spark.state.bucket_state import run_buckets
from sfumato.tables.operator import ROW
from sfumato.tables.reading.chain import ChainConfig, Place
from sfumato.tables.reading.job import Job
from sfumato.tables.reading.results import ListOf, Output, Struct
from sfumato.tables.reading.user_warnings import InvalidRowsWarning, warn_user

DEFAULT_BUCKETS = 32  # enough to balance 16 cores, few enough to share state accesses
MAX_BUCKETS = 100_000
BUCKETS_SETTING = "spark.sfumato.buckets"  # number of buckets, for larger clusters
STORE_SETTING, ROCKSDB = "spark.sql.streaming.stateStore.providerClass", "RocksDB"
ENDS_SETTING = "spark.sfumato.ends"  # set if streams can end: whether they end in this run
MAX_COUNTED = 100  # maximum number of queries whose answers are counted, in one column per query
# If it is true, Spark runs a query with an idle timeout forever, even with `availableNow`.
EMPTY_BATCHES_SETTING = "spark.sql.streaming.noDataMicroBatches.enabled"
STREAM_STEPS: Counter[str] = Counter()  # steps on streams: "ending", that can end; "idle"
SIDE_SUFFIX = re.compile(r"_(left|right|input)$")  # suffixes of input metrics
PARTITIONING = 7  # incremented when the layout of bucket state changes
_NUMBERS: Counter[str] = Counter()  # number of operators so far, by kind
_QUERY: ContextVar[tuple[str, Counter[str]] | None] = ContextVar("query", default=None)


def run_operator(job: Job) -> DataFrame:
    """Return an operator's answers to one or two frames. Raises errors of an invalid config.

    Names of metrics about invalid rows end in "_input", or in "_left" and "_right" for two inputs.
    No query is started or collected. If stream rows may be invalid, one listener that warns about
    them is added to the session.
    """
    job.config.check()
    for given in job.inputs:
        frame_of(given).check_passed(given.reading.passthrough)
    answers = answers_of(job.outputs)
    spark = frame_of(job.inputs[0]).df.sparkSession
    job = replace(job, config=job.config.typed(lambda: arrow_schema(answers, spark)))
    outputs = job.outputs if job.order is not None else []
    places = {of.name: _place(of, answers, spark) for of in outputs}
    how = FrameLineage(job, metrics_name(job.metrics, job.name), places)
    plan = ChainPlan(how)
    buckets = bucket_count(spark)
    sides = raw_rows(plan.selections(), buckets)
    streams = any(side.frame.isStreaming for side in sides)
    chain = plan.config(sides, streams)
    if streams:
        if plan.checks:  # a listener adds a cost to every micro-batch of the session
            warn_of_invalid_rows(spark)
        for side in plan.sources:
            require_known(frame_of(side.input).df)
        out = _streamed(sides, plan, chain, buckets)
    else:
        out = run_whole(sides, chain, buckets, answers)
    for name, columns in plan.observed_metrics(chain):
        out = out.observe(name, *columns)
    rows = chunks.unpack(out, answers) if streams else out.select(F.inline(ANSWERS_COLUMN))
    found = rows.select(*map(result_of, job.outputs))
    record_lineage(
        found, replace(how, fused_with=plan.fused, not_fused_because=plan.last.not_fused_because)
    )
    return found


def _place(output: Output, answers: StructType, spark: SparkSession) -> Place:
    """Return the position of a result column in the answers."""
    path = output.source[1:] if output.source[0] == ROW else output.source
    given: Any = answers
    for name in output.source:
        given = given[name].dataType
    cast, kind = cast_of(output), None
    if cast is not None and cast.simpleString() != given.simpleString():
        kind = arrow_schema(StructType().add("of", cast), spark).field("of").type
    return Place(path, kind=kind)


def _streamed(
    sides: Sequence[RawRows], plan: ChainPlan, chain: ChainConfig, buckets: int
) -> DataFrame:
    """Return chunks of answers to streams, with counters and gauges."""
    spark = sides[0].frame.sparkSession
    _warn_of_state_store(spark)
    packed = [chunks.pack(of.frame, side, chain.tasks) for side, of in enumerate(sides)]
    ends = spark.conf.get(ENDS_SETTING, None)
    if ends is not None:
        from sfumato.spark.state.end_of_stream import end_marks  # needs PySpark 4.2

        packed.append(end_marks(spark, buckets * chain.tasks, ends == "true"))
        STREAM_STEPS["ending"] += 1
    known = plan.fingerprint() | {"buckets": buckets, "partitioning": PARTITIONING}
    idle = plan.idle_timeout
    milliseconds = None if idle is None else max(1, idle // 1000)
    if idle is not None:
        STREAM_STEPS["idle"] += 1
        if ends is not None:
            spark.conf.set(EMPTY_BATCHES_SETTING, "false")
    together = reduce(lambda a, b: a.union(b), packed)
    text = json.dumps(known, sort_keys=True)
    return run_buckets(together, chain, text, milliseconds)


def _warn_of_state_store(spark: SparkSession) -> None:
    """Warn if the session's state store has no keys with several values, which operators need."""
    store = spark.conf.get(STORE_SETTING, ROCKSDB) or ""
    if ROCKSDB not in store:
        warn_user(
            f"streams need Spark's state store {ROCKSDB}, but this session uses "
            f"{store.split('.')[-1]}: create the session with sf.configure(SparkSession.builder), "
            "or set the settings in sf.ops.settings() with spark.conf.set before you start the "
            "query"
        )


def count_answers(answers: DataFrame, names: Sequence[str]) -> DataFrame:
    """Observe the number of a ranking's answers per query; return the answers."""
    how = lineage_of(answers)
    assert how is not None
    if len(names) > MAX_COUNTED:
        return answers
    first = F.col("rank") == 1  # every answer has a first row
    shown = {name: f"{name}_" if name in IDENTITY else name for name in names}
    each = [F.count_if(first & (F.col("query") == name)).alias(shown[name]) for name in names]
    whose = how.metrics.identity(ANSWERS_SUFFIX)
    counted = answers.observe(f"{how.metrics}_{ANSWERS_SUFFIX}", *whose, *each)
    record_lineage(counted, how)
    return counted


def type_of(kind: Any, *, fixed: bool) -> DataType:
    """Return the Spark type of an `Output` kind, with fixed or user names for its fields.

    All its parts are nullable: on streams, Spark loses which are not, and casts to them would fail.
    """
    if isinstance(kind, Struct):
        fields = []
        for part in kind.parts:
            of = type_of(part.kind, fixed=fixed)
            if fixed:
                fields.append(StructField(part.fixed or part.name, of))
            else:  # an operator may omit any field, so every field is nullable
                fields.append(StructField(part.name, of, True, dict(part.metadata or {})))
        return StructType(fields)
    if isinstance(kind, ListOf):
        return ArrayType(type_of(kind.kind, fixed=fixed))
    known: DataType = from_arrow_type(kind) if isinstance(kind, pa.DataType) else kind
    return known.toNullable() if isinstance(known, ArrayType | MapType | StructType) else known


def answers_of(outputs: Sequence[Output]) -> StructType:
    """Return the columns of the operator's answers, under fixed names."""
    columns: dict[str, Any] = {}
    for output in outputs:
        first, kind = output.source[0], type_of(output.kind, fixed=True)
        if len(output.source) == 1:
            columns[first] = kind
        else:
            struct = columns.setdefault(first, StructType())
            if output.source[1] not in struct.names:  # the whole struct may also be a result
                struct.add(output.source[1], kind)
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def cast_of(output: Output) -> DataType | None:
    """Return the type to which a column is cast, with user names for its fields, or None."""
    if isinstance(output.kind, Struct | ListOf):
        return type_of(output.kind, fixed=False)
    cast: DataType | None = output.cast
    return cast


def result_of(output: Output) -> Column:
    """Return a result column, computed from the answers."""
    found = reduce(lambda column, field: column[field], output.source[1:], F.col(output.source[0]))
    if output.default is not None:
        found = F.coalesce(found, F.lit(output.default))
    kind = cast_of(output)
    return with_alias(found if kind is None else found.cast(kind), output.name, output.metadata)


def bucket_count(spark: SparkSession) -> int:
    """Return the number of key buckets, which is independent of cores and partitions."""
    given = spark.conf.get(BUCKETS_SETTING, str(DEFAULT_BUCKETS)) or ""
    if not given.isdecimal() or not 1 <= int(given) <= MAX_BUCKETS:
        raise ValueError(
            f"`{BUCKETS_SETTING}` must be an integer from 1 to {MAX_BUCKETS}; got {given!r}"
        )
    return int(given)


def metrics_name(operator: str, name: str | None = None) -> MetricsName:
    """Return the name of an operator's observed metrics: sfumato_OPERATOR_NAME.

    Without a given name, NAME is the query of `operators_of`, or a number.
    """
    query = _QUERY.get()
    if name is None and query is not None:
        of, numbers = query
        numbers[operator] += 1
        again = f"__{numbers[operator]}" if numbers[operator] > 1 else ""
        return MetricsName(operator, f"{of}{again}")
    if name is None:
        _NUMBERS[operator] += 1
        return MetricsName(operator, str(_NUMBERS[operator]))
    return MetricsName(operator, name, is_chosen=True)


@contextmanager
def operators_of(query: str) -> Iterator[None]:
    """Name operators created in this context after a query; the second of a kind is `QUERY__2`.

    Metrics then keep their names when other parts of a pipeline file change.
    """
    name = re.sub(r"\W", "_", query)
    name += "_" if SIDE_SUFFIX.search(f"_{name}") else ""
    token = _QUERY.set((name, Counter()))
    try:
        yield
    finally:
        _QUERY.reset(token)


@contextmanager
def reuse_numbers(again: bool) -> Iterator[None]:
    """Let later operators reuse the numbers of operators created in this context, if `again`."""
    before = Counter(_NUMBERS)
    try:
        yield
    finally:
        if again:
            _NUMBERS.clear()
            _NUMBERS.update(before)


# "false" disables warnings. It is the default under Spark Connect, where warnings require polling
# the server during the lifetime of the client.
WARN_INVALID_SETTING = "spark.sfumato.warnInvalid"
INPUTS = ("input", "left", "right")  # the sides of an operator that are its inputs
SPLIT_INVALID_HINT = (
    "sf.split_invalid(df) finds rows with invalid alternatives or existence; given the operator's "
    "value columns, key= and order=, it also finds rows with a missing value, key or order"
)
_LISTENING = "_sfumato_listener"  # attribute of a session that has a listener


def warn_of_invalid_rows(spark: SparkSession) -> None:
    """Make a session's streaming queries warn about invalid rows from now on; idempotent."""
    default = "false" if is_connect(spark) else "true"
    if hasattr(spark, _LISTENING) or spark.conf.get(WARN_INVALID_SETTING, default) == "false":
        return
    setattr(spark, _LISTENING, add_listener(spark, InvalidRows()))


class InvalidRows(StreamingQueryListener):
    """Listener that warns once per operator input in each run of a query."""

    def __init__(self) -> None:
        self.warned: set[tuple[str, str]] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for metric, counts in metrics_of(event.progress).items():
            rejected, invalid = counts.get("rejected"), counts.get("invalid")
            if rejected:
                text = above_one_text(metric, rejected)
            elif invalid and counts.get("side") in INPUTS:
                text = invalid_rows_text(metric, counts["rows"], invalid, counts.get("reason"))
            else:
                continue
            of = (str(event.progress.runId), metric)
            if of not in self.warned:
                self.warned.add(of)
                warnings.warn(text, InvalidRowsWarning, stacklevel=1)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.warned = {of for of in self.warned if of[0] != str(event.runId)}


def above_one_text(metric: str, rejected: int) -> str:
    """Return the warning about rows whose rule has a total probability above 1."""
    return (
        f"{metric.removeprefix(METRIC_PREFIX)}: {rejected} rows were left out, because the "
        "probabilities of their rule sum to more than 1 in a window; further rows are only "
        f"counted, by the metric {metric} (`rejected`). Give rescale=True (SQL: RULES column "
        "RESCALE) to scale the probabilities instead; sf.split_invalid(df, exclusive=..., "
        "order=...) finds such rows in a static frame"
    )


def invalid_rows_text(metric: str, rows: int, invalid: int, why: str | None = None) -> str:
    """Return the warning about a micro-batch's invalid rows. why : the most common reason"""
    commonest = "" if why is None else f" (the most common reason: {why})"
    return (
        f"{metric.removeprefix(METRIC_PREFIX)}: {invalid} of {rows} rows ({invalid / rows:.1%}) of "
        f"a micro-batch were left out as invalid{commonest}; further rows are only counted, by the "
        f"metric {metric}. {SPLIT_INVALID_HINT}"
    )
