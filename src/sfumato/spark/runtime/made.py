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
    """What of an operator's answers another one can take, within one step.

    added : where the columns are that the operator gives, by name
    names : if its answers are rows that came in, their columns: c0, c1, ... in the answers, or in
        their `row`. None: they are not
    """

    added: Mapping[str, Path]
    names: Sequence[str] | None = None

    @property
    def unchanged(self) -> list[str]:
        """The columns of the frame that have their name, and their values, from before."""
        taken = {name.lower() for name in self.added}
        return [name for name in self.names or () if name.lower() not in taken]

    def path(self, name: str) -> Path | None:
        """Where a column of the frame is in the answers; None for one that was renamed."""
        if name in self.added:
            return self.added[name]
        assert self.names is not None
        return (f"c{self.names.index(name)}",) if name in self.unchanged else None


@dataclass(frozen=True)
class Made:
    """By which operator, of what, a frame was made.

    idle_timeout : microseconds, or None
    passing : what another operator can take; None: nothing
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
    if how is None or how.passing is None or how.passing.names is None:
        return None
    before = tied(how.inputs[0].frame)
    return [name for name in how.passing.unchanged if before is None or name in before]
