"""Expressions of users over a table in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfumato.memory.frame import ArrowFrame
from sfumato.tables.reading.digits import has_more_digits
from sfumato.tables.reading.expressions import Expression
from sfumato.tables.reading.input import Values
from sfumato.tables.reading.parse import parsed
from sfumato.tables.reading.queried_frame import Computation, Expressions
from sfumato.tables.reading.tuples import Tuples
from sfumato.tables.reading.types import Kind, is_number, kind_of


class ArrowExpressions(Expressions):
    """Expressions over a table: attributes, columns, fields of structs (m.mean), numbers, + - * /,
    conditions and parentheses."""

    def __init__(self, frame: ArrowFrame) -> None:
        self.frame = frame

    def check(self, argument: str, expression: str) -> None:
        self._parsed(argument, expression)

    def _parsed(self, argument: str | None, text: str) -> Expression:
        """Return what a text means; argument : what errors call it, None of a plain name."""
        plain = argument is None or text in (*self.frame.attributes, *self.frame.columns)
        quoted = "`" + text.replace("`", "``") + "`"
        return parsed(argument or "window.on", quoted if plain else text)

    def not_a_number(self, expression: str) -> str | None:
        cells = self._values_of(expression, self.frame.table.slice(0, 0))
        if cells is None:
            return None
        kind = cells.type
        known = is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)
        return None if known or pa.types.is_null(kind) else str(kind)

    def value_type(self, expression: str) -> tuple[Any, Kind]:
        cells = self._values_of(expression, self.frame.table.slice(0, 0))
        kind = pa.float64() if cells is None else cells.type
        return kind, kind_of(kind)

    def more_digits(self, expression: str) -> str | None:
        values = self._values_of(expression, self.frame.table)
        return str(values.type) if values is not None and has_more_digits(values) else None

    def _values_of(self, expression: str, rows: pa.Table) -> pa.Array | None:
        """The values of an expression; None where reading them will raise."""
        try:
            return Tuples(rows).values_of_any_type(self._parsed("", expression))
        except (TypeError, ValueError):
            return None

    def computation(self, expressions: Sequence[str], arguments: Mapping[str, str]) -> Computation:
        return Computation([Values(self._parsed(arguments.get(of), of)) for of in expressions])
