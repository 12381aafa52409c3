"""Extents of rows that newer versions correct, over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools
from sfumato.operators.state.declared import Part
from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.operators.windows.versioned_extents import VersionedExtentAggregate
from sfumato.tables.arrow import as_numbers, complete
from sfumato.tables.keys import KeyIndex
from sfumato.tables.windows.table_extents import (
    MIN_FORGOTTEN,
    ROW_VERSION,
    ExtentTableConfig,
    TableExtents,
)


@dataclass(frozen=True, kw_only=True)
class VersionedTableConfig(ExtentTableConfig):
    """Settings of extents of rows with versions; unique : the number of columns id0.."""

    unique: int

    kind, version = "versioned_extents", 1
    counters = (*ExtentTableConfig.counters, "corrections", "outdated")

    def make(self) -> VersionedTableExtents:
        return VersionedTableExtents(self)


class VersionedTableExtents(TableExtents):
    """`TableExtents` of rows with the columns id0.. and version.

    A row with a NULL in its id is never corrected. A row that exists with probability 0 is a
    version that removes the earlier one.
    """

    config: VersionedTableConfig
    operator: VersionedExtentAggregate
    extent_aggregate = VersionedExtentAggregate
    state = {"ids": Part()}

    def __init__(self, config: VersionedTableConfig) -> None:
        super().__init__(config)
        self.ids = KeyIndex()  # of ids and the codes of their keys
        self._most_ids = MIN_FORGOTTEN  # number of ids that triggers the next forgetting

    def process_rows(self, rows: pa.Table, *given: Any, scope: np.ndarray) -> Extents:
        *places, offsets, prob, values = given
        exists = prob > 0.0
        offsets = np.append(0, np.cumsum(exists))[offsets]
        names = [f"id{i}" for i in range(self.config.unique)]
        known: Bools = complete(rows, names)
        ids = np.full(rows.num_rows, -1)
        of = rows.select(names).append_column("group", pa.array(given[0]))
        ids[known] = self.ids.encode(of.filter(pa.array(known)))
        version = as_numbers(rows.column(ROW_VERSION))
        batch = offsets, prob[exists], values[exists]
        return self.operator.process_versions(ids, version, *places, *batch, scope=scope)

    def forget_expired(self) -> None:
        """Forget ids whose extents have all been emitted, then keys, see `TableExtents`."""
        if len(self.ids) >= self._most_ids:
            self._forget_ids()
        super().forget_expired()

    def counters(self) -> dict[str, int]:
        own = self.operator.counters
        return super().counters() | {name: own[name] for name in ("corrections", "outdated")}

    def before_saving(self) -> None:
        super().before_saving()
        self._forget_ids()

    def after_loading(self) -> None:
        super().after_loading()
        if self.ids.size > len(self.operator.ids):
            raise ValueError("it has ids without a version")

    def _forget_ids(self) -> None:
        self.ids.keep(self.operator.needed_ids())
        self._most_ids = 2 * len(self.ids) + MIN_FORGOTTEN
