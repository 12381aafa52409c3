"""Row hashes, computed from columns as plain arrays, to order simultaneous rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels import row_hash
from sfumato.operators.arrays import Bools, Ints

SEED = 42  # as in Spark
Hashes = npt.NDArray[np.uint64]


def new_hashes(rows: int) -> Hashes:
    """Return the hashes of rows before any column is added, uint64[rows]."""
    return np.full(rows, SEED, np.uint64)


def add_words(
    hashes: Hashes, offsets: Ints, words: list[npt.NDArray[Any]], present: list[Bools]
) -> None:
    """Add one list of elements per row, with fixed-size fields, to the rows' hashes, in place.

    offsets : int64[n + 1], start of each row's elements
    words : one array per field over all elements: int64, float64, int32 or float32. 0.0 equals
        -0.0, and all NaN are equal
    present : one bool array per field, False for NULL
    """
    wide = np.array([column.dtype.itemsize == 8 for column in words], np.bool_)
    cells = np.empty((len(words[0]), len(words)), np.uint64)
    for k, column in enumerate(words):
        cells[:, k] = _bits(column)
    kept = np.ascontiguousarray(np.stack(present, axis=1))
    row_hash.hash_words(hashes, _require(offsets, np.int64), cells, kept, wide)


def add_bytes(hashes: Hashes, offsets: Ints, data: npt.NDArray[np.uint8], present: Bools) -> None:
    """Add one byte string per row to the rows' hashes, in place.

    offsets : int64[n + 1], start of each row's string in `data`
    """
    row_hash.hash_bytes(
        hashes, _require(offsets, np.int64), _require(data, np.uint8), _require(present, np.bool_)
    )


def _bits(column: npt.NDArray[Any]) -> Hashes:
    if column.dtype.kind == "f":
        number = column + column.dtype.type(0)  # no -0.0
        number[np.isnan(number)] = np.nan  # a single NaN, with the bits that Java uses
        column = number.view(np.int64 if column.dtype.itemsize == 8 else np.int32)
    return column.astype(np.int64, copy=False).view(np.uint64)


def _require(array: npt.NDArray[Any], kind: Any) -> npt.NDArray[Any]:
    """Return a contiguous and writable array for kernels; Arrow buffers are read-only."""
    return np.require(array, kind, ["C", "W"])
