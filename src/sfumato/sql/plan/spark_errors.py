"""Spark's complaints about names, with the place in the user's own text."""

import re
from collections.abc import Callable, Mapping, Sequence

from lark import Token
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sfumato.near_misses import near
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.grammar import tokens
from sfumato.sql.text.references import MEASURES, OPENING, is_name, is_word
from sfumato.sql.text.syntax import Node, end_of, plain, start_of

PART = re.compile(r"`((?:[^`]|``)*)`")
NAMED = re.compile(r"\b[^\W\d]\w*\b(?!\s*\()")  # in an expression, what is no function
# Distributions by what their types begin with: (what they are made of, what is a number)
FORMS = {
    "struct<prob": ("an array of alternatives", "its EXPECTED value where it is selected"),
    "struct<mean: double, stddev": ("its mean and standard deviation", "{}.mean"),
}
NOT_VALUES = ("DISTINCT", "ALL", "BY", "IS", "THEN", "ELSE", "JOIN", "INTERVAL", "TOP")


def checked_by_spark(
    make: Callable[[], DataFrame],
    spark: SparkSession,
    text: str,
    node: Node,
    *,
    known: Sequence[str] = (),
) -> DataFrame:
    """The frame `make` gives, analysed now (Connect would wait), so that errors come from here.

    Raises SqlError for a table, column, field or function that Spark cannot find and that the
    text of `node` names; any other error of Spark's is raised as it is.
    known : column names that may be meant, beside those Spark proposes
    """
    try:
        df = make()
        _ = df.schema
    except (AnalysisException, ValueError) as error:
        own = error if isinstance(error, AnalysisException) else error.__cause__
        if not isinstance(own, AnalysisException):
            raise
        reworded = in_our_terms(own, spark, text, node, known)
        raise own if reworded is None else reworded from own
    return df


def in_our_terms(
    error: AnalysisException, spark: SparkSession, text: str, node: Node, columns: Sequence[str]
) -> SqlError | None:
    """The SqlError that says what Spark's error says, or None where it says it best itself."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith("DATATYPE_MISMATCH"):
        return _mismatched(parameters, text, node)
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "")
        # Spark proposes what the clause sees; the tables' columns tell more in an ORDER BY.
        proposed = [part.split(".")[-1] for part in PART.findall(parameters.get("proposal", ""))]
        known = [n for n in dict.fromkeys([*proposed, *columns]) if not n.startswith("__")]
        reason = "there is no column {}"
    elif condition == "FIELD_NOT_FOUND":
        name, known = parameters.get("fieldName", ""), PART.findall(parameters.get("fields", ""))
        reason = "there is no field {}"
    elif condition == "TABLE_OR_VIEW_NOT_FOUND":
        name = parameters.get("relationName", "")
        known = [table.name for table in spark.catalog.listTables()]
        reason = "there is no stream, table or view {}"
    elif condition == "UNRESOLVED_ROUTINE":
        name, known, reason = parameters.get("routineName", ""), [], "there is no function {}"
    else:
        return None
    parts = [part.replace("``", "`") for part in PART.findall(name)] or [name]
    place = where_named(parts[-1], text, node)
    if place is None:
        return None
    candidates = known or list(MEASURES)
    return SqlError(
        reason.format(".".join(parts)),
        text=text,
        start=place[0],
        end=place[1],
        expected=known,
        suggestion=near(parts[-1], candidates),
    )


def _mismatched(parameters: Mapping[str, str], text: str, node: Node) -> SqlError | None:
    """A distribution where Spark wants something else; other types Spark itself explains best."""
    types = " ".join(parameters.values()).lower()
    form = next((form for form in FORMS if form in types), None)
    if form is None:
        return None
    named = NAMED.findall(parameters.get("sqlExpr", ""))
    found = (where_named(name, text, node) for name in named)
    place = next((place for place in found if place is not None), None)
    start, end = place or (node.start, node.end)
    word = "this" if place is None else text[start:end]
    what, wanted = FORMS[form]
    return SqlError(
        f"{word} is a distribution, {what}; a number is wanted here",
        text=text,
        start=start,
        end=end,
        expected=(wanted.format("NAME" if place is None else word),),
    )


def where_named(name: str, text: str, node: Node) -> tuple[int, int] | None:
    """Where in the node's text a name stands first; as an alias only if it stands nowhere else."""
    aliased: tuple[int, int] | None = None
    before: Token | None = None
    for token in tokens(text[node.start : node.end]):
        if plain(token).lower() == name.lower() and token.type != "STRING":
            place = node.start + start_of(token), node.start + end_of(token)
            if not is_alias(token, before):
                return place
            aliased = aliased or place
        before = token
    return aliased


def is_alias(token: Token, before: Token | None) -> bool:
    """Whether a name follows a value, and so names it."""
    if before is None or before.type in ("AS", "RPAR", "RSQB", "NUMBER", "STRING"):
        return before is not None
    return is_name(before) and not is_word(before, *OPENING, *NOT_VALUES)
