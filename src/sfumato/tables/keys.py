"""Dense codes for key values: 0, 1, 2, ... in order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.state.stateful import Stateful
from sfumato.tables.declared import Table

NAN = float("nan")  # one object, equal to itself as a part of a tuple


class KeyIndex(Stateful):
    """Gives every distinct combination of key values a code that it keeps for ever.

    Values are equal as Spark groups them: NULL is a value like any other, NaN is one value, and
    -0.0 is 0.0. The codes go on across calls; `table` is the whole state.
    """

    state = {"table": Table()}

    def __init__(self, table: pa.Table | None = None) -> None:
        """table : the combinations known so far, row i has code i (as `table` returned it)."""
        self._parts: list[pa.Table] = []
        self._codes: dict[tuple, int] = {}
        if table is not None:
            self.table = table

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def table(self) -> pa.Table | None:
        """The known combinations in order of their codes; None before the first."""
        if not self._parts:
            return None
        self._parts = [pa.concat_tables(self._parts).combine_chunks()]
        return self._parts[0]

    @table.setter
    def table(self, table: pa.Table | None) -> None:
        rows = [] if table is None else _rows(table)
        self._parts = [] if table is None else [table]
        self._codes = {row: code for code, row in enumerate(rows)}
        if len(self._codes) != len(rows):
            raise ValueError("the known keys must differ")

    def take(self, codes: np.ndarray, key: int) -> pa.ChunkedArray:
        """The values that `codes` (int64[n]) have of key column number `key`."""
        table = self.table
        assert table is not None, "no key is known yet"
        return table.column(key).take(pa.array(codes))

    def encode(self, keys: pa.Table) -> np.ndarray:
        """int64[n] codes of n rows; with no key column every row has code 0.

        Cost: one dictionary look-up a distinct combination, the rest vectorised but for nested
        values.
        """
        if keys.num_columns == 0:
            return np.zeros(keys.num_rows, np.int64)
        local = np.zeros(keys.num_rows, np.int64)
        for column in keys.columns:
            codes = _local_codes(column)
            local = local * (int(codes.max(initial=0)) + 1) + codes
            if len(keys.columns) > 1:  # stay dense, so that the products cannot overflow
                local = np.unique(local, return_inverse=True)[1].reshape(-1)
        _, first, inverse = np.unique(local, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # codes follow first appearance
        distinct = keys.take(pa.array(first[order]))
        known = np.empty(len(first), np.int64)
        new: list[int] = []
        for i, row in enumerate(_rows(distinct)):
            code = self._codes.get(row)
            if code is None:
                code = self._codes[row] = len(self._codes)
                new.append(i)
            known[order[i]] = code
        if new:
            self._parts.append(_positive_zeros(distinct.take(pa.array(new))))
        return known[inverse.reshape(-1)]


def _local_codes(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_nested(column.type):
        seen: dict[Any, int] = {}
        values = map(_hashable, column.to_pylist())
        return np.array([seen.setdefault(value, len(seen)) for value in values], np.int64)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _rows(table: pa.Table) -> list[tuple]:
    columns = []
    for column in table.columns:
        values = column.to_pylist()
        if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
            values = list(map(_hashable, values))
        columns.append(values)
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _hashable(value: Any) -> Any:
    """A value that equals those which Spark groups with it, and has a hash."""
    if isinstance(value, float) and value != value:
        return NAN
    if isinstance(value, dict):
        return tuple(map(_hashable, value.values()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _positive_zeros(table: pa.Table) -> pa.Table:
    for i, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            zero = pa.scalar(0.0, column.type)
            table = table.set_column(i, table.schema.field(i), pc.add(column, zero))
    return table
