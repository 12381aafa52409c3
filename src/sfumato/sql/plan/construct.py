"""Constructs that are not brackets: clauses after a table, joins, and what answers a block.

One file a construct in `constructs`, listed in `constructs/registered.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.sql.plan.block import Block
from sfumato.sql.plan.bracket import FORGET, NAMED, Brackets
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.sources import Frame, Source
from sfumato.sql.text.syntax import Clause, FromClause, Node, Relation
from sfumato.sql.text.words import Vocabulary, Word


class TableClause(ABC):
    """A construct that follows a table and its bracket, IMPUTE."""

    words: Sequence[Word]

    @abstractmethod
    def frame(self, frame: Frame, relation: Relation, block: Block) -> Frame:
        """What the rows become; `frame` where the relation has no such clause."""


class Join(ABC):
    """A construct that makes one source of two tables."""

    words: Sequence[Word] = ()

    @abstractmethod
    def source(self, block: Block, clause: FromClause, place: int) -> Source | None:
        """The source of the tables `place` and `place + 1` of a FROM clause, if it is theirs."""


class Answers(ABC):
    """What is asked of a block's one windowed table, whose answers then stand for the table.

    beside_attributes : whether the table's attributes can be named beside its answers
    """

    beside_attributes = True

    def __init__(self, block: Block, source: Source) -> None:
        self.block, self.source, self.text = block, source, block.text
        self.clauses = {clause.word: clause for clause in block.clauses}
        self.handled: list[tuple[int, int]] = []  # spans that mean something else now

    @classmethod
    @abstractmethod
    def wanted(cls, clauses: Sequence[Clause], text: str) -> bool:
        """Whether the words ask for it, before any table is looked at."""

    @classmethod
    @abstractmethod
    def of(cls, block: Block) -> Answers | None:
        """What a block asks for; None where its tables give no occasion."""

    @abstractmethod
    def read(self) -> None:
        """Check the clauses; raises SqlError."""

    def of_operator(self, place: Node) -> Given:
        """FORGET and NAMED of the table's bracket; other errors point at `place`."""
        return Given(self.source.of_operator, (FORGET, NAMED), place, self.text)

    def covers(self, place: int) -> bool:
        """Whether a place in the text has got its meaning from `read`."""
        return any(start <= place < end for start, end in self.handled)

    @abstractmethod
    def apply(self) -> None:
        """Let the answers stand for the table, and enter the edits of the text."""


@dataclass(frozen=True)
class Registry:
    """The constructs of the language. Joins and answers are tried in their order."""

    brackets: Brackets
    clauses: Sequence[TableClause]
    joins: Sequence[Join]
    answers: Sequence[type[Answers]]

    @property
    def vocabulary(self) -> Vocabulary:
        """Their words, by where these can stand."""
        return {
            "bracket": [word for bracket in self.brackets.listed for word in bracket.words],
            "impute": [word for clause in self.clauses for word in clause.words],
            "join": [word for join in self.joins for word in join.words],
        }
