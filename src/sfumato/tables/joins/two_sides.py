"""The base of operators with two sides: alignment, late rows, and a single order.

Aligned sides are the outputs of disorder controllers, read at any speed. A row waits until the
punctuations of both sides exceed its event time. Rows are therefore emitted in a single event-time
order, independent of reading speed, micro-batches and restarts.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Bools, Ints, pad
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Array, Optional, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import NO_PUNCTUATION, SavedTable, as_numbers, concat_tables
from sfumato.tables.operator import TIE, TableConfig, TableOperator, arrival_columns
from sfumato.tables.reading.frame import PUNCTUATION
from sfumato.tables.row_store import HeldRows
from sfumato.tables.scope import BEGINNING, Scopes

Numbers = npt.NDArray[Any]


@dataclass
class TimedRows(HeldRows):
    """Waiting rows.

    time : int64[n], event times in microseconds
    scope : int64[3, n], codes of the left scope, the right scope, and the scope by both keys
    """

    time: Ints
    scope: Ints


class AlignedSide(Stateful):
    """One side: the scopes of its controllers, and its waiting rows.

    punctuations : int64[scopes]
    seen : int64[scopes], processing time (ms) of the side's newest row; before its first row, of
        the other side's first row; without a timeout, BEGINNING
    pieces : the rows, in pieces of geometrically decreasing sizes    rows : the rows, as saved
    """

    state = {
        "scopes": Part(),
        "punctuations": Array(int, "scopes"),
        "seen": Array(int, "scopes"),
        "rows": SavedTable(),
    }

    def __init__(self, keys: Sequence[int], forget_after: float | None) -> None:
        self.scopes = Scopes(keys, forget_after)
        self.punctuations = self.seen = np.empty(0, np.int64)
        self.pieces: list[TimedRows] = []
        self.loaded: pa.Table | None = None

    def codes(self, rows: pa.Table) -> Ints:
        """Return int64[n]: the codes that rows from either side have in this side's scopes."""
        codes = self.scopes.encode(rows)
        self.punctuations = pad(self.punctuations, len(self.scopes), BEGINNING)
        self.seen = pad(self.seen, len(self.scopes), BEGINNING)
        return codes

    def buffer(self, piece: TimedRows) -> None:
        self.pieces += [piece] if piece.time.size else []
        while len(self.pieces) > 1 and self.pieces[-2].time.size < 2 * self.pieces[-1].time.size:
            self.pieces[-2:] = [self.pieces[-2].concat(self.pieces[-1])]

    @property
    def rows(self) -> pa.Table | None:
        tables = [piece.rows for piece in self.pieces]
        return pa.concat_tables(tables).combine_chunks() if tables else None

    @rows.setter
    def rows(self, rows: pa.Table | None) -> None:
        self.loaded = rows

    def after_loading(self) -> None:
        if len(self.scopes) != len(self.punctuations):
            raise ValueError("every scope must have a punctuation")


class AlignedSides(Stateful):
    """Rows of two sides, each emitted once the punctuations of both exceed its event time.

    scopes : per side, the numbers of its controllers' keys
    idle_timeout : milliseconds after which a side no longer delays rows of a scope in which it is
        silent, or None
    forget_after : microseconds after which a scope without rows loses its punctuations, see
        `Scopes`; an older row of the scope then waits for both sides. None for never

    Rows are on time, with the columns order0 (event time), punctuation and key0... Rows are left
    out if a timeout has already released later rows. Without a timeout, the emitted rows and their
    order depend only on each side's rows.
    Cost: O(1) per row and side, and O(log n) copies of waiting rows; state: the waiting rows.

    finer : the side whose keys include all keys of the other side, or 2 if there is none
    both : scopes by the keys of both sides if `finer` is 2; otherwise None
    released_up_to : int64[], per scope by both keys, event time up to which rows were released
    """

    state = {
        "left": Part(),
        "right": Part(),
        "both": Optional(Part("_new_both")),
        "released_up_to": Array(int),
    }

    def __init__(
        self,
        scopes: Sequence[Sequence[int]],
        idle_timeout: int | None,
        forget_after: float | None = None,
    ) -> None:
        self.idle_timeout, self.forget_after = idle_timeout, forget_after
        self.sides = self.left, self.right = [AlignedSide(keys, forget_after) for keys in scopes]
        self.keys = sorted({key for keys in scopes for key in keys})
        self.finer = next((i for i, keys in enumerate(scopes) if {*keys} == {*self.keys}), 2)
        self.both = self._new_both() if self.finer == 2 else None
        self.released_up_to = np.empty(0, np.int64)

    def _new_both(self) -> Scopes:
        return Scopes(self.keys, self.forget_after)

    def add(self, side: int, rows: pa.Table, now: int) -> tuple[int, int, int]:
        """Add on-time rows of a side; return the numbers of rows (left out, out of order, split).

        Split rows follow after their micro-batch: rows of the other side have already passed them,
        because other rows with the same punctuation came before.
        """
        if not rows.num_rows:
            return 0, 0, 0
        mine = self.sides[side]
        piece = self._piece(rows)
        if self.idle_timeout is not None:
            mine.seen[piece.scope[side]] = now
        known = piece.rows.column(PUNCTUATION)
        newest, behind, split = int(piece.time.max()), 0, 0
        if known.null_count < len(known):
            here = pc.is_valid(known).to_numpy()
            reached, scope = as_numbers(known.drop_null()), piece.scope[side][here]
            behind = count_behind(piece.time[here], reached, scope, mine.punctuations)
            again = reached == mine.punctuations[scope]
            split = int(np.sum(again & (piece.time < self._passed(piece))[here]))
            np.maximum.at(mine.punctuations, scope, reached)
            newest = max(int(reached.max()), newest)
        for scopes, codes in zip(self._all_scopes(), piece.scope, strict=False):
            scopes.record(side, codes, newest)
        gone = piece.time < self.released_up_to[piece.scope[2]]
        mine.buffer(piece.filter(~gone) if gone.any() else piece)
        return int(gone.sum()), behind, split

    def set_clock(self, now: int) -> None:
        if self.idle_timeout is not None:
            for side in self.sides:
                np.minimum(side.seen, now, out=side.seen)

    def take_ready(self, now: int) -> list[tuple[int, pa.Table]]:
        if self.idle_timeout is not None:
            self._release_idle(now, self.idle_timeout)
        out = self._release()
        for number, scopes in enumerate(self._all_scopes()):
            over = scopes.take_expired(piece.scope[number] for piece in self._pieces())
            if number < len(self.sides):
                self.sides[number].punctuations[over] = self.sides[number].seen[over] = BEGINNING
            if number == self.finer:
                self.released_up_to[over] = BEGINNING
        return out

    def take_waiting(self) -> list[tuple[int, pa.Table]]:
        for piece in self._pieces():
            np.maximum.at(self.released_up_to, piece.scope[2], piece.time)
        return self._release()

    def emitted_until(self) -> int | None:
        """Return a time below which no more rows are emitted, or None if it is unknown."""
        if self.keys or not self.released_up_to.size:
            return None
        passed = min(self.left.punctuations[0], self.right.punctuations[0])
        return int(max(passed, self.released_up_to[0]))

    def _all_scopes(self) -> list[Scopes]:
        scopes = [side.scopes for side in self.sides]
        return scopes if self.both is None else [*scopes, self.both]

    def _pieces(self) -> list[TimedRows]:
        return [*self.left.pieces, *self.right.pieces]

    def _release_idle(self, now: int, timeout: int) -> None:
        """Mark rows as ready if only silent sides delay them."""
        self.set_clock(now)
        waiting = [(piece.time, piece.scope) for piece in self._pieces()]
        if not self.keys and self.released_up_to.size:  # completes unmatched rows
            waiting.append((np.array([BEGINNING]), np.zeros((3, 1), np.int64)))
        for time, scope in waiting:
            silent, passed = [], []
            for side, codes in zip(self.sides, scope, strict=False):
                side.seen[codes[side.seen[codes] == BEGINNING]] = now
                silent.append(side.seen[codes] <= now - timeout)
                passed.append(side.punctuations[codes])
            upto = np.where(silent[1], passed[0], BEGINNING)
            upto = np.where(silent[0], np.maximum(upto, passed[1]), upto)
            upto = np.where(silent[0] & silent[1], np.maximum(upto, time), upto)
            np.maximum.at(self.released_up_to, scope[2], upto)

    def _passed(self, piece: TimedRows) -> Ints:
        """Return int64[n]: the smaller punctuation of both sides at each row."""
        left, right = (
            side.punctuations[codes] for side, codes in zip(self.sides, piece.scope, strict=False)
        )
        return np.minimum(left, right)

    def _release(self) -> list[tuple[int, pa.Table]]:
        out = []
        for number, side in enumerate(self.sides):
            pieces, side.pieces = side.pieces, []
            for piece in pieces:
                # Rows at the time of a punctuation may still arrive, with a higher punctuation.
                go: Bools = piece.time < self._passed(piece)
                go |= piece.time <= self.released_up_to[piece.scope[2]]
                if go.any():
                    out.append((number, piece.rows if go.all() else piece.filter(go).rows))
                if not go.all():
                    side.pieces.append(piece.filter(~go) if go.any() else piece)
        return out

    def _piece(self, rows: pa.Table) -> TimedRows:
        codes = [side.codes(rows) for side in self.sides]
        codes.append(codes[self.finer] if self.both is None else self.both.encode(rows))
        known = len(self._all_scopes()[self.finer])
        self.released_up_to = pad(self.released_up_to, known, BEGINNING)
        return TimedRows(rows, as_numbers(rows.column("order0")), np.stack(codes))

    def after_loading(self) -> None:
        if (self.both is not None) != (self.finer == 2):
            raise ValueError("only sides with different keys have common scopes")
        if len(self.released_up_to) != len(self._all_scopes()[self.finer]):
            raise ValueError("every scope must have a time of release")
        for side in self.sides:
            if side.loaded is not None:
                side.buffer(self._piece(side.loaded))
                side.loaded = None


def count_behind(time: Ints, punctuation: Ints, scope: Ints, passed: Ints) -> int:
    """Count rows whose time or punctuation is below an earlier punctuation of their scope.

    For rows of a single controller the count is 0.
    time, punctuation, scope : int64[n]    passed : int64[scopes], punctuations before these rows
    """
    order = np.lexsort((punctuation, scope))
    time, own, scope = time[order], punctuation[order], scope[order]
    new = np.ones(own.size, bool)
    new[1:] = (own[1:] != own[:-1]) | (scope[1:] != scope[:-1])
    start = np.flatnonzero(new)[np.cumsum(new) - 1]  # first row with the same punctuation
    same = (start > 0) & (scope[start - 1] == scope)
    below = np.where(same, own[start - 1], NO_PUNCTUATION)
    known = passed[scope]
    before = np.maximum(below, np.where(known < own, known, NO_PUNCTUATION))
    return int(np.count_nonzero((own < known) | (time < before)))


@dataclass(frozen=True, kw_only=True)
class TwoSidesConfig(TableConfig):
    """Settings of operators with two sides.

    aligned : per side, the numbers of its controller's keys; rows then wait for the slower side,
        see `AlignedSides`. None to process rows on arrival
    idle_timeout : microseconds, for aligned sides
    pace_matters : whether both sides are streams that are not aligned, with rows counted as
        `unaligned`
    """

    aligned: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    idle_timeout: int | None = field(default=None, metadata=CHANGEABLE)
    pace_matters: bool = field(default=False, metadata=CHANGEABLE)

    @property
    def by_punctuation(self) -> bool:
        """Return whether static rows are sorted by punctuation, because punctuations must not
        decrease between micro-batches; aligned rows are then ordered by time alone."""
        return self.aligned is not None


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
        timeout = config.idle_timeout and max(1, config.idle_timeout // 1000)
        return AlignedSides(config.aligned, timeout, config.forget_after)

    def set_clock(self, now: int) -> None:
        if self.sides is not None:
            self.sides.set_clock(now)

    def resume(self, now: int) -> None:
        for side in () if self.sides is None else self.sides.sides:
            side.seen[:] = now

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        self.set_clock(now)
        if self.config.pace_matters:
            self.counts["unaligned"] += sum(table.num_rows for _, table in batch)
        on_time = self.drop_late(batch)
        self.counts["rows"] += sum(table.num_rows for _, table in on_time)
        if self.sides is None:
            return self._join_rows(on_time)
        for side, table in on_time:
            late, behind, split = self.sides.add(side, table, now)
            self.require_one_controller(behind)
            self.counts["late"] += late
            self.counts["out_of_order"] += behind + split
        return self._join_rows(self.sides.take_ready(now))

    def idle(self, now: int) -> list[pa.Table]:
        return [] if self.sides is None else self._join_rows(self.sides.take_ready(now))

    def flush(self) -> list[pa.Table]:
        return [] if self.sides is None else self._join_rows(self.sides.take_waiting())

    @abstractmethod
    def _join_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        """Return the answers to complete rows of both sides."""

    def order_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> OrderedSides | None:
        present = sorted({side for side, table in batch if table.num_rows})
        if not present:
            return None
        tables = [concat_tables([t for s, t in batch if s == side]) for side in present]
        side = np.repeat(np.array(present, np.uint8), [table.num_rows for table in tables])
        arrival = self.config.arrival()
        if self.sides is not None:
            arrival = Arrival(tuple(self.config.order_columns))
        parts = [arrival_columns(table, arrival) for table in tables]
        columns = {name: np.concatenate([of[name] for of in parts]) for name in arrival.columns}
        ties = np.concatenate([as_numbers(table.column(TIE)) for table in tables])
        order = arrival_order([*columns.values()], [side ^ self.config.first_side, ties])
        code = np.zeros(order.size, np.int64)
        if self._known:
            known = concat_tables([table.select(self._known) for table in tables])
            code = self.codes(known.take(pa.array(order)))
        if self.sides is None:
            self.note_order([columns[name][order] for name in self.config.order_columns])
        return OrderedSides(present, tables, order, side[order], code, columns["order0"][order])
