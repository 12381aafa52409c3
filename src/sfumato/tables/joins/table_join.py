"""The common part of similarity joins over Arrow tables: ordered sides, their rows, and answers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.operators.joins.answers import Answers, SampledTuples
from sfumato.operators.joins.pair_join import PairJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Optional, Part
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import as_numbers, joined
from sfumato.tables.joins.aligned_sides import LATE, AlignedSides
from sfumato.tables.operator import ROW, SIZE_GAUGES, TIE, TableConfig, TableOperator, window_gauges
from sfumato.tables.row_store import RowStore
from sfumato.windows import JoinWindow

SIDES = ("left", "right")
ALTERNATIVES = "alternatives"
Numbers = npt.NDArray[Any]
RowsOfSide = tuple[pa.ChunkedArray, dict[str, pa.Array]]


@dataclass(frozen=True, kw_only=True)
class JoinTableConfig(TableConfig):
    """Settings of the joins of two sides.

    within, probability, windows, output : as for their operators
    alternatives : whether answers include the matching pairs of alternatives
    on : the attributes of the distance, in the order used in answers
    aligned : for each side, the numbers of the keys of its disorder controller: rows wait for the
        slower side, see `AlignedSides`; None: rows are processed on arrival
    idle_timeout : milliseconds, for aligned sides
    pace_matters : whether there are two streams without punctuations, whose rows are counted as
        `unaligned`
    max_alternatives : bound on the pairs of alternatives per answer, see `matching_pairs`
    """

    within: float
    probability: float
    windows: tuple[JoinWindow, JoinWindow]
    output: str = "append"
    alternatives: bool = True
    on: tuple[str, ...] = ()
    aligned: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    idle_timeout: int | None = field(default=None, metadata=CHANGEABLE)
    pace_matters: bool = field(default=False, metadata=CHANGEABLE)
    max_alternatives: int = field(default=MAX_ALTERNATIVES, metadata=CHANGEABLE)

    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        **TableConfig.gauges,
        **SIZE_GAUGES,
        "opposite": ("long", "sum(opposite)"),
        "compared": ("long", "sum(compared)"),
    }

    def __post_init__(self) -> None:
        if self.forget_after is not None and self.output == "changes":
            raise ValueError(
                '`forget_after` is not for output="changes": the current answers of a key that is '
                "silent stay current; leave it out, or take the answers as they come"
            )

    def arrival(self, side: int = 0) -> Arrival:
        """Return the order of static rows, whose batches must not separate rising punctuations."""
        first, *others = super().arrival(side).columns
        return Arrival((first, *([] if self.aligned is None else ["punctuation"]), *others))


class TableJoin(TableOperator):
    """A join over Arrow tables, for the keys of one bucket; stores the rows of its live tuples.

    Simultaneous rows are ordered left before right, then by their tie. With `aligned`, rows also
    have their controllers' columns `late` and `punctuation`. Subclasses create the operator and the
    columns `kept` for answers, and implement arrivals (`join`) and rows by number (`rows_of_side`).
    """

    config: JoinTableConfig
    operator: PairJoin
    kept: tuple[str, ...]
    state = {
        "sides": Optional(Part("_new_sides")),
        "operator": Part(),
        "left": Part(),
        "right": Part(),
    }
    compared = "candidates"  # counter of the operator: pairs whose samples were compared

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.left, self.right = RowStore(), RowStore()
        self.sides = None if config.aligned is None else self._new_sides()
        self._known = [f"key{i}" for i in range(config.keys)]
        self._known += ["order0"] if config.forget_after is not None else []
        self._largest = 0  # largest window of the micro-batch
        self._before: dict[str, int] = {}  # counters of the operator before it

    def _new_sides(self) -> AlignedSides:
        config = self.config
        assert config.aligned is not None
        return AlignedSides(config.aligned, config.idle_timeout, config.forget_after)

    def begin(self) -> None:
        super().begin()
        self._largest, self._before = 0, self.operator.counters

    @property
    def stores(self) -> tuple[RowStore, ...]:
        return (self.left, self.right)[: self.operator.streams]

    @abstractmethod
    def join(
        self, tables: list[pa.Table], order: Ints, side: Numbers, code: Ints, time: Ints | None
    ) -> Answers:
        """Process arrivals with the operator.

        tables : of the present sides    order : int64[n], positions of the rows in these,
            concatenated
        side, code, time : see `Arrivals`
        """

    @abstractmethod
    def rows_of_side(
        self, store: RowStore, numbers: Ints, sample: npt.NDArray[np.int32], lengths: Ints
    ) -> RowsOfSide:
        """Return (rows, attributes of the alternatives by name) for one side of answers.

        Without `alternatives` in the config, the attributes are empty.
        numbers : int64[k], of the tuples    lengths : int64[k], pairs of samples per answer
        sample : int32[sum of lengths], the sample of this side in each pair
        """

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
            return self._joined([(side, self.without_late(table)) for side, table in batch])
        for side, table in batch:
            late, behind = self.sides.add(side, table, now)
            self.require_one_controller(behind)
            self.counts["late"] += late
            self.counts["out_of_order"] += behind
        return self._joined(self.sides.ready(now))

    def idle(self, now: int) -> list[pa.Table]:
        return [] if self.sides is None else self._joined(self.sides.ready(now))

    def flush(self) -> list[pa.Table]:
        return [] if self.sides is None else self._joined(self.sides.rest())

    def without_late(self, table: pa.Table) -> pa.Table:
        """Return rows without those flagged late, which are counted."""
        if LATE not in table.column_names:
            return table
        rows = table.filter(pc.invert(pc.fill_null(table.column(LATE), False)))
        self.counts["late"] += table.num_rows - rows.num_rows
        return rows

    def _joined(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        """Join ordered rows, and store the parts needed for answers."""
        present = sorted({side for side, table in batch if table.num_rows})
        if not present:
            return []
        tables = [joined([t for s, t in batch if s == side]) for side in present]
        lengths = [table.num_rows for table in tables]
        side = np.repeat(np.array(present, np.uint8), lengths)
        within_side = np.concatenate([np.arange(n) for n in lengths])

        def numbers(name: str) -> Numbers:
            return np.concatenate([as_numbers(table.column(name)) for table in tables])

        columns = [numbers(f"order{i}") for i in range(self.config.orders)]
        by = [columns[0], *self.released(tables), *columns[1:]]
        order = arrival_order(by, [side, numbers(TIE)])
        code = np.zeros(order.size, np.int64)
        if self._known:
            known = joined([table.select(self._known) for table in tables])
            code = self.codes(known.take(pa.array(order)))
        if self.sides is None:
            self.note_order([column[order] for column in columns])
        if self.stores:
            for number, table in zip(present, tables, strict=True):
                places = within_side[order[side[order] == number]]
                self.stores[number].append(table.select([ROW, *self.kept]).take(pa.array(places)))
        time = columns[0][order].astype(np.int64) if self.operator.timed else None
        output = self.found(tables, order, side[order], code, time)
        self._largest = max(self._largest, self.operator.largest(code))
        self.forget_expired()
        for number, store in enumerate(self.stores):
            # Live rows are looked up only occasionally, since this takes time proportional to the
            # state.
            if store.crowded(self.operator.named_at_most(number)):
                store.keep(self.operator.live(number))
        return output

    def found(
        self, tables: list[pa.Table], order: Ints, side: Numbers, code: Ints, time: Ints | None
    ) -> list[pa.Table]:
        """Process arrivals, as `join`; return the output."""
        answers = self.join(tables, order, side, code, time)
        self.counts["pairs"] += int((answers.change > 0).sum())
        return [self._table(answers)] if len(answers) else []

    def released(self, tables: Sequence[pa.Table]) -> list[Numbers]:
        """Return the columns that order the release of rows with equal event times, if any."""
        return []

    def _table(self, answers: Answers) -> pa.Table:
        lengths = np.diff(answers.offsets)
        left = self.rows_of_side(self.stores[0], answers.left, answers.left_sample, lengths)
        right = self.rows_of_side(self.stores[-1], answers.right, answers.right_sample, lengths)
        table = answers_table(left, right, answers, self.config.alternatives)
        if self.config.output == "changes":
            change = pa.array(np.where(answers.change > 0, "+", "-"), pa.string())
            table = table.append_column("change", change)
        return table

    def forget(self, codes: Ints) -> None:
        self.operator.forget(codes)

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    def gauges(self) -> dict[str, Any]:
        done = self.operator.counters
        since = {
            name: done[of] - self._before.get(of, 0)
            for name, of in (("opposite", "pairs"), ("compared", self.compared))
        }
        return {**super().gauges(), **window_gauges(self._largest, self.config.windows), **since}

    def before_saving(self) -> None:
        for number, store in enumerate(self.stores):
            store.keep(self.operator.live(number))

    def after_loading(self) -> None:
        super().after_loading()
        for number, store in enumerate(self.stores):
            if not np.isin(self.operator.live(number), store.numbers).all():
                raise ValueError("rows are missing of tuples that are held")
            if store.next != self.operator.given[number]:
                raise ValueError("rows and tuples are numbered differently")
        if len(self.operator.current):
            self._table(self.operator.current)  # raises if its pairs are invalid


def answers_table(
    left: RowsOfSide, right: RowsOfSide, found: Answers, alternatives: bool = True
) -> pa.Table:
    """Return pairs as a table: left, right, probability and, optionally, alternatives.

    left, right : the rows of each pair, and the attributes of each pair of samples by name
    """
    columns: dict[str, Any] = {
        "left": left[0],
        "right": right[0],
        "probability": pa.array(found.probability),
    }
    if alternatives:
        pair: dict[str, Any] = {"prob": pa.array(found.prob)}
        for side, (_, attributes) in zip(SIDES, (left, right), strict=True):
            pair |= {f"{side}_{name}": values for name, values in attributes.items()}
        flat = pa.StructArray.from_arrays(list(pair.values()), names=list(pair))
        columns[ALTERNATIVES] = pa.ListArray.from_arrays(pa.array(found.offsets, pa.int32()), flat)
    return pa.table(columns)


def attributes_at(
    rows: pa.Table, sample: npt.NDArray[np.int32], lengths: Ints
) -> dict[str, pa.Array]:
    """Return the attributes, by name, of samples of the rows' alternatives.

    lengths : int64[n], samples per row    sample : their numbers, row after row
    Raises ValueError for a sample that its row does not have, as in damaged state.
    """
    alternatives = rows.column(ALTERNATIVES).combine_chunks()
    offsets = alternatives.offsets.to_numpy()
    place = np.repeat(offsets[:-1], lengths) + sample
    if (sample < 0).any() or (place >= np.repeat(offsets[1:], lengths)).any():
        raise ValueError("a pair refers to an alternative that its row does not have")
    wanted = alternatives.values.take(pa.array(place))
    return {f.name: wanted.field(f.name) for f in wanted.type if f.name != "prob"}


def samples_of(table: pa.Table, on: Sequence[str]) -> SampledTuples:
    """Return the alternatives of a table's rows, with the attributes `on`."""
    column = table.column(ALTERNATIVES).combine_chunks()
    offsets = offsets_of(np.diff(column.offsets.to_numpy()))
    flat = column.flatten()
    columns = [flat.field(name).to_numpy(zero_copy_only=False) for name in ("prob", *on)]
    prob, *points = (np.asarray(column, np.float64) for column in columns)
    return SampledTuples(offsets, np.require(prob, requirements="W"), np.stack(points, axis=1))
