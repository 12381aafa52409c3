"""How frames were made that operators gave, as long as they are there.

A frame is known by itself: what was done to it since, other than by an operator, made another
frame, which is read as any frame is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from sfumato.spark.runtime.reading import Input
from sfumato.tables.link import Condition, Path, Taken
from sfumato.tables.operator import TableConfig


class GivenName(str):
    """The name of an operator's metrics that the user chose."""

    __slots__ = ()


NUMBERS = ("mean", "stddev", "existence")  # fields of results, which are never NaN


@dataclass(frozen=True)
class Passing:
    """What of an operator's answers another one can take, within one step.

    added : where the columns are that the operator gives, by name
    names : if its answers are rows that came in, their columns: c0, c1, ... in the answers, or in
        their `row`. None: they are not
    where : which answers are in the frame; all for which these hold
    order : the columns by which they come in order; () : in none
    late : but for those among them that are marked late
    """

    added: Mapping[str, Taken]
    names: Sequence[str] | None = None
    where: tuple[Condition, ...] = ()
    order: Sequence[str] = ()
    late: bool = False

    @property
    def unchanged(self) -> list[str]:
        """The columns of the frame that have their name, and their values, from before."""
        taken = {name.lower() for name in self.added}
        return [name for name in self.names or () if name.lower() not in taken]

    def taken(self, name: str) -> Taken | None:
        """What a column of the frame is of the answers; None for one that was renamed."""
        if name in self.added:
            return self.added[name]
        unchanged = self.names is not None and name in self.unchanged
        return Taken((f"c{self.names.index(name)}",)) if unchanged else None  # type: ignore[union-attr]


@dataclass(frozen=True)
class Made:
    """By which operator, of what, a frame was made.

    idle_timeout : microseconds, or None
    passing : what another operator can take; None: nothing
    together : the operators that run in one step with it; apart : why others do not
    first_use : the `first_use` of the operator that first took the answers in one step with it
    """

    inputs: Sequence[Input]
    config: TableConfig
    metrics: str
    idle_timeout: int | None = None
    passing: Passing | None = None
    together: Sequence[str] = ()
    apart: Sequence[str] = field(default=())
    first_use: list[Any] = field(default_factory=list, repr=False, compare=False)

    def is_first_use(self, by: Made) -> bool:
        """Return whether `by` is the first operator that takes the answers in one step with it."""
        if not self.first_use:
            self.first_use.append(by.first_use)
        return self.first_use[0] is by.first_use


_MADE: WeakKeyDictionary[DataFrame, Made] = WeakKeyDictionary()


def remember(frame: DataFrame, how: Made | None) -> None:
    """Know from now on how a frame was made."""
    if how is not None:
        _MADE[frame] = how


def made(frame: DataFrame) -> Made | None:
    """How a frame was made; None for one that no operator gave."""
    return _MADE.get(frame)


def steps_of(frame: DataFrame) -> str:
    """Which operators run in one step with the one that gave a frame, and why others do not."""
    how = made(frame)
    if how is None:
        return ""
    others = [name for name in how.together if name != how.metrics]
    said = [f"in one step with {' and '.join(others)}"] if others else []
    return "; ".join([*said, *(f"apart from {reason}" for reason in how.apart)])


@dataclass(frozen=True)
class Selection:
    """Some columns of a frame, or fields of them, by name, each with a type it is cast to, if any;
    None: all. where : by columns and fields of the frame."""

    columns: Mapping[str, tuple[Path, str]] | None
    where: tuple[Condition, ...] = ()


def remember_selected(frame: DataFrame, of: DataFrame, what: Selection) -> None:
    """Know that a frame is a selection of another one, if an operator gave that."""
    how = made(of)
    passing = None if how is None or how.passing is None else selected(how.passing, of, what)
    if how is not None and passing is not None:
        remember(frame, replace(how, passing=passing))


def selected(passing: Passing, frame: DataFrame, what: Selection) -> Passing | None:
    """What of an operator's answers can be taken of a selection; None for what only Spark can."""
    where = []
    for condition in what.where:
        taken = _within(passing, frame, condition.path)
        # Of what may be NaN, as any column of the frame may, Spark knows better.
        result = taken is not None and taken.path[0].startswith("result")
        if taken is None or taken.cast or not result or taken.path[-1] not in NUMBERS:
            return None
        where.append(replace(condition, path=taken.path))
    conditions = (*passing.where, *where)
    if what.columns is None:
        return replace(passing, where=conditions)
    added: dict[str, Taken] = {}
    for name, (path, cast) in what.columns.items():
        taken = _within(passing, frame, path)
        plain = len(path) == 1 and not cast and taken is not None and path[0] not in passing.added
        if plain and name == path[0] and passing.names is not None:
            continue  # passes as it did
        if taken is None or plain or (cast and taken.cast):
            return None
        added[name] = replace(taken, cast=cast or taken.cast)
    return replace(passing, added=added, where=conditions)


def _within(passing: Passing, frame: DataFrame, path: Path) -> Taken | None:
    """What a column or a field of one is of the answers; None where that is not sure."""
    kind: DataType = frame.schema
    for part in path:
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    taken = passing.taken(path[0])
    if taken is None or (len(path) > 1 and taken.cast):
        return None
    return replace(taken, path=(*taken.path, *path[1:]))
