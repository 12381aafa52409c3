"""What is done to rows, step by step: for the planner, and for EXPLAIN to put in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lark import Token

from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import Node, end_of, start_of

Lines = list[tuple[str, str]]
"""Rows of a plan: a heading, and what there is to say."""
INPUTS = {"": "input", "left": "left", "right": "right"}  # of a step, by what they are called


@dataclass(frozen=True)
class Step(ABC):
    """One operation on rows. Each construct has a dataclass of its own, with what it was asked.

    runs : with which others it runs in one step of Spark's, where there is something to say
    named : what its operator is called in metrics, where the text says it
    """

    runs: str = field(default="", kw_only=True, compare=False)
    named: str = field(default="", kw_only=True, compare=False)

    @abstractmethod
    def title(self) -> str:
        """The operation in one line."""

    def lines(self) -> Lines:
        """Its parameters, its state and what it guarantees."""
        return []

    @property
    def inputs(self) -> Mapping[str, Step]:
        """The steps below by the name of each; "" where there is only one."""
        below = {side: getattr(self, name, None) for side, name in INPUTS.items()}
        return {side: step for side, step in below.items() if step is not None}


@dataclass(frozen=True)
class Table(Step):
    """A table or view of the session."""

    name: str
    streaming: bool
    columns: tuple[tuple[str, str], ...]  # name and Spark type
    received: bool = False  # with a column `arrival` added: when Spark received the row

    def title(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        added = "; arrival added: when Spark received the row" if self.received else ""
        return f"{'stream' if self.streaming else 'static table'} {self.name} ({columns}){added}"


@dataclass(frozen=True)
class Where(Step):
    """`sf.where` over its input: the filter on alternatives."""

    input: Step
    condition: str

    def title(self) -> str:
        return f"filter on alternatives: {' '.join(self.condition.split())}"


@dataclass(frozen=True)
class Operation(Step):
    """A function of one frame, with its lines as the construct gives them."""

    input: Step
    name: str
    said: tuple[tuple[str, str], ...] = ()

    def title(self) -> str:
        return self.name

    def lines(self) -> Lines:
        return list(self.said)


@dataclass(frozen=True)
class Select(Step):
    """Text handed to Spark; `{d0}`, `{d1}`, ... in it stand for the inputs."""

    text: str
    frames: tuple[Step, ...] = field(default=())

    def title(self) -> str:
        said = " ".join(self.text.split())
        return f"Spark SQL{'' if self.frames else ', as it stands'}: {said}"

    @property
    def inputs(self) -> Mapping[str, Step]:
        return {f"{{d{i}}}": step for i, step in enumerate(self.frames)}


def at(text: str, node: Node | Token, reason: str, **more: Any) -> SqlError:
    """A SqlError about a node or word."""
    return SqlError(reason, text=text, start=start_of(node), end=end_of(node), **more)
