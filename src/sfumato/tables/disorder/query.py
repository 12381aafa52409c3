"""What a reordering is asked for, and the configuration that follows, whatever holds rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from sfumato.duration import microseconds
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.reorder import EVENT, ReorderTableConfig
from sfumato.tables.operator import ROW
from sfumato.tables.reading.controlled import ARRIVED, MARKS, ORDERED, controlled_by, with_roles
from sfumato.tables.reading.forgetting import forget_after_of
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.input import Cells, Column, Reading, Ties
from sfumato.tables.reading.outputs import TRUTH, Output, passed


class ReorderQuery:
    """The columns that the arguments of `reorder` name.

    passed : those that pass through: not those that an earlier `reorder` added
    """

    def __init__(
        self,
        frame: Frame,
        event_time: str,
        arrival: str,
        key: str | Sequence[str] | None,
        source: str | Sequence[str] | None,
    ) -> None:
        self.frame = frame
        self.keys, self.sources = frame.keys("key", key), frame.keys("source", source)
        self.event, self.arrival = (
            frame.one("event_time", event_time),
            frame.one("arrival", arrival),
        )
        again = frame.says("punctuation") is not None
        for added in MARKS:
            found = frame.same_as(added)
            if found is not None and not (again and found == added):
                as_added = "" if found == added else f", the same name as `{added}`"
                raise ValueError(
                    f"the {frame.noun} has a column `{found}` already{as_added}: rename it before "
                    f"{frame.prefix}reorder"
                )
        self.passed = [name for name in frame.columns if name not in MARKS]
        frame.require_time("event_time", self.event)
        frame.require_time("arrival", self.arrival)

    @property
    def reading(self) -> Reading:
        """How the operator reads the frame."""
        values: list[tuple[str, Cells]] = [(EVENT, Column(self.event))]
        values += [(f"source{i}", Column(name)) for i, name in enumerate(self.sources)]
        passed, tie = tuple(self.passed), Ties(self.frame.tied)
        return Reading(passed, (self.arrival,), tuple(self.keys), tuple(values), tie=tie)

    def config(
        self,
        control: DisorderControl,
        expected_sources: int | None,
        idle_timeout: str | timedelta | None,
        forget_after: str | timedelta | float | None,
    ) -> ReorderTableConfig:
        """The operator's configuration."""
        idle = None if idle_timeout is None else microseconds("idle_timeout", idle_timeout)
        return ReorderTableConfig(
            control=control,
            sources=len(self.sources),
            expected_sources=expected_sources,
            idle_timeout=None if idle is None else max(1, idle // 1000),
            keys=len(self.keys),
            forget_after=forget_after_of(self.frame, self.arrival, self.keys, forget_after),
        )

    def outputs(self, config: ReorderTableConfig) -> list[Output]:
        """Return the columns of the result.

        Their metadata says in which roles the controller reads a column, that of `punctuation`
        what it says of the order of the rows.
        """
        read = {ORDERED: self.event, ARRIVED: self.arrival}
        columns = []
        for column in passed(self.frame, self.passed, ROW):
            roles = [role for role, name in read.items() if name == column.name]
            columns.append(replace(column, metadata=with_roles(column.metadata or {}, roles)))
        forgets = config.forget_after is not None
        said = controlled_by(self.keys, self.event, forgets, bool(self.sources))
        kind = self.frame.type(self.event)
        return [
            *columns,
            Output("late", ("late",), TRUTH, default=False),
            Output("punctuation", ("punctuation",), kind, said),
        ]


def require_marked(frame: Frame) -> None:
    """Raise ValueError for a frame whose late rows are not marked."""
    if "late" not in frame.columns or frame.kind("late") != "truth":
        raise ValueError(
            f"{frame.prefix}split_late takes a {frame.noun} with a column `late` of booleans: "
            f"reorder it first; it has {', '.join(frame.columns)}"
        )
