"""Expressions over alternatives and certain columns, evaluated over Arrow columns as in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pkgutil import get_data
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.near_misses import did_you_mean
from sfumato.sql_tokens import TokenError, tokenize
from sfumato.tables.arrow import fields_of
from sfumato.tables.reading.types import (
    EXACT_DIGITS,
    as_doubles,
    has_more_digits,
    is_number,
    is_text,
)
from sfumato.tables.reading.user_warnings import warn_user


@dataclass(frozen=True)
class ColumnRef:
    """A column or an attribute, optionally followed by struct fields: m.mean."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(part if part.isidentifier() else f"`{part}`" for part in self.parts)


@dataclass(frozen=True)
class Number:
    """A number as written, with or without a decimal point."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Text:
    """A string, a boolean, or NULL as a value of CASE or if."""

    value: str | bool | None

    def __str__(self) -> str:
        if self.value is None:
            return "null"
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value).lower()


@dataclass(frozen=True)
class Operation:
    """An operation on two operands, or on `left` alone: -, `not`, `is null`, `abs` and `sqrt`.

    `coalesce` of several operands is nested on the right.
    """

    sign: str
    left: Expression
    right: Expression | None = None

    def __str__(self) -> str:
        if self.right is None:
            if self.sign in NUMBER_FUNCTIONS:
                return f"{self.sign}({self.left})"
            after = self.sign == "is null"
            return f"({self.left} is null)" if after else f"({self.sign} {self.left})"
        if self.sign == "coalesce":
            return f"coalesce({self.left}, {self.right})"
        return f"({self.left} {self.sign} {self.right})"


@dataclass(frozen=True)
class Case:
    """`CASE WHEN condition THEN value ... ELSE otherwise END`.

    branches : (condition, value) in order; the first condition that is true selects its value
    otherwise : None for NULL
    """

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None

    @property
    def values(self) -> list[Expression]:
        last = [] if self.otherwise is None else [self.otherwise]
        return [*(value for _, value in self.branches), *last]

    def __str__(self) -> str:
        branches = " ".join(f"when {condition} then {value}" for condition, value in self.branches)
        last = "" if self.otherwise is None else f" else {self.otherwise}"
        return f"case {branches}{last} end"


Expression = ColumnRef | Number | Text | Operation | Case
Operand: TypeAlias = pa.Array | pa.Scalar
ReadCells: TypeAlias = Callable[[ColumnRef], pa.Array]
ARITHMETIC = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}
NUMBER_FUNCTIONS = ("abs", "sqrt")
ARITHMETIC_KINDS = {"whole", "double", "point"}  # kinds of `spark_kind`
LOGIC = {"and": pc.and_kleene, "or": pc.or_kleene}
QUOTED_NAME_OR_TEXT = re.compile(r"'[^']*'|`[^`]*`")
POINT_LITERAL = re.compile(r"[\d.]*\.[\d.]*")  # a decimal number in Spark
COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def parse_expression(argument: str, text: str, hint: str = "") -> Expression:
    """Parse the expression in an argument. Raises ValueError, with `hint`, if it is unsupported."""
    from lark.exceptions import LarkError

    try:
        tokenize(text)  # rejects very long or deeply nested text
        if "--" in QUOTED_NAME_OR_TEXT.sub("", text):
            raise LarkError("a comment in Spark")
        return _to_expression(_parser().parse(text))
    except RecursionError:
        raise ValueError(
            f"`{argument}` has too many operations, {text[:100]!r}...: compare a column with many "
            "values by IN (...)"
        ) from None
    except (LarkError, TokenError):
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise ValueError(
            f"without Spark, `{argument}` can use only columns, attributes, their fields "
            "(m.mean), numbers, 'strings', + - * /, abs, sqrt, comparisons, AND, OR, NOT, BETWEEN, "
            "IN, IS NULL, CASE WHEN ... THEN ... ELSE ... END, if(condition, x, y), "
            f"coalesce(x, y) and parentheses; got {shown!r}"
            f"{hint or '. Compute anything else in a separate column first'}"
        ) from None


@cache
def _parser() -> Any:
    from lark import Lark  # imported here because workers never parse

    grammar = get_data(__package__, "expressions.lark") or b""
    return Lark(grammar.decode(), parser="lalr")


def _to_expression(node: Any) -> Any:
    """Convert a parse tree to an expression; return a token unchanged."""
    if isinstance(node, str):
        return node
    parts = [_to_expression(child) for child in node.children]
    match node.data:
        case "name":
            plain = (p[1:-1].replace("``", "`") if p.startswith("`") else str(p) for p in parts)
            return ColumnRef(tuple(plain))
        case "number":
            return Number(str(parts[0]))
        case "text":
            return Text(str(parts[0])[1:-1])
        case "truth":
            return Text(parts[0].lower() == "true")
        case "same":
            return parts[1]
        case "unary":
            return Operation(parts[0].lower(), parts[1])
        case "is_null":
            return Operation("is null", parts[0])
        case "has":
            return Operation("not", Operation("is null", parts[0]))
        case "between":
            value, _, low, _, high = parts
            return Operation("and", Operation(">=", value, low), Operation("<=", value, high))
        case "outside":
            value, *_, low, _, high = parts
            return Operation("or", Operation("<", value, low), Operation(">", value, high))
        case "one_of":
            value, _, *listed = parts
            return _combined("or", [Operation("=", value, each) for each in listed])
        case "none_of":
            value, _, _, *listed = parts
            return _combined("and", [Operation("<>", value, each) for each in listed])
        case "choice" | "choice_by_value":
            if node.data == "choice_by_value":
                subject, *parts = parts
                for i in range(0, len(parts) - 1, 2):
                    parts[i] = Operation("=", subject, parts[i])
            branches = tuple(zip(parts[0::2], parts[1::2], strict=False))
            return Case(branches, parts[-1] if len(parts) % 2 else None)
        case "first_known":
            return reduce(lambda after, part: Operation("coalesce", part, after), parts[::-1])
        case "null":
            return Text(None)
    left, sign, right = parts
    return Operation({"==": "=", "!=": "<>"}.get(sign, sign.lower()), left, right)


def _combined(sign: str, parts: list[Operation]) -> Operation:
    """Combine operations in a balanced tree, so that a list of any length has a small depth."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Operation(sign, _combined(sign, parts[:middle]), _combined(sign, parts[middle:]))


def names_in(expression: Expression) -> Iterator[ColumnRef]:
    if isinstance(expression, ColumnRef):
        yield expression
    for operand in _operands(expression):
        yield from names_in(operand)


def _operands(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Operation):
        yield expression.left
        if expression.right is not None:
            yield expression.right
    elif isinstance(expression, Case):
        yield from (condition for condition, _ in expression.branches)
        yield from expression.values


def spark_kind(expression: Expression, kind_of: Callable[[ColumnRef], str], overflow: bool) -> str:
    """Return the kind of an expression if Arrow computes it as Spark does, otherwise "".

    Kinds: "whole", "double", "truth", "text", or "point" for a literal that is a decimal in Spark.
    overflow : whether Spark raises an error on overflow and division by zero
    """
    if isinstance(expression, ColumnRef):
        return kind_of(expression)
    if isinstance(expression, Number):
        if re.search("[eE]", expression.text):
            return "double"
        return "point" if "." in expression.text else "whole" if len(expression.text) < 19 else ""
    if isinstance(expression, Text):
        return {bool: "truth", str: "text"}.get(type(expression.value), "null")
    if isinstance(expression, Case):
        conditions = {spark_kind(of, kind_of, overflow) for of, _ in expression.branches}
        kinds = [spark_kind(of, kind_of, overflow) for of in expression.values]
        return _kind_of_all(kinds) if conditions == {"truth"} else ""
    sign, left = expression.sign, spark_kind(expression.left, kind_of, overflow)
    if expression.right is None:
        known = {
            "is null": left and "truth",
            "not": left == "truth" and "truth",
            "sqrt": left in ("whole", "double") and "double",
        }
        fits = left in ARITHMETIC_KINDS and (overflow or left != "whole")
        return known.get(sign, fits and left) or ""
    right = spark_kind(expression.right, kind_of, overflow)
    if sign == "coalesce":
        return _kind_of_all([left, right])
    if sign in LOGIC:
        return "truth" if left == right == "truth" else ""
    numbers = {left, right} <= ARITHMETIC_KINDS
    numbers &= left == right == "whole" or "double" in (left, right)
    if sign in COMPARISONS:
        return "truth" if numbers or left == right == "text" else ""
    if not numbers:
        return ""
    if not overflow and (sign == "/" or left == right):
        return ""
    return "double" if sign == "/" or "double" in (left, right) else "whole"


def _kind_of_all(given: list[str]) -> str:
    """Return the kind of a value that is one of several, or "" as in `spark_kind`."""
    kinds = {*given} - {"null"}
    if "double" in kinds and kinds <= ARITHMETIC_KINDS:
        return "double"
    return kinds.pop() if len(kinds) == 1 and kinds != {"point"} else ""


def _may_fail(expression: Expression) -> bool:
    """Return whether some values may overflow or be divided by zero, which raises an error."""
    computes = isinstance(expression, Operation) and expression.sign in (*ARITHMETIC, "abs")
    return computes or any(map(_may_fail, _operands(expression)))


def find_name(name: str, known: list[str]) -> str | None:
    """Return the known name equal to `name`, ignoring case. Raises ValueError if ambiguous."""
    meant = [other for other in known if other.lower() == name.lower()]
    if len(meant) > 1:
        raise ValueError(
            f"`{name}` is the name of {len(meant)} columns ({', '.join(meant)}): rename or drop "
            "all but one"
        )
    return meant[0] if meant else None


def field_at(column: pa.Array, name: ColumnRef) -> pa.Array:
    """Return the struct field at the path `name` in a column. Raises ValueError if missing."""
    for part in name.parts[1:]:
        fields = fields_of(column) if pa.types.is_struct(column.type) else {}
        field = find_name(part, list(fields))
        if field is None:
            has = f"it has {', '.join(fields)}" if fields else f"it is {column.type}"
            raise ValueError(
                f"`{name}` is not a field: `{name.parts[0]}` has no field `{part}`; "
                f"{has}{did_you_mean(part, fields)}"
            )
        column = fields[field]
    return column


@dataclass(frozen=True)
class SelectedRows:
    """The rows over which an expression is evaluated.

    cells : returns a name's values in all rows
    places : int64[count], the numbers of these rows; None for all rows
    """

    cells: ReadCells
    count: int
    places: npt.NDArray[np.int64] | None = None

    def column(self, name: ColumnRef) -> pa.Array:
        values = self.cells(name)
        return values if self.places is None else values.take(pa.array(self.places))

    def at(self, places: npt.NDArray[np.int64]) -> SelectedRows:
        """Return some of these rows by their places."""
        within = places if self.places is None else self.places[places]
        return SelectedRows(self.cells, len(places), within)


def evaluate_doubles(expression: Expression, cells: ReadCells, rows: int) -> pa.Array:
    """Return float64[rows]: an expression's values as in Spark. cells : returns a name's values"""
    if isinstance(expression, Number):
        return pa.array([float(expression.text)] * rows, pa.float64())
    return as_doubles(evaluate(expression, cells, rows), f"`{expression}`")


def evaluate(expression: Expression, cells: ReadCells, rows: int) -> pa.Array:
    """Return the values of an expression in their own type; see `evaluate_doubles`."""
    try:
        return _array(expression, SelectedRows(cells, rows))
    except RecursionError:
        raise ValueError(
            "an expression has too many operations inside each other: compute parts of it in "
            "separate columns first"
        ) from None


def evaluate_condition(condition: Expression, cells: ReadCells, rows: int) -> pa.Array:
    """Return whether a condition holds, bool[rows], with NULL for unknown."""
    return _as_condition(evaluate(condition, cells, rows), condition)


def _array(expression: Expression, rows: SelectedRows) -> pa.Array:
    value = _values(expression, rows)
    is_scalar = isinstance(value, pa.Scalar)
    return pa.array([value.as_py()] * rows.count, value.type) if is_scalar else value


def _values(expression: Expression, rows: SelectedRows) -> Operand:
    if isinstance(expression, ColumnRef):
        return rows.column(expression)
    if isinstance(expression, Number | Text):
        if isinstance(expression, Number):
            value = _literal(expression.text)
        else:
            value = pa.scalar(expression.value)
        return value if rows.count else pa.array([], value.type)  # no rows, so no errors
    if isinstance(expression, Case):
        return _selected(expression, rows)
    sign, right = expression.sign, None
    if sign == "coalesce" or sign in LOGIC:
        return _decided_by_left(expression, rows)
    left = _values(expression.left, rows)
    if expression.right is not None:
        right = _values(expression.right, rows)
    try:
        if sign == "is null":
            return pc.is_null(left)
        if sign == "not":
            return pc.invert(_as_condition(left, expression))
        if sign == "abs":
            return pc.abs_checked(_as_number(left, expression))
        if sign == "sqrt":
            return pc.sqrt(_as_number(left, expression).cast(pa.float64(), safe=False))
        if right is None:
            return pc.negate_checked(_as_number(left, expression))
        if sign in COMPARISONS:
            return _compare(sign, left, right)
        both = _as_number(left, expression), _as_number(right, expression)
        return ARITHMETIC[sign](*_cast_operands(*both, expression))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if right is not None and sign in COMPARISONS and left.type != right.type:
            raise ValueError(
                f"`{expression}` compares {left.type} with {right.type}: cast one of them in a "
                "separate column first"
            ) from None
        raise ValueError(f"`{expression}` cannot be computed: {error}") from None


def _selected(case: Case, rows: SelectedRows) -> Operand:
    """Return the values that the conditions of a CASE select.

    If a value or condition may fail, it is computed only for the rows that need it, as in Spark.
    """
    if not _may_fail(case):
        conditions = [_as_condition(_values(of, rows), of) for of, _ in case.branches]
        values = _cast_alike([_values(of, rows) for of in case.values], case, case.values)
        found = values.pop() if case.otherwise is not None else pa.scalar(None, values[0].type)
        for condition, value in zip(reversed(conditions), reversed(values), strict=True):
            found = pc.if_else(pc.fill_null(condition, False), value, found)
        return found
    left, places, parts = np.arange(rows.count), [], []
    for condition, value in case.branches:
        known = _as_condition(_array(condition, rows.at(left)), condition)
        holds = pc.fill_null(known, False).to_numpy(zero_copy_only=False)
        places.append(left[holds])
        parts.append(_array(value, rows.at(left[holds])))
        left = left[~holds]
    if case.otherwise is not None:
        parts.append(_array(case.otherwise, rows.at(left)))
    parts = _cast_alike(parts, case, case.values)
    if case.otherwise is None:
        parts.append(pa.nulls(len(left), parts[0].type))
    return _in_order([*places, left], parts)


def _decided_by_left(expression: Operation, rows: SelectedRows) -> Operand:
    """Return the values of AND, OR or coalesce, as in Spark.

    If the right side may fail, it is computed only where the left side does not decide the result.
    """
    sign, right = expression.sign, expression.right
    assert right is not None
    sides = [expression.left, right]
    if not _may_fail(right):
        if sign == "coalesce":
            return pc.coalesce(*_cast_alike([_values(of, rows) for of in sides], expression, sides))
        return LOGIC[sign](*(_as_condition(_values(of, rows), expression) for of in sides))
    left = _array(expression.left, rows)
    if sign == "coalesce":
        decided = left.is_valid()
    else:
        left = _as_condition(left, expression)
        decided = pc.fill_null(left if sign == "or" else pc.invert(left), False)
    is_decided = decided.to_numpy(zero_copy_only=False)
    known, open_ = np.flatnonzero(is_decided), np.flatnonzero(~is_decided)
    other = _array(right, rows.at(open_))
    if sign in LOGIC:
        other = LOGIC[sign](left.take(pa.array(open_)), _as_condition(other, expression))
    parts = [left.take(pa.array(known)), other]
    return _in_order([known, open_], _cast_alike(parts, expression, sides))


def _in_order(places: list[npt.NDArray[np.int64]], parts: list[Operand]) -> pa.Array:
    """Return one array of parts, whose values are at the given places."""
    order = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(order))


def _cast_alike(
    values: list[Operand], whole: Expression, parts: Sequence[Expression]
) -> list[Operand]:
    """Cast the values of the parts of a CASE or coalesce to the type that they have in Spark."""
    kinds = list(dict.fromkeys(of.type for of in values if not pa.types.is_null(of.type)))
    numbers = all(is_number(kind) and not pa.types.is_decimal(kind) for kind in kinds)
    points = [_decimal_literal(of) for of in parts]
    double = any(not p and v.type == pa.float64() for p, v in zip(points, values, strict=True))
    for point in filter(None, points) if not (numbers and double) else ():
        raise TypeError(
            f"`{whole}` contains {point}, which is a decimal number in Spark: write {point}e0 for "
            "a double"
        )
    if len(kinds) < 2:
        kind = kinds[0] if kinds else pa.null()
    elif all(map(pa.types.is_integer, kinds)):
        kind = max(kinds, key=lambda of: of.bit_width)
    elif numbers or all(map(is_text, kinds)):
        kind = pa.float64() if numbers else pa.string()
    else:
        raise TypeError(
            f"the values of `{whole}` have different types, {' and '.join(map(str, kinds))}: cast "
            "them to one type in a separate column first"
        )
    return [value.cast(kind, safe=False) for value in values]


def _decimal_literal(expression: Expression) -> str:
    """Return a literal that is a decimal number in Spark, without its sign; otherwise ""."""
    if isinstance(expression, Operation) and expression.right is None:
        return _decimal_literal(expression.left) if expression.sign == "-" else ""
    found = isinstance(expression, Number) and POINT_LITERAL.fullmatch(expression.text)
    return found[0] if found else ""


def _as_condition(value: Operand, expression: Expression) -> Operand:
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise TypeError(f"`{expression}` must be a condition over booleans; got {value.type}")
    return value


def _compare(sign: str, left: Operand, right: Operand) -> Operand:
    """Compare as Spark does: NaN equals NaN and is greater than all other numbers."""
    if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
        return COMPARISONS[sign](left, right)
    if left.type != right.type:
        left, right = map(_as_double, (left, right))
    holds = COMPARISONS[sign](left, right)
    ours, theirs = pc.is_nan(left), pc.is_nan(right)  # NULL remains NULL
    if sign in ("=", "<>"):
        both = pc.and_(ours, theirs)
        return pc.or_(holds, both) if sign == "=" else pc.and_(holds, pc.invert(both))
    greater, other = (ours, theirs) if sign in (">", ">=") else (theirs, ours)
    return pc.or_(holds, greater if "=" in sign else pc.and_(greater, pc.invert(other)))


def _as_double(value: Operand) -> Operand:
    if pa.types.is_decimal(value.type) and isinstance(value, pa.Array):
        if has_more_digits(value):
            warn_user(
                f"a condition compares {value.type} values, which are converted to doubles: "
                f"numbers with more than {EXACT_DIGITS} digits are rounded. Subtract a common "
                "offset first"
            )
        return as_doubles(value, "")  # Arrow's own cast is not the nearest double
    return value.cast(pa.float64(), safe=False)


def _literal(text: str) -> pa.Scalar:
    if not text.isdecimal():
        return pa.scalar(float(text))
    if int(text) >= 2**63:
        raise TypeError(f"{text} is a decimal number in Spark: write {text}e0 for a double")
    return pa.scalar(int(text), pa.int32() if int(text) < 2**31 else pa.int64())


def _as_number(value: Operand, expression: Expression) -> Operand:
    if not is_number(value.type) or pa.types.is_decimal(value.type):
        raise TypeError(
            f"`{expression}` must use integers or floating-point numbers; got {value.type}. "
            "Compute it in a separate column first"
        )
    return value


def _cast_operands(left: Operand, right: Operand, expression: Operation) -> list[Operand]:
    """Cast both operands to the type that Spark computes with."""
    kinds = [left.type, right.type]
    whole = [pa.types.is_integer(kind) for kind in kinds]
    for side, other in ((expression.left, whole[1]), (expression.right, whole[0])):
        if other and isinstance(side, Number) and POINT_LITERAL.fullmatch(side.text):
            raise TypeError(
                f"`{expression}` combines an integer with a number that has a decimal point, "
                "which is a decimal number in Spark: cast the column to double first, or write the "
                "number without a decimal point"
            )
    if expression.sign != "/" and (all(whole) or all(kind == pa.float32() for kind in kinds)):
        return [left, right]
    return [value.cast(pa.float64(), safe=False) for value in (left, right)]
