"""A user's frame, from Spark or in memory: its schema, the order of its rows, and the columns that
arguments name.

An operator writes what it knows of the order of its answers into the metadata of columns. The next
one reads it here.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from sfumato.duration import microseconds
from sfumato.near_misses import did_you_mean
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.types import Kind
from sfumato.tables.reading.user_warnings import SHARED_KEY, independence, warn_of_digits

TIME_KINDS = ("timestamp", "timestamp_ntz", "whole")
NUMBER_KINDS = ("whole", "number")
EXISTENCE = "existence"
MEANINGS = {
    ALTERNATIVES: "the possible values of a row, an array of structs with a field `prob`",
    EXISTENCE: "the probability that a row exists, a number",
}
MICROSECONDS_PER_DAY = 86_400_000_000
# Metadata of columns.
ADDED_COLUMN = (
    "sfumato.added"  # an operator added the column; it does not tell simultaneous rows apart
)
CONTROLLED_BY = "sfumato.controlled_by"  # JSON list of the keys within which rows are in order
EVENT_TIME = "sfumato.event_time"  # the column that rows are in order of
FORGETS = "sfumato.forgets"  # a key may begin again with older rows
BY_SOURCE = "sfumato.by_source"  # whether late rows have the punctuation of a source
ROLE = "sfumato.role"  # of a column that a controller read: JSON list of the roles below
ORDERED, ARRIVED = "event_time", "arrival"
MARKS = ("late", "punctuation")  # columns that a disorder controller adds


def controlled_by(
    keys: list[str],
    event_time: str | None = None,
    forgets: bool = False,
    by_source: bool = False,
) -> dict[str, str]:
    """Return metadata of a column: rows are in order within these keys, by `event_time`.

    forgets : until a key begins again    by_source : each source has a controller
    """
    found = {CONTROLLED_BY: json.dumps(keys)}
    if event_time is not None:
        found |= {EVENT_TIME: event_time, BY_SOURCE: json.dumps(by_source)}
    return found | ({FORGETS: "true"} if forgets else {})


def with_roles(metadata: Mapping[str, Any], roles: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of a column that a controller reads in these roles, maybe in none."""
    kept = {name: value for name, value in metadata.items() if name != ROLE}
    return {**kept, ROLE: json.dumps([*roles])} if roles else kept


def names(argument: str, given: str | Sequence[str] | None) -> list[str]:
    """Return the column names that an argument gives: none, one, or a list of distinct ones."""
    if given is None:
        return []
    listed = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not all(isinstance(name, str) for name in listed):
        wrong = next((one for one in listed if type(one).__name__ == "Column"), None)
        plain = re.fullmatch(r"Column<'`?([^`()<>=,]+?)`?'>", str(wrong))
        hint = "" if wrong is None else ": give it a name first, as with withColumn"
        raise TypeError(
            f"`{argument}` must be a column name, as text, or a list of them; got {given!r:.80}"
            + (hint if plain is None else f': write "{plain.group(1)}"')
        )
    if len(set(listed)) != len(listed):
        raise ValueError(f"`{argument}` names a column twice: {listed}")
    return listed


class Frame(ABC):
    """A frame whose columns have the types of the library that holds it.

    noun : what errors call it    prefix : what errors put before the names of functions
    ungroupable : error about a column, `{}`, by which rows cannot be grouped
    of_text : hint for a column of text where a time must be
    filtered : how users leave late rows out
    columns : their names    streams : whether rows come for as long as the query runs
    """

    noun: ClassVar[str]
    prefix: ClassVar[str]
    ungroupable: ClassVar[str]
    of_text: ClassVar[str]
    filtered: ClassVar[str]
    columns: list[str]
    streams = False

    # ---- the schema

    @property
    @abstractmethod
    def described(self) -> str:
        """The columns and their types, as errors show them."""

    @property
    @abstractmethod
    def attributes(self) -> list[str]:
        """Names of the attributes of the alternatives; none where there are no alternatives.

        Raises TypeError when the column `alternatives` is something else.
        """

    @abstractmethod
    def type(self, name: str) -> Any:
        """Return the type of a column."""

    @abstractmethod
    def kind(self, name: str) -> Kind:
        """Return the kind of a column's values."""

    @abstractmethod
    def shown(self, name: str) -> str:
        """Return the type of a column, as errors show it."""

    @abstractmethod
    def metadata(self, name: str) -> Mapping[str, str]:
        """Return the metadata of a column that is there."""

    @abstractmethod
    def attribute_type(self, name: str) -> Any:
        """Return the type of an attribute of the alternatives."""

    @abstractmethod
    def attribute_kind(self, name: str) -> Kind:
        """Return the kind of an attribute's values."""

    @abstractmethod
    def attribute_shown(self, name: str) -> str:
        """Return the type of an attribute, as errors show it."""

    @abstractmethod
    def is_groupable(self, name: str) -> bool:
        """Whether rows can be grouped by a column."""

    @abstractmethod
    def is_hashable(self, name: str) -> bool:
        """Whether a hash of a column can tell simultaneous rows apart."""

    @abstractmethod
    def has_more_digits(self, name: str) -> bool:
        """Whether numbers of a column may change when they become doubles."""

    @property
    @abstractmethod
    def max_alternatives(self) -> int:
        """The bound on the alternatives of a row."""

    def collation(self, name: str) -> str | None:
        """Return the collation of a column of texts; None: texts are compared by their bytes."""
        return None

    def tells_case_apart(self) -> bool:
        """Whether names that differ in case alone are different names."""
        return False

    def look_at_time(self, argument: str, name: str) -> None:  # noqa: B027
        """Warn of whole numbers that look like seconds or milliseconds, where there are rows."""

    @property
    def tied(self) -> tuple[str, ...]:
        """The columns that tell simultaneous rows apart: hashable, and not added by an operator."""
        marks = MARKS if self.has_punctuations else ()
        given = [n for n in self.columns if ADDED_COLUMN not in self.metadata(n) and n not in marks]
        return tuple(name for name in given if self.is_hashable(name))

    @property
    def uncertain(self) -> bool:
        """Whether rows have alternatives."""
        return ALTERNATIVES in self.columns

    def shared(self, existence: str | None = EXISTENCE) -> str | None:
        """Return what rows are that may share tuples, in words; None where no metadata says so.

        Alternatives that are made of a distribution carry no metadata: its result has it.
        existence : of a frame without alternatives the column of probabilities, if it has it
        """
        if not self.uncertain:
            return self._metadata(existence).get(SHARED_KEY) if existence is not None else None
        known = (self._metadata(name).get(SHARED_KEY) for name in (ALTERNATIVES, *self.columns))
        return next((rows for rows in known if rows is not None), None)

    def independence(self, existence: str | None = EXISTENCE) -> str | None:
        """Describe that rows which may share tuples are taken as independent; None: they do not."""
        rows = self.shared(existence)
        return None if rows is None else independence(rows)

    # ---- the columns that arguments name

    def resolved(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """Return the columns that an argument names, as the frame spells them.

        Raises ValueError, with the likely name, for a column that is missing or ambiguous.
        """
        wanted = names(argument, given)
        found = [self._resolved(argument, name) for name in wanted]
        if len(set(found)) != len(found):
            raise ValueError(f"`{argument}` names a column twice: {wanted}")
        return found

    def _resolved(self, argument: str, name: str) -> str:
        alike = [column for column in self.columns if column.lower() == name.lower()]
        if not alike and name in self.attributes:
            raise ValueError(_names_an_attribute(argument, name))
        if alike != [name] and self.tells_case_apart():
            alike = [column for column in alike if column == name]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise ValueError(
                f"`{argument}` names a column `{name}`, of which the frame has {len(alike)} "
                f"({', '.join(alike)}): rename or drop the others"
            )
        raise ValueError(
            f"`{argument}` names a column `{name}` that the frame lacks; "
            f"it has {', '.join(self.columns)}{did_you_mean(name, self.columns)}"
        )

    def one(self, argument: str, given: Any) -> str:
        """Return the one column that an argument names. Raises TypeError for anything else."""
        if not isinstance(given, str):
            raise TypeError(f"`{argument}` must be the name of one column; got {given!r}")
        return self.resolved(argument, given)[0]

    def keys(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """Return the key columns. Raises TypeError for a type by which rows cannot be grouped."""
        found = self.resolved(argument, given)
        for name in found:
            collated = self.collation(name)
            if collated is not None:
                raise TypeError(
                    f"`{argument}`: column `{name}` has the collation {collated}, by which texts "
                    "with other bytes may be equal: take a column of equal texts instead, as "
                    f"collate(lower({name}), 'UTF8_BINARY') where case does not count"
                )
            if not self.is_groupable(name):
                wrong = self.ungroupable.format(f"`{name}`, which is {self.shown(name)}")
                raise TypeError(f"`{argument}`: {wrong}")
        return found

    def same_as(self, name: str) -> str | None:
        """Return the column that a name means, which may differ in case; None: there is none."""
        if self.tells_case_apart():
            return name if name in self.columns else None
        return next((of for of in self.columns if of.lower() == name.lower()), None)

    def free_name(self, wanted: str) -> str:
        """Return a name that no column has in any case: the wanted one, or one like it."""
        taken = {name.lower() for name in self.columns}
        while wanted.lower() in taken:
            wanted += "_"
        return wanted

    def is_time(self, name: str) -> bool:
        """Whether a column has event times: timestamps, or whole microseconds."""
        return self.kind(name) in TIME_KINDS

    def is_uncertain_time(self, order: object) -> bool:
        """Whether `order` names an attribute of the alternatives, and no column in any case."""
        if not isinstance(order, str) or order.lower() in (name.lower() for name in self.columns):
            return False
        return order in self.attributes

    def require_time(self, argument: str, name: str, where: str = "") -> None:
        """Raise TypeError for a column without event times; `where` : what needs them."""
        if not self.is_time(name):
            hint = self.of_text.format(name) if self.kind(name) == "text" else ""
            raise TypeError(
                f"`{argument}` must be a timestamp or whole microseconds{where}; "
                f"`{name}` is {self.shown(name)}{hint}"
            )
        self.look_at_time(argument, name)

    def require_orders(self, argument: str, names: Sequence[str]) -> None:
        """Raise TypeError for columns that have no order."""
        for name in names:
            if self.kind(name) in ("text", ""):
                raise TypeError(
                    f"`{argument}` must name columns of numbers, times or dates; `{name}` is "
                    f"{self.shown(name)}"
                )

    def require_numbers(self, argument: str, names: Sequence[str]) -> None:
        """Raise ValueError for columns that are missing, TypeError for columns without numbers."""
        for name in self.resolved(argument, list(names)):
            if self.kind(name) not in NUMBER_KINDS:
                raise TypeError(
                    f"`{argument}`: column `{name}` must be of numbers; it is {self.shown(name)}"
                )
            if self.has_more_digits(name):
                warn_of_digits(f"`{argument}`", name, self.shown(name))

    def require_free(self, names: Sequence[str]) -> None:
        """Raise ValueError for columns to be added that the frame has already."""
        for name in names:
            found = self.same_as(name)
            if found is not None:
                case = "" if found == name else f" (as `{name}`: case does not tell names apart)"
                raise ValueError(
                    f"the {self.noun} has a column `{found}` already{case}: rename or drop it first"
                )

    def require_tuples(self, existence: str | None = None) -> None:
        """Raise TypeError or ValueError where the columns `alternatives` and `existence` are not
        those of uncertain tuples.

        existence : the column of probabilities that an argument names
        """
        for name in (ALTERNATIVES, EXISTENCE):
            found = self.same_as(name)
            if found is not None and found not in (name, existence):
                raise ValueError(
                    f"the {self.noun} has a column `{found}`, and `{name}` is the name of "
                    f"{MEANINGS[name]}: rename it, to `{name}` if that is what it has"
                )
        if self.uncertain:
            _ = self.attributes  # raises for something else
            return
        plain = existence is None and EXISTENCE in self.columns
        if plain and self.kind(EXISTENCE) not in NUMBER_KINDS:
            raise TypeError(
                f"the {self.noun} has a column `{EXISTENCE}` of {self.shown(EXISTENCE)}, and that "
                f"is the name of {MEANINGS[EXISTENCE]}: rename it if it is something else, or make "
                "numbers in (0, 1] of it"
            )

    # ---- the order of the rows

    def _metadata(self, name: str) -> Mapping[str, str]:
        return self.metadata(name) if name in self.columns else {}

    def says(self, name: str) -> list[str] | None:
        """Return the keys of the order that a column's metadata names; None where it has none."""
        found = self._metadata(name).get(CONTROLLED_BY)
        return None if found is None else list(json.loads(found))

    @property
    def has_punctuations(self) -> bool:
        """Whether rows come from a controller. After windows `late` is a number, not a mark."""
        return set(MARKS) <= set(self.columns) and self.kind("late") == "truth"

    @property
    def in_order_for(self) -> list[str]:
        """The keys within which rows are in order, by the metadata of an operator; else none."""
        found = self.says("punctuation")
        return (self.says("window") if found is None else found) or []

    @property
    def is_extents(self) -> bool:
        """Whether there is the column `window` of extents, as window_aggregate makes it."""
        return self.says("window") is not None

    @property
    def is_controlled(self) -> bool:
        """Whether rows come from a controller, and their metadata describes it."""
        return self.has_punctuations and self.says("punctuation") is not None

    @property
    def by_source(self) -> bool:
        """Whether the controller has several sources per key, or may have them."""
        return self._metadata("punctuation").get(BY_SOURCE) != "false"

    def with_role(self, role: str) -> list[str]:
        """Return the columns that the controller read in a role, under their present names."""
        described = self._metadata("punctuation")
        if EVENT_TIME in described and BY_SOURCE not in described:  # by a release without roles
            return [n for n in self.columns if role == ORDERED and n == described[EVENT_TIME]]
        return [n for n in self.columns if role in json.loads(self._metadata(n).get(ROLE, "[]"))]

    def marks_late(self, order: list[str]) -> bool:
        """Whether rows come in this order from a controller, which marks the others as late."""
        return self.is_controlled and bool({*order[:1]} & {*self.with_role(ORDERED)})

    def controller(self, order: list[str], keys: list[str]) -> list[str] | None:
        """Return the keys of the controller upstream of a join, or None.

        None where there is no controller, where `order` is not its event time, or where its keys
        are not among `keys`, those of the join.
        """
        found = self.says("punctuation") if self.marks_late(order) else None
        return found if found is not None and set(found) <= set(keys) else None

    def never_behind(self, order: list[str], keys: list[str]) -> bool:
        """Whether a row in order can never follow a later one of the same `keys`: all rows of a key
        come from one controller, which never begins again."""
        forgets = FORGETS in self._metadata("punctuation")
        return self.controller(order, keys) is not None and not forgets

    def require_described(self) -> None:
        """Raise ValueError for marks of a controller without the metadata that describes it: late
        rows would be taken as rows in order."""
        if self.has_punctuations and not self.is_controlled:
            raise ValueError(
                "the rows have the columns `late` and `punctuation` of "
                f"{self.prefix}reorder, but the {self.noun} lost the metadata that describes them, "
                "as it does on the way through CSV or JSON: keep the rows in Parquet, or give the "
                "schema of the reordered rows to the reader, or drop both columns"
            )

    def require_late(self) -> None:
        """Raise ValueError for punctuations without the marks of late rows."""
        if self.says("punctuation") is not None and not self.has_punctuations:
            raise ValueError(
                "the rows were reordered, but their column `late` is gone, which tells rows that "
                f"came too late: keep it ({self.filtered} leaves them out), or drop `punctuation` "
                "too, and rows are taken to come in order of event time"
            )

    def require_event_time(self, argument: str, orders: Sequence[str]) -> None:
        """Raise ValueError for rows of a controller in an order other than its event time: answers
        would depend on the micro-batches."""
        if not self.is_controlled or not orders:
            return
        known = self.with_role(ORDERED)
        if orders[0] in known:
            return
        without = (
            f"or drop `late` and `punctuation` before, where the {self.noun} comes in order of "
            f"`{orders[0]}` by itself"
        )
        if known:
            raise ValueError(
                f"`{argument}` must begin with `{known[0]}`, the event time by which "
                f"{self.prefix}reorder put the rows in order; got `{orders[0]}`: rows do not come "
                "in order of another column, and would be lost from their windows. Write "
                f'order="{known[0]}" (windows of local days or hours are not offered yet: '
                f"they are those of the event time, in UTC), {without}"
            )
        name = self._metadata("punctuation").get(EVENT_TIME)
        raise ValueError(
            f"`{argument}` must be the event time by which {self.prefix}reorder put the rows in "
            f"order, its column `{name}`; the {self.noun} does not have it any more as it was: "
            f"rename or convert it before {self.prefix}reorder, {without}"
        )


def _names_an_attribute(argument: str, name: str) -> str:
    """Return the error for an attribute where a column must be."""
    found = (
        f"`{argument}` names `{name}`, an attribute of the alternatives; it must be a column, the "
        "same in every alternative of a row: "
    )
    if argument.startswith("order"):
        return found + (
            "which rows are the newest would be another matter in each possible world. An "
            "uncertain event time is for window_aggregate over sf.Range; else order by a column "
            "made of it, as its earliest or its expected value"
        )
    return found + f"make one of it, as with expected({name!r})"


def milliseconds_of(idle_timeout: str | timedelta | None) -> int | None:
    """Return the argument `idle_timeout` in milliseconds, at least 1."""
    if idle_timeout is None:
        return None
    return max(1, microseconds("idle_timeout", idle_timeout) // 1000)


def check_keys(keys: Sequence[str]) -> None:
    """Raise ValueError where `forget_after` has no keys to forget."""
    if not keys:
        raise ValueError(
            "`forget_after` is of keys, and there is no `key`: name one, or leave it out"
        )


def forget_after_of(
    frame: Frame, order: str, keys: Sequence[str], given: str | timedelta | float | None
) -> float | None:
    """Return the argument `forget_after` in the unit of the column `order`.

    For times, whole numbers (microseconds) and dates (days) it is a length of time, "1 day"; for
    numbers also a number in their unit. Raises ValueError or TypeError for anything else.
    """
    if given is None:
        return None
    check_keys(keys)
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
        f"`forget_after` must be a number, in the unit of `{order}`, which is "
        f"{frame.shown(order)}; got {given!r}"
    )
