"""The tables of a FROM clause as frames: their columns, uncertain attributes and aliases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.sql.plan.nodes import Step, at
from sfumato.sql.text.errors import SqlError, near
from sfumato.sql.text.syntax import Name, Node, Option, Relation
from sfumato.windows import Delta, Range, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALTERNATIVES = "alternatives"


@dataclass(frozen=True)
class Frame:
    """A frame and how it came about."""

    df: DataFrame
    step: Step

    @property
    def attributes(self) -> list[str]:
        """The uncertain attributes: the fields of its alternatives."""
        from sfumato.spark.model.columns import attributes_of

        try:
            return attributes_of(self.df)
        except TypeError:  # a column `alternatives` that is something else
            return []


@dataclass
class Source:
    """One table of a FROM clause as the rest of the query sees it.

    start, end : where it stands in the text;  written : what follows its frame there, its alias
    aliases : the names that qualify its columns; of a join of ours two, and `sides` tells which
        side each means
    window, order : for an aggregate or a ranking over the frame, and the columns it goes by
    node : what to point at
    forget : the FORGET of its bracket
    extra : columns added for this query alone, which a star does not mean
    changed : it is not the table any more and must be replaced in the text
    """

    start: int
    end: int
    frame: Frame
    aliases: tuple[str, ...]
    written: str
    node: Node
    window: Rows | Range | Delta | None = None
    order: list[str] = field(default_factory=list)
    forget: Option | None = None
    sides: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    changed: bool = False

    def side(self, qualifier: str) -> str | None:
        """`left` or `right` for an alias of a join of ours, else None."""
        return next((s for a, s in self.sides.items() if a.lower() == qualifier.lower()), None)

    def attribute(self, parts: tuple[str, ...]) -> str | None:
        """The uncertain attribute a name (of one or two parts) means here, or None."""
        if len(parts) == 1:
            return found(parts[0], self.frame.attributes)
        if not any(parts[0].lower() == alias.lower() for alias in self.aliases):
            return None
        side = self.side(parts[0])
        return found(parts[1] if side is None else f"{side}_{parts[1]}", self.frame.attributes)


def found(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `name`; case counts only where it must to tell two apart."""
    listed = list(names)
    if name in listed:
        return name
    same = [other for other in listed if other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def column(name: Name, frame: Frame, of: str, text: str) -> str:
    """The frame's column of that name. Raises SqlError, with the likely one, if there is none."""
    parts = name.parts
    match = found(parts[-1], frame.df.columns) if len(parts) == 1 else None
    if match is None:
        raise unknown_column(name, frame.df.columns, of, text)
    return match


def unknown_column(name: Name, columns: Iterable[str], of: str, text: str) -> SqlError:
    """The error about a column that `of` lacks."""
    listed = list(columns)
    reason = f"{of} has no column {name}"
    return at(text, name, reason, expected=listed, suggestion=near(name.parts[-1], listed))


def called(relation: Relation) -> str:
    """What messages call a relation."""
    return str(relation.head) if isinstance(relation.head, Name) else "the query"
