"""The base of operators with two sides: alignment, late rows, and a single order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Ints
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Optional, Part
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import as_numbers, concat_tables
from sfumato.tables.joins.aligned_sides import AlignedSides
from sfumato.tables.operator import TIE, TableConfig, TableOperator
from sfumato.tables.reading.frame import LATE

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class TwoSidesConfig(TableConfig):
    """Settings of operators with two sides.

    aligned : per side, the numbers of its controller's keys; rows then wait for the slower side,
        see `AlignedSides`. None to process rows on arrival
    idle_timeout : milliseconds, for aligned sides
    pace_matters : whether both sides are streams, but not aligned; rows are counted as `unaligned`
    """

    aligned: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    idle_timeout: int | None = field(default=None, metadata=CHANGEABLE)
    pace_matters: bool = field(default=False, metadata=CHANGEABLE)

    @property
    def idle_timeout_us(self) -> int | None:
        return None if self.idle_timeout is None else 1000 * self.idle_timeout

    def arrival(self, side: int = 0) -> Arrival:
        """Return the order of static rows; punctuations must not fall between micro-batches."""
        first, *others = super().arrival(side).columns
        return Arrival((first, *([] if self.aligned is None else ["punctuation"]), *others))


class OrderedSides(NamedTuple):
    """The n rows of both sides in one order.

    present, tables : the sides that have rows, and their rows
    order : int64[n], positions in the concatenated tables    side : uint8[n]
    code : int64[n], key codes    time : [n], the first order column
    """

    present: list[int]
    tables: list[pa.Table]
    order: Ints
    side: Numbers
    code: Ints
    time: Numbers

    def places_of(self, side: int) -> Ints:
        """Return int64[]: the positions of a side's rows in its table, in order."""
        number = self.present.index(side)
        before = sum(table.num_rows for table in self.tables[:number])
        places: Ints = self.order[self.side == side] - before
        return places


class TwoSides(TableOperator):
    """An operator with two sides, whose subclasses process the rows of both in `_join_rows`.

    Simultaneous rows are ordered by side, then by tie. With `aligned`, rows also have their
    controller's columns `late` and `punctuation`, and wait until both sides have passed them.
    """

    config: TwoSidesConfig
    state = {"sides": Optional(Part("_new_sides"))}

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.sides = None if config.aligned is None else self._new_sides()
        self._known = config.key_columns
        self._known += ["order0"] if config.forget_after is not None else []

    def _new_sides(self) -> AlignedSides:
        config = self.config
        assert config.aligned is not None
        return AlignedSides(config.aligned, config.idle_timeout, config.forget_after)

    def set_clock(self, now: int) -> None:
        if self.sides is not None:
            self.sides.set_clock(now)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        self.set_clock(now)
        rows = sum(table.num_rows for _, table in batch)
        self.counts["rows"] += rows
        if self.sides is None:
            if self.config.pace_matters:
                self.counts["unaligned"] += rows
            return self._join_rows([(side, self.without_late(table)) for side, table in batch])
        for side, table in batch:
            late, behind = self.sides.add(side, table, now)
            self.require_one_controller(behind)
            self.counts["late"] += late
            self.counts["out_of_order"] += behind
        return self._join_rows(self.sides.take_ready(now))

    def idle(self, now: int) -> list[pa.Table]:
        return [] if self.sides is None else self._join_rows(self.sides.take_ready(now))

    def flush(self) -> list[pa.Table]:
        return [] if self.sides is None else self._join_rows(self.sides.take_waiting())

    def without_late(self, table: pa.Table) -> pa.Table:
        """Count and drop rows flagged late."""
        if LATE not in table.column_names:
            return table
        rows = table.filter(pc.invert(pc.fill_null(table.column(LATE), False)))
        self.counts["late"] += table.num_rows - rows.num_rows
        return rows

    @abstractmethod
    def _join_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        """Return the answers to complete rows of both sides."""

    def release_columns(self, tables: Sequence[pa.Table]) -> list[Numbers]:
        """Return columns that order rows with equal event times, if any."""
        return []

    def order_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> OrderedSides | None:
        """Return the rows of a batch in one order, or None if there are none."""
        present = sorted({side for side, table in batch if table.num_rows})
        if not present:
            return None
        tables = [concat_tables([t for s, t in batch if s == side]) for side in present]
        side = np.repeat(np.array(present, np.uint8), [table.num_rows for table in tables])

        def numbers(name: str) -> Numbers:
            return np.concatenate([as_numbers(table.column(name)) for table in tables])

        columns = [numbers(name) for name in self.config.order_columns]
        by = [columns[0], *self.release_columns(tables), *columns[1:]]
        order = arrival_order(by, [side ^ self.config.first_side, numbers(TIE)])
        code = np.zeros(order.size, np.int64)
        if self._known:
            known = concat_tables([table.select(self._known) for table in tables])
            code = self.codes(known.take(pa.array(order)))
        if self.sides is None:
            self.note_order([column[order] for column in columns])
        return OrderedSides(present, tables, order, side[order], code, columns[0][order])
