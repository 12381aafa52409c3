"""Extents over Arrow tables, where a newer version of a row replaces the older version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.operators.windows.versioned_extents import VersionedExtentAggregate
from sfumato.tables.arrow import as_numbers
from sfumato.tables.windows.table_extents import ROW_VERSION, ExtentTableConfig
from sfumato.tables.windows.table_identified import IdentifiedTableConfig, IdentifiedTableExtents


@dataclass(frozen=True, kw_only=True)
class VersionedTableConfig(IdentifiedTableConfig):
    """Settings of extents of rows with versions."""

    kind, version = "versioned_extents", 1
    counters = (*ExtentTableConfig.counters, "corrections", "outdated")

    def make(self) -> VersionedTableExtents:
        return VersionedTableExtents(self)


class VersionedTableExtents(IdentifiedTableExtents):
    """`IdentifiedTableExtents` over rows with the column version.

    A row with a NULL in its id is never corrected. A version with existence 0 removes the earlier
    version.
    """

    operator: VersionedExtentAggregate
    extent_aggregate = VersionedExtentAggregate

    def process_rows(self, rows: pa.Table, *given: Any, scope: np.ndarray) -> Extents:
        *places, offsets, prob, values = given
        exists = prob > 0.0
        offsets = np.append(0, np.cumsum(exists))[offsets]
        ids, version = self.ids_of(rows, given[0]), as_numbers(rows.column(ROW_VERSION))
        batch = offsets, prob[exists], values[exists]
        return self.operator.process_versions(ids, version, *places, *batch, scope=scope)

    def counters(self) -> dict[str, int]:
        own = self.operator.counters
        return super().counters() | {name: own[name] for name in ("corrections", "outdated")}
