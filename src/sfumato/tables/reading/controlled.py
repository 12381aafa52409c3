"""What a table says about the order of its rows: by metadata of its columns, and by the columns
`late` and `punctuation` of a disorder controller. Of whatever holds the table."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sfumato.tables.reading.types import Kind

CONTROLLED_BY = "sfumato.controlled_by"  # metadata: JSON list of the keys rows are in order within
EVENT_TIME = "sfumato.event_time"  # metadata: the column they are in order of
FORGETS = "sfumato.forgets"  # metadata: a key begins anew, perhaps with older rows
BY_SOURCE = "sfumato.by_source"  # metadata: whether late rows have the punctuation of a source
ROLE = "sfumato.role"  # metadata of a column that a controller read: JSON list of the roles below
ORDERED, ARRIVED = "event_time", "arrival"
MARKS = ("late", "punctuation")  # columns that a disorder controller adds


def controlled_by(
    keys: list[str],
    event_time: str | None = None,
    forgets: bool = False,
    by_source: bool = False,
) -> dict[str, str]:
    """Metadata of a column that says: rows are in order within these keys, by that column.

    forgets : until a key begins anew    by_source : each source has a controller
    """
    said = {CONTROLLED_BY: json.dumps(keys)}
    said |= {} if event_time is None else {EVENT_TIME: event_time}
    said |= {FORGETS: "true"} if forgets else {}
    return said if event_time is None else {**said, BY_SOURCE: json.dumps(by_source)}


def with_roles(metadata: Mapping[str, Any], roles: Sequence[str]) -> dict[str, Any]:
    """The metadata of a column that a controller reads in these roles; without roles, of any other
    column that passes through it."""
    kept = {name: value for name, value in metadata.items() if name != ROLE}
    return {**kept, ROLE: json.dumps([*roles])} if roles else kept


class Order(ABC):
    """What a frame says of the order of its rows.

    columns : their names    filtered : how rows that came too late are left out, in words
    noun, prefix : what errors call the frame, and what they put before the names of functions
    """

    columns: list[str]
    filtered: ClassVar[str]
    noun: ClassVar[str]
    prefix: ClassVar[str]

    @abstractmethod
    def metadata(self, name: str) -> Mapping[str, str]:
        """What is said of a column that is there."""

    @abstractmethod
    def kind(self, name: str) -> Kind:
        """Of which kind the values of a column are."""

    def says(self, name: str) -> list[str] | None:
        """The keys that the metadata of a column names; None where it has none."""
        said = self._of(name).get(CONTROLLED_BY)
        return None if said is None else list(json.loads(said))

    @property
    def has_punctuations(self) -> bool:
        """Whether rows come from a controller: after windows `late` is a number, not a mark."""
        return set(MARKS) <= set(self.columns) and self.kind("late") == "truth"

    @property
    def in_order_for(self) -> list[str]:
        """The keys within which rows are in order, if an operator before says so; else none."""
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
        return self._of("punctuation").get(BY_SOURCE) != "false"

    def with_role(self, role: str) -> list[str]:
        """The columns that the controller read in this role, under their present names."""
        said = self._of("punctuation")
        if EVENT_TIME in said and BY_SOURCE not in said:  # written by a release without roles
            return [n for n in self.columns if role == ORDERED and n == said[EVENT_TIME]]
        return [n for n in self.columns if role in json.loads(self._of(n).get(ROLE, "[]"))]

    def require_described(self) -> None:
        """Raise ValueError for the marks of a controller without the metadata that describes it.

        Operators that leave late rows out, or give them a place of their own, would take them as
        rows in order.
        """
        if self.has_punctuations and not self.is_controlled:
            raise ValueError(
                "the rows have the columns `late` and `punctuation` of "
                f"{self.prefix}reorder, but the {self.noun} lost the metadata that describes them, "
                "as it does on the way through CSV or JSON: keep the rows in Parquet, or give the "
                "schema of the reordered rows to the reader, or drop both columns"
            )

    def require_event_time(self, argument: str, orders: Sequence[str]) -> None:
        """Raise ValueError for rows of a controller that are not taken in its event-time order.

        orders : the columns of the order. The first one must be the event time of the controller:
            by any other column rows come in no order, and answers would depend on the micro-batches
        """
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
        name = self._of("punctuation").get(EVENT_TIME)
        raise ValueError(
            f"`{argument}` must be the event time by which {self.prefix}reorder put the rows in "
            f"order, its column `{name}`; the {self.noun} does not have it any more as it was: "
            f"rename or convert it before {self.prefix}reorder, {without}"
        )

    def marks_late(self, order: list[str]) -> bool:
        """Whether rows come in this order from a controller, which marks those that do not."""
        return self.is_controlled and bool({*order[:1]} & {*self.with_role(ORDERED)})

    def controller(self, order: list[str], keys: list[str]) -> list[str] | None:
        """The keys for each of which a controller stands before rows that a join takes.

        None where there is none, where `order` is not its event time, or where its rows go to
        several of the join's `keys` that it is not one of.
        """
        found = self.says("punctuation") if self.marks_late(order) else None
        return found if found is not None and set(found) <= set(keys) else None

    def never_behind(self, order: list[str], keys: list[str]) -> bool:
        """Whether no row of one of these `keys` can be in order and come behind an earlier one.

        It comes out of a controller of its own or of several keys, which never begins anew.
        """
        forgets = FORGETS in self._of("punctuation")
        return self.controller(order, keys) is not None and not forgets

    def require_late(self) -> None:
        """Raise ValueError for punctuations without the marks of the rows that came after them."""
        if self.says("punctuation") is not None and not self.has_punctuations:
            raise ValueError(
                "the rows were reordered, but their column `late` is gone, which tells rows that "
                f"came too late: keep it ({self.filtered} leaves them out), or drop `punctuation` "
                "too, and rows are taken to come in order of event time"
            )

    def _of(self, name: str) -> Mapping[str, str]:
        return self.metadata(name) if name in self.columns else {}
