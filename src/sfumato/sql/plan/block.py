"""One SELECT block as constructs see it: its clauses, its tables, and the text in the making."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from sfumato.sql.plan.bracket import Brackets
from sfumato.sql.plan.measures import outside_measures
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.ranking_groups import RankingGroups
from sfumato.sql.plan.sources import Frame, Source
from sfumato.sql.plan.tables import Tables
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import references
from sfumato.sql.text.syntax import (
    Body,
    Clause,
    FromClause,
    Group,
    Item,
    Name,
    Relation,
    SimilarityJoin,
    end_of,
    quoted,
    start_of,
)

Scope = Mapping[str, Frame]
"""The common tables that a query sees, by lower-case name."""


@dataclass
class Block:
    """One SELECT block.

    clauses : all but FROM, which is `from_`
    scope : the common tables it sees
    edits : of the whole text
    query : plans a query in parentheses
    sources : its tables, once they are planned;  unknown : those the session does not have
    joined : where relations begin whose condition has become part of a source
    """

    text: str
    tables: Tables
    brackets: Brackets
    rankings: RankingGroups
    clauses: tuple[Clause, ...]
    from_: FromClause | None
    scope: Scope
    edits: Edits
    query: Callable[[Body, Scope], Frame]
    sources: list[Source] = field(default_factory=list)
    unknown: list[Name] = field(default_factory=list)
    joined: set[int] = field(default_factory=set)
    _planned: dict[int, Frame] = field(default_factory=dict)  # queries in FROM, by their place

    # ---- its tables

    def frame(self, relation: Relation, *, needed: bool) -> tuple[Frame | None, bool]:
        """The frame a relation names, and whether it stands for more than the table itself."""
        head = relation.head
        if isinstance(head, Group) and head.body is not None and head.body.is_query:
            if head.start not in self._planned:
                self._planned[head.start] = self.query(head.body, self.scope)
            return self._planned[head.start], True
        if isinstance(head, Name) and not relation.is_function:
            common = self._common(head)
            frame = common or self.tables.frame(head)
            if frame is None and needed:
                raise self.tables.unknown(head, self.scope)
            if frame is None:
                self.unknown.append(head)
            return frame, common is not None or self.tables.is_given(head)
        if needed:
            place = relation.bracket or relation
            raise at(self.text, place, "a window follows a table, a view or a query in parentheses")
        return None, False

    def needed(self, relation: Relation) -> Frame:
        """The frame a relation names. Raises SqlError if there is none."""
        frame, _ = self.frame(relation, needed=True)
        assert frame is not None
        return frame

    def stored(self, name: Name) -> Frame:
        """The table, view or common table that a clause names. Raises SqlError if there is none."""
        frame = self._common(name) or self.tables.frame(name)
        if frame is None:
            raise self.tables.unknown(name, self.scope)
        return frame

    def _common(self, name: Name) -> Frame | None:
        return self.scope.get(name.parts[0].lower()) if len(name.parts) == 1 else None

    # ---- its words

    def clause(self, word: str) -> Clause | None:
        """The first clause of that kind, or None."""
        return next((clause for clause in self.clauses if clause.word == word), None)

    def conditions(self) -> list[tuple[Item, ...]]:
        """What stands after the tables of FROM: join conditions, lateral views."""
        relations = [] if self.from_ is None else self.from_.sources
        return [r.rest for r in relations if isinstance(r, Relation) and r.start not in self.joined]

    def word_lists(self) -> list[tuple[Item, ...]]:
        """The words of all its clauses and conditions."""
        return [clause.items for clause in self.clauses] + self.conditions()

    def is_piped(self) -> bool:
        """Whether the block uses Spark's `|>`."""
        return any(
            one == "|" and other == ">" and end_of(one) == start_of(other)
            for items in self.word_lists()
            for one, other in pairwise(items)
        )

    def has_one_table(self) -> bool:
        """Whether its FROM is one table, with nothing after it."""
        relations = [] if self.from_ is None else self.from_.sources
        tables = [r for r in relations if not isinstance(r, SimilarityJoin)]
        return len(tables) == 1 and not tables[0].rest

    def unqualify(self, items: tuple[Item, ...], source: Source, edits: Edits) -> None:
        """Leave aliases out: our functions know the frame's columns, not the query's names."""
        for reference in references(items, enter=outside_measures([source])):
            parts, words = reference.parts, reference.words
            if len(parts) < 2 or parts[0].lower() not in [a.lower() for a in source.aliases]:
                continue
            if not source.sides:
                edits.remove(start_of(words[0]), start_of(words[1]))
            elif (attribute := source.attribute(parts[:2])) is not None:
                edits.replace(start_of(words[0]), end_of(words[1]), quoted(attribute))
