"""The arguments of the similarity joins, and the configs derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean
from sfumato.operators.arguments import flag, one_of, whole
from sfumato.operators.distributions.aggregate import OVER_TIME
from sfumato.operators.joins.arrivals import StreamWindow, window_pair
from sfumato.operators.joins.outer_join import HOWS, INNER
from sfumato.tables.imputation.imputation_arguments import ImputationArguments
from sfumato.tables.joins.metric import distance_of, finite_number, raise_unscaled
from sfumato.tables.joins.table_incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.table_join import ALTERNATIVES, JoinTableConfig
from sfumato.tables.joins.table_neighbours import NeighboursTableConfig, OtherNeighboursTableConfig
from sfumato.tables.joins.table_similarity_join import (
    LockstepJoinTableConfig,
    OuterJoinTableConfig,
    SelfJoinTableConfig,
    SimilarityJoinTableConfig,
)
from sfumato.tables.operator import ROW, SIDES
from sfumato.tables.reading.frame import (
    EXISTENCE,
    NUMBER_KINDS,
    Frame,
    column_names,
    forget_after_of,
    require_same_keys,
    require_same_worlds,
)
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import (
    Output,
    OutputField,
    Struct,
    alternatives_type,
    mark_repeated,
    mark_shared,
    passthrough_outputs,
    row_of,
    with_metadata,
    world_outputs,
)
from sfumato.tables.reading.rows import (
    ColumnReader,
    Doubles,
    Reading,
    Rule,
    Samples,
    Ties,
    controller_readers,
)
from sfumato.tables.reading.user_warnings import PAIRS, SHARED_KEY, WINDOWS
from sfumato.tables.reading.validity import RADIUS
from sfumato.tables.scope import check_order
from sfumato.tables.windows.window_query import VALUE_PAIRS, WindowQuery, parse_aggregates
from sfumato.windows import JoinWindow, Rows

STREAMS = ("left_stream", "right_stream")  # columns with the names of the two streams
# Microseconds per arrival, for ten alternatives in three dimensions: half in the operator, half for
# one more copy of the row in Spark. Microseconds per tuple of the other side: one third of the
# result of benchmarks/suites/join_tasks.py, where 1 in 300 tuples matches.
COST_PER_TASK = 10.0
COST_PER_OPPOSITE = 0.002
TASKS_TO_CHOOSE = (8, 4, 2)
MAX_TASKS = 1024
NEGLIGIBLE_MEMBER = 1e-9  # lower probabilities that a neighbour is in the count window are ignored
MIN_EFFICIENCY = 0.7  # minimum ratio of a single task's work to the total work of several tasks


class JoinSide:
    """A frame of a join, whose rows are uncertain tuples or certain rows of plain columns.

    is_self_join : whether the frame is joined with itself, so that errors do not mention sides
    """

    def __init__(self, query: JoinQuery, frame: Frame, name: str, is_self_join: bool) -> None:
        self.frame, self.name, self.on, self.timed = frame, name, query.attributes, query.timed
        called = f"the {name} {frame.noun}"
        of = "" if is_self_join else f" of {called}"
        for taken in (ALTERNATIVES, EXISTENCE) if query.imputed is not None else ():
            if taken in frame.columns:
                raise ValueError(
                    f"`impute` needs certain rows with plain values, but {called} has a column "
                    f"`{taken}`: drop the column, or use sf.impute before the join"
                )
        frame.require_late()
        frame.require_tuples()
        self.orders = frame.resolve(f"order{of}", query.order)
        self.keys = frame.keys(f"key{of}", query.key)
        frame.require_orders(f"order{of}", self.orders)
        frame.require_event_time(f"order{of}", self.orders)
        if frame.streams:  # static frames are sorted as a whole
            check_order(self.keys, frame.in_order_for)
        self.attributes = self.on
        if frame.uncertain:
            self.attributes = frame.attributes
            frame.require_attributes(self.on, of)
        self.points = self.on if frame.uncertain else frame.resolve(f"on{of}", self.on)
        self.texts = self._texts(query, of)
        self.bounds = query.distance.bounds(self.points)
        self.radius: str | None = None
        within = query.within
        if isinstance(within, str) and (frame.find_column(within) or within in frame.attributes):
            frame.require_numbers(f"within{of}", [within])
            self.radius = frame.resolve(f"within{of}", within)[0]
        if self.timed:
            if not (len(self.orders) == 1 and frame.is_time(self.orders[0])):
                kinds = ", ".join(map(frame.type_name, self.orders))
                has = "got" if is_self_join else f"{called} has"
                raise TypeError(
                    "`order` must be one column with a timestamp or whole microseconds, because "
                    f"`window` is a time window; {has} {kinds}"
                )
            frame.warn_of_time_unit("order", self.orders[0])
        self.imputed = None
        if query.imputed is not None:
            frame.require_numbers(f"impute of {called}", query.imputed)
            self.imputed = frame.resolve(f"impute of {called}", list(query.imputed))
        self.passthrough = [column for column in frame.columns if column != ALTERNATIVES]
        self.marks_late = frame.marks_late(self.orders)
        self.aggregated: NeighbourAggregates | None = None  # aggregates over this side's rows

    def _texts(self, query: JoinQuery, of: str) -> tuple[int, ...]:
        frame = self.frame
        type_of = frame.attribute_type if frame.uncertain else frame.type
        allowed, what, hint = {*NUMBER_KINDS, "text"}, "columns of numbers or strings", ""
        if frame.uncertain:
            allowed |= {"truth", "timestamp"}
            what, hint = "attributes that are numbers or strings", ": cast it first"
        kinds = [frame.kind_of(type_of(name)) for name in self.points]
        texts = tuple(place for place, kind in enumerate(kinds) if kind == "text")
        if texts and (why := query.numbers_only):
            raise TypeError(
                f"`on` names `{self.on[texts[0]]}`{of}, which is text, but {why} only numbers"
            )
        if isinstance(query.within, Mapping):
            scaled = [query.attributes.index(name) for name in query.within]
            if len({*texts, *scaled}) < len(self.on):
                raise_unscaled(query.within, query.attributes)
        numbers = [name for place, name in enumerate(self.points) if place not in texts]
        if not frame.uncertain:  # raises for columns with a collation
            frame.group_columns(f"on{of}", [self.points[place] for place in texts])
        for name, kind in zip(self.points, kinds, strict=True):
            if kind not in allowed:
                shown = frame.text_of(type_of(name))
                raise TypeError(f"`on{of}` must name {what}; `{name}` is {shown}{hint}")
        if not frame.uncertain:
            frame.require_numbers(f"on{of}", numbers)
        return texts

    @property
    def fields(self) -> list[OutputField]:
        found = []
        for i, attribute in enumerate(self.attributes):
            if attribute in self.on:
                place = self.on.index(attribute)
                fixed, kind = f"on{place}", pa.string() if place in self.texts else pa.float64()
            else:
                fixed, kind = f"a{i}", self.frame.attribute_type(attribute)
            fixed = attribute if self.imputed is not None else fixed
            found.append(OutputField(f"{self.name}_{attribute}", kind, f"{self.name}_{fixed}"))
        return found

    def input(self, aligned: bool) -> Input:
        """Return how the operator reads the frame. aligned : whether late rows may be invalid"""
        certain, aggregated = self.imputed is None, self.aggregated
        values: list[tuple[str, ColumnReader]] = [
            (ALTERNATIVES, Samples(tuple(self.points), self.texts))
        ]
        if self.imputed is not None:
            values = [(f"value{i}", Doubles(name)) for i, name in enumerate(self.imputed)]
        values += [] if self.radius is None else [(RADIUS, Doubles(self.radius))]
        values += [] if aggregated is None else aggregated.cells
        values += controller_readers() if aligned else []
        orders = [f"order{i}" for i in range(len(self.orders))]
        rule = Rule(
            probabilities=certain,
            attributes=tuple(self.points) if certain else (),
            complete=(*orders, *(f"key{i}" for i in range(len(self.keys)))),
            timed=self.timed,
            bounds=tuple(self.bounds) if certain else (),
            bounded_values=() if aggregated is None else aggregated.bounded_values,
            radius=self.radius,
            unless_late=aligned,
            max_alternatives=self.frame.max_alternatives,
        )
        passed, order, key = map(tuple, (self.passthrough, self.orders, self.keys))
        reading = Reading(passed, order, key, tuple(values), rule, Ties(self.frame.tie_columns))
        if aggregated is None:
            return Input(self.frame, reading)
        return Input(
            self.frame, reading, {"values": aggregated.expressions}, aggregated.computation[1]
        )


@dataclass(eq=False)
class JoinQuery:
    """The validated arguments of the similarity joins.

    frames : two frames, or one frame that is joined with itself    function : name in errors
    sides : both sides; each side of a self-join has the same frame
    """

    frames: Sequence[Frame]
    function: str
    on: str | Sequence[str]
    within: float | str | Mapping[str, float]
    probability: float
    window: StreamWindow | Sequence[StreamWindow]
    order: str | Sequence[str]
    key: str | Sequence[str] | None
    strategy: str
    output: str
    alternatives: bool
    metric: str
    forget_after: str | timedelta | float | None
    tasks: int | None
    imputation: ImputationArguments | None = None
    how: str = INNER

    def __post_init__(self) -> None:
        one_of("how", self.how, (INNER, *HOWS))
        self.attributes = column_names("on", self.on)
        if not self.attributes:
            raise ValueError("`on` must name at least one attribute; got none")
        if not column_names("order", self.order):
            raise ValueError(
                "`order` must name the column(s) that give the order of arrival; got none"
            )
        self.windows = window_pair(self.window, self.attributes)
        self.lockstep = self.windows[0].lockstep
        self.timed = self.lockstep or any(window.span is not None for window in self.windows)
        if self.tasks is not None and tasks_of(self.tasks) > 1 and self.how != INNER:
            raise ValueError(
                f'`tasks` must be 1 with how="{self.how}"; got {self.tasks!r}. To share the work, '
                "give a `key`"
            )
        self.limit, self.distance = distance_of(self.within, self.attributes, self.metric)
        self.has_deltas = any(window.delta is not None for window in self.windows)
        if self.has_deltas:
            self._check_deltas()
        if self.lockstep and self.imputation is not None:
            raise ValueError(
                "`lockstep` of sf.Rows and `impute` cannot be combined: use "
                f"{self.imputation.function} before the join"
            )
        self.imputed: tuple[str, ...] | None = None
        if self.imputation is not None:
            self._check_imputation(self.imputation)
            self.imputed = self.imputation.settings.names
        self.sides = self._read_sides(self.frames)

    @property
    def numbers_only(self) -> str:
        """Return the argument that excludes text attributes, followed by a verb, or ""."""
        if self.distance.name != "euclidean":
            return f'`metric`="{self.distance.name}" accepts'
        if self.limit is None:
            return "`within` as a radius column accepts"
        if self.has_deltas:
            return "a window of sf.Delta accepts"
        return "`impute` of a join accepts" if self.imputation is not None else ""

    def _check_deltas(self) -> None:
        if self.distance.name != "euclidean" or self.distance.scales:
            raise ValueError(
                "`within` must be one distance in a join with windows of sf.Delta, because the "
                f"window compares the same coordinates; got within={self.within!r} and "
                f'metric="{self.metric}". Use sf.Rows or sf.Range'
            )
        if self.tasks not in (None, 1):
            raise ValueError(
                f"`tasks` must be 1 for windows of sf.Delta; got {self.tasks!r}. To share the "
                "work, give a `key`"
            )

    def _check_imputation(self, imputation: ImputationArguments) -> None:
        settings, attributes = imputation.settings, list(imputation.settings.attributes)
        instead = f"Use {imputation.function} before the join"
        if set(self.attributes) != set(attributes):
            raise ValueError(
                f"`impute` must have the same `attributes` as `on`, {self.attributes}; got "
                f"{attributes}. To impute other attributes, u{instead[1:]}"
            )
        for name, value in (("key", list(settings.key)), ("order", settings.order)):
            if value:
                raise ValueError(
                    f"`impute` of a join must not have a `{name}`; got {value!r}. {instead}"
                )
        if self.strategy != "auto":
            raise ValueError(
                "`strategy` and `impute` cannot be combined, because `impute` uses a separate "
                f"join; got {self.strategy!r}"
            )
        column = f"the column {self.within!r}"
        for wrong, needed, given in (
            (self.has_deltas, "`window` must be sf.Rows or sf.Range", repr(self.window)),
            (self.distance.name != "euclidean", '`metric` must be "euclidean"', repr(self.metric)),
            (self.limit is None, "`within` must be a number, or one per attribute,", column),
            (self.how != INNER, '`how` must be "inner"', repr(self.how)),
        ):
            if wrong:
                raise ValueError(f"{needed} in a join with `impute`; got {given}. {instead}")
        if self.tasks not in (None, 1):
            raise ValueError(
                "`tasks` and `impute` cannot be combined, because each task would impute the same "
                f"rows; got {self.tasks!r}. {instead}"
            )

    def _read_sides(self, frames: Sequence[Frame]) -> list[JoinSide]:
        if self.imputation is not None:
            self.imputation = self.imputation.with_bound(frames[0].max_alternatives)
        require_same_worlds(frames, self.how)
        is_self_join = len(frames) == 1
        for frame in frames:
            frame.require_independent(self.function)
        if self.lockstep and self.function != "similarity_join":
            raise ValueError(
                f"`lockstep` of sf.Rows is allowed only in similarity_join; got {self.function}. "
                "Leave `lockstep` out"
            )
        sides = [
            JoinSide(self, frame, name, is_self_join)
            for name, frame in zip(SIDES, (frames[0], frames[-1]), strict=True)
        ]
        left, right = ({self.attributes[i] for i in side.texts} for side in sides)
        for name in left ^ right:
            where = SIDES if name in left else SIDES[::-1]
            raise TypeError(
                f"`on` names `{name}`, which is text on the {where[0]} and numeric on the "
                f"{where[1]}: cast one of the two"
            )
        texts, scales = sides[0].texts, enumerate(self.distance.scales)
        units = tuple(1.0 if place in texts else scale for place, scale in scales)
        self.distance = replace(self.distance, scales=units, texts=texts)
        if self.limit is None and sides[0].radius is None and sides[1].radius is None:
            known = [*dict.fromkeys(column for frame in frames for column in frame.columns)]
            raise ValueError(
                f"`within` names a radius column `{self.within}` that is not in "
                f"{'the frame' if is_self_join else 'either frame'}; the columns are "
                f"{', '.join(known)}{did_you_mean(str(self.within), known)}. Write one of these "
                "columns or a number"
            )
        return sides

    def job(self, name: str | None, idle_timeout: str | timedelta | None = None) -> Job:
        config, sides = self._config(idle_timeout), self.sides
        certain = self.imputation is None and all(side.frame.certain for side in sides)
        found = [Output(s.name, (s.name,), row_of(s.frame, s.passthrough)) for s in sides]
        found += world_outputs(sides[0].frame, sides[0].name)
        found.append(Output("probability", ("probability",), pa.float64()))
        if self.alternatives and sides[0].frame.worlds is None:
            pairs = alternatives_type(*(side.fields for side in sides))
            found.append(Output(ALTERNATIVES, (ALTERNATIVES,), pairs))
        if self.output == "changes":
            found.append(Output("change", ("change",), pa.string()))
        if not certain:
            return self._job(name, config, mark_shared(found, PAIRS))
        own = [ALTERNATIVES, "probability"]  # certain, so they share nothing
        outputs = [
            with_metadata(of, {SHARED_KEY: ""}) if of.name in own else of
            for of in mark_repeated(found, PAIRS, own)
        ]
        return self._job(name, config, outputs)

    def _job(self, name: str | None, config: JoinTableConfig, outputs: Sequence[Output]) -> Job:
        sides = self.sides[: len(self.frames)]
        inputs = [side.input(config.aligned is not None or side.marks_late) for side in sides]
        metrics = self.function.removeprefix("similarity_")
        idle, imputes = config.idle_timeout, self.imputed is not None
        return Job(self.function, metrics, name, inputs, config, outputs, idle, imputes=imputes)

    def _config(self, idle_timeout: str | timedelta | None) -> JoinTableConfig:
        """Return the config; the repository of an imputation is read after all checks."""
        side = self.sides[0]
        common: dict[str, Any] = {
            "within": self.limit,
            "probability": finite_number("probability", self.probability),
            "windows": self.windows,
            "output": self.output,
            # Drawn worlds have one value per row.
            "alternatives": flag("alternatives", self.alternatives) and side.frame.worlds is None,
            "max_alternatives": side.frame.max_alternatives,
            "orders": len(side.orders),
            "keys": len(side.keys),
            "forget_after": forget_after_of(
                side.frame, side.orders[0], side.keys, self.forget_after
            ),
        }
        if self.imputation is None:
            tasks = 1 if self.tasks is None and self.how != INNER else self.tasks
            keys = len(side.keys)
            common |= {
                "strategy": self.strategy,
                "metric": self.distance,
                "on": tuple(f"on{i}" for i in range(len(self.attributes))),
                "tasks": tasks_for(self.windows, keys) if tasks is None else tasks,
            }
        if len(self.frames) == 1:
            in_order = side.frame.is_strictly_ordered(side.orders, [])
            return SelfJoinTableConfig(
                **common, marks_late=side.marks_late, one_controller=in_order
            )
        needed = self.how != INNER and f'how="{self.how}"'
        needed = needed or (self.lockstep and "`lockstep` of sf.Rows")
        ordered = [(side.frame, side.orders, side.keys) for side in self.sides]
        common |= alignment_of(ordered, idle_timeout, needed or None)
        if self.imputation is None:
            if self.how != INNER:
                return OuterJoinTableConfig(**common, how=self.how)
            kind = LockstepJoinTableConfig if self.lockstep else SimilarityJoinTableConfig
            return kind(**common)
        imputer = self.imputation.prepared(side.frame)
        units = dict(zip(self.attributes, self.distance.scales, strict=bool(self.distance.scales)))
        return IncompleteJoinTableConfig(
            imputer=imputer,
            on=tuple(self.attributes),
            units=tuple(units[name] for name in self.imputation.settings.attributes if units),
            **common,
        )

    def neighbours_job(
        self,
        name: str | None,
        idle_timeout: str | timedelta | None,
        fewer_than: int | None,
        aggregates: Mapping[str, str] | None,
        distribution: int | None,
        quantiles: Sequence[float],
    ) -> Job:
        """Return the job of `neighbours`, in the right frame or in the single frame."""
        left, right = self.sides
        left.passthrough, right.passthrough = list(left.frame.columns), right.orders
        certain = left.frame.certain and right.frame.certain
        settings: Any = None
        aggregated, results = None, list[Output]()
        if aggregates is not None:
            if self.windows[-1].rows is not None and not right.frame.certain:
                raise ValueError(
                    "`aggregates` of neighbours needs a time window over uncertain rows, because "
                    "the newest rows depend on which rows exist: write "
                    f'window=sf.Range("10 minutes"); got {self.window!r}'
                )
            aggregated = NeighbourAggregates(
                right.frame, parse_aggregates(aggregates), Rows(1), right.orders, right.keys, None,
                distribution, quantiles=quantiles, own=tuple(left.frame.columns),
                structs=right.frame.certain and not certain,
            )  # fmt: skip
            settings, results = aggregated.settings, aggregated.result_outputs
        elif quantiles or distribution is not None:
            raise ValueError(
                "`quantiles` and `distribution` describe the results of `aggregates`, which is not "
                "given: add aggregates={...}, or leave them out. The column `neighbours` always "
                "has its distribution"
            )
        self.sides[len(self.frames) - 1].aggregated = aggregated
        names = ["neighbours"] if fewer_than is None else ["neighbours", "probability"]
        outputs = passthrough_outputs(left.frame, left.frame.columns, ROW, taken=names)
        moments = (OutputField("mean", pa.float64()), OutputField("stddev", pa.float64()))
        counts = Struct((*moments, OutputField("distribution", VALUE_PAIRS)))
        for title, kind in zip(names, (counts, pa.float64()), strict=False):
            outputs.append(Output(title, (title,), kind))
        outputs = mark_shared([*outputs, *results], None if certain else WINDOWS)
        # Windows contain all tuples that may be among their newest rows.
        own, other = (replace(of, confidence=1.0 - NEGLIGIBLE_MEMBER) for of in self.windows)
        kind_of: type[OtherNeighboursTableConfig] = NeighboursTableConfig
        if len(self.frames) == 2:
            kind_of, own = OtherNeighboursTableConfig, JoinWindow(1)  # left tuples are not searched
        config = kind_of(
            **(vars(self._config(idle_timeout)) | {"windows": (own, other)}),
            fewer_than=fewer_than,
            aggregated=settings,
        )
        return self._job(name, config, outputs)


def alignment_of(
    sides: Sequence[tuple[Frame, list[str], list[str]]],
    idle_timeout: str | timedelta | None,
    needed: str | None = None,
) -> dict[str, Any]:
    """Return how two sides are aligned, see `TwoSidesConfig`.

    sides : the frame, order and keys of each side
    needed : name of the feature that needs punctuations on streams; None if there is none
    """
    frames, _, keys = zip(*sides, strict=True)
    require_same_keys(frames, keys)
    scopes = [frame.controller(order, key) for frame, order, key in sides]
    upstream = "sf.reorder upstream of both sides, with no key or a key that is part of `key`"
    if None not in scopes:
        return {
            "aligned": tuple(
                tuple(map(names.index, scope or ()))
                for names, scope in zip(keys, scopes, strict=True)
            ),
            "idle_timeout": None
            if idle_timeout is None
            else microseconds("idle_timeout", idle_timeout),
            "one_controller": all(
                frame.is_strictly_ordered(order, key) for frame, order, key in sides
            ),
        }
    if idle_timeout is not None:
        raise ValueError(f"`idle_timeout` needs punctuations on both sides: put {upstream}")
    if needed is not None and any(frame.streams for frame in frames):
        raise ValueError(
            f"{needed} on streams needs punctuations, which show that no more rows can arrive: "
            f"put {upstream}"
        )
    return {"pace_matters": all(frame.streams for frame in frames)}


@dataclass(eq=False)
class NeighbourAggregates(WindowQuery):
    """Aggregates over the neighbours of each row. own : the columns of rows that have neighbours"""

    function_name: ClassVar[str] = "neighbours"
    picks: ClassVar[bool] = False
    ties_by_arrival: ClassVar[bool] = False
    own: tuple[str, ...] = field(kw_only=True)

    @property
    def emitted_columns(self) -> list[str]:
        return [*self.own]

    @property
    def added_columns(self) -> list[str]:
        return ["neighbours", "probability"]

    def _check_over_time(self) -> None:
        for w in self.specs:
            if w.function in (*OVER_TIME, "boundary_sum"):
                raise ValueError(
                    f"{w.function} in `aggregates[{w.name!r}]` is not supported for neighbours: "
                    "use sf.window_aggregate, or choose a different function"
                )


def check_streams(streams: object) -> None:
    if isinstance(streams, Mapping) and len(streams) >= 2:
        return
    shape = f"a {type(streams).__name__}. Give each stream a name"  # without its rows
    if isinstance(streams, Mapping):
        shape = f"{len(streams)}: {', '.join(map(repr, streams))}"
    raise TypeError(
        f"`streams` must be a dict {{name: frame}} of at least two streams; got {shape}"
    )


def check_same_columns(streams: Mapping[str, Frame]) -> None:
    first, one = next(iter(streams.items()))
    kinds = [(name, one.type(name)) for name in one.columns]
    for stream, other in streams.items():
        if [(name, other.type(name)) for name in other.columns] != kinds:
            shown = [", ".join(f"{n}: {f.type_name(n)}" for n in f.columns) for f in (one, other)]
            raise ValueError(
                f"`streams` must have the same columns: `{first}` has {shown[0]}; `{stream}` has "
                f"{shown[1]}"
            )


def cost(rows: int, tasks: int) -> float:
    """Estimate the microseconds per arrival in each of `tasks` tasks, for windows of `rows` rows.

    Every task reads every arrival; the tuples of the other side are divided among the tasks. The
    model assumes few alternatives and few matches, so it errs towards too few tasks.
    """
    return COST_PER_TASK + COST_PER_OPPOSITE * rows / tasks


def rows_held(windows: Sequence[JoinWindow]) -> int | None:
    """Return the number of rows in the smaller window, or None unless both are count windows."""
    rows = [window.rows for window in windows]
    return None if None in rows else min(number for number in rows if number is not None)


def tasks_for(windows: Sequence[JoinWindow], keys: int) -> int:
    """Return the default number of tasks; 1 with a key or without count windows."""
    held = rows_held(windows)
    if keys or held is None:
        return 1
    work = cost(held, 1)
    return next((n for n in TASKS_TO_CHOOSE if work >= MIN_EFFICIENCY * n * cost(held, n)), 1)


def tasks_of(tasks: Any) -> int:
    if not whole("tasks", tasks) <= MAX_TASKS:
        raise ValueError(
            f"`tasks` must be at most {MAX_TASKS}, because each task reads all rows; got {tasks}"
        )
    return int(tasks)
