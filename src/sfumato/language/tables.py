"""Tables as frames, and Spark errors about names, located in the user's text."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from inspect import isfunction
from itertools import chain
from typing import Any, Self

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sfumato.language.steps import Step, one_line, table_step
from sfumato.language.syntax import (
    AGGREGATES,
    MEASURE_FUNCTIONS,
    Name,
    Node,
    Option,
    Script,
    SqlError,
    Token,
    at,
)
from sfumato.language.syntax_errors import aggregate_in_where, follows_value, syntax_error
from sfumato.near_misses import near
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.untrusted_sql import is_catalog_table, is_path, is_trusted
from sfumato.spark.model.validation import require_frame
from sfumato.sql_tokens import quote_name, unquote_name
from sfumato.windows import Delta, Range, Rows

BracketWindow = Rows | Range | Delta


@dataclass(frozen=True)
class PlannedFrame:
    """A frame and its step. ordered : reordered frames by the arguments of `sf.reorder`"""

    df: DataFrame
    step: Step
    ordered: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def attributes(self) -> list[str]:
        """Return the uncertain attributes: the fields of its alternatives."""
        try:
            return SparkFrame(self.df).attributes
        except TypeError:  # a column `alternatives` of a different type
            return []


@dataclass(eq=False)
class Source:
    """One table of a FROM clause as seen by the rest of the query.

    written : the text after its frame, with its alias;  node : position of errors
    aliases : the qualifiers of its columns; a join has two, and `sides` gives the side of each
    window, order : the window over the frame and its order columns, for an aggregate or a ranking
    operator_options : the bracket's options for the operator over the window, such as FORGET
    unused_key : the option KEY of a bracket without disorder control, and its columns
    extra : columns added for this query only, which a star does not include
    changed : whether it differs from the table and must be replaced in the text
    """

    start: int
    end: int
    frame: PlannedFrame
    aliases: tuple[str, ...]
    written: str
    node: Node
    window: BracketWindow | None = None
    order: list[str] = field(default_factory=list)
    operator_options: tuple[Option, ...] = ()
    unused_key: tuple[Option, list[str]] | None = None
    sides: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    changed: bool = False

    @property
    def has_answers(self) -> bool:
        return SparkFrame(self.frame.df).has_answers

    def has_alias(self, qualifier: str) -> bool:
        return qualifier.lower() in [alias.lower() for alias in self.aliases]

    def attribute(self, parts: tuple[str, ...]) -> str | None:
        """Return the uncertain attribute that a name of one or two parts denotes, or None."""
        if len(parts) == 1:
            return match_name(parts[0], self.frame.attributes)
        if not self.has_alias(parts[0]):
            return None
        side = next((f"{s}_" for a, s in self.sides.items() if a.lower() == parts[0].lower()), "")
        return match_name(side + parts[1], self.frame.attributes)

    def leading_attribute(self, parts: tuple[str, ...]) -> str | None:
        """Return the uncertain attribute that the first one or two parts of a name denote."""
        return self.attribute(parts[:2]) or self.attribute(parts[:1])


def match_name(name: str, names: Iterable[str]) -> str | None:
    """Return the element of `names` equal to `name`; case matters only to resolve ambiguity."""
    listed = list(names)
    same = [other for other in listed if other.lower() == name.lower()]
    return name if name in listed else same[0] if len(same) == 1 else None


def resolve_column(
    name: Name, columns: Iterable[str], of: object, *, qualified: bool = False
) -> str:
    """Return the column that a name denotes. Raises SqlError if there is none.

    of : the table's name in messages
    qualified : whether the name may have several parts, of which the last is the column
    """
    listed, last = list(columns), name.parts[-1]
    match = match_name(last, listed) if qualified or len(name.parts) == 1 else None
    if match is None:
        raise at(name, f"{of} has no column {name}", *listed, suggestion=near(last, listed))
    return match


def describe_existence(
    frame: PlannedFrame, given: str | None = None, *, shared: bool = False
) -> str:
    """Describe the existence of rows.

    given : the column named by EXISTENCE    shared : whether values of one gap share their error
    """
    column = match_name("existence", frame.df.columns) if given is None else given
    known = SparkFrame(frame.df)
    drawn = known.describe_worlds()
    if drawn is not None:
        return drawn
    said = known.describe_independence(column, shared)
    assumed = "" if said is None else f"; {said}"
    if frame.attributes:
        return f"the sum of the probabilities of a row{assumed}"
    if column is not None:
        return f"with the probability in column {column}{assumed}"
    return "every row certainly exists: the table has no column existence"


class Tables:
    """Cached look-up of the tables that a query of one script can read.

    given : frames by name, which take precedence over the session's tables, and functions for FROM
    """

    def __init__(self, spark: SparkSession, script: Script, given: Mapping[str, Any]) -> None:
        self.spark, self.script, self.text = spark, script, script.text
        self.functions = {n.lower(): f for n, f in given.items() if isfunction(f)}
        self._given: dict[str, DataFrame] = {}
        for name, df in given.items():
            if name.lower() not in self.functions:
                require_frame(name, df)
                self._given[name.lower()] = df
        self._common: dict[str, PlannedFrame] = {}
        self._frames: dict[tuple[str, ...], PlannedFrame | None] = {}

    def with_common(self, name: str, frame: PlannedFrame) -> Self:
        """Return these tables and a common table, which takes precedence."""
        tables = copy(self)
        tables._common = {**self._common, name.lower(): frame}
        return tables

    def frame(self, name: Name) -> PlannedFrame | None:
        """Return a common table, table or view, or None if there is none with this name."""
        if len(name.parts) == 1 and name.parts[0].lower() in self._common:
            return self._common[name.parts[0].lower()]
        if name.parts not in self._frames:
            self._frames[name.parts] = self._look_up(name)
        return self._frames[name.parts]

    def _look_up(self, name: Name) -> PlannedFrame | None:
        parts = name.parts
        # Spark would read csv.`/a` from a file.
        readable = len(parts) == 1 or is_trusted(self.spark)
        if not readable and (is_path(parts) or not is_catalog_table(self.spark, parts)):
            return None
        try:
            df = self._given.get(parts[0].lower()) if len(parts) == 1 else None
            df = self.spark.table(".".join(map(quote_name, parts))) if df is None else df
            columns = tuple((f.name, f.dataType.simpleString()) for f in df.schema.fields)
        except AnalysisException:
            return None
        return PlannedFrame(df, table_step(str(name), df.isStreaming, columns))

    def find_table(self, name: Name) -> PlannedFrame:
        """Return a common table, table or view. Raises SqlError if there is none."""
        frame = self.frame(name)
        if frame is None:
            raise self.unknown(name)
        return frame

    def is_given(self, name: Name) -> bool:
        """Return whether a name denotes a common table, or a frame passed with the text."""
        return len(name.parts) == 1 and name.parts[0].lower() in {**self._common, **self._given}

    def unknown(self, name: Name) -> SqlError:
        views = [table.name for table in self.spark.catalog.listTables()]
        known = [*self._common, *self._given, *views]
        reason = f"there is no stream, table or view {name}"
        return at(name, reason, *known, suggestion=near(name.parts[-1], known))

    def build_frame(
        self, make: Callable[[], DataFrame], node: Node, known: Sequence[str] = ()
    ) -> DataFrame:
        """Return the frame of `make`, analysed immediately so that its errors are raised here.

        Raises SqlError if Spark cannot find a name in the text of `node`, or finds a distribution
        in place of a number. Other Spark errors are raised unchanged.
        known : column names to suggest, in addition to Spark's suggestions
        """
        try:
            df = make()
            _ = df.schema
        except (AnalysisException, ValueError) as error:
            own = error if isinstance(error, AnalysisException) else error.__cause__
            if not isinstance(own, AnalysisException):
                raise
            reworded = self._as_sql_error(own, node, known)
            if reworded is None and isinstance(error, SqlError):
                raise
            raise own if reworded is None else reworded from own
        return df

    def _as_sql_error(
        self, error: AnalysisException, node: Node, columns: Sequence[str]
    ) -> SqlError | None:
        condition = error.getCondition() or ""
        parameters = error.getMessageParameters() or {}
        if condition.startswith("DATATYPE_MISMATCH"):
            return _mismatched(parameters, self.script, node)
        if condition in ("PARSE_SYNTAX_ERROR", "TRAILING_COMMA_IN_SELECT"):
            return syntax_error(parameters, self.script, node)
        if condition == "INVALID_WHERE_CONDITION":
            return aggregate_in_where(self.script, node)
        kind = next((kind for kind in MISSING_NAMES if condition.startswith(kind)), None)
        if kind is None:
            return None
        what, parameter, proposal = MISSING_NAMES[kind]
        name = parameters.get(parameter, "")
        known = [n.split(".")[-1] for n in BACKQUOTED.findall(parameters.get(proposal, ""))]
        if what == "column":  # Spark suggests only columns visible in the clause, as in ORDER BY
            known = [n for n in dict.fromkeys([*known, *columns]) if not n.startswith("__")]
        elif parameter == "relationName":
            known = [table.name for table in self.spark.catalog.listTables()]
        parts = [part.replace("``", "`") for part in BACKQUOTED.findall(name)] or [name]
        place = where_named(parts[-1], self.script, node)
        if place is None:
            return None
        likely = near(parts[-1], known or MEASURE_FUNCTIONS)
        return at(place, f"there is no {what} {'.'.join(parts)}", *known, suggestion=likely)


# ---- errors of Spark -----------------------------------------------------------------------------

BACKQUOTED = re.compile(r"`((?:[^`]|``)*)`")
# A name with its table or fields, but not the name of a called function
TABLE_WORD = re.compile(r"\b[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+(?!\s*\()")
MISSING_NAMES = {
    "UNRESOLVED_COLUMN": ("column", "objectName", "proposal"),
    "FIELD_NOT_FOUND": ("field", "fieldName", "fields"),
    "TABLE_OR_VIEW_NOT_FOUND": ("stream, table or view", "relationName", ""),
    "UNRESOLVED_ROUTINE": ("function", "routineName", ""),
}
"""Spark error conditions: kind of the missing object, parameters of its name and suggestions."""
AGGREGATE_FORM = "struct<mean: double, stddev"
FORMS = {
    "struct<prob": ("an array of alternatives", "its EXPECTED value where it is selected"),
    AGGREGATE_FORM: ("its mean and standard deviation", "{}.mean"),
}
"""Distributions by the prefix of their types: their parts, and how to get a number."""


def _mismatched(parameters: Mapping[str, str], script: Script, node: Node) -> SqlError | None:
    """Return the error for a distribution in place of a number, or None for other errors."""
    types = " ".join(parameters.values()).lower()
    form = next((form for form in FORMS if form in types), None)
    if form is None:
        return None
    what, wanted = FORMS[form]
    shown = parameters.get("inputSql") or parameters.get("sqlExpr", "")
    if form == AGGREGATE_FORM and (call := _aggregate_in(shown, script, node)) is not None:
        word = one_line(script.text[call.start : call.end])
        reason = f"{word} is a distribution ({what}), but a number is expected here"
        return at(call, reason, f"EXPECTED({word})")
    paths = [tuple(path.split(".")) for path in TABLE_WORD.findall(parameters.get("sqlExpr", ""))]
    places = (where_named(part, script, node) for path in paths for part in path)
    known = (_where_path(path, script, node) for path in paths if len(path) > 1)
    place = next((place for place in chain(known, places) if place is not None), None)
    word = "this" if place is None else script.text[place.start : place.end]
    reason = f"{word} is a distribution ({what}), but a number is expected here"
    return at(place or node, reason, wanted.format("NAME" if place is None else word))


def _aggregate_in(shown: str, script: Script, node: Node) -> Node | None:
    """Return the shortest call of an aggregate that Spark shows in an expression, or None."""
    found, opened = list[Node](), list[tuple[Token | None, Token]]()
    before: Token | None = None
    for token in script.words(node):
        if token.type == "LPAR":
            opened.append((before, token))
        elif token.type == "RPAR" and opened:
            name, bracket = opened.pop()
            inner = one_line(script.text[bracket.start : token.end])
            if name is not None and name.lower() in AGGREGATES and inner in shown:
                found.append(Node(name.start, token.end))
        before = token
    return min(found, key=lambda call: call.end - call.start, default=None)


def _where_path(path: tuple[str, ...], script: Script, node: Node) -> Node | None:
    """Return the first position of a name that consists of several parts."""
    words = script.words(node)
    spelled = [unquote_name(word).lower() for word in words]
    wanted = ".".join(path).lower()
    for first in range(len(words)):
        last = first + 2 * len(path) - 2
        if "".join(spelled[first : last + 1]) == wanted:
            return Node(words[first].start, words[last].end)
    return None


def where_named(name: str, script: Script, node: Node) -> Node | None:
    """Return the first position of a name in a node; an alias only if it has no other position."""
    aliased: Node | None = None
    before: Token | None = None
    for token in script.words(node):
        if unquote_name(token).lower() == name.lower() and token.type != "STRING":
            place = Node(token.start, token.end)
            if not follows_value(before):
                return place
            aliased = aliased or place
        before = token
    return aliased
