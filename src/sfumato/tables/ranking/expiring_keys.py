"""Codes for values that are needed only for a while, as those of generation rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.operators.state.declared import Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.declared import Table
from sfumato.tables.keys import KeyIndex


class ExpiringKeyIndex(Stateful):
    """Gives values whole numbers; a value keeps its number until it is forgotten.

    Unlike a KeyIndex it does not grow for ever: a value that comes back after it was forgotten
    gets a new number. Numbers are never used twice.
    """

    state = {"table": Table(), "next": Value(low=0)}

    def __init__(self) -> None:
        self._codes: dict = {}
        self._type: pa.DataType | None = None
        self.next = 0

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def table(self) -> pa.Table | None:
        """The values known and their numbers; None before the first."""
        if self._type is None:
            return None
        codes = pa.array(list(self._codes.values()), pa.int64())
        return pa.table({"value": pa.array(list(self._codes), self._type), "code": codes})

    @table.setter
    def table(self, table: pa.Table | None) -> None:
        self._codes, self._type = {}, None
        if table is not None:
            self._type = table.schema.field("value").type
            values, codes = (table.column(name).to_pylist() for name in ("value", "code"))
            self._codes = dict(zip(values, codes, strict=True))

    def encode(self, column: pa.ChunkedArray) -> np.ndarray:
        """int64[n]: the number of each value, -1 for NULL. Cost: a look-up a distinct value."""
        self._type = column.type
        local = KeyIndex()
        places = local.encode(pa.table({"value": column}))
        if local.table is None:
            return places
        distinct = local.table.column("value").to_pylist()
        codes = np.empty(len(distinct), np.int64)
        for i, value in enumerate(distinct):
            code = -1 if value is None else self._codes.get(value)
            if code is None:
                code = self._codes[value] = self.next
                self.next += 1
            codes[i] = code
        return codes[places]

    def keep(self, alive: np.ndarray) -> None:
        """Forget the values whose numbers are not in `alive`."""
        wanted = set(alive.tolist())
        self._codes = {value: code for value, code in self._codes.items() if code in wanted}
