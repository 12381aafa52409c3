"""Other systems' words for windows, and how the same is written here."""

from collections.abc import Iterator
from itertools import pairwise

from lark import Token
from pyspark.sql import SparkSession

from sfumato.sql.plan.nodes import at
from sfumato.sql.text.grammar import tokens
from sfumato.sql.text.references import is_word
from sfumato.sql.text.syntax import Body, Node, end_of, start_of

TUMBLING = "s [RANGE 10 MINUTES WATTR ts] after the table's name"
HOPPING = "s [RANGE 10 MINUTES SLIDE 5 MINUTES WATTR ts] after the table's name"
NONE = "Spark's own GROUP BY session_window(ts, '5 minutes'), over certain rows"
FUNCTIONS = {  # of Flink and Calcite
    "TUMBLE": TUMBLING,
    "TUMBLE_START": "window.start, of s [RANGE 10 MINUTES WATTR ts]",
    "TUMBLE_END": "window.end, of s [RANGE 10 MINUTES WATTR ts]",
    "HOP": HOPPING,
    "HOP_START": "window.start, of s [RANGE ... SLIDE ...]",
    "HOP_END": "window.end, of s [RANGE ... SLIDE ...]",
    "SESSION": NONE,
}
KINDS = {"TUMBLING": TUMBLING, "HOPPING": HOPPING, "SESSION": NONE}  # of ksqlDB


def refuse_foreign_windows(body: Body, text: str, spark: SparkSession) -> None:
    """Raise SqlError for a window as Flink and ksqlDB write it, with the way it is written here."""
    for first, last, here in _foreign(list(tokens(text[body.start : body.end]))):
        place = Node(body.start + start_of(first), body.start + end_of(last))
        if first is last and spark.catalog.functionExists(str(first)):
            continue
        said = " ".join(text[place.start : place.end].split())
        raise at(text, place, f"{said} is not of this language; here it is written {here}")


def _foreign(words: list[Token]) -> Iterator[tuple[Token, Token, str]]:
    """What is foreign: its first and last word, and how it is written here."""
    for i, (one, other) in enumerate(pairwise(words)):
        after = words[i + 2] if i + 2 < len(words) else None
        if one.upper() in FUNCTIONS and other.type == "LPAR" and is_word(one, *FUNCTIONS):
            yield one, one, FUNCTIONS[one.upper()]
        elif is_word(one, "WINDOW") and is_word(other, *KINDS):
            if after is not None and after.type == "LPAR":
                yield one, other, KINDS[other.upper()]
        elif is_word(one, "EMIT") and is_word(other, "CHANGES", "FINAL"):
            yield one, other, "without it: what changes comes out as it does"
