"""The columns of a result, described once for whatever holds it.

An operator answers under fixed names, so that no name of a user can clash with what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.naming import without

NUMBER, WHOLE, TEXT, TRUTH = "double", "long", "string", "boolean"


@dataclass(frozen=True)
class Part:
    """A field of a struct.

    name : as users see it    fixed : as the operator calls it; None: the same
    kind : as of `Output`    metadata : of the field
    """

    name: str
    kind: Any
    fixed: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Struct:
    """The type of a struct with these fields."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class ListOf:
    """The type of a list whose elements are of another type."""

    kind: Any


@dataclass(frozen=True)
class Output:
    """A column of a result.

    name : as users see it
    source : the column of the answers, under its fixed name, and then a field of it
    kind : its type: NUMBER, WHOLE, TEXT, TRUTH, `Struct`, `ListOf`, or a type of the frame's own
    metadata : what it says of the column    default : in place of NULL
    cast : the type of the frame's own that it gets in the result; None: `kind`
    """

    name: str
    source: tuple[str, ...]
    kind: Any
    metadata: Mapping[str, Any] | None = None
    default: Any = None
    cast: Any = None


def passed(
    frame: Frame,
    names: Sequence[str],
    of: str | None = None,
    *,
    prefix: str = "c",
    taken: Sequence[str] = (),
) -> list[Output]:
    """Return the columns that pass through an operator.

    of : the struct of the answers that they are fields of; None: they are columns of the answers
    prefix : their fixed names are this and a number
    taken : names that other columns have; one of these of such a name gets a number
    """
    outer = () if of is None else (of,)
    return [
        Output(title, (*outer, f"{prefix}{i}"), frame.type(name), frame.metadata(name))
        for i, (title, name) in enumerate(zip(without(names, taken), names, strict=True))
    ]


def row_of(frame: Frame, names: Sequence[str]) -> Struct:
    """Return the type of a struct of some columns of a frame; of none it has a column of 0."""
    parts = [
        Part(name, frame.type(name), f"c{i}", frame.metadata(name)) for i, name in enumerate(names)
    ]
    return Struct(tuple(parts) or (Part("col1", "int", "c0"),))


def pairs_of(*sides: Sequence[Part]) -> ListOf:
    """Return the type of the alternatives of a pair: `prob`, and attributes of both sides."""
    return ListOf(Struct((Part("prob", NUMBER), *(part for side in sides for part in side))))
