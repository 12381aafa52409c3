"""Tables as frames: the session's, and those of a FROM clause with their attributes and aliases.

What Spark reports about names is reported with the place in the user's own text.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isfunction
from typing import Any

from lark import Token
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sfumato.language.errors import SqlError, at
from sfumato.language.steps import Step, table_step
from sfumato.language.syntax import (
    MEASURE_FUNCTIONS,
    OPENING,
    Name,
    Node,
    Option,
    Relation,
    Script,
    end_of,
    is_name,
    is_word,
    plain,
    quoted,
    start_of,
)
from sfumato.near_misses import near
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.outside_text import is_known, is_path, is_trusted
from sfumato.spark.model.validation import require_frame
from sfumato.windows import Delta, Range, Rows

ALTERNATIVES = "alternatives"


@dataclass(frozen=True)
class PlannedFrame:
    """A frame and how it came about; the rows in order by the text of what was asked for that."""

    df: DataFrame
    step: Step
    ordered: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def attributes(self) -> list[str]:
        """The uncertain attributes: the fields of its alternatives."""
        try:
            return SparkFrame(self.df).attributes
        except TypeError:  # a column `alternatives` that is something else
            return []


@dataclass
class Source:
    """One table of a FROM clause as the rest of the query sees it.

    start, end : where it stands in the text;  written : what follows its frame there, its alias
    aliases : the names that qualify its columns; of a join of ours two, and `sides` says which
        side each means
    window, order : for an aggregate or a ranking over the frame, and the columns it goes by
    node : what to point at
    of_operator : FORGET and NAMED of its bracket, for what is asked of the window
    extra : columns added for this query alone, which a star does not mean
    changed : it is not the table any more and must be replaced in the text
    """

    start: int
    end: int
    frame: PlannedFrame
    aliases: tuple[str, ...]
    written: str
    node: Node
    window: Rows | Range | Delta | None = None
    order: list[str] = field(default_factory=list)
    of_operator: tuple[Option, ...] = ()
    sides: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    changed: bool = False

    def goes_by(self, qualifier: str) -> bool:
        """Whether a qualifier is one of its aliases."""
        return qualifier.lower() in [alias.lower() for alias in self.aliases]

    def attribute(self, parts: tuple[str, ...]) -> str | None:
        """Return the uncertain attribute that a name (of one or two parts) means here, or None."""
        if len(parts) == 1:
            return found(parts[0], self.frame.attributes)
        if not self.goes_by(parts[0]):
            return None
        side = next((s for a, s in self.sides.items() if a.lower() == parts[0].lower()), None)
        return found(parts[1] if side is None else f"{side}_{parts[1]}", self.frame.attributes)

    def meant(self, parts: tuple[str, ...]) -> str | None:
        """Return the uncertain attribute that the first two parts of a name mean, or the first."""
        return self.attribute(parts[:2]) or self.attribute(parts[:1])


def found(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is `name`; case counts only to tell two apart."""
    listed = list(names)
    if name in listed:
        return name
    same = [other for other in listed if other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def free(name: str, taken: Iterable[str]) -> str:
    """Return the name, with enough `_` after it to differ from those taken."""
    known = {other.lower() for other in taken}
    while name.lower() in known:
        name += "_"
    return name


def column(
    name: Name, columns: Iterable[str], of: str, text: str, *, qualified: bool = False
) -> str:
    """Return the one of the columns of `of` that a name means.

    qualified : the name may have several parts; the last one is the column's
    Raises SqlError, with the likely one, if there is none.
    """
    listed, last = list(columns), name.parts[-1]
    match = found(last, listed) if qualified or len(name.parts) == 1 else None
    if match is None:
        reason = f"{of} has no column {name}"
        raise at(text, name, reason, expected=listed, suggestion=near(last, listed))
    return match


def existence_said(frame: PlannedFrame, given: str | None = None) -> str:
    """Describe for EXPLAIN how probably the rows of a table exist.

    given : the column that EXISTENCE names
    """
    column = found("existence", frame.df.columns) if given is None else given
    said = SparkFrame(frame.df).independence(column)
    shared = "" if said is None else f"; {said}"
    if frame.attributes:
        return f"the sum of a row's probabilities{shared}"
    if column is not None:
        return f"with the probability in column {column}{shared}"
    return "every row exists for sure: the table has no column existence"


def name_of(relation: Relation) -> str:
    """Return what messages call a relation."""
    return str(relation.head) if isinstance(relation.head, Name) else "the query"


class Tables:
    """Looks tables up, each once; for the queries of one text.

    given : frames by name, that go before the session's tables; and functions by name, for FROM
    """

    def __init__(self, spark: SparkSession, script: Script, given: Mapping[str, Any]) -> None:
        self.spark, self.script, self.text = spark, script, script.text
        self.functions = {n.lower(): f for n, f in given.items() if isfunction(f)}
        self._given: dict[str, DataFrame] = {}
        for name, df in given.items():
            if name.lower() not in self.functions:
                require_frame(name, df)
                self._given[name.lower()] = df
        self._frames: dict[tuple[str, ...], PlannedFrame | None] = {}

    def frame(self, name: Name) -> PlannedFrame | None:
        """Return the table or view of that name, or None if the session has none."""
        if name.parts not in self._frames:
            self._frames[name.parts] = self._look_up(name)
        return self._frames[name.parts]

    def _look_up(self, name: Name) -> PlannedFrame | None:
        try:
            df = self._given[name.parts[0].lower()] if self.is_given(name) else None
            if df is None and not self._may_read(name):
                return None
            if df is None:
                df = self.spark.table(".".join(quoted(part) for part in name.parts))
            columns = tuple((f.name, f.dataType.simpleString()) for f in df.schema.fields)
        except AnalysisException:
            return None
        return PlannedFrame(df, table_step(str(name), df.isStreaming, columns))

    def _may_read(self, name: Name) -> bool:
        """Whether a name is a table's: Spark would read csv.`/a` as a file."""
        if len(name.parts) == 1 or is_trusted(self.spark):
            return True
        return not is_path(name.parts) and is_known(self.spark, name.parts)

    def is_given(self, name: Name) -> bool:
        """Whether a name means a frame that came with the text."""
        return len(name.parts) == 1 and name.parts[0].lower() in self._given

    def is_uncertain(self, name: Name) -> bool:
        """Whether a table has uncertain attributes."""
        frame = self.frame(name)
        return frame is not None and bool(frame.attributes)

    def unknown(self, name: Name, also: Iterable[str] = ()) -> SqlError:
        """Return the error about a stream that neither the query (`also`) nor the session has."""
        known = [*also, *self._given, *(table.name for table in self.spark.catalog.listTables())]
        likely = near(name.parts[-1], known)
        reason = f"there is no stream, table or view {name}"
        return at(self.text, name, reason, expected=known, suggestion=likely)


# ---- errors of Spark -----------------------------------------------------------------------------

BACKQUOTED = re.compile(r"`((?:[^`]|``)*)`")
TABLE_WORD = re.compile(r"\b[^\W\d]\w*\b(?!\s*\()")  # in an expression, what is no function
# Distributions by what their types begin with: (what they are made of, what is a number)
FORMS = {
    "struct<prob": ("an array of alternatives", "its EXPECTED value where it is selected"),
    "struct<mean: double, stddev": ("its mean and standard deviation", "{}.mean"),
}
NOT_VALUES = ("DISTINCT", "ALL", "BY", "IS", "THEN", "ELSE", "JOIN", "INTERVAL", "TOP")


def checked_by_spark(
    make: Callable[[], DataFrame],
    spark: SparkSession,
    script: Script,
    node: Node,
    *,
    known: Sequence[str] = (),
) -> DataFrame:
    """Return the frame `make` gives, analysed now, so that errors come from here under Connect too.

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
        reworded = _in_our_terms(own, spark, script, node, known)
        raise own if reworded is None else reworded from own
    return df


def _in_our_terms(
    error: AnalysisException,
    spark: SparkSession,
    script: Script,
    node: Node,
    columns: Sequence[str],
) -> SqlError | None:
    """Return Spark's error as a SqlError, or None where Spark says it best."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith("DATATYPE_MISMATCH"):
        return _mismatched(parameters, script, node)
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "")
        # Spark proposes what the clause sees; the tables' columns tell more in an ORDER BY.
        proposed = [
            part.split(".")[-1] for part in BACKQUOTED.findall(parameters.get("proposal", ""))
        ]
        known = [n for n in dict.fromkeys([*proposed, *columns]) if not n.startswith("__")]
        reason = "there is no column {}"
    elif condition == "FIELD_NOT_FOUND":
        name, known = (
            parameters.get("fieldName", ""),
            BACKQUOTED.findall(parameters.get("fields", "")),
        )
        reason = "there is no field {}"
    elif condition == "TABLE_OR_VIEW_NOT_FOUND":
        name = parameters.get("relationName", "")
        known = [table.name for table in spark.catalog.listTables()]
        reason = "there is no stream, table or view {}"
    elif condition == "UNRESOLVED_ROUTINE":
        name, known, reason = parameters.get("routineName", ""), [], "there is no function {}"
    else:
        return None
    parts = [part.replace("``", "`") for part in BACKQUOTED.findall(name)] or [name]
    place = where_named(parts[-1], script, node)
    if place is None:
        return None
    candidates = known or list(MEASURE_FUNCTIONS)
    return SqlError(
        reason.format(".".join(parts)),
        text=script.text,
        start=place[0],
        end=place[1],
        expected=known,
        suggestion=near(parts[-1], candidates),
    )


def _mismatched(parameters: Mapping[str, str], script: Script, node: Node) -> SqlError | None:
    """Return the error about a distribution where Spark wants another type; None for others."""
    types = " ".join(parameters.values()).lower()
    form = next((form for form in FORMS if form in types), None)
    if form is None:
        return None
    named = TABLE_WORD.findall(parameters.get("sqlExpr", ""))
    found = (where_named(name, script, node) for name in named)
    place = next((place for place in found if place is not None), None)
    start, end = place or (node.start, node.end)
    word = "this" if place is None else script.text[start:end]
    what, wanted = FORMS[form]
    return SqlError(
        f"{word} is a distribution, {what}; a number is wanted here",
        text=script.text,
        start=start,
        end=end,
        expected=(wanted.format("NAME" if place is None else word),),
    )


def where_named(name: str, script: Script, node: Node) -> tuple[int, int] | None:
    """Return where a name stands first in a node; as an alias only if nowhere else."""
    aliased: tuple[int, int] | None = None
    before: Token | None = None
    for token in script.words(node):
        if plain(token).lower() == name.lower() and token.type != "STRING":
            place = start_of(token), end_of(token)
            if not _is_alias(token, before):
                return place
            aliased = aliased or place
        before = token
    return aliased


def _is_alias(token: Token, before: Token | None) -> bool:
    """Whether a name follows a value, and so names it."""
    if before is None or before.type in ("AS", "RPAR", "RSQB", "NUMBER", "STRING"):
        return before is not None
    return is_name(before) and not is_word(before, *OPENING, *NOT_VALUES)
