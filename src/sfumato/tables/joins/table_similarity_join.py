"""Similarity joins over Arrow tables: of two streams, self-joins, lockstep joins, outer joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.joins.answers import JoinAnswers, SampledTuples
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.outer_join import OuterJoin
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import SavedTable, as_numbers
from sfumato.tables.joins.metric import EUCLIDEAN, JoinMetric
from sfumato.tables.joins.table_join import (
    ALTERNATIVES,
    JoinTableConfig,
    RowsOfSide,
    TableJoin,
    TypedAnswersConfig,
    attributes_at,
    cast_answers,
    samples_of,
    unmatched_table,
)
from sfumato.tables.joins.two_sides import Numbers, OrderedSides
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, SIDES
from sfumato.tables.reading.validity import RADIUS
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class SimilarityJoinTableConfig(JoinTableConfig):
    """Settings of a similarity join over tables.

    strategy : as for `SimilarityJoin`
    tasks : number of operators that share the join    task : this operator's number
    """

    strategy: str = "auto"
    metric: JoinMetric = EUCLIDEAN
    tasks: int = 1
    task: int = field(default=0, metadata=CHANGEABLE)

    kind, version = "similarity join table", 10
    counters: ClassVar[tuple[str, ...]] = (
        "rows", "late", "unaligned", "pairs", "out_of_order", "overflow",
    )  # fmt: skip

    def for_task(self, number: int) -> SimilarityJoinTableConfig:
        return replace(self, task=number)


class TableSimilarityJoin(TableJoin):
    """`SimilarityJoin` over Arrow tables with a column `alternatives`."""

    config: SimilarityJoinTableConfig
    operator: SimilarityJoin
    make_operator = SimilarityJoin
    state = {"texts": Part()}

    def __init__(self, config: SimilarityJoinTableConfig, **options: Any) -> None:
        super().__init__(config)
        self.kept_columns = (ALTERNATIVES,) if config.alternatives else ()
        self.operator = self.make_operator(
            config.metric.dimensions(len(config.on)),
            config.within,
            config.probability,
            config.windows[: 1 if isinstance(config, SelfJoinTableConfig) else 2],
            strategy=config.strategy,
            output=config.output,
            alternatives=config.alternatives,
            task=config.task,
            tasks=config.tasks,
            sphere=config.metric.sphere,
            **options,
        )
        self.operator.most_pairs = config.max_alternatives
        self.texts = KeyIndex()  # codes of the text values of held tuples
        self._spacing = 2.0 * (config.within or 0.0)

    def join(self, rows: OrderedSides) -> JoinAnswers:
        return self.operator.process(self.arrivals(rows))

    def arrivals(self, rows: OrderedSides) -> ArrivalBatch:
        self.texts.drop_unneeded(self._held_texts)
        samples = [samples_of(table, self.config.on, self._numbers) for table in rows.tables]
        of = SampledTuples.concat(samples).take(rows.order)
        points, radius = self.config.metric.points(of.points), None
        if self.config.within is None:
            radii = [
                np.asarray(table.column(RADIUS), np.float64)
                if RADIUS in table.column_names
                else np.zeros(table.num_rows)
                for table in rows.tables
            ]
            radius = np.concatenate(radii)[rows.order]
        given = of.offsets, of.prob, points, self.times(rows), radius
        return ArrivalBatch(rows.side, rows.code, *given)

    def _numbers(self, texts: pa.Array) -> Floats:
        """Encode strings as numbers; unequal strings are farther apart than any match."""
        codes = self.texts.encode(pa.table({"text": texts}))
        return codes.astype(np.float64) * self._spacing

    def _held_texts(self) -> Ints:
        held = self.operator.tuples.points[:, list(self.config.metric.texts)]
        return np.unique(np.rint(held / self._spacing).astype(np.int64))

    def rows_of_side(
        self, store: RowStore, numbers: Ints, sample: Numbers, lengths: Ints
    ) -> RowsOfSide:
        rows = store.take(numbers)
        pairs = attributes_at(rows, sample, lengths) if self.config.alternatives else {}
        return rows.column(ROW), pairs

    def after_loading(self) -> None:
        super().after_loading()
        held = self.operator.tuples
        samples = np.diff(held.offsets)
        for number, store in enumerate(self.stores):
            # The operator has no samples of tuples owned by another task.
            of = np.flatnonzero((held.code % self.operator.streams == number) & (samples > 0))
            lists = [name for name in self.stored_columns(number) if name in (ALTERNATIVES, "prob")]
            for name in lists if of.size else []:
                rows = store.take(held.number[of]).column(name)
                if not np.array_equal(pc.list_value_length(rows).to_numpy(), samples[of]):
                    raise ValueError(
                        "rows and held tuples must have the same number of alternatives"
                    )

    def counters(self) -> dict[str, int]:
        found = super().counters() | {"overflow": self.operator.overflow}
        if self.config.task == 0:
            return found
        return dict.fromkeys(found, 0) | {"pairs": found["pairs"]}  # the first task counts rows

    def gauges(self) -> dict[str, Any]:
        # Every task has all keys, so only the first task counts them.
        return super().gauges() | ({"keys": 0, "new_keys": 0} if self.config.task else {})


@dataclass(frozen=True, kw_only=True)
class SelfJoinTableConfig(SimilarityJoinTableConfig):
    """Settings of a similarity join of a stream with itself over tables.

    marks_late : whether rows have a controller's columns `late` and `punctuation`; late rows are
        then left out, and rows with equal event times are ordered by punctuation
    """

    marks_late: bool = False

    kind, version = "self join table", 6
    counters: ClassVar[tuple[str, ...]] = ("rows", "late", "pairs", "out_of_order", "overflow")

    @property
    def by_punctuation(self) -> bool:
        return self.marks_late


class TableSelfJoin(TableSimilarityJoin):
    """`SimilarityJoin` of a stream with itself; `left` of an answer arrived after `right`."""

    config: SelfJoinTableConfig

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        if self.config.marks_late and not self.config.one_controller:
            return  # the controller orders rows only per key
        before = self.counts["out_of_order"]
        super().note_order(columns)
        self.require_one_controller(self.counts["out_of_order"] - before)


class NewestTime(Stateful):
    """The rows with the newest time so far; rows must arrive in time order."""

    state = dict.fromkeys(SIDES, SavedTable())

    def __init__(self) -> None:
        self.left: pa.Table | None = None
        self.right: pa.Table | None = None

    def add(self, batch: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, pa.Table]]:
        """Add rows; return all rows before the newest time."""
        given = [*self.take_waiting(), *((side, table) for side, table in batch if table.num_rows)]
        times = [as_numbers(table.column("order0")) for _, table in given]
        newest = max((time.max() for time in times), default=None)
        ready = []
        for (side, table), time in zip(given, times, strict=True):
            before, waits = getattr(self, SIDES[side]), pa.array(time == newest)
            tables = [*([] if before is None else [before]), table.filter(waits)]
            setattr(self, SIDES[side], pa.concat_tables(tables))
            ready.append((side, table.filter(pc.invert(waits))))
        return ready

    def take_waiting(self) -> list[tuple[int, pa.Table]]:
        tables = [(side, getattr(self, name)) for side, name in enumerate(SIDES)]
        self.left = self.right = None
        return [(side, table) for side, table in tables if table is not None and table.num_rows]


@dataclass(frozen=True, kw_only=True)
class LockstepJoinTableConfig(SimilarityJoinTableConfig):
    """Settings of a similarity join in lockstep over tables."""

    kind, version = "lockstep join table", 4


class TableLockstepJoin(TableSimilarityJoin):
    """`SimilarityJoin` in lockstep, which processes all rows of one time in one call.

    Aligned sides emit such rows together; rows of static frames wait for a row with a later time.
    """

    config: LockstepJoinTableConfig
    state = {"waiting": Part()}

    def __init__(self, config: LockstepJoinTableConfig) -> None:
        super().__init__(config)
        self.waiting = NewestTime()

    def _join_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        return super()._join_rows(batch if self.sides is not None else self.waiting.add(batch))

    def flush(self) -> list[pa.Table]:
        if self.sides is not None:
            return super().flush()
        return super()._join_rows(self.waiting.take_waiting())


@dataclass(frozen=True, kw_only=True)
class OuterJoinTableConfig(TypedAnswersConfig, SimilarityJoinTableConfig):
    """Settings of an outer similarity join over tables. how : as for `OuterJoin`"""

    how: str

    kind, version = "outer join table", 5
    counters: ClassVar[tuple[str, ...]] = (*SimilarityJoinTableConfig.counters, "unmatched")


class TableOuterJoin(TableSimilarityJoin):
    """`OuterJoin` over Arrow tables: rows without a partner follow the pairs of a micro-batch."""

    config: OuterJoinTableConfig
    operator: OuterJoin
    make_operator = OuterJoin

    def __init__(self, config: OuterJoinTableConfig) -> None:
        super().__init__(config, how=config.how)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        return [*super().process(batch, now), *self._unmatched()]

    def idle(self, now: int) -> list[pa.Table]:
        return [*super().idle(now), *self._unmatched()]

    def flush(self) -> list[pa.Table]:
        return [*super().flush(), *self._unmatched(end=True)]

    def _table(self, answers: JoinAnswers) -> pa.Table:
        return cast_answers(super()._table(answers), self.config.answers)

    def _unmatched(self, end: bool = False) -> list[pa.Table]:
        reached = None if self.sides is None else self.sides.emitted_until()
        tables = []
        for side, found in self.operator.release(reached, end):
            if len(found.number):
                self.counts["unmatched"] += len(found.number)
                rows, schema = self.stores[side].take(found.number), self.config.answers
                answers = unmatched_table(rows, side, found, schema, self.config.alternatives)
                tables.append(cast_answers(answers, schema))
        return tables
