"""A few readings as columns and as a table, for tests without Spark."""

import pyarrow as pa

import sfumato as sf

RANGE = sf.Range("10 us")
READINGS = {
    "id": [1, 2, 3, 4, 5, 6],
    "made": [1, 4, 2, 9, 12, 3],
    "arrival": [1, 5, 6, 10, 13, 30],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "existence": [0.5, 1.0, 0.25, 0.75, 1.0, 0.5],
}
READINGS_TABLE = pa.table(READINGS)
