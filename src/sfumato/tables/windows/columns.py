"""What windows and rankings read of a table: alternatives, punctuations, the rows themselves."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import running_maximum
from sfumato.tables.arrow import UNKNOWN, as_numbers

TIMES = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "long": pa.int64(),
}
# 0001-01-02 and 9999-12-31, in UTC: what Python and pandas can show, in any time zone.
EARLIEST, LATEST = -62_135_510_400_000_000, 253_402_214_400_000_000


def alternatives_of(rows: pa.Table, attributes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """offsets int64[n + 1], prob float64[m], values float64[m, a] (NULL as NaN)."""
    column = rows.column("prob").combine_chunks()
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = np.empty((len(column.flatten()), attributes))
    for i in range(attributes):
        of = rows.column(f"value{i}").combine_chunks().flatten()
        values[:, i] = of.to_numpy(zero_copy_only=False)
    return offsets - offsets[0], column.flatten().to_numpy(zero_copy_only=False), values


def punctuations_of(rows: pa.Table) -> np.ndarray:
    """int64[n]: the rows' punctuations; UNKNOWN where none is known yet."""
    column = rows.column("punctuation")
    unknown = pc.is_null(column).to_numpy()
    if not unknown.any():
        return as_numbers(column)
    known = np.full(len(column), UNKNOWN)
    known[~unknown] = as_numbers(column.drop_null())
    return known


def progress_of(scope: np.ndarray, punctuation: np.ndarray, late: np.ndarray) -> np.ndarray:
    """int64[n]: how far its scope had come when each row came out, by the rows before it.

    Of a row in order that is its punctuation. A late row has the punctuation of its own source,
    which may be ahead of the others: it counts as coming out with the newest row in order before
    it, in the order of the table; so it stays where it was among the rows of several pieces.
    """
    known = np.where(late, UNKNOWN, punctuation)
    if not late.any():
        return known
    return running_maximum(known, scope)
