"""A plain SELECT over one declared frame by the frame's own methods.

Spark takes a text over a table of a declarative pipeline only as the whole of what defines another
one; what methods made of it may stand anywhere.
"""

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession

from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.sql.text.grammar import tokens
from sfumato.sql.text.references import is_word
from sfumato.sql.text.syntax import end_of, start_of

NAME = r"(?:`(?:[^`]|``)+`|[A-Za-z_]\w*)"
SELECT = re.compile(
    rf"\s*SELECT\s+(?P<items>.+?)\s+FROM\s+\{{d0\}}(?:\s+AS\s+(?P<alias>{NAME}))?"
    r"(?:\s+WHERE\s+(?P<where>.+))?\s*",
    re.I | re.S,
)
MORE = (
    *("SELECT", "FROM", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT"),
    *("OFFSET", "UNION", "INTERSECT", "EXCEPT", "MINUS", "WINDOW", "QUALIFY", "LATERAL", "JOIN"),
    *("PIVOT", "UNPIVOT", "DISTINCT", "TABLESAMPLE", "WITH", "OVER"),
)


REFUSED = (
    "over a declared frame SELECT takes a list, FROM one of them or one construct, and WHERE; "
    "what else the text has goes into a table of the pipeline of its own, in Spark's SQL"
)


def by_methods(text: str, frames: Mapping[str, DataFrame], spark: SparkSession) -> DataFrame | None:
    """The answer to `SELECT ... FROM {d0} [AS a] [WHERE ...]`, of the frame d0; None for any other
    text."""
    whole = SELECT.fullmatch(text)
    if whole is None or len(frames) != 1 or "|>" in text:
        return None
    items, where = whole["items"], whole["where"] or ""
    if any(is_word(token, *MORE) for part in (items, where) for token in tokens(part)):
        return None
    frame = frames["d0"]
    if whole["alias"]:
        frame = frame.alias(whole["alias"].strip("`").replace("``", "`"))
    if where:
        check_expression("WHERE", where, spark)
        frame = frame.where(for_spark(where, spark))
    listed = list(_listed(items))
    for item in listed:
        check_expression("SELECT", item, spark)
    return frame.selectExpr(*(for_spark(item, spark) for item in listed))


def _listed(text: str) -> Iterator[str]:
    """The parts between commas that stand in no bracket."""
    depth, begun = 0, 0
    for token in tokens(text):
        depth += (str(token) in ("(", "[")) - (str(token) in (")", "]"))
        if str(token) == "," and depth == 0:
            yield text[begun : start_of(token)]
            begun = end_of(token)
    yield text[begun:]
