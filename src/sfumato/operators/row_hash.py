"""Hashes of rows, which decide between simultaneous ones: kernels for columns of plain arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels import row_hash
from sfumato.operators.arrays import Bools, Ints

SEED = 42  # Spark's
Hashes = npt.NDArray[np.uint64]


def begun(rows: int) -> Hashes:
    """uint64[rows]: the hashes of rows of which no column has been seen."""
    return np.full(rows, SEED, np.uint64)


def add_words(
    hashes: Hashes, offsets: Ints, words: list[npt.NDArray[Any]], present: list[Bools]
) -> None:
    """Hash lists of elements with fields of fixed size into the rows' hashes, in place.

    offsets : int64[n + 1], where the elements of each row begin
    words : a field each, of all elements: int64 or float64 (8 bytes), int32 or float32 (4 bytes);
        zeros and NaN are of one kind each
    present : bool for each of them, False for NULL
    """
    wide = np.array([column.dtype.itemsize == 8 for column in words], np.bool_)
    cells = np.empty((len(words[0]), len(words)), np.uint64)
    for k, column in enumerate(words):
        cells[:, k] = _bits(column)
    kept = np.ascontiguousarray(np.stack(present, axis=1))
    row_hash.hash_words(hashes, _own(offsets, np.int64), cells, kept, wide)


def add_bytes(hashes: Hashes, offsets: Ints, data: npt.NDArray[np.uint8], present: Bools) -> None:
    """Hash a string of bytes a row into the rows' hashes, in place.

    offsets : int64[n + 1], where the string of each row begins in `data`
    """
    row_hash.hash_bytes(
        hashes, _own(offsets, np.int64), _own(data, np.uint8), _own(present, np.bool_)
    )


def _bits(column: npt.NDArray[Any]) -> Hashes:
    if column.dtype.kind == "f":
        number = column + column.dtype.type(0)  # no -0.0
        number[np.isnan(number)] = np.nan  # one of them, with the bits that Java gives it
        column = number.view(np.int64 if column.dtype.itemsize == 8 else np.int32)
    return column.astype(np.int64, copy=False).view(np.uint64)


def _own(array: npt.NDArray[Any], kind: Any) -> npt.NDArray[Any]:
    """The array as the kernels have been compiled for: a buffer of Arrow's cannot be written to."""
    return np.require(array, kind, ["C", "W"])
