"""Spark's errors about the form of a query, located in the user's text.

Spark's messages show the rewritten text. The usual mistakes are therefore looked for in the text of
the user.
"""

from collections.abc import Mapping
from itertools import pairwise

from sfumato.language.syntax import (
    AGGREGATES,
    OPENING,
    Node,
    Script,
    SqlError,
    Token,
    at,
    is_name,
    is_type,
    is_word,
)
from sfumato.near_misses import near
from sfumato.sql_tokens import unquote_name

NOT_VALUES = ("DISTINCT", "ALL", "BY", "IS", "THEN", "ELSE", "JOIN", "INTERVAL", "TOP")
CLAUSES = {word: word for word in ("FROM", "WHERE", "HAVING", "LIMIT", "GROUP", "ORDER", "UNION")}
KEYWORDS = (*OPENING, *NOT_VALUES, *CLAUSES, "AS", "ON", "USING", "END", "ASC", "DESC")
CLAUSES |= {"GROUPBY": "GROUP BY", "ORDERBY": "ORDER BY"}


def syntax_error(parameters: Mapping[str, str], script: Script, node: Node) -> SqlError:
    """Return the error for a query that Spark cannot parse. parameters : of Spark's message"""
    words = script.words(node)
    for token, after in zip(words, (*words[1:], None), strict=True):
        is_last = after is None or is_type(after, "RPAR") or is_word(after, *CLAUSES)
        if is_type(token, "COMMA") and is_last:
            return at(token, "no expression follows this comma")
    if (misplaced := misplaced_word(script, node)) is not None:
        return misplaced
    shown = unquote_name(parameters.get("error", "").strip("'")).lower()
    same = [word for word in words if unquote_name(word).lower() == shown]
    return at(same[0] if len(same) == 1 else node, "Spark cannot parse this")


def misplaced_word(script: Script, node: Node) -> SqlError | None:
    """Return the error for a name where only an alias can be, but another value follows, or None.

    It is often a misspelled keyword, as in `SELECT x FORM s`.
    """
    words = script.words(node)
    for before, token, after in zip((None, *words), words, words[1:], strict=False):
        if not is_name(token) or is_word(token, *KEYWORDS) or not follows_value(before):
            continue
        if is_type(after, "LPAR", "NUMBER", "STRING") or (
            is_name(after) and not is_word(after, *KEYWORDS)
        ):
            likely = near(token, CLAUSES, cutoff=0.75)
            reason = f"{token} is not expected here"
            if likely is None:
                return at(token, f"{reason}: is a comma or an operator missing before it?")
            return at(token, reason, suggestion=CLAUSES[likely])
    return None


def aggregate_in_where(script: Script, node: Node) -> SqlError | None:
    """Return the error for a WHERE with an aggregate, or None if there is no such call."""
    words, inside = script.words(node), False
    for token, after in pairwise(words):
        inside = is_word(token, "WHERE") or (inside and not is_word(token, *CLAUSES))
        if inside and is_type(after, "LPAR") and token.lower() in AGGREGATES:
            return at(token, f"{token} is an aggregate, and WHERE reads single rows", "HAVING")
    return None


def follows_value(before: Token | None) -> bool:
    """Return whether a name after this word is an alias, because the word ends a value."""
    if before is None or before.type in ("AS", "RPAR", "RSQB", "NUMBER", "STRING"):
        return before is not None
    return is_name(before) and not is_word(before, *OPENING, *NOT_VALUES)
