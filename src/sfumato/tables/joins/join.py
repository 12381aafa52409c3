"""What joins over Arrow tables share: two sides in one order, their rows, answers as tables."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Ints
from sfumato.operators.joins.answers import Answers, Matches
from sfumato.operators.joins.pair_join import PairJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Optional, Part
from sfumato.tables.arrival_order import arrival_order
from sfumato.tables.arrow import as_numbers, joined
from sfumato.tables.joins.aligned_sides import LATE, AlignedSides
from sfumato.tables.joins.alternatives import ALTERNATIVES
from sfumato.tables.operator import ROW, TIE, TableConfig, TableOperator
from sfumato.tables.row_store import RowStore
from sfumato.tables.window_sizes import SIZES, sizes
from sfumato.windows import JoinWindow

SIDES = ("left", "right")
Numbers = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class JoinTableConfig(TableConfig):
    """Settings of the joins of two sides.

    within, probability, windows, output : as for their operators
    alternatives : whether answers have the pairs of alternatives that match
    on : the attributes that span the distance, in the order in which answers name them
    aligned : for each side the numbers of the keys for each of which a disorder controller stands
        before it: rows wait for the slower side, see `AlignedSides`; None: rows as they come
    idle_timeout : milliseconds, of aligned sides
    pace_matters : two streams without punctuations: their rows are counted as `unaligned`
    max_alternatives : pairs of alternatives that one answer has at most, see `matching_pairs`
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
        **SIZES,
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
class Arriving:
    """The rows of a micro-batch in order.

    side : uint8[n]    code : int64[n], of the key    time : int64[n], microseconds, or None
    tables : those of the sides present, left before right    order : int64[n], places of the rows
        in these, one behind the other
    """

    side: npt.NDArray[np.uint8]
    code: Ints
    time: Ints | None
    tables: list[pa.Table]
    order: Ints


class TableJoin(TableOperator):
    """A join over Arrow tables, for the keys of one bucket; keeps its live tuples' rows.

    Simultaneous rows: left before right, then by their tie. With `aligned` rows have the columns
    `late` and `punctuation` of their controllers as well.
    A kind of join says how rows become arrivals (`join`) and how numbers become rows (`side`).
    """

    config: JoinTableConfig
    operator: PairJoin
    state = {
        "sides": Optional(Part("_new_sides")),
        "operator": Part(),
        "left": Part(),
        "right": Part(),
    }
    kept: tuple[str, ...] = ()  # columns of a row that answers are made of, beside `row`
    compared = "candidates"  # counter of the operator: pairs whose samples were compared

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.left, self.right = RowStore(), RowStore()
        self.sides = None if config.aligned is None else self._new_sides()
        self._known = [f"key{i}" for i in range(config.keys)]
        self._known += ["order0"] if config.forget_after is not None else []
        self._timed = any(window.span is not None for window in config.windows)
        self._largest = 0  # window of the micro-batch
        self._done = {"opposite": 0, "compared": 0}  # when it began

    def begin(self) -> None:
        super().begin()
        self._largest, self._done = 0, self._compared()

    def _compared(self) -> dict[str, int]:
        """Pairs of an arrival and a tuple held opposite it so far, and those not pruned."""
        done = self.operator.counters
        return {"opposite": done["pairs"], "compared": done[self.compared]}

    @property
    def stores(self) -> tuple[RowStore, ...]:
        """The rows of each side."""
        return self.left, self.right

    def live(self, number: int) -> Ints:
        """int64[]: the numbers of the rows that one of the stores must have."""
        return self.operator.live(number)

    @abstractmethod
    def join(self, arriving: Arriving) -> Answers:
        """Give the arrivals to the operator."""

    @abstractmethod
    def side(
        self, store: RowStore, numbers: Ints, sample: npt.NDArray[np.int32], lengths: Ints
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        """(rows, attributes of the alternatives by name) of one side of answers.

        Without `alternatives` in the config the attributes are none.

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
            return self._joined(self._without_late(batch))
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

    def _without_late(self, batch: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, pa.Table]]:
        """The rows without those that the controller of one side, or of both, has marked late."""
        found = []
        for side, table in batch:
            rows = table
            if LATE in table.column_names:
                rows = table.filter(pc.invert(pc.fill_null(table.column(LATE), False)))
                self.counts["late"] += table.num_rows - rows.num_rows
            if rows.num_rows:
                found.append((side, rows))
        return found

    def _joined(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        if not batch:
            return []
        arriving = self._arrange(batch)
        answers = self.join(arriving)
        self._largest = max(self._largest, self.operator.largest(arriving.code))
        self.forget_expired()
        self.counts["pairs"] += int((answers.change > 0).sum())
        output = [self._rows(answers)] if len(answers) else []
        for number, store in enumerate(self.stores):
            # What is live is looked up only now and then: that takes as long as all that is held.
            if len(store) > 2 * self.operator.named_at_most(number) + 64:
                store.keep(self.live(number))
        return output

    def _arrange(self, batch: Sequence[tuple[int, pa.Table]]) -> Arriving:
        """Order the rows of a micro-batch, and store what answers will need of them."""
        present = sorted({side for side, _ in batch})
        tables = [joined([t for s, t in batch if s == side]) for side in present]
        lengths = [t.num_rows for t in tables]
        side = np.repeat(np.array(present, np.uint8), lengths)
        within_side = np.concatenate([np.arange(n) for n in lengths])
        columns = [
            np.concatenate([as_numbers(t.column(f"order{i}")) for t in tables])
            for i in range(self.config.orders)
        ]
        tie = np.concatenate([as_numbers(t.column(TIE)) for t in tables])
        released = self.released(tables)
        by = [columns[0], *released, *columns[1:]]
        order = arrival_order(by, self.ties(side, tie, within_side))
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
        return Arriving(side[order], codes, time, tables, order)

    def released(self, tables: Sequence[pa.Table]) -> list[Numbers]:
        """What puts rows of one event time in the order of their release, if anything does."""
        return []

    def ties(self, side: Numbers, tie: Numbers, within_side: Numbers) -> list[Numbers]:
        """What decides between simultaneous rows, the most important first."""
        return [side, tie]

    def _rows(self, answers: Answers) -> pa.Table:
        lengths = np.diff(answers.offsets)
        left = self.side(self.stores[0], answers.left, answers.left_sample, lengths)
        right = self.side(self.stores[-1], answers.right, answers.right_sample, lengths)
        if self.config.alternatives:
            table = answers_table(left, right, answers)
        else:
            columns = {"left": left[0], "right": right[0], "probability": answers.probability}
            table = pa.table(columns)
        if self.config.output == "changes":
            change = pa.array(np.where(answers.change > 0, "+", "-"), pa.string())
            table = table.append_column("change", change)
        return table

    def forget(self, codes: Ints) -> None:
        """Drop what is held of these keys (int64[])."""
        self.operator.forget(codes)

    def counters(self) -> dict[str, int]:
        return {**self.counts, **self.done()}

    def gauges(self) -> dict[str, Any]:
        done = self._compared()
        since = {name: count - self._done[name] for name, count in done.items()}
        return {**super().gauges(), **sizes(self._largest, self.config.windows), **since}

    def done(self) -> dict[str, int]:
        """The counters that the operator keeps."""
        return {}

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
            self._rows(current)  # raises where its pairs cannot be

    def _new_sides(self) -> AlignedSides:
        config = self.config
        assert config.aligned is not None
        return AlignedSides(config.aligned, config.idle_timeout, config.forget_after)


RowsOfSide = tuple[pa.ChunkedArray, dict[str, pa.Array]]


def answers_table(left: RowsOfSide, right: RowsOfSide, found: Answers | Matches) -> pa.Table:
    """Pairs as a table: left, right, probability and alternatives.

    left, right : the rows of each pair, and the attributes of each pair of samples by name
    """
    pair: dict[str, Any] = {"prob": pa.array(found.prob)}
    for side, (_, attributes) in zip(SIDES, (left, right), strict=True):
        pair |= {f"{side}_{name}": values for name, values in attributes.items()}
    flat = pa.StructArray.from_arrays(list(pair.values()), names=list(pair))
    alternatives = pa.ListArray.from_arrays(pa.array(found.offsets, pa.int32()), flat)
    return pa.table(
        {
            "left": left[0],
            "right": right[0],
            "probability": pa.array(found.probability),
            ALTERNATIVES: alternatives,
        }
    )
