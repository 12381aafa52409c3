"""A user's Spark or in-memory frame: its schema, row order, and columns named by arguments.

An operator records the order of its answers in column metadata, which the next operator reads here.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean
from sfumato.sql_tokens import free_name, quote_name
from sfumato.tables.reading.tuples import ALTERNATIVES, attributes_of
from sfumato.tables.reading.types import Kind, is_list
from sfumato.tables.reading.user_warnings import (
    ASSUMED_KEY,
    CERTAIN_WARNING,
    GAPS,
    GAPS_KEY,
    PAIRS,
    REPEATED_KEY,
    REPEATED_WARNING,
    SHARED_KEY,
    shared_rows_error,
    warn_of_digits,
    warn_user,
)
from sfumato.windows import Range

TIME_KINDS = ("timestamp", "timestamp_ntz", "whole")
NUMERIC_KINDS = (*TIME_KINDS, "number", "truth")
"""Kinds of expressions that become doubles; times become seconds since 1970."""
NUMBER_KINDS = ("whole", "number")
EXISTENCE = "existence"
MEANINGS = {
    ALTERNATIVES: "the possible values of a row, an array of structs with a field `prob`",
    EXISTENCE: "the probability that a row exists, a number",
}
MICROSECONDS_PER_DAY = 86_400_000_000
WORDS_AND_UNIT = re.compile(r"([^\W\d]\w*)(?:[ .]\w+)*(?: ?[(\[](.*)[)\]])?")
# Keys of column metadata.
ADDED_COLUMN = "sfumato.added"  # sfumato added the column, so it does not break ties
CONTROLLED_BY = "sfumato.controlled_by"  # JSON list of the keys within which rows are ordered
GROUPED_BY = "sfumato.grouped_by"  # JSON list of columns, with one row per extent and group,
SEVERAL_ROWS = "*"  # or this, if there may be several
EVENT_TIME = "sfumato.event_time"  # the column by which rows are ordered
FORGETS = "sfumato.forgets"  # keys may expire and restart with older rows
BY_SOURCE = "sfumato.by_source"  # whether late rows have the punctuation of a source
ROLE = "sfumato.role"  # JSON list of a column's roles (below) in a controller
ORDERED, ARRIVED = "event_time", "arrival"  # roles
Names = str | Sequence[str] | None  # column names given by a user
PAIR_COLUMNS = {"left", "right", "probability"}  # columns of join results
LATE, PUNCTUATION = "late", "punctuation"  # columns that a disorder controller adds
CONTROLLER_COLUMNS = (LATE, PUNCTUATION)
EARLY_COLUMN = "early"  # column and role: the row is shown on arrival
DUPLICATE = "duplicate"  # column and role: the row has the id of an earlier row
WEIGHTED = "sfumato.weighted"  # the alternatives' probabilities include the row's existence
FILTERED = "sfumato.filtered"  # the filters that removed alternatives, whose numbers have changed
CONFIDENCE = 0.99  # probability that the stated error holds
WORLDS = "sfumato.worlds"  # the number of drawn worlds, in the column that numbers them
REMEMBERED = "sfumato.remembered_us"  # minimum time that an id is remembered, in microseconds


def error_of(worlds: int) -> float:
    """Return the maximum error of probabilities over this number of worlds, at `CONFIDENCE`.

    The bound holds simultaneously for all values of a distribution function.
    Source: Dvoretzky, Kiefer and Wolfowitz (1956), with Massart's constant (1990).
    """
    return math.sqrt(math.log(2.0 / (1.0 - CONFIDENCE)) / (2.0 * worlds))


def order_metadata(
    keys: list[str], event_time: str | None = None, forgets: bool = False, by_source: bool = False
) -> dict[str, str]:
    """Return column metadata: rows are ordered by `event_time` within these keys."""
    found = {CONTROLLED_BY: json.dumps(keys)}
    if event_time is not None:
        found |= {EVENT_TIME: event_time, BY_SOURCE: json.dumps(by_source)}
    return found | ({FORGETS: "true"} if forgets else {})


def with_roles(metadata: Mapping[str, Any], roles: Sequence[str]) -> dict[str, Any]:
    """Return a column's metadata with these roles instead of its earlier roles."""
    kept = {name: value for name, value in metadata.items() if name != ROLE}
    return {**kept, ROLE: json.dumps([*roles])} if roles else kept


def column_names(argument: str, given: str | Sequence[str] | None) -> list[str]:
    """Return the distinct column names in an argument. Raises TypeError or ValueError."""
    if given is None:
        return []
    listed = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not all(isinstance(name, str) for name in listed):
        wrong = next((one for one in listed if type(one).__name__ == "Column"), None)
        plain = re.fullmatch(r"Column<'`?([^`()<>=,]+?)`?'>", str(wrong))
        hint = "" if wrong is None else ". Give it a name first, as with withColumn"
        raise TypeError(
            (
                f"`{argument}` must be a column name (a string) or a list of column names; got "
                f"{given!r:.80}"
            )
            + (hint if plain is None else f'. Write "{plain.group(1)}"')
        )
    if len(set(listed)) != len(listed):
        raise ValueError(f"`{argument}` names a column twice: {listed}")
    return listed


def number_tuple(argument: str, given: Any) -> tuple[float, ...]:
    try:
        if isinstance(given, str | bytes | Mapping):
            raise TypeError
        return tuple(float(one) for one in given)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{argument}` must be a list of numbers, like [0.05, 0.95]; got {given!r:.80}"
        ) from None


class ReadExpression(NamedTuple):
    """An expression whose values an operator reads.

    argument : its name in errors; None for the name of a column or attribute
    exact : whether values keep their type    hashed : whether values are read as hash numbers
    """

    text: str
    argument: str | None
    exact: bool
    hashed: bool


class Frame(ABC):
    """A frame with the types of its library, such as Spark or Arrow.

    noun : what errors call the frame
    ungroupable : error about a column, `{}`, by which rows cannot be grouped
    of_text : hint for a text column used as a time
    filtered : the code with which users drop late rows
    columns : column names    streams : whether rows keep arriving while the query runs
    user_object : the user's object
    """

    noun: ClassVar[str]
    ungroupable: ClassVar[str]
    of_text: ClassVar[str]
    filtered: ClassVar[str]
    columns: list[str]
    streams = False
    user_object: Any

    # ---- the schema, in the library's types

    @property
    @abstractmethod
    def max_alternatives(self) -> int:
        """Return the maximum number of alternatives per row."""

    @abstractmethod
    def type(self, name: str) -> Any: ...

    @abstractmethod
    def attribute_type(self, name: str, column: str = ALTERNATIVES) -> Any: ...

    @abstractmethod
    def arrow_type(self, kind: Any) -> pa.DataType:
        """Return the Arrow type of the column type `kind`, or a map type if there is none."""

    @abstractmethod
    def text_of(self, kind: Any) -> str: ...

    @abstractmethod
    def metadata(self, name: str) -> Mapping[str, str]: ...

    @abstractmethod
    def has_more_digits(self, name: str) -> bool:
        """Return whether a column's numbers may change when converted to doubles."""

    # ---- expressions and uncertain event times

    def quoted_name(self, expression: str) -> str:
        """Return an expression, in backquotes if it can only be a name of several words.

        Without the columns `flow` and `s`, such names are `flow rate`, `flow.rate` and `flow (l/s)`
        if these columns exist.
        """
        known = (*self.attributes, *self.columns)
        words = WORDS_AND_UNIT.fullmatch(expression)
        if words is None or words[0] == words[1] or expression not in known or words[1] in known:
            return expression
        inside = re.findall(r"\w+", (words[2] or "").lower())
        is_call = not {name.lower() for name in known}.isdisjoint(inside)
        return expression if is_call else quote_name(expression)

    def quoting_hint(self, expression: str) -> str:
        """Return a hint to quote a column in an expression that cannot be parsed, or ""."""
        odd = [n for n in (*self.attributes, *self.columns) if re.search(r"\w\W|\W\w", n)]
        given = (n for n in odd if n in expression and quote_name(n) not in expression)
        name = max(given, key=len, default="")
        return name and f". Write {quote_name(name)} in backquotes"

    @abstractmethod
    def check_expression(self, argument: str, expression: str) -> None:
        """Raise TypeError or ValueError if an expression cannot be computed."""

    @abstractmethod
    def expression_type(self, expression: str, argument: str = "") -> Any:
        """Return the type of an expression's values. argument : its name in errors"""

    @abstractmethod
    def rounded_type(self, expression: str) -> str | None:
        """Return the type of an expression whose values a double may round, or None."""

    @abstractmethod
    def computation(
        self, expressions: Sequence[ReadExpression]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return a `ColumnReader` per expression, and the columns that only the engine computes."""

    @abstractmethod
    def by_extent(self, attribute: str, order: str, window: Range) -> Frame:
        """Return one row per tuple and extent that may contain the tuple.

        The row has the alternatives whose time, the `attribute`, is in the extent. The extent is in
        a new column `order`.

        Within an extent, tuples remain independent, so distributions of aggregates are exact.
        Overlapping extents become tumbling extents of length `slide`. An invalid tuple remains one
        row with a NULL order.
        """

    @abstractmethod
    def with_true_extents(self, answers: Any, window: Range) -> Any:
        """Replace the extents from `by_extent` in answers with the extents of `window`."""

    # ---- derived from the schema

    @property
    def attributes(self) -> list[str]:
        if not self.uncertain:
            return []
        kind = self.type(ALTERNATIVES)
        return attributes_of(self.arrow_type(kind), self.text_of(kind))

    def common_attributes(self, columns: Sequence[str]) -> list[str]:
        """Return the attributes that several columns of alternatives have in common."""
        shown: list[dict[str, str]] = []  # per column, the types of its attributes
        for column in columns:
            kind = self.arrow_type(self.type(column))
            element = kind.value_type if is_list(kind) else kind
            names = [part.name for part in element] if pa.types.is_struct(element) else []
            if pa.types.is_null(kind):
                raise TypeError(
                    f"`measurements` names column `{column}`, which has no value, so its type is "
                    "unknown: use an Arrow or Polars table, or a frame that has a value"
                )
            if not is_list(kind) or "prob" not in names or {*names} == {"prob"}:
                raise TypeError(
                    "`measurements` must name columns of alternatives, list<struct<prob: double, "
                    f"ATTR, ...>>; `{column}` has a different type: create it with "
                    "sf.alternatives or sf.samples"
                )
            types = {name: self.text_of(self.attribute_type(name, column)) for name in names}
            shown.append({name: text for name, text in types.items() if name != "prob"})
            if shown[-1] != shown[0]:
                one, other = (
                    ", ".join(f"{n}: {of}" for n, of in each.items())
                    for each in (shown[0], shown[-1])
                )
                raise TypeError(
                    "`measurements` must have the same attributes with the same types; "
                    f"`{columns[0]}` has {one} and `{column}` has {other}: rename or cast the "
                    "attributes"
                )
        return [*shown[0]]

    def kind_of(self, kind: Any) -> Kind:
        """Return the kind of a type's values; the type of NULL columns is "number"."""
        of = self.arrow_type(kind)
        if pa.types.is_timestamp(of):
            return "timestamp" if of.tz else "timestamp_ntz"
        if pa.types.is_integer(of):
            return "whole"
        if pa.types.is_floating(of) or pa.types.is_decimal(of) or pa.types.is_null(of):
            return "number"
        if pa.types.is_date(of):
            return "date"
        return "truth" if pa.types.is_boolean(of) else "text" if pa.types.is_string(of) else ""

    def kind(self, name: str) -> Kind:
        return self.kind_of(self.type(name))

    def is_groupable(self, name: str) -> bool:
        """Return whether values can be compared, and hashed to order simultaneous rows."""
        return is_hashable(self.arrow_type(self.type(name)))

    def type_name(self, name: str) -> str:
        return self.text_of(self.type(name))

    def collation(self, name: str) -> str | None:
        """Return a text column's collation; None if strings are compared by bytes."""
        return None

    def is_case_sensitive(self) -> bool:
        return False

    @property
    def semantic_hash(self) -> int | None:
        """Return a number, equal for frames with the same plan; None to compare by identity."""
        return None

    @abstractmethod
    def shares_rows_with(self, other: Any) -> bool:
        """Return whether two frames, both uncertain or both certain, seem to share many rows.

        If alternatives were filtered, the frames are known to have a common source.
        """

    def shares_extents_with(self, other: Any) -> bool:
        """Return whether answers of one operator have an extent and key in common, if known."""
        return False

    def warn_of_time_unit(self, argument: str, name: str) -> None:  # noqa: B027
        """Warn if the available rows have times that look like seconds or milliseconds."""

    @property
    def tie_columns(self) -> tuple[str, ...]:
        """Return the columns that order simultaneous rows; no added columns and no maps."""
        marks = CONTROLLER_COLUMNS if self.has_punctuations else ()
        given = [n for n in self.columns if ADDED_COLUMN not in self.metadata(n) and n not in marks]
        return tuple(name for name in given if self.is_groupable(name))

    @property
    def uncertain(self) -> bool:
        return ALTERNATIVES in self.columns

    @property
    def certain(self) -> bool:
        """Return whether rows have neither alternatives nor an existence."""
        return not self.uncertain and EXISTENCE not in self.columns

    def _sharing(self, key: str, existence: str | None) -> str | None:
        """Return the value of a metadata key about the rows' uncertainty, or None.

        A column without this metadata may have been computed from other columns that have it.
        """
        column = ALTERNATIVES if self.uncertain else existence
        if column is None or column not in self.columns:
            return None
        found = self._own_metadata(column).get(key)
        if found is None and key == SHARED_KEY:
            found = self.metadata(column).get(REPEATED_KEY)
        if found is None:
            found = max((of[key] for of in self.all_metadata if key in of), default=None)
        if found is None and key == SHARED_KEY and {*self.columns} >= PAIR_COLUMNS:
            return PAIRS  # pandas and Polars drop metadata in many operations
        return found

    @property
    def all_metadata(self) -> list[Mapping[str, str]]:
        """Return the metadata of all columns, and of earlier columns of the frame, if known."""
        return [self.metadata(name) for name in self.columns]

    def _own_metadata(self, column: str) -> Mapping[str, str]:
        """Return the metadata of a column's values; empty if it may belong to earlier values."""
        return self.metadata(column)

    def describe_shared(self, existence: str | None = EXISTENCE) -> str | None:
        """Describe the rows if they may share readings and are not assumed to be independent."""
        assumed = self._sharing(ASSUMED_KEY, existence)
        return None if assumed else self._sharing(SHARED_KEY, existence)

    def require_independent(self, function: str, existence: str | None = EXISTENCE) -> None:
        """Raise ValueError for uncertain rows that may share readings.

        Warn if such rows have lost the columns that make them uncertain, or if these columns may
        have been computed from values that several rows have.
        """
        rows = self.describe_shared(existence)
        if rows:
            raise shared_rows_error(function, rows)
        metadata, column = self.all_metadata, ALTERNATIVES if self.uncertain else existence
        key, warning = SHARED_KEY, CERTAIN_WARNING
        if column in self.columns:
            if SHARED_KEY in self.metadata(column):
                return
            key, warning = REPEATED_KEY, REPEATED_WARNING
        rows = next((of[key] for of in metadata if of.get(key)), None)
        if rows and not any(ASSUMED_KEY in of for of in metadata):
            warn_user(f"{function}: {rows} {warning}")

    def describe_independence(
        self, existence: str | None = EXISTENCE, shared: bool = False
    ) -> str | None:
        """Describe the assumption of independence for rows that may share readings, or None.

        shared : whether values of one gap share their error
        """
        rows = self._sharing(SHARED_KEY, existence)
        if not rows and not shared and self._sharing(GAPS_KEY, existence):
            return GAPS
        if not rows:
            return None
        return (
            f"rows are treated as independent by assume_independent, but {rows} may share readings"
        )

    @property
    def is_assumed_independent(self) -> bool:
        return bool(self._sharing(ASSUMED_KEY, EXISTENCE))

    @property
    def has_imputed_gaps(self) -> bool:
        return bool(self._sharing(GAPS_KEY, None)) and not self._sharing(ASSUMED_KEY, None)

    @property
    def worlds(self) -> tuple[str, int] | None:
        """Return (column that numbers the drawn worlds, number of worlds), or None."""
        found = ((name, self.metadata(name).get(WORLDS)) for name in self.columns)
        return next(((name, int(n)) for name, n in found if n is not None), None)

    def describe_worlds(self) -> str | None:
        if self.worlds is None:
            return None
        world, worlds = self.worlds
        return (
            f"as drawn in each of {worlds:,} worlds, column {world}; merge_worlds returns shares "
            f"of worlds, off by at most {error_of(worlds):.3g} with probability {CONFIDENCE:.0%}"
        )

    # ---- columns named by arguments

    def resolve(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """Return the columns named by an argument, in the frame's spelling."""
        wanted = column_names(argument, given)
        found = [self._resolve(argument, name) for name in wanted]
        if len(set(found)) != len(found):
            raise ValueError(f"`{argument}` names a column twice: {wanted}")
        return found

    def _resolve(self, argument: str, name: str) -> str:
        alike = [column for column in self.columns if column.lower() == name.lower()]
        if not alike and name in self.attributes:
            raise ValueError(_names_an_attribute(argument, name))
        if alike != [name] and self.is_case_sensitive():
            alike = [column for column in alike if column == name]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise ValueError(
                f"`{argument}` names column `{name}`, but the frame has {len(alike)} "
                f"({', '.join(alike)}): rename or drop all but one"
            )
        argument, _, place = argument.partition(" of ")  # "key of the left frame"
        raise ValueError(
            f"`{argument}` names a column `{name}` that is not in {place or 'the frame'}; it has "
            f"{', '.join(self.columns) or 'no columns'}{did_you_mean(name, self.columns)}"
        )

    def single_column(self, argument: str, given: Any) -> str:
        if not isinstance(given, str):
            raise TypeError(f"`{argument}` must be the name of one column; got {given!r}")
        return self.resolve(argument, given)[0]

    def keys(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """Return the key columns. Raises ValueError if the column of drawn worlds is missing."""
        found = self.group_columns(argument, given)
        if self.worlds is not None and self.worlds[0] not in found:
            world = self.worlds[0]
            raise ValueError(
                f"`{argument}` must contain `{world}`, because the rows are from {self.worlds[1]} "
                "possible worlds, and rows from different worlds never occur together: write "
                f"key={[*found, world]}"
            )
        return found

    def group_columns(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """Return the named columns. Raises TypeError for a type that cannot be grouped."""
        found = self.resolve(argument, given)
        for name in found:
            collated = self.collation(name)
            if collated is not None:
                raise TypeError(
                    f"`{argument}` names column `{name}` with the collation {collated}, which may "
                    "treat different strings as equal: use a column in which equal strings are "
                    f"identical, like collate(lower({name}), 'UTF8_BINARY') if case does not matter"
                )
            if not self.is_groupable(name):
                wrong = self.ungroupable.format(f"`{name}`, which is {self.type_name(name)}")
                raise TypeError(f"`{argument}` must name columns that can be grouped; {wrong}")
        return found

    def find_column(self, name: str) -> str | None:
        """Return the column with this name, ignoring case where the frame does, or None."""
        if self.is_case_sensitive():
            return name if name in self.columns else None
        return next((of for of in self.columns if of.lower() == name.lower()), None)

    def free_name(self, wanted: str) -> str:
        return free_name(wanted, self.columns)

    def is_time(self, name: str) -> bool:
        return self.kind(name) in TIME_KINDS

    def is_uncertain_time(self, order: object) -> bool:
        """Return whether `order` is an attribute and not a column, ignoring case."""
        if not isinstance(order, str) or order.lower() in (name.lower() for name in self.columns):
            return False
        return order in self.attributes

    def require_uncertain_time(self, attribute: str) -> None:
        kind = self.attribute_type(attribute)
        if self.kind_of(kind) not in ("timestamp", "whole"):
            raise TypeError(
                f"`order` names the attribute `{attribute}`, and an uncertain event time must be a "
                f"timestamp with a time zone, or whole microseconds; got {self.text_of(kind)}"
            )
        if self.streams and not self.has_punctuations:
            raise ValueError(
                f"`order` names the attribute `{attribute}`, an uncertain event time: on a stream, "
                "write sf.reorder upstream, by the earliest possible time of each tuple"
            )

    def require_time(self, argument: str, name: str, where: str = "") -> None:
        """Raise TypeError if a column is not an event time. where : a suffix in the error."""
        if not self.is_time(name):
            hint = self.of_text.format(name) if self.kind(name) == "text" else ""
            raise TypeError(
                f"`{argument}` must be a timestamp or whole microseconds{where}; "
                f"`{name}` is {self.type_name(name)}{hint}"
            )
        self.warn_of_time_unit(argument, name)

    def require_orders(self, argument: str, names: Sequence[str]) -> None:
        for name in names:
            if self.kind(name) in ("text", ""):
                raise TypeError(
                    f"`{argument}` must name columns of numbers, times or dates; `{name}` is "
                    f"{self.type_name(name)}"
                )

    def require_numbers(self, argument: str, names: Sequence[str]) -> None:
        """Raise an error for missing or non-numeric columns; warn about rounded numbers."""
        for name in self.resolve(argument, list(names)):
            if self.kind(name) not in NUMBER_KINDS:
                raise TypeError(
                    f"`{argument}` must name numeric columns; `{name}` is {self.type_name(name)}"
                )
            if self.has_more_digits(name):
                warn_of_digits(f"`{argument}`", name, self.type_name(name))

    def require_attributes(self, names: Sequence[str], of: str) -> None:
        """Raise ValueError if `on` names other attributes. of : the frame, for the error"""
        missing = [name for name in names if name not in self.attributes]
        if missing and not self.uncertain:
            raise ValueError(
                f"`on` names {missing}, attributes{of}, which has no column `alternatives`: create "
                "it with sf.alternatives or sf.samples"
            )
        if missing:
            raise ValueError(
                f"`on` names {missing}, which are not in the alternatives{of}; the alternatives "
                f"have {self.attributes}"
            )

    def require_free(self, names: Sequence[str]) -> None:
        for name in names:
            found = self.find_column(name)
            if found is not None:
                case = "" if found == name else f" (as `{name}`: names are not case-sensitive)"
                raise ValueError(
                    f"the {self.noun} already has a column `{found}`{case}: rename or drop it first"
                )

    def require_tuples(self, existence: str | None = None) -> None:
        """Raise TypeError or ValueError if a reserved column has the wrong type or case."""
        for name in (ALTERNATIVES, EXISTENCE):
            found = self.find_column(name)
            if found is not None and found not in (name, existence):
                raise ValueError(
                    f"the {self.noun} has a column `{found}`, but `{name}` is reserved for "
                    f"{MEANINGS[name]}: rename the column (to `{name}` if that is its content)"
                )
        if self.uncertain:
            _ = self.attributes  # raises for a wrong type
            if EXISTENCE in self.columns and WEIGHTED not in self.metadata(ALTERNATIVES):
                warn_user(
                    "the column `existence` is ignored, because the rows have `alternatives`, "
                    "whose probabilities must include it: multiply `prob` by `existence`, and drop "
                    "`existence`"
                )
            return
        plain = existence is None and EXISTENCE in self.columns
        if plain and self.kind(EXISTENCE) not in NUMBER_KINDS:
            raise TypeError(
                f"the {self.noun} has a column `{EXISTENCE}` of {self.type_name(EXISTENCE)}, but "
                f"this name is reserved for {MEANINGS[EXISTENCE]}: rename the column if it is "
                "something else, or convert it to numbers in (0, 1]"
            )

    # ---- the order of the rows

    def _metadata(self, name: str) -> Mapping[str, str]:
        return self.metadata(name) if name in self.columns else {}

    def ordered_by_keys(self, name: str) -> list[str] | None:
        """Return the keys within which rows are ordered, from a column's metadata, or None."""
        found = self._metadata(name).get(CONTROLLED_BY)
        return None if found is None else list(json.loads(found))

    @property
    def has_punctuations(self) -> bool:
        """Return whether rows come from a controller; after windows, `late` is a count."""
        return set(CONTROLLER_COLUMNS) <= set(self.columns) and self.kind("late") == "truth"

    @property
    def in_order_for(self) -> list[str]:
        """Return the keys within which rows are ordered, from any column; empty if unknown."""
        said = (self.ordered_by_keys(name) for name in ("punctuation", "window", *self.columns))
        return next((keys for keys in said if keys is not None), [])

    @property
    def has_extents(self) -> bool:
        return self.ordered_by_keys("window") is not None

    @property
    def filtered_by(self) -> str | None:
        return self.metadata(ALTERNATIVES).get(FILTERED) if self.uncertain else None

    @property
    def has_controller_metadata(self) -> bool:
        """Return whether rows come from a controller and have its metadata."""
        return self.has_punctuations and self.ordered_by_keys("punctuation") is not None

    @property
    def by_source(self) -> bool:
        """Return whether the controller may have several sources per key."""
        return self._metadata("punctuation").get(BY_SOURCE) != "false"

    def columns_with_role(self, role: str) -> list[str]:
        """Return the current names of the columns with a role in the controller."""
        return [n for n in self.columns if role in json.loads(self._metadata(n).get(ROLE, "[]"))]

    @property
    def arrival_column(self) -> str | None:
        return next(iter(self.columns_with_role(ARRIVED)), None)

    @property
    def early_column(self) -> str | None:
        return next(iter(self.columns_with_role(EARLY_COLUMN)), None)

    @property
    def duplicate_column(self) -> str | None:
        return next(iter(self.columns_with_role(DUPLICATE)), None)

    @property
    def remembered_us(self) -> float:
        """Return the minimum time that the controller remembers an id, in microseconds."""
        return float(self._metadata(self.duplicate_column or DUPLICATE).get(REMEMBERED, "0"))

    def marks_late(self, order: list[str]) -> bool:
        """Return whether a controller emits rows in this order and flags other rows as late."""
        ordered = self.columns_with_role(ORDERED)
        return self.has_controller_metadata and bool({*order[:1]} & {*ordered})

    def controller(self, order: list[str], keys: list[str]) -> list[str] | None:
        """Return the controller's keys if it orders by `order` and `keys` contains them."""
        found = self.ordered_by_keys("punctuation") if self.marks_late(order) else None
        return found if found is not None and set(found) <= set(keys) else None

    def has_one_row_per_extent(self, keys: Sequence[str]) -> bool:
        """Return whether at most one row has the same extent and `keys`, as far as is known."""
        groups = set(json.loads(self._metadata("window").get(GROUPED_BY, "[]")))
        renamed = bool(groups - {SEVERAL_ROWS, *self.columns})
        return renamed or groups <= set(keys)

    def is_strictly_ordered(self, order: list[str], keys: list[str]) -> bool:
        """Return whether on-time rows with equal `keys` are always in order."""
        return self.controller(order, keys) is not None and not self.forgets

    @property
    def forgets(self) -> bool:
        """Return whether keys of the controller may expire and restart with older rows."""
        return FORGETS in self._metadata("punctuation")

    def require_late(self, metadata: bool = True) -> None:
        """Raise ValueError if a controller's rows have lost `late`, or their needed metadata."""
        if metadata and self.has_punctuations and not self.has_controller_metadata:
            raise ValueError(
                "the rows have the columns `late` and `punctuation` of sf.reorder, but "
                f"the {self.noun} has lost the metadata that describes them, as happens in CSV "
                "and JSON files: keep the rows in Parquet, or give the schema of the reordered "
                "rows to the reader, or drop both columns"
            )
        if self.has_punctuations and not self.is_time("punctuation"):
            raise ValueError(
                "the rows have the columns `late` and `punctuation`, as from sf.reorder, but "
                f"`punctuation` is {self.type_name('punctuation')}: convert it to a time, or "
                "rename one of them if they have another meaning"
            )
        if self.ordered_by_keys("punctuation") is not None and not self.has_punctuations:
            raise ValueError(
                "the rows were reordered, but the column `late`, which marks late rows, is "
                f"missing: keep it ({self.filtered} removes the late rows), or also drop "
                "`punctuation`, so that rows are assumed to be in order of event time"
            )

    def require_event_time(self, argument: str, orders: Sequence[str]) -> None:
        if not self.has_controller_metadata or not orders:
            return
        known = self.columns_with_role(ORDERED)
        if orders[0] in known:
            return
        without = (
            f"or drop `late` and `punctuation` first, if the {self.noun} is in order of "
            f"`{orders[0]}` anyway"
        )
        if known:
            raise ValueError(
                f"`{argument}` must begin with `{known[0]}`, the event time of "
                f"sf.reorder; got `{orders[0]}`. The rows are not in order of this "
                f'column, and windows over it would lose rows. Write order="{known[0]}" (for '
                f"local days, give the window a `zone`), {without}"
            )
        name = self._metadata("punctuation").get(EVENT_TIME)
        raise ValueError(
            f"`{argument}` must be `{name}`, the event time of sf.reorder; this column "
            "has since been removed or changed. Rename or convert it before "
            f"sf.reorder, {without}"
        )


def is_hashable(kind: pa.DataType) -> bool:
    """Return whether a type can be hashed; maps, even nested maps, cannot."""
    if pa.types.is_map(kind):
        return False
    return all(is_hashable(kind.field(i).type) for i in range(kind.num_fields))


def _names_an_attribute(argument: str, name: str) -> str:
    found = (
        f"`{argument}` must name a column with one value per row; `{name}` is an attribute of the "
        "alternatives: "
    )
    if argument.startswith("order"):
        return found + (
            "the newest rows would differ between possible worlds. Only window_aggregate over "
            "sf.Range accepts an uncertain event time; otherwise, order by a column computed from "
            f"`{name}`, such as its earliest or its expected value"
        )
    return found + f"compute a column from it, as with expected({name!r})"


def check_keys(keys: Sequence[str]) -> None:
    if not keys:
        raise ValueError("`forget_after` needs a `key`: name one, or leave `forget_after` out")


def forget_after_of(
    frame: Frame, order: str, keys: Sequence[str], given: str | timedelta | float | None
) -> float | None:
    """Return `forget_after` in the unit of `order`: microseconds, days or the column's unit."""
    if given is None:
        return None
    check_keys(keys)
    for of in frame.all_metadata:
        if json.loads(of.get(CONTROLLED_BY, "[]")) and FORGETS not in of:
            raise ValueError(
                "`forget_after` is also needed upstream, where each `key` of sf.reorder or "
                "sf.resample holds its last rows until a later row of the key arrives: give that "
                "call the same `forget_after`, or leave its `key` out"
            )
    kind = frame.kind(order)
    if kind in NUMBER_KINDS and isinstance(given, int | float) and not isinstance(given, bool):
        if not (math.isfinite(given) and given > 0):
            raise ValueError(f"`forget_after` must be above 0 and finite; got {given!r}")
        return float(given)
    if kind in TIME_KINDS:
        return float(microseconds("forget_after", given))  # type: ignore[arg-type]
    if kind == "date":
        return microseconds("forget_after", given) / MICROSECONDS_PER_DAY  # type: ignore[arg-type]
    raise TypeError(
        f"`forget_after` must be a number in the unit of `{order}`, which is "
        f"{frame.type_name(order)}; got {given!r}"
    )


def require_same_keys(frames: Sequence[Frame], keys: Sequence[Sequence[str]]) -> None:
    (left, right), sides = frames, zip(*keys, strict=True)
    for one, other in sides:
        kinds = left.kind(one), right.kind(other)
        exact = kinds[0] in NUMBER_KINDS and left.type_name(one) != right.type_name(other)
        if kinds[0] != kinds[1] or exact:
            raise TypeError(
                f"`key` must have the same type on both sides; `{one}` is {left.type_name(one)} on "
                f"the left and `{other}` is {right.type_name(other)} on the right: convert one of "
                "the two"
            )


def require_same_worlds(frames: Sequence[Frame], how: str = "inner") -> None:
    """Raise ValueError unless both frames have the same number of drawn worlds.

    how : type of the join. "right" and "full" are rejected, because right rows without a partner
        would have no world
    """
    numbers = [0 if frame.worlds is None else frame.worlds[1] for frame in frames]
    if len(set(numbers)) > 1:
        raise ValueError(
            f"both sides must be drawn in the same worlds; got {numbers[0]} and {numbers[-1]} "
            "worlds. Write sf.draw_worlds with the same n for both, even for certain rows"
        )
    if numbers[0] and how not in ("inner", "left"):
        raise ValueError(
            '`how` must be "inner" or "left" for drawn worlds, which are numbered by the left '
            f"side; got {how!r}. Swap the sides"
        )
