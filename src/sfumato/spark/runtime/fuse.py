"""Fusion of operators that read each other's answers in the same buckets into one Spark step.

A frame's lineage, the operator that created it, is kept as long as the frame exists. A method
called on the frame creates a new frame without lineage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, DoubleType, LongType, StructType

from sfumato.spark.crossing.chunks import MetricsName, OperatorMetrics, RawRows, SelectedColumns
from sfumato.spark.model.columns import arrow_schema, column
from sfumato.spark.model.frame import SparkFrame
from sfumato.sql_tokens import free_name
from sfumato.tables.reading.chain import (
    READ_COUNTERS,
    REASONS_NAME,
    ChainConfig,
    ChainStep,
    Condition,
    Feed,
    Path,
    Place,
    prefix,
)
from sfumato.tables.reading.frame import LATE
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.layout import InputLayout
from sfumato.tables.reading.rows import Column as ColumnReading
from sfumato.tables.reading.rows import Reading, Ties

COPIED_COLUMN = re.compile(r"(c|key)(\d+)")  # names of copied input columns in the answers
STRUCT_NUMBERS = ("mean", "stddev", "existence")  # fields of results that are never NaN


def frame_of(one: Input) -> SparkFrame:
    assert isinstance(one.frame, SparkFrame)
    return one.frame


def bucket_key(one: Input) -> list[str]:
    """Return the columns that determine which rows share an operator."""
    key = one.reading.key
    return [*key] if one.bucket is None else [key[i] for i in one.bucket]


@dataclass(frozen=True)
class FrameLineage:
    """The operator that created a frame.

    columns : positions of the frame's columns in the answers; empty if the job has no order
    where : conditions that select the frame's answers
    fused_with : the operators that run in the same step
    not_fused_because : the reasons why other operators run in separate steps
    first_use : the `first_use` of the first operator that reads the answers in the same step
    """

    job: Job
    metrics: MetricsName
    columns: Mapping[str, Place]
    where: tuple[Condition, ...] = ()
    fused_with: Sequence[str] = ()
    not_fused_because: Sequence[str] = ()
    first_use: list[Any] = field(default_factory=list, repr=False, compare=False)

    def is_first_use(self, by: FrameLineage) -> bool:
        """Return whether `by` is the first operator that reads the answers in the same step."""
        if not self.first_use:
            self.first_use.append(by.first_use)
        return self.first_use[0] is by.first_use

    def origin(self, name: str) -> str | None:
        """Return the input column that a column of the frame copies unchanged, or None."""
        place = self.columns.get(name)
        reading = self.job.inputs[0].reading
        if place is None or len(place.path) > 1 or place.cast:
            return None
        found = COPIED_COLUMN.fullmatch(place.path[0])
        if found is None:
            return None
        return (reading.passthrough if found[1] == "c" else reading.key)[int(found[2])]


_LINEAGES: WeakKeyDictionary[DataFrame, FrameLineage] = WeakKeyDictionary()


def record_lineage(frame: DataFrame, how: FrameLineage | None) -> None:
    if how is not None:
        _LINEAGES[frame] = how


def lineage_of(frame: DataFrame) -> FrameLineage | None:
    """Return a frame's lineage, or None if no operator created the frame."""
    return _LINEAGES.get(frame)


def describe_fusion(frame: DataFrame) -> str:
    """Describe which operators run in one step with a frame's operator, and why others do not."""
    how = lineage_of(frame)
    if how is None:
        return ""
    others = [name for name in how.fused_with if name != how.metrics]
    texts = [f"in one step with {' and '.join(others)}"] if others else []
    return "; ".join([*texts, *(f"separate because {reason}" for reason in how.not_fused_because)])


@dataclass(frozen=True)
class Selection:
    """A selection of a frame's rows and columns.

    columns : (path of a column or field, cast type or "") by result name, or None for all columns
    where : conditions on columns and fields
    """

    columns: Mapping[str, tuple[Path, str]] | None
    where: tuple[Condition, ...] = ()


def remember_selected(frame: DataFrame, of: DataFrame, what: Selection) -> None:
    """Record that `frame` is the selection `what` of a frame that an operator created."""
    how = lineage_of(of)
    if how is not None and how.job.order is not None:
        record_lineage(frame, select_lineage(how, of, what))


def select_lineage(how: FrameLineage, frame: DataFrame, what: Selection) -> FrameLineage | None:
    """Return the lineage of a selection, or None if only Spark can compute the selection."""
    where = []
    for condition in what.where:
        place = _place_of_path(how, frame, condition.path)
        # Any column of the frame may contain NaN; comparisons with NaN are left to Spark.
        result = place is not None and place.path[0].startswith("result")
        if place is None or place.cast or not result:
            return None
        kind = frame.schema[condition.path[0]].dataType
        is_double = len(place.path) == 1 and isinstance(kind, DoubleType)
        if not is_double and place.path[-1] not in STRUCT_NUMBERS:
            return None
        where.append(replace(condition, path=place.path))
    columns = how.columns
    if what.columns is not None:
        columns = {}
        for name, (path, cast) in what.columns.items():
            place = _place_of_path(how, frame, path)
            if place is None or (cast and (place.cast or COPIED_COLUMN.fullmatch(place.path[0]))):
                return None
            columns[name] = replace(place, cast=cast or place.cast)
    return replace(how, columns=columns, where=(*how.where, *where))


def _place_of_path(how: FrameLineage, frame: DataFrame, path: Path) -> Place | None:
    """Return the place of a column or field in the answers, or None if it has no place there."""
    kind: DataType = frame.schema
    for part in path:
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    place = how.columns.get(path[0])
    if place is None or (len(path) > 1 and (place.cast or place.kind is not None)):
        return None
    return replace(place, path=(*place.path, *path[1:]))


# ---- fusion ---------------------------------------------------------------------------------

FUSE_SETTING = "spark.sfumato.fuse"  # "false": every operator is a separate step
IN_STEP_WITH = "__in_"  # between an operator's name and the name of the last operator of its chain
# SQL for the most common reason, from the JSON counts of reasons per bucket.
COMMONEST = """transform(
    array(flatten(transform(collect_list({0}),
        text -> map_entries(from_json(text, 'map<string,bigint>'))))),
    all -> array_max(transform(array_distinct(transform(all, each -> each.key)),
        reason -> struct(aggregate(filter(all, each -> each.key = reason), 0L,
            (sum, each) -> sum + each.value), reason))).reason)[0]"""


@dataclass(eq=False)
class StepInput:
    """An input of an operator of a chain.

    bucket_key : the columns that determine which rows share an operator
    upstream : the step whose answers it reads, or None if it reads a frame
    columns : the columns that Spark selects from its frame, with their types
    """

    input: Input
    bucket_key: Sequence[str]
    upstream: PlannedStep | None = None
    reading: Reading = field(init=False)
    columns: dict[str, tuple[Column, DataType]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reading = self.input.reading

    @property
    def lineage(self) -> FrameLineage:
        """Return the frame's lineage; the input must read answers."""
        how = lineage_of(frame_of(self.input).df)
        assert how is not None  # guaranteed if there is a step upstream
        return how


@dataclass(eq=False)
class PlannedStep:
    """An operator of a chain.

    passed_on : the input columns that later steps read
    not_fused_because : the reasons why other operators' answers are read as frames
    """

    how: FrameLineage
    sides: list[StepInput]
    passed_on: dict[str, None] = field(default_factory=dict)
    not_fused_because: list[str] = field(default_factory=list)

    def all(self) -> list[PlannedStep]:
        """Return all steps upstream of this step, each once, and then this step."""
        upstream = [side.upstream for side in self.sides if side.upstream is not None]
        return [*dict.fromkeys(one for step in upstream for one in step.all()), self]

    @property
    def job(self) -> Job:
        return self.how.job

    @property
    def side_names(self) -> list[str]:
        return ["input"] if len(self.sides) == 1 else ["left", "right"]


class ChainPlan:
    """The plan for an operator and its upstream operators that run in the same step."""

    def __init__(self, how: FrameLineage) -> None:
        self.last = _build_steps(how, _bucket_keys(how.job), {})
        self.steps = self.last.all()
        self._plain = _first_uses(self.steps)
        sides = [side for step in self.steps for side in step.sides]
        self._column_names = {name for of in sides for name in of.input.frame.columns}
        self._ties: dict[tuple[int, tuple[str, ...]], str] = {}  # tie column by frame and columns
        # Connect later steps first, because they determine which columns earlier steps pass on.
        for step in reversed(self.steps):
            for side in step.sides:
                self._connect(step, side)
        self.sources = [side for step in self.steps for side in step.sides if side.upstream is None]

    def _connect(self, step: PlannedStep, side: StepInput) -> None:
        reading = side.input.reading
        if step is not self.last:
            reading = replace(reading, passthrough=tuple(step.passed_on))
        if isinstance(reading.tie, Ties):
            tie = self._tie(side, reading.tie.columns or ())
            reading = reading if tie is None else replace(reading, tie=ColumnReading(tie))
        side.reading = reading
        names = reading.columns(side.input.frame)
        if side.upstream is None:
            frame = frame_of(side.input)
            for name in names:
                if name not in side.columns:
                    computed = side.input.computed.get(name)
                    side.columns[name] = computed or (column(name), frame.type(name))
            return
        passed_on = (self._copied_column(side, name) for name in names)
        side.upstream.passed_on |= {of: None for of in passed_on if of is not None}

    def _copied_column(self, side: StepInput, name: str) -> str | None:
        """Return the input column of the upstream step that a column or field copies, or None."""
        if name in self._ties.values():
            return name
        how = side.lineage
        found = re.fullmatch(r"c(\d+)", how.columns[name].path[0])
        return None if found is None else how.job.inputs[0].reading.passthrough[int(found[1])]

    def _tie(self, side: StepInput, names: Sequence[str]) -> str | None:
        """Return the tie column for columns that copy columns of the lowest frame, or None."""
        if side.upstream is None:
            known = id(side), tuple(names)
            if known not in self._ties:
                self._ties[known] = free = free_name(f"__tie{len(self._ties)}", self._column_names)
                tie = F.xxhash64(*map(column, names)) if names else F.lit(0).cast("long")
                side.columns[free] = tie, LongType()
            return self._ties[known]
        copied = [self._copied_column(side, name) is not None for name in names]
        origins = [side.lineage.origin(name) for name in names]
        if not all(copied) or None in origins:
            return None
        found = self._tie(side.upstream.sides[0], origins)  # type: ignore[arg-type]
        if found is not None:
            side.upstream.passed_on[found] = None
        return found

    def selections(self) -> list[SelectedColumns]:
        return [
            (frame_of(side.input).df, side.columns, [*map(column, side.bucket_key)])
            for side in self.sources
        ]

    def config(self, frames: Sequence[RawRows], stored: bool) -> ChainConfig:
        """Return the config of all steps. stored : whether rows will be stored in state"""
        steps = []
        for step in self.steps:
            feeds = [self._feed(side, frames) for side in step.sides]
            if stored:
                sides = zip(step.sides, feeds, strict=True)
                feeds = [replace(feed, layout=_layout(side, feed)) for side, feed in sides]
            idles = step.job.idle_timeout is not None
            steps.append(ChainStep(step.job.config, tuple(feeds), idles, step.job.function))
        return ChainConfig(tuple(steps))

    def _feed(self, side: StepInput, frames: Sequence[RawRows]) -> Feed:
        names = side.reading.columns(side.input.frame)
        if side.upstream is None:
            source = self.sources.index(side)
            places = {name: Place((frames[source].columns[name],)) for name in names}
            return Feed(source, side.reading, tuple(places.items()))
        how, passed = side.lineage, side.upstream.sides[0].reading.passthrough
        places = {}
        for name in names:
            place, origin = how.columns.get(name, Place(("",))), self._copied_column(side, name)
            if origin is not None:  # fewer columns are passed on than in an unfused step
                place = replace(place, path=(f"c{passed.index(origin)}", *place.path[1:]))
            places[name] = place
        return Feed(
            self.steps.index(side.upstream), side.reading, tuple(places.items()), True, how.where
        )

    @property
    def idle_timeout(self) -> int | None:
        """Return the idle timeout in microseconds, or None."""
        return next((s.job.idle_timeout for s in self.steps if s.job.idle_timeout), None)

    @property
    def checks(self) -> bool:
        """Return whether rows of an input may be invalid."""
        return any(side.reading.rule.checks for step in self.steps for side in step.sides)

    @property
    def fused(self) -> list[str]:
        """Return the operators' metrics names; empty if there is only one operator."""
        return [step.how.metrics for step in self.steps] if len(self.steps) > 1 else []

    def _metrics(self, step: PlannedStep) -> str:
        """Return an operator's metrics name, made unique by the last operator's if necessary."""
        own, last = step.how.metrics, self.last.how.metrics.removeprefix("sfumato_")
        if step is self.last or (own.is_chosen and step in self._plain):
            return own
        return f"{own}{IN_STEP_WITH}{last}"

    def fingerprint(self) -> dict[str, Any]:
        """Return the query's identity for checkpoints, as JSON values."""
        found = []
        for step in self.steps:
            known = json.loads(step.job.config.fingerprint())
            for name, one in zip(step.side_names, step.job.inputs, strict=True):
                own = {"order": [*one.reading.order], "key": [*one.reading.key]}
                known[name] = own | {**one.about}  # an input's identity, without its columns
            found.append(known)
        if len(found) == 1:
            return found[0]
        operators = " then ".join(one["operator"] for one in found)
        return {"operator": operators} | {f"step {i}": one for i, one in enumerate(found)}

    def observed_metrics(self, config: ChainConfig) -> Iterator[tuple[str, list[Column]]]:
        """Yield (name, counters and gauges) per observed operator or input."""
        places = OperatorMetrics.of(config).places
        for number, step in enumerate(self.steps):
            before, of, name = prefix(number), step.job.config, self._metrics(step)
            own = {gauge: places[f"{before}{gauge}"] for gauge in of.gauges}
            metrics = _totals(places, before, of.counters)
            for gauge, (_, aggregate) in of.gauges.items():
                text = "".join(own.get(word, word) for word in re.split(r"(\W+)", aggregate))
                metrics.append(F.expr(text).alias(gauge))
            yield name, [*step.how.metrics.identity("", number + 1), *metrics]
            for place, side in enumerate(step.side_names):
                if step.sides[place].reading.rule.checks:
                    before = prefix(number, place)
                    reasons = COMMONEST.format(places[f"{before}{REASONS_NAME}"])
                    metrics = _totals(places, before, READ_COUNTERS)
                    metrics.append(F.expr(reasons).alias("reason"))
                    yield f"{name}_{side}", [*step.how.metrics.identity(side, number + 1), *metrics]


def _layout(side: StepInput, feed: Feed) -> InputLayout:
    """Return the places of an input's columns in state."""
    frame, row = frame_of(side.input), side.reading.passthrough
    fields = frame.schema.fields
    passed = StructType([of for of in fields if of.name in row])
    return InputLayout(
        columns=tuple((of.name, of.dataType.simpleString()) for of in fields),
        row=row,
        chunk={} if feed.of_step else {name: place.path[0] for name, place in feed.columns},
        uses=frozenset(side.input.reading.uses(frame)),
        types={of.name: of.type for of in arrow_schema(passed, frame.df.sparkSession)},
    )


def _first_uses(steps: Sequence[PlannedStep]) -> set[PlannedStep]:
    """Return the steps that no other chain has used before."""
    found = {steps[-1]}
    for step in reversed(steps[:-1]):
        by = [other for other in steps if any(side.upstream is step for side in other.sides)]
        if all(other in found and step.how.is_first_use(other.how) for other in by):
            found.add(step)
    return found


def _totals(places: Mapping[str, str], before: str, counters: Sequence[str]) -> list[Column]:
    sums = {name: F.sum(F.expr(places[f"{before}{name}"])) for name in counters}
    return [F.coalesce(of, F.lit(0)).alias(name) for name, of in sums.items()]


def _bucket_keys(job: Job) -> list[list[str]]:
    """Return, per input, the columns that determine which rows share an operator."""
    own = [bucket_key(one) for one in job.inputs]
    if not all(one.light for one in job.inputs):
        return own
    places = []
    for one in job.inputs:
        before = lineage_of(frame_of(one).df)
        if before is not None:
            key = [before.origin(name) for name in one.reading.key]
            coarser = bucket_key(before.job.inputs[0])
            if not set(coarser) <= set(key):
                return own
            places.append({key.index(name) for name in coarser})
    if not places or any(place != places[0] for place in places):
        return own
    return [[n for i, n in enumerate(one.reading.key) if i in places[0]] for one in job.inputs]


def _build_steps(
    how: FrameLineage, bucket_keys: Sequence[Sequence[str]], known: dict[int, PlannedStep]
) -> PlannedStep:
    """Return the step of an operator, with the upstream steps that run in the same Spark step."""
    sides = zip(how.job.inputs, bucket_keys, strict=True)
    step = PlannedStep(how, [StepInput(*of) for of in sides])
    upstream: list[tuple[StepInput, PlannedStep]] = []
    for side in step.sides:
        before = lineage_of(frame_of(side.input).df)
        if before is None or before.job.order is None:
            continue
        key = [before.origin(name) for name in side.bucket_key]
        reason = _why_not_fused(how.job, side.input, before, key)
        if reason:
            step.not_fused_because.append(f"{before.metrics}: {reason}")
            continue
        shared = id(before.first_use)  # shared by all selections of the frame
        if shared not in known:
            keys: Any = [key] * len(before.job.inputs)
            known[shared] = _build_steps(before, keys, known)
        upstream.append((side, known[shared]))
    reason = _why_sides_not_fused([one for _, one in upstream], len(step.sides))
    if reason:
        step.not_fused_because += [f"{one.how.metrics}: {reason}" for _, one in upstream]
        return step
    for side, one in upstream:
        side.upstream = one
    return step


def _why_sides_not_fused(upstream: Sequence[PlannedStep], sides: int) -> str:
    """Return the reason why an operator's inputs are read as frames, or "" if they are not."""
    if len(upstream) < sides:  # the rows of both sides would not arrive in one order
        return "the other side is read directly"
    steps = {step for one in upstream for step in one.all()}
    frames = sum(side.upstream is None for step in steps for side in step.sides)
    if frames > 1 and any(step.job.idle_timeout is not None for step in steps):
        return "one side may be silent"
    return ""


def _why_not_fused(job: Job, one: Input, before: FrameLineage, key: Sequence[str | None]) -> str:
    """Return the reason why an operator's answers are read as a frame, or "" if they are not."""
    reading, df = one.reading, frame_of(one).df
    if not _fuses(df.sparkSession):
        return f"`{FUSE_SETTING}` is false"
    if job.config.tasks > 1:
        return "several tasks share the later operator"
    level = None if df.isStreaming else df.storageLevel
    if level is not None and (level.useMemory or level.useDisk or level.useOffHeap):
        return "the frame between them is cached"
    if job.idle_timeout is not None:
        return "the later operator has a separate idle timeout"
    if set(key) != set(bucket_key(before.job.inputs[0])):
        return "the operators have different keys"
    if reading.tie is not None:
        tie_breaker = before.origin(one.frame.arrival_column or "")
        orders = map(before.origin, reading.order), before.job.order or ()
        read, emitted = ([n for n in of if n is None or n != tie_breaker] for of in orders)
        reads_late = LATE in dict(reading.values)
        if read != emitted or (before.job.has_late_rows and not reads_late):
            return "the operators read their rows in different orders"
    if one.computed:
        return "the later operator reads an expression that only Spark can compute"
    return ""


def _fuses(spark: SparkSession) -> bool:
    given = (spark.conf.get(FUSE_SETTING, "true") or "").lower()
    if given not in ("true", "false"):
        raise ValueError(
            f"`{FUSE_SETTING}` must be true or false; got {given!r}. Unset it to use true"
        )
    return given == "true"
