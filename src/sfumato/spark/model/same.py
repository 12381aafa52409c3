"""What a column is, whatever it is called: of equal columns one crosses to Python."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Whole:
    """The column of this name that a frame has, or that cast to another type."""

    name: str


@dataclass(frozen=True)
class Constant:
    """This number in every row, of an int or a double column; or NULL, None, of any."""

    value: float | None


@dataclass(frozen=True)
class Single:
    """Lists of one element each. of : what these are, as for any column"""

    of: Any


@dataclass(frozen=True)
class Field:
    """Lists of this field of the structs that are in the lists of another column.

    of : what that column is
    """

    of: Whole
    name: str
