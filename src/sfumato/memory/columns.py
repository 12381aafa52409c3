"""Columns as users give them, as Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.expressions import found
from sfumato.tables.reading.types import is_list, spark_type


def array_of(argument: str, given: Any) -> pa.Array:
    """A column as one array of a type that Spark has."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        array = as_array(given)
    elif hasattr(given, "__arrow_c_stream__"):
        array = as_array(pa.chunked_array(given))
    else:
        try:
            array = as_array(pa.array(given))
        except (pa.ArrowInvalid, TypeError) as error:
            raise TypeError(f"`{argument}` must be a column; got {given!r:.80}: {error}") from None
    kind = spark_type(array.type)
    return array if array.type == kind else as_array(array.cast(kind))


def lists_of(argument: str, given: Any, wanted: str) -> pa.Array:
    """A column of lists; a matrix has one in each of its rows.

    wanted : what the column must be, in words
    """
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = list(given)
    array = array_of(argument, given)
    if not is_list(array.type):
        raise TypeError(f"{wanted}; got {array.type}")
    return array


def field_of(elements: pa.Array, name: str) -> pa.Array:
    fields = fields_of(elements) if pa.types.is_struct(elements.type) else {}
    of = found(name, list(fields))
    if of is None:
        raise ValueError(f"`{name}` is none of the fields; they are {', '.join(fields) or 'none'}")
    return fields[of]


def folded(lengths: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sum, what roundings lost of it) of each row's terms, one after the other (Neumaier)."""
    total, lost = np.zeros(len(lengths)), np.zeros(len(lengths))
    starts = offsets_of(lengths)[:-1]
    for j in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > j)
        term, before = terms[starts[rows] + j], total[rows]
        larger = before + term
        low, high = np.minimum(before, term), np.maximum(before, term)
        total[rows] = larger
        lost[rows] += (high - larger) + low
    return total, lost
