"""Extents of rows that share outcomes, over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.operators.windows.shared_extents import SharedExtentAggregate
from sfumato.tables.windows.table_extents import ExtentTableConfig
from sfumato.tables.windows.table_identified import IdentifiedTableConfig, IdentifiedTableExtents


@dataclass(frozen=True, kw_only=True)
class SharedTableConfig(IdentifiedTableConfig):
    """Settings of extents of rows whose ids identify shared outcomes."""

    kind, version = "shared_extents", 1
    counters = (*ExtentTableConfig.counters, "unequal")

    @property
    def all_attributes(self) -> int:
        return super().all_attributes + 1  # the id

    def make(self) -> SharedTableExtents:
        return SharedTableExtents(self)


class SharedTableExtents(IdentifiedTableExtents):
    """`IdentifiedTableExtents` over rows that share outcomes, unless a row has no id."""

    operator: SharedExtentAggregate
    extent_aggregate = SharedExtentAggregate

    def process_rows(self, rows: pa.Table, *given: Any, scope: np.ndarray) -> Extents:
        return self.operator.process_shared(self.ids_of(rows, given[0]), *given, scope=scope)

    def counters(self) -> dict[str, int]:
        return super().counters() | {"unequal": self.operator.unequal}
