"""Extents of rows whose ids identify versions or shared outcomes, over Arrow tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Ints
from sfumato.operators.state.declared import Part
from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.operators.windows.identified_extents import (
    IdentifiedExtentAggregate,
    SharedExtentAggregate,
    VersionedExtentAggregate,
)
from sfumato.tables.arrow import as_numbers, has_all_values
from sfumato.tables.keys import KeyIndex
from sfumato.tables.windows.table_extents import ROW_VERSION, ExtentTableConfig, TableExtents


@dataclass(frozen=True, kw_only=True)
class IdentifiedTableConfig(ExtentTableConfig):
    """Settings of extents of rows with ids. unique : the number of columns id0.."""

    unique: int


class IdentifiedTableExtents(TableExtents):
    """`TableExtents` over rows identified by the columns id0..; a NULL there means no id."""

    config: IdentifiedTableConfig
    operator: IdentifiedExtentAggregate
    state = {"ids": Part()}

    def __init__(self, config: IdentifiedTableConfig) -> None:
        super().__init__(config)
        self.ids = KeyIndex()  # codes of (id, key code)

    def ids_of(self, rows: pa.Table, group: Ints) -> Ints:
        """Return int64[n]: codes of the rows' ids, -1 for a row without an id."""
        names = [f"id{i}" for i in range(self.config.unique)]
        known: Bools = has_all_values(rows, names)
        ids = np.full(rows.num_rows, -1)
        of = rows.select(names).append_column("group", pa.array(group))
        ids[known] = self.ids.encode(of.filter(pa.array(known)))
        return ids

    def forget_expired(self) -> None:
        """Forget ids whose extents have all been emitted, then keys."""
        self.ids.drop_unneeded(self.operator.needed_ids)
        super().forget_expired()

    def before_saving(self) -> None:
        self.ids.keep(self.operator.needed_ids())

    def after_loading(self) -> None:
        super().after_loading()
        if self.ids.size > len(self.operator.ids):
            raise ValueError("every id must have a row")


@dataclass(frozen=True, kw_only=True)
class VersionedTableConfig(IdentifiedTableConfig):
    """Settings of extents of rows with versions."""

    kind, version = "versioned_extents", 3
    counters = (*ExtentTableConfig.counters, "corrections", "outdated")


class VersionedTableExtents(IdentifiedTableExtents):
    """`IdentifiedTableExtents` over rows with a column `version`.

    A row with a NULL in its id is never corrected. A version with existence 0 removes the earlier
    version.
    """

    config: VersionedTableConfig
    operator: VersionedExtentAggregate
    extent_aggregate = VersionedExtentAggregate

    def process_rows(self, rows: pa.Table, *given: Any, scope: np.ndarray) -> Extents:
        *places, offsets, prob, values = given
        exists = prob > 0.0
        offsets = np.append(0, np.cumsum(exists))[offsets]
        ids, version = self.ids_of(rows, given[0]), as_numbers(rows.column(ROW_VERSION))
        batch = offsets, prob[exists], values[exists]
        return self.operator.process_versions(ids, version, *places, *batch, scope=scope)


@dataclass(frozen=True, kw_only=True)
class SharedTableConfig(IdentifiedTableConfig):
    """Settings of extents of rows whose ids identify shared outcomes."""

    kind, version = "shared_extents", 3
    counters = (*ExtentTableConfig.counters, "unequal")

    @property
    def all_attributes(self) -> int:
        return super().all_attributes + 1  # the id


class SharedTableExtents(IdentifiedTableExtents):
    """`IdentifiedTableExtents` over rows with shared outcomes; a row without an id shares none."""

    config: SharedTableConfig
    operator: SharedExtentAggregate
    extent_aggregate = SharedExtentAggregate

    def process_rows(self, rows: pa.Table, *given: Any, scope: np.ndarray) -> Extents:
        return self.operator.process_shared(self.ids_of(rows, given[0]), *given, scope=scope)
