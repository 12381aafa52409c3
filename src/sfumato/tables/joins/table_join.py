"""The base of similarity joins over Arrow tables, and the tables of their answers."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.operators.joins.answers import JoinAnswers, SampledTuples, Unmatched
from sfumato.operators.joins.pair_join import PairJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Part
from sfumato.tables.arrow import as_array
from sfumato.tables.joins.two_sides import Numbers, OrderedSides, TwoSides, TwoSidesConfig
from sfumato.tables.operator import ROW, SIDES, SIZE_GAUGES, TableConfig, window_gauges
from sfumato.tables.reading.results import cast_renamed
from sfumato.tables.row_store import RowStore
from sfumato.windows import JoinWindow

ALTERNATIVES = "alternatives"
RowsOfSide = tuple[pa.ChunkedArray, dict[str, pa.Array]]


@dataclass(frozen=True, kw_only=True)
class JoinTableConfig(TwoSidesConfig):
    """Settings of the joins of two sides.

    within, probability, windows, output : as for the operator; within=None if rows have a `radius`
    alternatives : whether answers include the matching pairs of alternatives
    on : attributes of the distance, in the order used in answers
    max_alternatives : bound on the pairs of alternatives per answer, see `matching_pairs`
    """

    within: float | None
    probability: float
    windows: tuple[JoinWindow, JoinWindow]
    output: str = "append"
    alternatives: bool = True
    on: tuple[str, ...] = ()
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
                '`forget_after` and output="changes" cannot be combined, because the answers of a '
                'silent key stay current: leave `forget_after` out, or write output="append"'
            )


class TableJoin(TwoSides):
    """A join over Arrow tables, for the keys of one bucket. It stores the rows of live tuples.

    Simultaneous rows are ordered left before right. Subclasses set `operator` and `kept_columns`,
    the columns needed for answers, and implement `join` and `rows_of_side`.
    """

    config: JoinTableConfig
    operator: PairJoin
    kept_columns: tuple[str, ...]
    state = {
        "operator": Part(),
        "left": Part(),
        "right": Part(),
    }
    compared = "candidates"  # the operator's counter of pairs whose samples were compared

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.left = RowStore(lambda: self.operator.live_numbers(0))
        self.right = RowStore(lambda: self.operator.live_numbers(1))
        self._largest = 0  # largest window in this micro-batch
        self._before: dict[str, int] = {}  # the operator's counters before this micro-batch

    def begin(self) -> None:
        super().begin()
        self._largest, self._before = 0, self.operator.counters

    @property
    def stores(self) -> tuple[RowStore, ...]:
        return (self.left, self.right)[: self.operator.streams]

    def stored_columns(self, side: int) -> list[str]:
        return [ROW, *self.kept_columns]

    @abstractmethod
    def join(self, rows: OrderedSides) -> JoinAnswers:
        """Process arrivals with the operator."""

    def times(self, rows: OrderedSides) -> Ints | None:
        """Return event times in microseconds for time windows, otherwise None."""
        return rows.time.astype(np.int64) if self.operator.timed else None

    @abstractmethod
    def rows_of_side(
        self, store: RowStore, numbers: Ints, sample: Numbers, lengths: Ints
    ) -> RowsOfSide:
        """Return (rows, attributes of the alternatives by name) for one side of k answers.

        The attributes are empty if the config has alternatives=False.
        numbers : int64[k], tuple numbers    lengths : int64[k], sample pairs per answer
        sample : int32[sum of lengths], this side's sample in each pair
        """

    def _join_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        found = self.order_rows(batch)
        if found is None:
            return []
        if self.stores:
            for number, table in zip(found.present, found.tables, strict=True):
                places = found.places_of(number)
                rows = table.select(self.stored_columns(number))
                self.stores[number].append(rows.take(pa.array(places)))
        output = self.process_arrivals(found)
        self._largest = max(self._largest, self.operator.largest_window(found.code))
        self.forget_expired()
        for number, store in enumerate(self.stores):
            store.drop_unneeded(self.operator.max_live_count(number))
        return output

    def process_arrivals(self, rows: OrderedSides) -> list[pa.Table]:
        answers = self.join(rows)
        self.counts["pairs"] += int((answers.change > 0).sum())
        return [self._table(answers)] if len(answers) else []

    def _table(self, answers: JoinAnswers) -> pa.Table:
        lengths = np.diff(answers.offsets)
        left = self.rows_of_side(self.stores[0], answers.left, answers.left_sample, lengths)
        right = self.rows_of_side(self.stores[-1], answers.right, answers.right_sample, lengths)
        table = answers_table(left, right, answers, self.config.alternatives)
        if self.config.output == "changes":
            change = pa.array(np.where(answers.change > 0, "+", "-"), pa.string())
            table = table.append_column("change", change)
        return table

    def gauges(self) -> dict[str, Any]:
        done = self.operator.counters
        since = {
            name: done[of] - self._before.get(of, 0)
            for name, of in (("opposite", "pairs"), ("compared", self.compared))
        }
        return {**super().gauges(), **window_gauges(self._largest, self.config.windows), **since}

    def after_loading(self) -> None:
        super().after_loading()
        for number, store in enumerate(self.stores):
            if not np.isin(self.operator.live_numbers(number), store.numbers).all():
                raise ValueError("every held tuple must have its row")
            if store.next != self.operator.tuple_counts[number]:
                raise ValueError("rows and tuples must have the same numbers")
        if len(self.operator.current):
            self._table(self.operator.current)  # raises if the operator's pairs are invalid


def answers_table(
    left: RowsOfSide,
    right: RowsOfSide,
    found: JoinAnswers | Unmatched | None,
    alternatives: bool = True,
) -> pa.Table:
    """Return answers as a table: left, right, and optionally probability and alternatives.

    left, right : each answer's row, and by name the attributes of each sample pair
    found : None for answers without a probability
    """
    columns: dict[str, Any] = {"left": left[0], "right": right[0]}
    if found is not None:
        columns["probability"] = pa.array(found.probability)
    if found is not None and alternatives:
        pair: dict[str, Any] = {"prob": pa.array(found.prob)}
        for side, (_, attributes) in zip(SIDES, (left, right), strict=True):
            pair |= {f"{side}_{name}": values for name, values in attributes.items()}
        flat = pa.StructArray.from_arrays(list(pair.values()), names=list(pair))
        offsets = found.offsets
        possible = found.prob > 0.0  # samples that certainly have a partner have probability 0
        if not possible.all():
            flat = flat.filter(pa.array(possible))
            offsets = np.concatenate([[0], np.cumsum(possible)])[offsets]
        columns[ALTERNATIVES] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
    return pa.table(columns)


def unmatched_table(
    rows: pa.Table,
    side: int,
    found: Unmatched | None,
    schema: pa.Schema | None,
    alternatives: bool = True,
) -> pa.Table:
    """Return a side's rows that have no partner as answers, with NULLs for the other side.

    found, alternatives : as for `answers_table`    schema : schema of the answers; None if unknown
    """
    attributes, samples = dict[str, pa.Array](), 0
    if found is not None:
        lengths, samples = np.diff(found.offsets), len(found.prob)
        sample = np.arange(samples) - np.repeat(found.offsets[:-1], lengths)
        attributes = attributes_at(rows, sample, lengths) if alternatives else {}
    nulls = nulls_of_side(SIDES[1 - side], rows.num_rows, samples, schema)
    mine = rows.column(ROW), attributes
    left, right = (mine, nulls) if side == 0 else (nulls, mine)
    return answers_table(left, right, found, alternatives)


@dataclass(frozen=True, kw_only=True)
class TypedAnswersConfig(TableConfig):
    """Settings of an operator whose answers have NULLs for a side that may have had no rows."""

    answers: pa.Schema | None = field(default=None, metadata=CHANGEABLE)

    def typed(self, answers: Callable[[], pa.Schema]) -> Self:
        return replace(self, answers=answers())


def cast_answers(answers: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Cast answers to the types of `schema`, if known, so that pairs and unmatched rows agree."""
    if schema is None:
        return answers
    return pa.table(
        {
            name: cast_renamed(as_array(answers.column(name)), schema.field(name).type)
            for name in answers.column_names
        }
    )


def nulls_of_side(side: str, rows: int, samples: int, schema: pa.Schema | None) -> RowsOfSide:
    """Return NULLs for the missing side of answers; only `schema` knows their attributes."""
    attributes = {}
    if schema is not None and ALTERNATIVES in schema.names:
        for of in schema.field(ALTERNATIVES).type.value_type:
            if of.name.startswith(f"{side}_"):
                attributes[of.name.removeprefix(f"{side}_")] = pa.nulls(samples, of.type)
    return pa.chunked_array([pa.nulls(rows)]), attributes


def attributes_at(rows: pa.Table, sample: Numbers, lengths: Ints) -> dict[str, pa.Array]:
    """Return, by name, the attributes of the given samples of each row's alternatives.

    lengths : int64[n], samples per row    sample : sample numbers, row by row
    """
    alternatives = rows.column(ALTERNATIVES).combine_chunks()
    offsets = alternatives.offsets.to_numpy()
    place = np.repeat(offsets[:-1], lengths) + sample
    if (sample < 0).any() or (place >= np.repeat(offsets[1:], lengths)).any():
        raise ValueError("pairs must refer to alternatives of their rows")
    wanted = alternatives.values.take(pa.array(place))
    return {f.name: wanted.field(f.name) for f in wanted.type if f.name != "prob"}


def samples_of(
    table: pa.Table, on: Sequence[str], numbers: Callable[[pa.Array], Any] | None = None
) -> SampledTuples:
    """Return the alternatives of a table's rows. numbers : encodes string columns as numbers"""
    column = table.column(ALTERNATIVES).combine_chunks()
    offsets = offsets_of(np.diff(column.offsets.to_numpy()))
    flat = column.flatten()
    cells = [flat.field(name) for name in ("prob", *on)]
    columns = [
        numbers(cell)
        if numbers and pa.types.is_string(cell.type)
        else cell.to_numpy(zero_copy_only=False)
        for cell in cells
    ]
    prob, *points = (np.asarray(column, np.float64) for column in columns)
    return SampledTuples(offsets, np.require(prob, requirements="W"), np.stack(points, axis=1))
