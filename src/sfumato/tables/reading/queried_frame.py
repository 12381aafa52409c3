"""Frames over which expressions are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.input import Cells
from sfumato.tables.reading.types import Kind
from sfumato.windows import Range


@dataclass(frozen=True)
class Computation:
    """How the values of expressions are read.

    cells : of each expression
    columns : what only the frame's engine computes, with its type, by the names that cells have
    """

    cells: Sequence[Cells]
    columns: Mapping[str, Any] = field(default_factory=dict)


class Expressions(ABC):
    """Expressions over the attributes and certain columns of a frame."""

    @abstractmethod
    def check(self, argument: str, expression: str) -> None:
        """Raise TypeError or ValueError for an expression that cannot be computed."""

    @abstractmethod
    def not_a_number(self, expression: str) -> str | None:
        """Return the type of an expression, as errors show it; None for numbers."""

    @abstractmethod
    def value_type(self, expression: str) -> tuple[Any, Kind]:
        """Return the type of an expression's values, a type of the frame's own, and its kind."""

    @abstractmethod
    def more_digits(self, expression: str) -> str | None:
        """Return the type of an expression whose values a double may round; else None."""

    @abstractmethod
    def computation(self, expressions: Sequence[str], arguments: Mapping[str, str]) -> Computation:
        """Return how the values of expressions are read.

        arguments : what errors call each of them; one that is not there is the plain name of an
            attribute or column
        """


class QueriedFrame(Frame):
    """A frame over which expressions are computed, and whose rows go to the extents of uncertain
    event times."""

    @abstractmethod
    def by_extent(self, order: str, window: Range) -> tuple[QueriedFrame, str, Range]:
        """(rows, order, window) of an uncertain event time: a row per tuple and extent that it may
        be in, with the alternatives that are in it, and the window of these extents.

        An extent holds, of each tuple, the alternatives whose time lies in it; with what they lack
        to 1 the tuple is elsewhere, or nowhere. Within one extent tuples are as independent as
        before, so the laws of its aggregates are exact. Extents that overlap become ones that
        tumble, each as long as the slide. Invalid tuples stay one row, without order.
        Raises ValueError or TypeError for what cannot be.
        """

    @abstractmethod
    def with_true_extents(self, answers: Any, window: Range) -> Any:
        """The answers over the extents of `by_extent`, with those that are meant as `window`."""

    @property
    @abstractmethod
    def expressions(self) -> Expressions:
        """What expressions over the frame are."""
