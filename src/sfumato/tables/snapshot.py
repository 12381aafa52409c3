"""Snapshots with Arrow tables beside values and arrays, for operators that save them by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.state import snapshot as plain
from sfumato.tables.declared import as_bytes, from_bytes

MARK = "table:"


@dataclass(frozen=True)
class Snapshot:
    """values, arrays : as in `operators.state.snapshot`    tables : Arrow tables by name"""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


def pack(kind: str, version: int, snapshot: Snapshot) -> bytes:
    """Bytes of `snapshot`, labelled; tables as arrays of bytes."""
    tables = {MARK + name: as_bytes(table) for name, table in snapshot.tables.items()}
    return plain.pack(kind, version, plain.Snapshot(snapshot.values, {**snapshot.arrays, **tables}))


def unpack(data: bytes, kind: str, version: int) -> Snapshot:
    """The snapshot in `data`. Raises SnapshotError when it is damaged or another one."""
    saved = plain.unpack(data, kind, version)
    tables = {
        name.removeprefix(MARK): from_bytes(name, array)
        for name, array in saved.arrays.items()
        if name.startswith(MARK)
    }
    arrays = {name: a for name, a in saved.arrays.items() if not name.startswith(MARK)}
    return Snapshot(saved.values, arrays, tables)
