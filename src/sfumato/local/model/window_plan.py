"""What of a table a window aggregate reads, and the columns of its answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import BY_US, ArrowFrame
from sfumato.tables.reading.controlled import controlled_by
from sfumato.tables.reading.digits import has_more_digits
from sfumato.tables.reading.expressions import Expression
from sfumato.tables.reading.input import Values
from sfumato.tables.reading.naming import Shown, without
from sfumato.tables.reading.parse import parsed
from sfumato.tables.reading.tuples import Tuples
from sfumato.tables.reading.types import is_number
from sfumato.tables.windows.extents import ExtentTableConfig
from sfumato.tables.windows.query import WindowQuery
from sfumato.tables.windows.results import quantile_name
from sfumato.tables.windows.window_aggregate import RowWindowTableConfig

NUMBER = pa.float64()


@dataclass(frozen=True)
class WindowPlan(WindowQuery):
    """The query over a table."""

    frame: ArrowFrame

    def check_expressions(self) -> None:
        assert self.parsed is not None  # or it has raised

    def more_digits(self, expression: str) -> str | None:
        values = self._values_of(expression, self.frame.table)
        return str(values.type) if values is not None and has_more_digits(values) else None

    def _values_of(self, expression: str, rows: pa.Table) -> pa.Array | None:
        """The values of an expression; None where reading them will raise."""
        assert self.parsed is not None
        try:
            return Tuples(rows).values_of_any_type(self.parsed[self.expressions.index(expression)])
        except (TypeError, ValueError):
            return None

    def not_a_number(self, expression: str) -> str | None:
        cells = self._values_of(expression, self.frame.table.slice(0, 0))
        if cells is None:
            return None
        kind = cells.type
        known = is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)
        return None if known or pa.types.is_null(kind) else str(kind)

    @property
    def parsed(self) -> list[Expression]:
        """The expressions whose values the operator reads."""
        of = {w.expression: f"aggregates[{w.name!r}]" if w.name else "by" for w in self.wanted}
        found = []
        for text in self.expressions:
            # The attribute of a sf.Delta is a name as it stands.
            plain = text not in of or text in (*self.frame.attributes, *self.frame.columns)
            quoted = "`" + text.replace("`", "``") + "`"
            found.append(parsed(of.get(text, "window.on"), quoted if plain else text))
        return found

    @cached_property
    def time_type(self) -> pa.DataType:
        """The type of the answers' times."""
        kind = self.frame.type(self.orders[0])
        return kind if pa.types.is_timestamp(kind) else pa.int64()

    @property
    def value_cells(self) -> list[Values]:
        return [Values(expression) for expression in self.parsed]

    def columns(self, settings: RowWindowTableConfig | ExtentTableConfig) -> list[Shown]:
        """The columns of the result."""
        names = self.passed(settings.members)
        titles = without(names, self.added)
        prefix = "c" if self.of_rows or settings.members else "key"
        found = [
            Shown((f"{prefix}{i}",), field.with_name(title))
            for i, (field, title) in enumerate(zip(self.frame.fields(names), titles, strict=True))
        ]
        extent = pa.struct([("start", self.time_type), ("end", self.time_type)])
        kinds = {"window": extent, "held": pa.int64()}
        kinds |= {"punctuation": self.time_type, "late": pa.int64()}
        said: dict[str, Any] = {"held": BY_US, "window": controlled_by(self.in_order_within)}
        for name, kind in kinds.items():
            if name in self.added:
                found.append(Shown((name,), pa.field(name, kind, metadata=said.get(name))))
        for i, w in enumerate(self.wanted):
            kind = self._result(self.field(w), settings)
            own: dict[Any, Any] = {**BY_US, **self.said_of_results}
            found.append(Shown((f"result{i}",), pa.field(w.name, kind, metadata=own)))
        if self.distribution is not None:
            parts = pa.struct([("moved", NUMBER), ("error", NUMBER)])
            accuracy = pa.struct([(w.name, parts) for w in self.wanted])
            found.append(Shown(("accuracy",), pa.field("accuracy", accuracy, metadata=BY_US)))
        return found

    def _result(
        self, field: str, settings: RowWindowTableConfig | ExtentTableConfig
    ) -> pa.DataType:
        if self.distribution is not None:
            return pa.list_(pa.struct([("prob", NUMBER), (field, NUMBER)]))
        parts = ["mean", "stddev", "existence", *map(quantile_name, settings.quantiles)]
        parts += ["error"] if settings.quantiles else []
        return pa.struct([(part, NUMBER) for part in parts])
