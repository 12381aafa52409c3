"""The grammar of the language with the words of its constructs."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lark import Lark, Token

from sfumato.sql.text.words import fragment

GRAMMAR = Path(__file__).with_name("grammar.lark")


@cache
def parser(fragment: str) -> Lark:
    """The parser with the words of constructs, built once a process (about 0.1 s)."""
    return Lark(
        f"{GRAMMAR.read_text(encoding='utf-8')}\n{fragment}",
        parser="lalr",
        start="script",
        propagate_positions=True,
    )


def tokens(text: str) -> Iterator[Token]:
    """The words of a text, whatever they mean where they stand. Raises UnexpectedCharacters."""
    return parser(fragment({})).lex(text)
