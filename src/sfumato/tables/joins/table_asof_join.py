"""As-of joins over Arrow tables: the operator and its job."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arguments import one_of
from sfumato.operators.arrays import offsets_of
from sfumato.operators.joins.newest_earlier import NO_ROW, Candidates, NewestEarlier, existences
from sfumato.operators.joins.outer_join import INNER
from sfumato.operators.state.declared import Part
from sfumato.tables.arrow import as_array
from sfumato.tables.joins.metric import finite_number
from sfumato.tables.joins.similarity_query import alignment_of
from sfumato.tables.joins.table_join import TypedAnswersConfig, cast_answers
from sfumato.tables.joins.two_sides import OrderedSides, TwoSides, TwoSidesConfig
from sfumato.tables.operator import ROW, SIDES
from sfumato.tables.reading.frame import EXISTENCE, Frame, forget_after_of, require_same_worlds
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import (
    Output,
    mark_repeated,
    mark_shared,
    row_marks,
    row_of,
    world_outputs,
)
from sfumato.tables.reading.rows import (
    ColumnReader,
    Probabilities,
    Reading,
    Rule,
    Ties,
    controller_readers,
)
from sfumato.tables.reading.types import lengths_of
from sfumato.tables.reading.user_warnings import PAIRS
from sfumato.tables.row_store import RowStore
from sfumato.windows import duration_us

KEEP_LEFT = "left"  # the default of `how`, which keeps rows without a match
DEFAULT_MIN_PROBABILITY = 1e-9  # default of an answer's minimum probability


@dataclass(frozen=True, kw_only=True)
class AsofTableConfig(TypedAnswersConfig, TwoSidesConfig):
    """Settings of an as-of join over tables.

    within, least : as for `NewestEarlier`    how : "left", or "inner" to drop unmatched left rows
    uncertain : whether right rows have existence probabilities
    """

    within: int | None = None
    least: float
    how: str = KEEP_LEFT
    uncertain: bool = False

    kind, version = "as-of join table", 3
    first_side: ClassVar[int] = 1
    counters: ClassVar[tuple[str, ...]] = (
        "rows", "late", "unaligned", "pairs", "unmatched", "out_of_order",
    )  # fmt: skip

    def __post_init__(self) -> None:
        one_of("how", self.how, (KEEP_LEFT, INNER))


class TableAsofJoin(TwoSides):
    """`NewestEarlier` over Arrow tables; a right row precedes a left row with the same time."""

    config: AsofTableConfig
    state = {"operator": Part(), "right": Part()}

    def __init__(self, config: AsofTableConfig) -> None:
        super().__init__(config)
        self.operator = NewestEarlier(config.within, config.least)
        self.right = RowStore(lambda: self.operator.held.number)

    def _join_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        rows = self.order_rows(batch)
        if rows is None:
            return []
        existence, left = np.ones(len(rows.order)), pa.nulls(0)
        for side, table in zip(rows.present, rows.tables, strict=True):
            places = rows.places_of(side)
            if side == 0:
                left = as_array(table.column(ROW).take(pa.array(places)))
                continue
            self.right.append(table.select([ROW]).take(pa.array(places)))
            if self.config.uncertain:
                prob = as_array(table.column("prob"))
                offsets, flat = offsets_of(lengths_of(prob)), np.asarray(prob.flatten(), np.float64)
                existence[rows.side == 1] = existences(offsets, flat)[places]
        time = rows.time.astype(np.int64)
        found = self.operator.process(rows.side == 0, rows.code, time, existence)
        output = self._table(rows, left, found)
        self.forget_expired()
        self.right.drop_unneeded(len(self.operator.held.number))
        return output

    def _table(self, rows: OrderedSides, left: pa.Array, found: Candidates) -> list[pa.Table]:
        matched = found.number != NO_ROW
        if self.config.how == INNER:
            found, matched = Candidates(*(of[matched] for of in found)), matched[matched]
        self.counts["pairs"] += int(matched.sum())
        self.counts["unmatched"] += int((~matched).sum())
        if not len(found.place):
            return []
        turn = np.cumsum(rows.side == 0) - 1  # the position of each row among left rows
        right = pa.nulls(len(found.place))
        if matched.any():
            given = as_array(self.right.take(found.number[matched]).column(ROW))
            right = given.take(pa.array(np.cumsum(matched) - 1, mask=~matched))
        columns = {"left": left.take(pa.array(turn[found.place])), "right": right}
        if self.config.uncertain:
            columns["probability"] = pa.array(found.probability)
        return [cast_answers(pa.table(columns), self.config.answers)]

    def after_loading(self) -> None:
        super().after_loading()
        held = self.operator.held.number
        if not np.isin(held, self.right.numbers).all() or self.right.next != self.operator.next:
            raise ValueError("it must have every row that may be the newest of its key")


def asof_join_job(
    left: Frame,
    right: Frame,
    order: str,
    key: str | Sequence[str] | None,
    within: str | timedelta | None,
    probability: float,
    how: str,
    idle_timeout: str | timedelta | None,
    forget_after: str | timedelta | None,
    name: str | None,
) -> Job:
    frames, orders, keys = (left, right), [], []
    require_same_worlds(frames)
    for side, frame in zip(SIDES, frames, strict=True):
        of = f" of the {side} {frame.noun}"
        frame.require_late()
        frame.require_tuples()
        orders.append([frame.single_column(f"order{of}", order)])
        keys.append(frame.keys(f"key{of}", key))
        frame.require_time(f"order{of}", orders[-1][0])
        frame.require_event_time(f"order{of}", orders[-1])
    sides = [*zip(frames, orders, keys, strict=True)]
    aligned = alignment_of(sides, idle_timeout, "an as-of join")
    uncertain = right.uncertain or EXISTENCE in right.columns
    right.require_independent("asof_join")
    inputs, outputs = [], []
    for number, frame in enumerate(frames):
        exists = number == 1 and uncertain
        existence = EXISTENCE if EXISTENCE in frame.columns else None
        values: list[tuple[str, ColumnReader]] = (
            controller_readers() if aligned.get("aligned") else []
        )
        values += [("prob", Probabilities(existence))] if exists else []
        rule = Rule(
            probabilities=exists,
            complete=("order0", *(f"key{i}" for i in range(len(keys[number])))),
            timed=True,
            unless_late=bool(aligned.get("aligned")),
            max_alternatives=frame.max_alternatives,
        )
        passed, by = tuple(frame.columns), (tuple(orders[number]), tuple(keys[number]))
        reading = Reading(passed, *by, tuple(values), rule, Ties(frame.tie_columns))
        inputs.append(Input(frame, reading))
        row = row_of(frame, frame.columns)
        outputs.append(Output(SIDES[number], (SIDES[number],), row, row_marks(frame)))
    outputs += world_outputs(left, "left")
    if uncertain:
        outputs.append(Output("probability", ("probability",), pa.float64()))
        outputs = mark_shared(outputs, PAIRS)
    else:
        outputs = mark_repeated(outputs, "pairs of an as-of join", ["left"])
    config = AsofTableConfig(
        keys=len(keys[0]),
        within=None if within is None else duration_us("within", within),
        least=finite_number("probability", probability),
        how=how,
        uncertain=uncertain,
        forget_after=forget_after_of(left, orders[0][0], keys[0], forget_after),
        **aligned,
    )
    return Job("asof_join", "asof", name, inputs, config, outputs, config.idle_timeout)
