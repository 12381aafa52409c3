"""Text to expressions and conditions."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import LarkError

from sfumato.sql_tokens import TokenError, tokenize
from sfumato.tables.reading.expressions import Expression, Name, Number, Operation, Text


def parsed(argument: str, text: str) -> Expression:
    """The expression of a text. Raises ValueError, naming the argument, for any other text."""
    try:
        tokenize(text)  # refuses what is very long or nested very deeply
        return _Tree().transform(_parser().parse(text))
    except (LarkError, TokenError):
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise ValueError(
            f"`{argument}`: without Spark an expression is made of columns, attributes, their "
            "fields (m.mean), numbers, 'texts', + - * /, comparisons, AND, OR, NOT, BETWEEN, "
            f"IS NULL and parentheses; got {shown!r}: compute anything else in a column of its "
            "own before"
        ) from None


SPELLED = {"==": "=", "!=": "<>"}


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

    def text(self, given: list[Token]) -> Text:
        return Text(str(given[0])[1:-1])

    def truth(self, given: list[Token]) -> Text:
        return Text(given[0].lower() == "true")

    def same(self, given: list[Any]) -> Any:
        return given[1]

    def unary(self, given: list[Any]) -> Operation:
        return Operation(given[0].lower(), given[1])

    def operation(self, given: list[Any]) -> Operation:
        left, sign, right = given
        return Operation(SPELLED.get(str(sign), str(sign).lower()), left, right)

    def lacks(self, given: list[Any]) -> Operation:
        return Operation("is null", given[0])

    def has(self, given: list[Any]) -> Operation:
        return Operation("not", self.lacks(given))

    def between(self, given: list[Any]) -> Operation:
        value, _, low, _, high = given
        return Operation("and", Operation(">=", value, low), Operation("<=", value, high))


def _plain(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part
