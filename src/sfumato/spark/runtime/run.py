"""Run an operator over tables on frames: buckets, state, metrics, and the users' names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.figures import MetricsName
from sfumato.spark.crossing.raw_rows import RawRows, raw_rows
from sfumato.spark.model.arrow_types import arrow_schema
from sfumato.spark.model.declared_frame import require_known
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import Result
from sfumato.spark.model.outputs import answers_of, results_of
from sfumato.spark.runtime.fuse import ChainPlan
from sfumato.spark.runtime.invalid_row_warnings import warn_of_invalid_rows
from sfumato.spark.runtime.lineage import Input, Made, remember
from sfumato.spark.state.buckets import run_buckets
from sfumato.spark.static.whole_frames import answers_alone, run_whole
from sfumato.tables.operator import ROW
from sfumato.tables.reading.chain import ChainConfig, Place
from sfumato.tables.reading.job import Input as JobInput
from sfumato.tables.reading.job import Job

BUCKETS = 32  # enough to even out the work of 16 cores, few enough to share accesses to the state
MOST_BUCKETS = 100_000
BUCKETS_SETTING = "spark.sfumato.buckets"  # another number, for larger clusters
ENDS_SETTING = "spark.sfumato.ends"  # streams can end: whether they do in this run; see run_to_end
THAT_END: Counter[str] = Counter()  # how many steps were made of streams that can end
SIDE = re.compile(r"_(left|right|input)$")  # what metrics of an operator's inputs end in
PARTITIONING = 4  # raised when the state of buckets is kept in another way
_NUMBERS: Counter[str] = Counter()  # of the operators of each kind so far
_QUERY: ContextVar[tuple[str, Counter[str]] | None] = ContextVar("query", default=None)


def run_operator(job: Job) -> DataFrame:
    """Return the answers of an operator to one or several frames.

    The metrics of an input's invalid rows end in "_input", of two inputs in "_left" and "_right".
    Nothing is started or collected. Of a stream of which rows may be invalid the session is given a
    listener, once, which warns of them. Raises what the config has wrong.
    """
    job.config.make()
    answers, results = answers_of(job.outputs), results_of(job.outputs)
    metrics, order = metrics_name(job.metrics, job.name), job.order
    inputs = [_input(one) for one in job.inputs]
    spark = inputs[0].frame.sparkSession
    places = {of.name: _place(of, answers, spark) for of in results} if order is not None else {}
    how = Made(inputs, job.config, metrics, job.idle_timeout, places, order, job.late)
    plan = ChainPlan(how)
    buckets = bucket_count(spark)
    sides = raw_rows(plan.wanted(), buckets)
    chain = plan.config(sides)
    streams = any(side.frame.isStreaming for side in sides)
    if streams:
        if plan.checks:  # a listener costs every micro-batch of the session
            warn_of_invalid_rows(spark)
        for side in plan.sources:
            require_known(side.input.frame)
        out = _streamed(sides, plan, chain, buckets)
    else:
        out = run_whole(sides, chain, buckets, answers)
    for name, figures in plan.figures(chain):
        out = out.observe(name, *figures)
    rows = chunks.unpack(out, answers) if streams else answers_alone(out)
    found = rows.select(*(of.column for of in results))
    remember(found, replace(how, together=plan.together, apart=plan.last.apart))
    return found


def _input(one: JobInput) -> Input:
    frame = one.frame
    assert isinstance(frame, SparkFrame)
    return Input(frame.df, one.reading, one.about, one.computed, one.bucket, one.light)


def _place(result: Result, answers: StructType, spark: SparkSession) -> Place:
    """Return where a column of the result lies in the answers."""
    path = result.source[1:] if result.source[0] == ROW else result.source
    given: DataType = answers
    for name in result.source:
        assert isinstance(given, StructType)
        given = given[name].dataType
    kind = None
    if result.kind is not None and result.kind.simpleString() != given.simpleString():
        kind = arrow_schema(StructType().add("of", result.kind), spark).field("of").type
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


def bucket_count(spark: SparkSession) -> int:
    """Into how many buckets keys are hashed: the same whatever the cores and partitions are, so
    that a checkpoint may go on with others."""
    given = spark.conf.get(BUCKETS_SETTING, str(BUCKETS)) or ""
    if not given.isdecimal() or not 1 <= int(given) <= MOST_BUCKETS:
        raise ValueError(
            f"`{BUCKETS_SETTING}` must be a whole number from 1 to {MOST_BUCKETS}; got {given!r}"
        )
    return int(given)


def metrics_name(operator: str, name: str | None = None) -> MetricsName:
    """Return the name of an operator's observed metrics: sfumato_OPERATOR_NAME.

    Without a name it has that of the query it is made for (see `operators_of`), or a number.

    Raises TypeError or ValueError for a name that is not made of letters, digits and `_`.
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
    if not isinstance(name, str):
        raise TypeError(f"`name` must be text; got {name!r}")
    if not re.fullmatch(r"\w+", name):
        raise ValueError(f"`name` must be made of letters, digits and `_`; got {name!r}")
    return MetricsName(operator, name, given=True)


@contextmanager
def operators_of(query: str) -> Iterator[None]:
    """Operators without a name that are made in here are named by a query, the second of a kind
    `QUERY__2`, so that metrics keep their names whatever else is in a file."""
    name = re.sub(r"\W", "_", query)
    name += "_" if SIDE.search(f"_{name}") else ""
    token = _QUERY.set((name, Counter()))
    try:
        yield
    finally:
        _QUERY.reset(token)


@contextmanager
def same_numbers_again(again: bool) -> Iterator[None]:
    """Operators made behind this have the numbers of those made in here, if `again`."""
    before = Counter(_NUMBERS)
    try:
        yield
    finally:
        if again:
            _NUMBERS.clear()
            _NUMBERS.update(before)
