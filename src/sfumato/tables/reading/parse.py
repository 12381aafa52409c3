"""Text to expressions: names, numbers, + - * / and parentheses."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import LarkError

from sfumato.tables.reading.expressions import Expression, Name, Number, Operation


def parsed(argument: str, text: str) -> Expression:
    """The expression of a text. Raises ValueError, naming the argument, for any other text."""
    try:
        return _Tree().transform(_parser().parse(text))
    except LarkError:
        raise ValueError(
            f"`{argument}`: without Spark an expression is made of columns, attributes, their "
            f"fields (m.mean), numbers, + - * / and parentheses; got {text!r}: compute anything "
            "else in a column of its own before"
        ) from None


@cache
def _parser() -> Lark:
    grammar = get_data(__package__, "expressions.lark") or b""
    return Lark(grammar.decode(), parser="lalr")


class _Tree(Transformer):
    """What the rules of the grammar mean."""

    def name(self, parts: list[Token]) -> Name:
        return Name(tuple(_plain(str(part)) for part in parts))

    def number(self, given: list[Token]) -> Number:
        return Number(str(given[0]))

    def negative(self, given: list[Any]) -> Operation:
        return Operation("-", given[0])

    def operation(self, given: list[Any]) -> Operation:
        left, sign, right = given
        return Operation(str(sign), left, right)


def _plain(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part
