"""Codes for key values: 0, 1, 2, ... in order of first appearance; forgotten codes are reused."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Floats, Ints, compact, pad, renumber
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import SavedTable, as_array
from sfumato.tables.row_store import RowStore

NAN = float("nan")  # a single object, which dictionaries find by identity
NO_ORDER = -np.inf
MIN_FORGOTTEN = 1024  # no keys are dropped below this number of keys


class KeyIndex(Stateful):
    """A dictionary of codes for distinct combinations of key values.

    forget_after : float > 0 in the unit of the rows' order, or None. A code expires at a row of
        its key that is more than `forget_after` after the key's newest row (the later row gets a
        new code), or once the newest order of all rows has advanced by more than `forget_after`
        since the key's newest row arrived

    Values are equal if Spark groups them together: NULL equals NULL, NaN equals NaN, and -0.0
    equals 0.0. Forgotten codes are reused, so that codes stay dense.
    Cost per call: O(its rows and keys); memory: about 0.5 KB per key.
    """

    state = {
        "known": SavedTable("known"),
        "code": Array(int, "known", low=0, high=2**31),
        "newest": Array(float, "codes", low=NO_ORDER),
        "seen": Array(float, "codes", low=NO_ORDER),
        "free": Array(int, None, low=0, high=2**31),
        "latest": Value(float),
    }

    def __init__(self, forget_after: float | None = None) -> None:
        self.forget_after = forget_after
        self._codes: dict[Hashable, int] = {}
        self._values = RowStore()
        self.size = 0  # all codes are below `size`; arrays have spare capacity
        self._number = np.empty(0, np.int64)  # row of each code's values, -1 for free codes
        self.newest: Floats = np.empty(0)  # order of each code's newest row, if `forget_after`
        self.seen: Floats = np.empty(0)  # `latest` when each code's newest row arrived
        self.free: Ints = np.empty(0, np.int64)  # codes to reuse, the next one last
        self.latest = NO_ORDER  # newest order of all rows
        self._replaced_codes: list[int] = []  # codes of keys that have a new code
        self._due = NO_ORDER  # no key expires while `latest` is at most `_due`
        self._drop_at = MIN_FORGOTTEN  # number of keys at which unneeded keys are dropped

    def __len__(self) -> int:
        return len(self._codes)

    def values(self, codes: Ints) -> pa.Table:
        return self._values.take(self._number[codes])

    def columns(self, codes: Ints) -> dict[str, pa.ChunkedArray]:
        """Return `values` by name of the key column; empty without key columns."""
        if not self.size:
            return {}
        values = self.values(codes)
        return dict(zip(values.column_names, values.columns, strict=True))

    def encode(self, keys: pa.Table, order: np.ndarray | None = None) -> Ints:
        """Return int64[n]: the codes of n rows in arrival order, all 0 without key columns.

        order : int64 or float64[n], required with `forget_after`
        Cost: one dictionary look-up per distinct key; vectorised except for nested values.
        """
        if not keys.num_rows:
            return np.empty(0, np.int64)
        if not keys.num_columns:
            return np.zeros(keys.num_rows, np.int64)
        local, first = group_rows(keys)
        distinct = keys.take(pa.array(first))
        codes = self._look_up(distinct)[local]
        if self.forget_after is None:
            return codes
        assert order is not None, "`forget_after` needs the order of the rows"
        return self._with_expired(codes, order.astype(np.float64), keys)

    def _look_up(self, distinct: pa.Table) -> Ints:
        rows = _hashable_rows(distinct)
        known = np.array([self._codes.get(row, -1) for row in rows], np.int64)
        new = np.flatnonzero(known < 0)
        if len(new):
            # Rows with different values, such as 0.0 and -0.0, may have the same key.
            first = {rows[i]: i for i in reversed(new.tolist())}
            places = np.array(sorted(first.values()), np.int64)
            codes = self._store(distinct.take(pa.array(places)), [rows[i] for i in places])
            self._codes.update(zip((rows[i] for i in places), codes.tolist(), strict=True))
            known[new] = [self._codes[rows[i]] for i in new]
        return known

    def _store(self, values: pa.Table, rows: list[Hashable]) -> Ints:
        again = min(len(rows), len(self.free))
        split = len(self.free) - again
        size = self.size + len(rows) - again
        codes = np.concatenate([self.free[split:][::-1], np.arange(self.size, size)])
        self.free = self.free[:split]
        if size > len(self._number):
            self._resize(2 * size)
        self.size = size
        self._number[codes] = self._values.append(normalize_zeros(values))
        if len(self._values) > 2 * len(self._codes) + 1024:
            self._values.keep(self._number[self._number >= 0])
        return codes

    def _resize(self, size: int) -> None:
        self._number = pad(self._number[:size], size, -1)
        if self.forget_after is not None:
            self.newest = pad(self.newest[:size], size, NO_ORDER)
            self.seen = pad(self.seen[:size], size, NO_ORDER)

    def _with_expired(self, codes: Ints, order: Floats, keys: pa.Table) -> Ints:
        """Return the codes, with a new code from each row at which its key has expired."""
        assert self.forget_after is not None
        last = self.newest[codes]
        late = order > last + self.forget_after  # keys may expire at these rows or later
        if late[last != NO_ORDER].any() or _may_expire(codes, order, self.forget_after):
            codes = codes.copy()
            self._renew_expired(codes, order, keys)
        np.maximum.at(self.newest, codes, order)
        self.latest = max(self.latest, float(order.max()))
        self.seen[codes] = self.latest
        return codes

    def _renew_expired(self, codes: Ints, order: Floats, keys: pa.Table) -> None:
        assert self.forget_after is not None
        for code in np.unique(codes).tolist():
            places = np.flatnonzero(codes == code)
            newest = np.maximum.accumulate(np.append(self.newest[code], order[places]))
            breaks = np.flatnonzero(
                (order[places] > newest[:-1] + self.forget_after) & (newest[:-1] != NO_ORDER)
            )
            for begin in breaks.tolist():
                values = keys.slice(int(places[begin]), 1)
                rows = _hashable_rows(values)
                self._replaced_codes.append(int(codes[places[begin]]))
                self._codes[rows[0]] = int(self._store(values, rows)[0])
                codes[places[begin:]] = self._codes[rows[0]]

    def take_expired(self) -> Ints:
        """Return int64[]: distinct codes that no later row will have; call `forget` with them."""
        if self.forget_after is None:
            return np.empty(0, np.int64)
        over = np.array(self._replaced_codes, np.int64)
        self._replaced_codes = []
        if self.latest <= self._due:
            return over
        silent = (self._number >= 0) & (self.seen < self.latest - self.forget_after)
        silent[over] = False
        alive = self.seen[(self._number >= 0) & ~silent]
        self._due = max(
            float(alive.min(initial=self.latest)) + self.forget_after,
            self.latest + self.forget_after / 16,  # limits how often all keys are checked
        )
        return np.concatenate([over, np.flatnonzero(silent)])

    def forget(self, codes: Ints) -> None:
        """Make `codes` available to other keys."""
        if not len(codes):
            return
        rows = _hashable_rows(self._values.take(self._number[codes]))
        for row, code in zip(rows, codes.tolist(), strict=True):
            if self._codes.get(row) == code:  # otherwise the key has a new code
                del self._codes[row]
        self._codes = compact(self._codes)
        self._number[codes] = -1
        if self.forget_after is not None:
            self.newest[codes] = self.seen[codes] = NO_ORDER
        self.free = np.concatenate([self.free, codes])

    def keep(self, codes: Ints) -> None:
        self.forget(np.setdiff1d(np.flatnonzero(self._number >= 0), codes))
        self._drop_at = 2 * len(self) + MIN_FORGOTTEN

    def drop_unneeded(self, needed: Callable[[], Ints]) -> None:
        """Forget the codes that are not `needed`, whenever the number of keys has doubled."""
        if len(self) >= self._drop_at:
            self.keep(needed())

    def before_saving(self) -> None:
        self._resize(self.size)
        self.code = np.flatnonzero(self._number >= 0)
        self.known = self._values.take(self._number[self.code]) if len(self.code) else None

    def after_loading(self) -> None:
        rows = [] if self.known is None else _hashable_rows(self.known)
        given = np.sort(np.concatenate([self.code, self.free]))
        if not np.array_equal(given, np.arange(len(given))):
            raise ValueError("the codes of keys must be 0, 1, 2, ..., each exactly once")
        if len(self.newest) != (0 if self.forget_after is None else len(given)):
            raise ValueError("it must have the order of the newest row of each key")
        self._codes = dict(zip(rows, self.code.tolist(), strict=True))
        if len(self._codes) != len(rows):
            raise ValueError("the known keys must differ")
        self.size, self._number = len(given), np.full(len(given), -1)
        self._values = RowStore()
        if self.known is not None:
            self._number[self.code] = self._values.append(self.known)
        self.known, self.code = None, np.empty(0, np.int64)


def group_rows(keys: pa.Table) -> tuple[Ints, Ints]:
    """Return (each row's group, each group's first row); groups are numbered by first row."""
    local, first = np.zeros(keys.num_rows, np.int64), np.zeros(1, np.int64)
    for column in keys.columns:
        codes = _local_codes(column)
        several = int(codes.max(initial=0)) + 1
        local = local * several + codes
        local, first = renumber(local, first.size * several)
    return local, first


def _may_expire(codes: Ints, order: Floats, most: float) -> bool:
    """Return whether a row may be more than `most` after all earlier rows with its code."""
    if float(order.max()) - float(order.min()) <= most:
        return False
    by_code = np.argsort(codes, kind="stable")
    code, sorted_ = codes[by_code], order[by_code]
    return bool(((code[1:] == code[:-1]) & (sorted_[1:] > sorted_[:-1] + most)).any())


def _local_codes(column: pa.ChunkedArray) -> Ints:
    if pa.types.is_nested(column.type):
        seen: dict[Any, int] = {}
        values = map(_hashable, column.to_pylist())
        return np.array([seen.setdefault(value, len(seen)) for value in values], np.int64)
    encoded = as_array(column).dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _hashable_rows(table: pa.Table) -> list[Hashable]:
    """Return rows as hashable values that are equal for equal keys."""
    columns = []
    for column in table.columns:
        values = column.to_pylist()
        if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
            values = list(map(_hashable, values))
        columns.append(values)
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _hashable(value: Any) -> Any:
    """Return a hashable value, equal for values that Spark groups together."""
    if isinstance(value, float) and value != value:
        return NAN
    if isinstance(value, dict):
        return tuple(map(_hashable, value.values()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def normalize_zeros(table: pa.Table) -> pa.Table:
    for i, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            zero = pa.scalar(0.0, column.type)
            table = table.set_column(i, table.schema.field(i), pc.add(column, zero))
    return table
