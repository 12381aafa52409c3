"""Expressions over the attributes of alternatives and the certain columns: what they are, and
their values. Plain values, for configurations; `parse` makes them of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.near_misses import did_you_mean
from sfumato.tables.reading.types import as_doubles, fields_of, is_number


@dataclass(frozen=True)
class Name:
    """A column or an attribute, and then fields of structs: m.mean."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(part if part.isidentifier() else f"`{part}`" for part in self.parts)


@dataclass(frozen=True)
class Number:
    """A whole number, or one with a point, as it was written."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Operation:
    """+, -, * or / of two numbers; - of one, the `left`."""

    sign: str
    left: Expression
    right: Expression | None = None

    def __str__(self) -> str:
        if self.right is None:
            return f"({self.sign}{self.left})"
        return f"({self.left} {self.sign} {self.right})"


Expression = Name | Number | Operation
FUNCTIONS = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}


def names_in(expression: Expression) -> Iterator[Name]:
    """The columns and attributes of an expression."""
    if isinstance(expression, Name):
        yield expression
    elif isinstance(expression, Operation):
        yield from names_in(expression.left)
        if expression.right is not None:
            yield from names_in(expression.right)


def found(name: str, known: list[str]) -> str | None:
    """The one of the known names that is meant, whatever its case; None if none is.

    Raises ValueError for one that may be several.
    """
    meant = [other for other in known if other.lower() == name.lower()]
    if len(meant) > 1:
        raise ValueError(
            f"`{name}` is the name of {len(meant)} columns ({', '.join(meant)}): rename or drop "
            "the others"
        )
    return meant[0] if meant else None


def field_at(column: pa.Array, name: Name, start: int) -> pa.Array:
    """The field that the parts of a name from `start` on lead to. Raises ValueError for none."""
    for part in name.parts[start:]:
        fields = fields_of(column) if pa.types.is_struct(column.type) else {}
        field = found(part, list(fields))
        if field is None:
            has = f"it has {', '.join(fields)}" if fields else f"it is {column.type}"
            raise ValueError(
                f"`{name}`: there is no `{part}` in `{name.parts[0]}`; {has}"
                f"{did_you_mean(part, fields)}"
            )
        column = fields[field]
    return column


def doubles(expression: Expression, cells: Callable[[Name], pa.Array], rows: int) -> pa.Array:
    """float64[rows]: the values of an expression, as Spark has them.

    cells : the values of a column or attribute
    Raises ValueError or TypeError for what cannot be computed so.
    """
    if isinstance(expression, Number):
        return pa.array([float(expression.text)] * rows, pa.float64())
    return as_doubles(_values(expression, cells), f"`{expression}`")


def _values(expression: Expression, cells: Callable[[Name], pa.Array]) -> pa.Array | pa.Scalar:
    if isinstance(expression, Name):
        return cells(expression)
    if isinstance(expression, Number):
        return _literal(expression.text)
    left = _values(expression.left, cells)
    if expression.right is None:
        return pc.negate_checked(_number(left, expression))
    right = _values(expression.right, cells)
    both = _alike(_number(left, expression), _number(right, expression), expression)
    try:
        return FUNCTIONS[expression.sign](*both)
    except pa.ArrowInvalid as error:
        raise ValueError(f"`{expression}` cannot be computed: {error}") from None


def _literal(text: str) -> pa.Scalar:
    if not text.isdecimal():
        return pa.scalar(float(text))
    small = int(text) < 2**31
    return pa.scalar(int(text), pa.int32() if small else pa.int64())


def _number(value: pa.Array | pa.Scalar, expression: Expression) -> pa.Array | pa.Scalar:
    if not is_number(value.type) or pa.types.is_decimal(value.type):
        raise TypeError(
            f"`{expression}` must be of whole numbers or floating-point numbers; got {value.type}: "
            "compute it in a column of its own before"
        )
    return value


def _alike(
    left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar, expression: Operation
) -> list[pa.Array | pa.Scalar]:
    """Both in the type in which Spark computes."""
    kinds = [left.type, right.type]
    whole = [pa.types.is_integer(kind) for kind in kinds]
    for side, other in ((expression.left, whole[1]), (expression.right, whole[0])):
        if other and isinstance(side, Number) and re.fullmatch(r"[\d.]*\.[\d.]*", side.text):
            raise TypeError(
                f"`{expression}`: a whole number and one with a point make a decimal number in "
                "Spark: cast the column to double before, or write the number without a point"
            )
    if all(whole) and expression.sign != "/":
        return [left, right]
    if all(kind == pa.float32() for kind in kinds) and expression.sign != "/":
        return [left, right]
    return [value.cast(pa.float64(), safe=False) for value in (left, right)]
