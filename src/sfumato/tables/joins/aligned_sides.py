"""Two sides with punctuations, read at any pace: rows wait until both have passed their time.

Each side comes out of a disorder controller. Its rows that are not late say, by their punctuation,
up to where it is complete. A row waits until both sides are complete up to its event time, so that
rows go on in one order of event time, whatever the paces, the micro-batches and the restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Ints, longer
from sfumato.operators.state.declared import Array, Part, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import as_numbers
from sfumato.tables.declared import Table
from sfumato.tables.keys import KeyIndex

ORDER, LATE, PUNCTUATION = "order0", "late", "punctuation"
BEGINNING = np.iinfo(np.int64).min
SIDES = (0, 1)


@dataclass(frozen=True)
class Piece:
    """Rows that wait: their event times, and the codes of their keys in the scopes of both sides.

    time : int64[n], microseconds    scope : int64[2, n]
    """

    rows: pa.Table
    time: Ints
    scope: Ints

    def where(self, wanted: npt.NDArray[np.bool_]) -> Piece:
        return Piece(self.rows.filter(pa.array(wanted)), self.time[wanted], self.scope[:, wanted])


class AlignedSides(Stateful):
    """The rows of two sides, each let go when both sides have passed its event time.

    scopes : for each side the numbers of the keys for each of which it has a controller
    idle_timeout : milliseconds after which a silent side holds nobody back; None: never

    Rows have the columns order0 (event time), late, punctuation and key0... Late rows take no part;
    nor do rows that come, on time for their own controller, when a timeout has let later ones pass.
    Without a timeout what goes on, and its order, is a function of each side's own rows.

    Cost: O(1) a row and side, and O(log n) copies of what waits; state: the rows that wait.
    """

    state = {
        "index_left": Part(),
        "index_right": Part(),
        "passed_left": Array(int, "scopes of left"),
        "passed_right": Array(int, "scopes of right"),
        "gone_left": Array(int, "scopes of left"),
        "gone_right": Array(int, "scopes of right"),
        "seen": Value(tuple),
        "left": Table(),
        "right": Table(),
    }

    def __init__(self, scopes: Sequence[Sequence[int]], idle_timeout: int | None) -> None:
        self.scopes, self.idle_timeout = scopes, idle_timeout
        self.index_left, self.index_right = KeyIndex(), KeyIndex()
        self.passed_left = self.passed_right = np.empty(0, np.int64)  # punctuation, by scope
        # Up to where a timeout let the rows pass for which this side's scope stood.
        self.gone_left = self.gone_right = np.empty(0, np.int64)
        self.seen: tuple[int | None, ...] = (None, None)  # processing time of the newest row, ms
        self._pieces: tuple[list[Piece], list[Piece]] = ([], [])

    def add(self, side: int, rows: pa.Table, now: int) -> int:
        """Take rows of a side; how many of them were late."""
        self.seen = tuple(now if of == side else self.seen[of] for of in SIDES)
        late = pc.fill_null(rows.column(LATE), False).to_numpy(zero_copy_only=False).astype(bool)
        rows = rows.filter(pa.array(~late))
        if not rows.num_rows:
            return int(late.sum())
        piece = self._piece(rows)
        known = rows.column(PUNCTUATION)
        if known.null_count < rows.num_rows:
            here = ~pc.is_null(known).to_numpy()
            reached = as_numbers(known.drop_null())
            np.maximum.at(self._passed(side), piece.scope[side][here], reached)
        behind = piece.time <= self._gone_for(piece)
        if behind.any():
            piece = piece.where(~behind)
        if piece.time.size:
            self._keep(side, piece)
        return int(late.sum() + behind.sum())

    def ready(self, now: int) -> list[tuple[int, pa.Table]]:
        """(side, rows) whose turn has come."""
        if self.idle_timeout is not None:
            self._pass_idle(now)
        return self._take(self._both_passed)

    def rest(self) -> list[tuple[int, pa.Table]]:
        """(side, rows) of all that wait: nothing comes any more."""
        return self._take(lambda piece: np.ones(piece.time.size, bool))

    @property
    def waiting(self) -> int:
        """Rows that wait."""
        return sum(piece.time.size for pieces in self._pieces for piece in pieces)

    def _both_passed(self, piece: Piece) -> npt.NDArray[np.bool_]:
        reached = np.minimum(self.passed_left[piece.scope[0]], self.passed_right[piece.scope[1]])
        result: npt.NDArray[np.bool_] = piece.time <= np.maximum(reached, self._gone_for(piece))
        return result

    def _gone_for(self, piece: Piece) -> Ints:
        result: Ints = np.maximum(self.gone_left[piece.scope[0]], self.gone_right[piece.scope[1]])
        return result

    def _pass_idle(self, now: int) -> None:
        """Let pass what only silent sides hold back."""
        assert self.idle_timeout is not None
        first = min((at for at in self.seen if at is not None), default=now)
        idle = [now - (first if at is None else at) >= self.idle_timeout for at in self.seen]
        if idle[1]:
            np.maximum(self.gone_left, self.passed_left, out=self.gone_left)
        if idle[0]:
            np.maximum(self.gone_right, self.passed_right, out=self.gone_right)
        if all(idle):
            for piece in [*self._pieces[0], *self._pieces[1]]:
                np.maximum.at(self.gone_left, piece.scope[0], piece.time)

    def _take(self, wanted: Callable[[Piece], npt.NDArray[np.bool_]]) -> list[tuple[int, pa.Table]]:
        out = []
        for side, pieces in zip(SIDES, self._pieces, strict=True):
            kept = []
            for piece in pieces:
                go = wanted(piece)
                if go.any():
                    out.append((side, piece.rows if go.all() else piece.rows.filter(pa.array(go))))
                if not go.any():
                    kept.append(piece)
                elif not go.all():
                    kept.append(piece.where(~go))
            pieces[:] = kept
        return out

    def _piece(self, rows: pa.Table) -> Piece:
        scope = np.empty((2, rows.num_rows), np.int64)
        for side, index in zip(SIDES, (self.index_left, self.index_right), strict=True):
            scope[side] = index.encode(rows.select([f"key{i}" for i in self.scopes[side]]))
            for of in ("passed", "gone"):
                name, size = f"{of}_{('left', 'right')[side]}", int(scope[side].max(initial=-1)) + 1
                setattr(self, name, longer(getattr(self, name), size, BEGINNING))
        return Piece(rows, as_numbers(rows.column(ORDER)), scope)

    def _passed(self, side: int) -> Ints:
        return self.passed_right if side else self.passed_left

    def _keep(self, side: int, piece: Piece) -> None:
        pieces = self._pieces[side]
        pieces.append(piece)
        while len(pieces) > 1 and pieces[-2].time.size < 2 * pieces[-1].time.size:
            last, before = pieces.pop(), pieces.pop()
            pieces.append(
                Piece(
                    pa.concat_tables([before.rows, last.rows]).combine_chunks(),
                    np.concatenate([before.time, last.time]),
                    np.concatenate([before.scope, last.scope], axis=1),
                )
            )

    def _held(self, side: int) -> pa.Table | None:
        tables = [piece.rows for piece in self._pieces[side]]
        return pa.concat_tables(tables).combine_chunks() if tables else None

    def _hold(self, side: int, rows: pa.Table | None) -> None:
        self._pieces[side][:] = [] if rows is None or not rows.num_rows else [self._piece(rows)]

    @property
    def left(self) -> pa.Table | None:
        """Rows of the left side that wait."""
        return self._held(0)

    @left.setter
    def left(self, rows: pa.Table | None) -> None:
        self._hold(0, rows)

    @property
    def right(self) -> pa.Table | None:
        """Rows of the right side that wait."""
        return self._held(1)

    @right.setter
    def right(self, rows: pa.Table | None) -> None:
        self._hold(1, rows)
