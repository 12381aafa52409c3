"""Extents of rows with ids, over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Ints
from sfumato.operators.state.declared import Part
from sfumato.operators.windows.identified_extents import IdentifiedExtentAggregate
from sfumato.tables.arrow import has_all_values
from sfumato.tables.keys import KeyIndex
from sfumato.tables.windows.table_extents import MIN_FORGOTTEN, ExtentTableConfig, TableExtents


@dataclass(frozen=True, kw_only=True)
class IdentifiedTableConfig(ExtentTableConfig):
    """Settings of extents of rows with ids. unique : the number of columns id0.."""

    unique: int


class IdentifiedTableExtents(TableExtents):
    """`TableExtents` over rows that the columns id0.. identify, unless one is NULL."""

    config: IdentifiedTableConfig
    operator: IdentifiedExtentAggregate
    state = {"ids": Part()}

    def __init__(self, config: IdentifiedTableConfig) -> None:
        super().__init__(config)
        self.ids = KeyIndex()  # codes of (id, key code)
        self._forget_ids_at = MIN_FORGOTTEN  # number of ids at which idle ids are forgotten

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
        if len(self.ids) >= self._forget_ids_at:
            self._forget_ids()
        super().forget_expired()

    def before_saving(self) -> None:
        super().before_saving()
        self._forget_ids()

    def after_loading(self) -> None:
        super().after_loading()
        if self.ids.size > len(self.operator.ids):
            raise ValueError("every id must have a row")

    def _forget_ids(self) -> None:
        self.ids.keep(self.operator.needed_ids())
        self._forget_ids_at = 2 * len(self.ids) + MIN_FORGOTTEN
