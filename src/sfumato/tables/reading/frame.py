"""A user's frame, whatever holds it: what its schema says, and which columns an argument names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sfumato.tables.reading.controlled import MARKS, Order
from sfumato.tables.reading.digits import warn_of_digits
from sfumato.tables.reading.names import meant
from sfumato.tables.reading.shared_rows import SHARED, independence
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.types import Kind

TIMES = ("timestamp", "timestamp_ntz", "whole")
NUMBERS = ("whole", "number")
EXISTENCE = "existence"
ADDED = "sfumato.added"  # metadata: a column that an operator added; rows are not told apart by it
MEANINGS = {
    ALTERNATIVES: "the possible values of a row, an array of structs with a field `prob`",
    EXISTENCE: "the probability that a row exists, a number",
}


class Frame(Order):
    """A frame whose columns have the types of what holds it.

    noun : what errors call it    prefix : and what they put before the names of functions
    ungroupable, of_text : what they say of a column, `{}`, by which rows cannot be grouped, and of
        text where a time must be
    streams : whether rows come for as long as the query runs
    """

    noun: ClassVar[str]
    prefix: ClassVar[str]
    ungroupable: ClassVar[str]
    of_text: ClassVar[str]
    streams = False

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
        """The type of a column."""

    @abstractmethod
    def shown(self, name: str) -> str:
        """The type of a column, as errors show it."""

    @abstractmethod
    def attribute_type(self, name: str) -> Any:
        """The type of an attribute of the alternatives."""

    @abstractmethod
    def attribute_kind(self, name: str) -> Kind:
        """Of which kind the values of an attribute are."""

    @abstractmethod
    def attribute_shown(self, name: str) -> str:
        """The type of an attribute, as errors show it."""

    @abstractmethod
    def is_groupable(self, name: str) -> bool:
        """Whether rows can be grouped by a column."""

    @abstractmethod
    def is_hashable(self, name: str) -> bool:
        """Whether the values of a column can tell simultaneous rows apart by a hash."""

    @property
    def tied(self) -> tuple[str, ...]:
        """The columns that tell simultaneous rows apart: hashable, and not added by an operator."""
        marks = MARKS if self.has_punctuations else ()
        given = [n for n in self.columns if ADDED not in self.metadata(n) and n not in marks]
        return tuple(name for name in given if self.is_hashable(name))

    def collation(self, name: str) -> str | None:
        """The collation of a column of texts, or of texts in it; None: texts are their bytes."""
        return None

    def tells_case_apart(self) -> bool:
        """Whether names that differ in case alone are different ones."""
        return False

    @property
    @abstractmethod
    def max_alternatives(self) -> int:
        """The bound on the alternatives of a row."""

    @property
    def uncertain(self) -> bool:
        """Whether rows have alternatives."""
        return ALTERNATIVES in self.columns

    def shared(self, existence: str | None = "existence") -> str | None:
        """Return what rows are that may share tuples, in words; None where nothing says so.

        Alternatives that are made of a distribution carry no metadata: its result has it.
        existence : of a frame without alternatives the column of probabilities, if it has it
        """
        if not self.uncertain:
            return self._of(existence).get(SHARED) if existence is not None else None
        known = (self._of(name).get(SHARED) for name in (ALTERNATIVES, *self.columns))
        return next((rows for rows in known if rows is not None), None)

    def independence(self, existence: str | None = "existence") -> str | None:
        """Describe that rows which may share tuples are taken as independent; None: they do not."""
        rows = self.shared(existence)
        return None if rows is None else independence(rows)

    def is_time(self, name: str) -> bool:
        """Whether a column has event times: timestamps, or whole microseconds."""
        return self.kind(name) in TIMES

    def is_uncertain_time(self, order: object) -> bool:
        """Whether `order` names an attribute of the alternatives, and no column, whatever its
        case."""
        if not isinstance(order, str) or order.lower() in (name.lower() for name in self.columns):
            return False
        return order in self.attributes

    def resolved(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """The names of the columns that an argument means, as the frame has them.

        Raises ValueError, with the likely name, for a column that lacks or is there twice.
        """
        return meant(self.columns, argument, given, self.tells_case_apart, lambda: self.attributes)

    def one(self, argument: str, given: Any) -> str:
        """`resolved` for an argument that names one column. Raises TypeError for anything else."""
        if not isinstance(given, str):
            raise TypeError(f"`{argument}` must be the name of one column; got {given!r}")
        return self.resolved(argument, given)[0]

    def keys(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """The key columns. Raises TypeError for a type by which rows cannot be grouped."""
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
                said = self.ungroupable.format(f"`{name}`, which is {self.shown(name)}")
                raise TypeError(f"`{argument}`: {said}")
        return found

    def require_time(self, argument: str, name: str, where: str = "") -> None:
        """Raise TypeError for a column without event times; `where` : what needs them."""
        if not self.is_time(name):
            hint = self.of_text.format(name) if self.kind(name) == "text" else ""
            raise TypeError(
                f"`{argument}` must be a timestamp or whole microseconds{where}; "
                f"`{name}` is {self.shown(name)}{hint}"
            )
        self.look_at_time(argument, name)

    def look_at_time(self, argument: str, name: str) -> None:
        """Warn of whole numbers that look like seconds or milliseconds, where there are rows."""

    def require_orders(self, argument: str, names: Sequence[str]) -> None:
        """Raise TypeError for columns by which rows cannot follow each other."""
        for name in names:
            if self.kind(name) in ("text", ""):
                raise TypeError(
                    f"`{argument}` must name columns of numbers, times or dates; `{name}` is "
                    f"{self.shown(name)}"
                )

    def require_numbers(self, argument: str, names: Sequence[str]) -> None:
        """Raise ValueError for columns that lack, TypeError for those that are no numbers."""
        for name in self.resolved(argument, list(names)):
            if self.kind(name) not in NUMBERS:
                raise TypeError(
                    f"`{argument}`: column `{name}` must be of numbers; it is {self.shown(name)}"
                )
            self.look_at_digits(argument, name)

    def look_at_digits(self, argument: str, name: str) -> None:
        """Warn where numbers of a column may change when they become doubles."""
        if self.has_more_digits(name):
            warn_of_digits(f"`{argument}`", name, self.shown(name))

    @abstractmethod
    def has_more_digits(self, name: str) -> bool:
        """Whether numbers of a column may change when they become doubles."""

    def require_free(self, names: Sequence[str]) -> None:
        """Raise ValueError for names of columns to be added that the frame has already."""
        for name in names:
            found = self.same_as(name)
            if found is not None:
                raise ValueError(
                    f"the {self.noun} has a column `{found}` already{self._of_case(found, name)}: "
                    "rename or drop it first"
                )

    def same_as(self, name: str) -> str | None:
        """The column that this name means, which may differ in case; None where there is none."""
        if self.tells_case_apart():
            return name if name in self.columns else None
        return next((of for of in self.columns if of.lower() == name.lower()), None)

    def _of_case(self, found: str, name: str) -> str:
        return "" if found == name else f" (as `{name}`: case does not tell names apart)"

    def require_tuples(self, existence: str | None = None) -> None:
        """Raise TypeError or ValueError for columns that are called as those of uncertain tuples
        are, `alternatives` and `existence`, and are something else.

        existence : the column that has the probabilities, where an argument names one
        """
        for name in (ALTERNATIVES, EXISTENCE):
            found = self.same_as(name)
            if found is not None and found != name and found != existence:
                raise ValueError(
                    f"the {self.noun} has a column `{found}`, and `{name}` is the name of "
                    f"{MEANINGS[name]}: rename it, to `{name}` if that is what it has"
                )
        if self.uncertain:
            _ = self.attributes  # raises for something else
        elif (
            existence is None and EXISTENCE in self.columns and self.kind(EXISTENCE) not in NUMBERS
        ):
            raise TypeError(
                f"the {self.noun} has a column `{EXISTENCE}` of {self.shown(EXISTENCE)}, and that "
                f"is the name of {MEANINGS[EXISTENCE]}: rename it if it is something else, or make "
                "numbers in (0, 1] of it"
            )

    def free_name(self, wanted: str) -> str:
        """A name that no column has, whatever the case: the wanted one, or one like it."""
        taken = {name.lower() for name in self.columns}
        while wanted.lower() in taken:
            wanted += "_"
        return wanted
