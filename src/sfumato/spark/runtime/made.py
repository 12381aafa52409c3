"""How frames were made that operators gave, as long as they are there.

A frame is known by itself: what was done to it since, other than by an operator, made another
frame, which is read as any frame is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from sfumato.spark.runtime.reading import Input
from sfumato.tables.chain import Path
from sfumato.tables.operator import TableConfig


@dataclass(frozen=True)
class Passing:
    """That an operator's answers are rows that came in, with columns added.

    names : the columns that pass, in order, c0, c1, ... in the answers or in their `row`
    added : where those are in the answers that the operator adds, by name
    """

    names: Sequence[str]
    added: Mapping[str, Path]

    @property
    def unchanged(self) -> list[str]:
        """The columns of the frame that have their name, and their values, from before."""
        taken = {name.lower() for name in self.added}
        return [name for name in self.names if name.lower() not in taken]

    def path(self, name: str) -> Path | None:
        """Where a column of the frame is in the answers; None for one that was renamed."""
        if name in self.added:
            return self.added[name]
        return (f"c{self.names.index(name)}",) if name in self.unchanged else None


@dataclass(frozen=True)
class Made:
    """By which operator, of what, a frame was made.

    idle_timeout : microseconds, or None    passing : None if answers are no rows that came in
    together : the operators that run in one step with it; apart : why others do not
    """

    inputs: Sequence[Input]
    config: TableConfig
    metrics: str
    idle_timeout: int | None = None
    passing: Passing | None = None
    together: Sequence[str] = ()
    apart: Sequence[str] = field(default=())


_MADE: WeakKeyDictionary[DataFrame, Made] = WeakKeyDictionary()


def remember(frame: DataFrame, how: Made | None) -> None:
    """Know from now on how a frame was made."""
    if how is not None:
        _MADE[frame] = how


def made(frame: DataFrame) -> Made | None:
    """How a frame was made; None for one that no operator gave."""
    return _MADE.get(frame)


def tied(frame: DataFrame) -> list[str] | None:
    """The columns that tell simultaneous rows of a frame apart: those that rows had before any
    operator, whether it runs in the same step or not. None: all."""
    how = made(frame)
    if how is None or how.passing is None:
        return None
    before = tied(how.inputs[0].frame)
    return [name for name in how.passing.unchanged if before is None or name in before]
