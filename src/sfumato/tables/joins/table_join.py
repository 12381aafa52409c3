"""The common part of the similarity joins over Arrow tables: two sides taken in one order, their
rows, and answers as tables."""

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
from sfumato.operators.joins.answers import Answers, Matches, SampledTuples
from sfumato.operators.joins.pair_join import PairJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Optional, Part
from sfumato.tables.arrival_order import arrival_order
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
    alternatives : whether answers have the pairs of alternatives that match
    on : the attributes that span the distance, in the order in which answers name them
    aligned : for each side the numbers of the keys of its disorder controller: rows wait for the
        slower side, see `AlignedSides`; None: rows are taken as they come
    idle_timeout : milliseconds, of aligned sides
    pace_matters : two streams without punctuations: their rows are counted as `unaligned`
    max_alternatives : the bound on pairs of alternatives per answer, see `matching_pairs`
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


@dataclass(frozen=True)
class ArrivalBatch:
    """The rows of a micro-batch in order.

    side : uint8[n]    code : int64[n], of the key    time : int64[n], microseconds, or None
    tables : those of the sides present, left before right    order : int64[n], places of the rows
        in the concatenated tables
    """

    side: npt.NDArray[np.uint8]
    code: Ints
    time: Ints | None
    tables: list[pa.Table]
    order: Ints


class TableJoin(TableOperator):
    """A join over Arrow tables, for the keys of one bucket; keeps the rows of its live tuples.

    Simultaneous rows are taken left before right, then by their tie. With `aligned` rows also have
    the columns `late` and `punctuation` of their controllers. Subclasses make arrivals of rows
    (`join`) and rows of numbers (`rows_of_side`).
    """

    config: JoinTableConfig
    operator: PairJoin
    state = {
        "sides": Optional(Part("_new_sides")),
        "operator": Part(),
        "left": Part(),
        "right": Part(),
    }
    kept: tuple[str, ...] = ()  # further columns from which answers are made
    compared = "candidates"  # counter of the operator: pairs whose samples were compared

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.left, self.right = RowStore(), RowStore()
        self.sides = None if config.aligned is None else self._new_sides()
        self._known = [f"key{i}" for i in range(config.keys)]
        self._known += ["order0"] if config.forget_after is not None else []
        self._timed = any(window.span is not None for window in config.windows)
        self._largest = 0  # window of the micro-batch
        self._before = {"opposite": 0, "compared": 0}  # counts at its beginning

    def _new_sides(self) -> AlignedSides:
        config = self.config
        assert config.aligned is not None
        return AlignedSides(config.aligned, config.idle_timeout, config.forget_after)

    def begin(self) -> None:
        super().begin()
        self._largest, self._before = 0, self._pair_counts()

    def _pair_counts(self) -> dict[str, int]:
        """Count the pairs of an arrival and a tuple opposite it so far, and those not pruned."""
        done = self.operator.counters
        return {"opposite": done["pairs"], "compared": done[self.compared]}

    @property
    def stores(self) -> tuple[RowStore, ...]:
        """The rows of each side."""
        return self.left, self.right

    def live(self, number: int) -> Ints:
        """Return int64[]: the numbers of the rows that one of the stores must have."""
        return self.operator.live(number)

    @abstractmethod
    def join(self, batch: ArrivalBatch) -> Answers:
        """Give the arrivals to the operator."""

    @abstractmethod
    def rows_of_side(
        self, store: RowStore, numbers: Ints, sample: npt.NDArray[np.int32], lengths: Ints
    ) -> RowsOfSide:
        """Return (rows, attributes of the alternatives by name) of one side of answers.

        Without `alternatives` in the config there are no attributes.

        numbers : int64[k], of the tuples    lengths : int64[k], pairs of samples of each answer
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
            self.counts["unaligned"] += rows if self.config.pace_matters else 0
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
        """Return rows without those that a controller has marked late, which are counted."""
        if LATE not in table.column_names:
            return table
        rows = table.filter(pc.invert(pc.fill_null(table.column(LATE), False)))
        self.counts["late"] += table.num_rows - rows.num_rows
        return rows

    def _joined(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        batch = [(side, table) for side, table in batch if table.num_rows]
        if not batch:
            return []
        arrivals = self._arrange(batch)
        answers = self.join(arrivals)
        self._largest = max(self._largest, self.operator.largest(arrivals.code))
        self.forget_expired()
        self.counts["pairs"] += int((answers.change > 0).sum())
        output = [self._table(answers)] if len(answers) else []
        for number, store in enumerate(self.stores):
            # Live rows are looked up only now and then: that takes as long as all that is held.
            if len(store) > 2 * self.operator.named_at_most(number) + 64:
                store.keep(self.live(number))
        return output

    def _arrange(self, batch: Sequence[tuple[int, pa.Table]]) -> ArrivalBatch:
        """Order the rows of a micro-batch, and store what answers will need of them."""
        present = sorted({side for side, _ in batch})
        tables = [joined([t for s, t in batch if s == side]) for side in present]
        lengths = [t.num_rows for t in tables]
        side = np.repeat(np.array(present, np.uint8), lengths)
        within_side = np.concatenate([np.arange(n) for n in lengths])

        def numbers(name: str) -> Numbers:
            return np.concatenate([as_numbers(t.column(name)) for t in tables])

        columns = [numbers(f"order{i}") for i in range(self.config.orders)]
        by = [columns[0], *self.released(tables), *columns[1:]]
        order = arrival_order(by, self.ties(side, numbers(TIE), within_side))
        codes = np.zeros(order.size, np.int64)
        if self._known:
            known = joined([t.select(self._known) for t in tables])
            codes = self.codes(known.take(pa.array(order)))
        if self.sides is None:
            self.note_order([c[order] for c in columns])
        for number, table in zip(present, tables, strict=True):
            if number < len(self.stores):
                places = within_side[order[side[order] == number]]
                self.stores[number].append(table.select([ROW, *self.kept]).take(pa.array(places)))
        time = columns[0][order].astype(np.int64) if self._timed else None
        return ArrivalBatch(side[order], codes, time, tables, order)

    def released(self, tables: Sequence[pa.Table]) -> list[Numbers]:
        """Return columns by which rows of one event time are released, if there are any."""
        return []

    def ties(self, side: Numbers, tie: Numbers, within_side: Numbers) -> list[Numbers]:
        """Return what decides between simultaneous rows, the most important first."""
        return [side, tie]

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
        return {**self.counts, **self.operator_counters()}

    def operator_counters(self) -> dict[str, int]:
        """Return the counters that the operator keeps."""
        return {}

    def gauges(self) -> dict[str, Any]:
        since = {name: n - self._before[name] for name, n in self._pair_counts().items()}
        return {**super().gauges(), **window_gauges(self._largest, self.config.windows), **since}

    def before_saving(self) -> None:
        for number, store in enumerate(self.stores):
            store.keep(self.live(number))

    def after_loading(self) -> None:
        super().after_loading()
        for number, store in enumerate(self.stores):
            if not np.isin(self.live(number), store.numbers).all():
                raise ValueError("rows are missing of tuples that are held")
            if store.next != self.operator.given.given[number]:
                raise ValueError("rows and tuples are numbered differently")
        current = self.operator.answer_set.current
        if self.config.output == "changes" and len(current):
            self._table(current)  # raises where its pairs cannot be


def answers_table(
    left: RowsOfSide, right: RowsOfSide, found: Answers | Matches, alternatives: bool = True
) -> pa.Table:
    """Return pairs as a table: left, right, probability and maybe alternatives.

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
    """Return the attributes, by name, of samples of some rows' alternatives.

    lengths : int64[n], samples per row    sample : their numbers, row after row
    Raises ValueError for a sample that its row does not have: such a state was damaged.
    """
    alternatives = rows.column(ALTERNATIVES).combine_chunks()
    offsets = alternatives.offsets.to_numpy()
    place = np.repeat(offsets[:-1], lengths) + sample
    if (sample < 0).any() or (place >= np.repeat(offsets[1:], lengths)).any():
        raise ValueError("a pair is of a sample that its row does not have")
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
