"""Dense codes for key values: 0, 1, 2, ... in order of first appearance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


class KeyIndex:
    """Gives every distinct combination of key values a code that it keeps for ever.

    The codes go on across calls; `table` is the whole state. NULL is a key value like any other.
    """

    def __init__(self, table: pa.Table | None = None) -> None:
        """table : the combinations known so far, row i has code i (as `table` returned it)."""
        self._parts: list[pa.Table] = [] if table is None else [table]
        self._codes: dict[tuple, int] = {}
        if table is not None:
            for row in _rows(table):
                self._codes[row] = len(self._codes)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def table(self) -> pa.Table | None:
        """The known combinations in order of their codes; None before the first."""
        if not self._parts:
            return None
        self._parts = [pa.concat_tables(self._parts).combine_chunks()]
        return self._parts[0]

    def encode(self, keys: pa.Table) -> np.ndarray:
        """int64[n] codes of n rows; with no key column every row has code 0.

        Cost: one dictionary look-up a distinct combination, the rest vectorised.
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
            self._parts.append(distinct.take(pa.array(new)))
        return known[inverse.reshape(-1)]


def _local_codes(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _rows(table: pa.Table) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
