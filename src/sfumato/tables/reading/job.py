"""A job: an operator, the frames that it reads, and the columns of its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.results import Output
from sfumato.tables.reading.rows import Cells, Reading
from sfumato.tables.reading.types import Kind
from sfumato.windows import Range


@dataclass(frozen=True)
class Input:
    """A frame and how an operator reads it.

    about : further parts of the query for the fingerprint: JSON values
    computed : columns that only the frame's engine computes, with their types, by names that the
        reading uses
    bucket : numbers of the keys that decide which rows share an operator; None: all
    light : the operator does so little that it may run in coarser buckets
    """

    frame: Frame
    reading: Reading
    about: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, Any] = field(default_factory=dict)
    bucket: Sequence[int] | None = None
    light: bool = False


@dataclass(frozen=True)
class Job:
    """An operator over frames.

    function : the public function, as messages call it
    metrics : the part of its metrics' names between `sfumato_` and `name`
    name : the user's name for the metrics; None: a number
    idle_timeout : microseconds without rows after which `idle` is called; streams only
    order : the columns of the one frame in whose order answers come, for operators that run in one
        step with this one; () : in no order; None: no operator does
    late : rows that are marked late come among them, out of order
    """

    function: str
    metrics: str
    name: str | None
    inputs: Sequence[Input]
    config: TableConfig
    outputs: Sequence[Output]
    idle_timeout: int | None = None
    order: Sequence[str] | None = None
    late: bool = False


@dataclass(frozen=True)
class Computation:
    """How the values of expressions are read.

    cells : of each expression
    columns : columns that only the frame's engine computes, with their types, by the names in cells
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
        """Return the type of an expression's values, a type of the frame's, and its kind."""

    @abstractmethod
    def more_digits(self, expression: str) -> str | None:
        """Return the type of an expression whose values a double may round; else None."""

    @abstractmethod
    def computation(self, expressions: Sequence[str], arguments: Mapping[str, str]) -> Computation:
        """Return how the values of expressions are read.

        arguments : what errors call each expression; the others are plain names of attributes or
            columns
        """


class QueriedFrame(Frame):
    """A frame over which expressions are computed, maybe with uncertain event times."""

    @abstractmethod
    def by_extent(self, order: str, window: Range) -> tuple[QueriedFrame, str, Range]:
        """Return (rows, order, window) for an uncertain event time.

        There is one row per tuple and extent that it may be in, with the alternatives whose time
        lies in the extent. Within an extent tuples are as independent as before, so that the
        distributions of its aggregates are exact. Extents that overlap become extents that tumble,
        each as long as the slide. Invalid tuples stay one row, without order.
        Raises ValueError or TypeError for an order or window that does not allow it.
        """

    @abstractmethod
    def with_true_extents(self, answers: Any, window: Range) -> Any:
        """Return the answers over the extents of `by_extent`, with the extents of `window`."""

    @property
    @abstractmethod
    def expressions(self) -> Expressions:
        """The expressions over the frame."""
