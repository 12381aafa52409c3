"""What windows and rankings read of a table: alternatives and times."""

import numpy as np
import pyarrow as pa

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
