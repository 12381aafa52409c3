"""Run an operator over tables on frames: buckets, state, metrics, and the users' names.

On the way to an operator the columns of a frame have fixed names, so that no name of a user can
clash with what operators need; on the way back they get their names, types and metadata again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from sfumato.reports import ANSWERS_SUFFIX, IDENTITY
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.buckets import RawRows, raw_rows
from sfumato.spark.crossing.figures import MetricsName
from sfumato.spark.model.columns import arrow_schema, named
from sfumato.spark.model.declared_frame import require_known
from sfumato.spark.runtime.fuse import ChainPlan
from sfumato.spark.runtime.invalid_row_warnings import warn_of_invalid_rows
from sfumato.spark.runtime.lineage import FrameLineage, frame_of, lineage_of, record_lineage
from sfumato.spark.state.bucket_state import run_buckets
from sfumato.spark.static.whole_frames import explode_answers, run_whole
from sfumato.tables.operator import ROW
from sfumato.tables.reading.chain import ChainConfig, Place
from sfumato.tables.reading.job import Job
from sfumato.tables.reading.results import NUMBER, TEXT, TRUTH, WHOLE, ListOf, Output, Struct

BUCKETS = 32  # enough to even out the work of 16 cores, few enough to share accesses to the state
MOST_BUCKETS = 100_000
BUCKETS_SETTING = "spark.sfumato.buckets"  # another number, for larger clusters
ENDS_SETTING = "spark.sfumato.ends"  # streams can end: whether they do in this run; see run_to_end
MAX_COUNTED = 100  # queries whose answers are counted: each is a column of a metric
THAT_END: Counter[str] = Counter()  # how many steps were made of streams that can end
SIDE_SUFFIX = re.compile(r"_(left|right|input)$")  # what metrics of an operator's inputs end in
PARTITIONING = 5  # raised when the state of buckets is kept in another way
SPARK_TYPES: dict[str, DataType] = {
    NUMBER: DoubleType(),
    WHOLE: LongType(),
    TEXT: StringType(),
    TRUTH: BooleanType(),
    "int": IntegerType(),
}
_NUMBERS: Counter[str] = Counter()  # of the operators of each kind so far
_QUERY: ContextVar[tuple[str, Counter[str]] | None] = ContextVar("query", default=None)


def run_operator(job: Job) -> DataFrame:
    """Return the answers of an operator to one or several frames.

    The metrics of an input's invalid rows end in "_input", of two inputs in "_left" and "_right".
    Nothing is started or collected. Of a stream of which rows may be invalid the session is given a
    listener, once, which warns of them. Raises what the config has wrong.
    """
    job.config.check()
    answers = answers_of(job.outputs)
    metrics, order = metrics_name(job.metrics, job.name), job.order
    spark = frame_of(job.inputs[0]).df.sparkSession
    outputs = job.outputs if order is not None else []
    places = {of.name: _place(of, answers, spark) for of in outputs}
    how = FrameLineage(job.inputs, job.config, metrics, job.idle_timeout, places, order, job.late)
    plan = ChainPlan(how)
    buckets = bucket_count(spark)
    sides = raw_rows(plan.selections(), buckets)
    chain = plan.config(sides)
    streams = any(side.frame.isStreaming for side in sides)
    if streams:
        if plan.checks:  # a listener costs every micro-batch of the session
            warn_of_invalid_rows(spark)
        for side in plan.sources:
            require_known(frame_of(side.input).df)
        out = _streamed(sides, plan, chain, buckets)
    else:
        out = run_whole(sides, chain, buckets, answers)
    for name, figures in plan.figures(chain):
        out = out.observe(name, *figures)
    rows = chunks.unpack(out, answers) if streams else explode_answers(out)
    found = rows.select(*map(result_of, job.outputs))
    record_lineage(found, replace(how, fused_with=plan.fused, not_fused_because=plan.last.apart))
    return found


def _place(output: Output, answers: StructType, spark: SparkSession) -> Place:
    """Return where a column of the result lies in the answers."""
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
    packed = [chunks.pack(of.frame, side, chain.tasks) for side, of in enumerate(sides)]
    ends = spark.conf.get(ENDS_SETTING, None)
    if ends is not None:
        from sfumato.spark.state.end_of_stream import end_marks  # needs PySpark 4.2

        packed.append(end_marks(spark, buckets * chain.tasks, ends == "true"))
        THAT_END["made"] += 1
    known = plan.fingerprint() | {"buckets": buckets, "partitioning": PARTITIONING}
    idle = plan.idle_timeout
    milliseconds = None if idle is None else max(1, idle // 1000)
    together = reduce(lambda a, b: a.union(b), packed)
    text = json.dumps(known, sort_keys=True)
    return run_buckets(together, chain, text, milliseconds)


def count_answers(answers: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the answers of a ranking, with the number of each query's answers observed."""
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
    """Return the type of an `Output`, its fields under fixed names or users'."""
    if isinstance(kind, Struct):
        fields = []
        for part in kind.parts:
            of = type_of(part.kind, fixed=fixed)
            if fixed:
                fields.append(StructField(part.fixed or part.name, of))
            else:  # an operator may leave any field out, so that none is NOT NULL
                fields.append(StructField(part.name, of, True, dict(part.metadata or {})))
        return StructType(fields)
    if isinstance(kind, ListOf):
        return ArrayType(type_of(kind.kind, fixed=fixed))
    known: DataType = SPARK_TYPES[kind] if isinstance(kind, str) else kind
    return known


def answers_of(outputs: Sequence[Output]) -> StructType:
    """Return the columns that the operator gives, under fixed names."""
    columns: dict[str, Any] = {}
    for output in outputs:
        first, kind = output.source[0], type_of(output.kind, fixed=True)
        if len(output.source) == 1:
            columns[first] = kind
        else:
            columns.setdefault(first, StructType()).add(output.source[1], kind)
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def cast_of(output: Output) -> DataType | None:
    """Return the type that a column is cast to, with fields under users' names; None for none."""
    if isinstance(output.kind, Struct | ListOf):
        return type_of(output.kind, fixed=False)
    cast: DataType | None = output.cast
    return cast


def result_of(output: Output) -> Column:
    """Return a column of the result, made of the answers."""
    found = reduce(lambda column, field: column[field], output.source[1:], F.col(output.source[0]))
    if output.default is not None:
        found = F.coalesce(found, F.lit(output.default))
    kind = cast_of(output)
    return named(found if kind is None else found.cast(kind), output.name, output.metadata)


def bucket_count(spark: SparkSession) -> int:
    """Return the number of buckets into which keys are hashed: it does not follow cores and
    partitions, so that a checkpoint can continue with others."""
    given = spark.conf.get(BUCKETS_SETTING, str(BUCKETS)) or ""
    if not given.isdecimal() or not 1 <= int(given) <= MOST_BUCKETS:
        raise ValueError(
            f"`{BUCKETS_SETTING}` must be a whole number from 1 to {MOST_BUCKETS}; got {given!r}"
        )
    return int(given)


def metrics_name(operator: str, name: str | None = None) -> MetricsName:
    """Return the name of an operator's observed metrics: sfumato_OPERATOR_NAME.

    Without a name it has that of the query it is made for (see `operators_of`), or a number.
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
    return MetricsName(operator, name, given=True)


@contextmanager
def operators_of(query: str) -> Iterator[None]:
    """Operators without a name that are made in here are named by a query, the second of a kind
    `QUERY__2`, so that metrics keep their names whatever else is in a file."""
    name = re.sub(r"\W", "_", query)
    name += "_" if SIDE_SUFFIX.search(f"_{name}") else ""
    token = _QUERY.set((name, Counter()))
    try:
        yield
    finally:
        _QUERY.reset(token)


@contextmanager
def same_numbers_again(again: bool) -> Iterator[None]:
    """Give operators that are made afterwards the numbers of those made inside, if `again`."""
    before = Counter(_NUMBERS)
    try:
        yield
    finally:
        if again:
            _NUMBERS.clear()
            _NUMBERS.update(before)
