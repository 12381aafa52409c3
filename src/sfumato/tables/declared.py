"""Arrow tables as declared state: they are saved as the bytes of an Arrow stream.

A checksum comes behind: what reads Arrow trusts names, types and lengths in these bytes.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.state.declared import Array, Saved, Size, Sizes, check_size
from sfumato.operators.state.snapshot import SnapshotError

CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True)
class Table:
    """A pyarrow.Table, or None.

    size : name of its number of rows (as in `Array`), or None for any; no table has 0 rows
    """

    size: Size = None

    def save(self, value: pa.Table | None, name: str, saved: Saved) -> None:
        saved.arrays[name] = np.empty(0, np.uint8) if value is None else as_bytes(value)

    def load(
        self, saved: Saved, name: str, sizes: Sizes, owner: Any, present: Any
    ) -> pa.Table | None:
        data = Array(np.uint8, None).load(saved, name, sizes, owner, present)
        table = None if not data.size else from_bytes(name, data)
        check_size(name, self.size, 0 if table is None else table.num_rows, sizes)
        return table


def as_bytes(table: pa.Table) -> np.ndarray:
    """uint8[]: the table as an Arrow stream, and its CRC-32."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue().to_pybytes()
    return np.frombuffer(stream + CHECKSUM.pack(zlib.crc32(stream)), np.uint8)


def from_bytes(name: str, data: np.ndarray) -> pa.Table:
    """The table of such bytes. Raises SnapshotError for others.

    Cost: besides reading, one look at every offset, so that damaged ones lead nowhere.
    """
    stream, checksum = data[: -CHECKSUM.size].tobytes(), data[-CHECKSUM.size :].tobytes()
    if checksum != CHECKSUM.pack(zlib.crc32(stream)):
        raise SnapshotError(f"`{name}` is no Arrow table, or a damaged one")
    try:
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SnapshotError(f"`{name}` is no Arrow table: {error}") from error
    return table
