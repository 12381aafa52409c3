"""One SELECT block: its clauses, its tables, and the text for Spark in the making."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame

from sfumato.language import syntax
from sfumato.language.errors import at
from sfumato.language.measures import Rewriting, outside_measures
from sfumato.language.syntax import end_of, quoted, references, start_of
from sfumato.language.tables import PlannedFrame, Source, Tables, checked_by_spark

Scope = Mapping[str, PlannedFrame]
"""The common tables that a query sees, by lower-case name."""


@dataclass
class Block:
    """One SELECT block.

    rankings : the TOP queries that are planned together (`RankingGroups`)
    clauses : all but FROM, which is `from_`
    scope : the common tables it sees
    edits : the text for Spark in the making
    query : plans a query in parentheses;  function : the frame of a table function, or None
    sources : its tables, once they are planned;  unknown : those the session does not have
    joined : where relations begin whose condition has become part of a source
    gone : the words of the clauses that are answered and no longer in the text
    """

    script: syntax.Script
    tables: Tables
    rankings: Any
    clauses: tuple[syntax.Clause, ...]
    from_: syntax.FromClause | None
    scope: Scope
    edits: Rewriting
    query: Callable[[syntax.Body, Scope], PlannedFrame]
    function: Callable[[syntax.Name, syntax.Group, Scope], PlannedFrame | None]
    sources: list[Source] = field(default_factory=list)
    unknown: list[syntax.Name] = field(default_factory=list)
    joined: set[int] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    _planned: dict[int, PlannedFrame | None] = field(
        default_factory=dict
    )  # in FROM, by their place

    @property
    def text(self) -> str:
        """The text of the script."""
        return self.script.text

    # ---- its tables

    def frame(self, relation: syntax.Relation, *, needed: bool) -> tuple[PlannedFrame | None, bool]:
        """Return the frame of a relation, and whether it is more than a table of the session."""
        head, query = relation.head, relation.query
        if query is not None:
            return self._once(relation.start, lambda: self.query(query, self.scope)), True
        if isinstance(head, syntax.Name):
            call = relation.call
            if call is not None:
                frame = self._once(head.start, lambda: self.function(head, call, self.scope))
                if frame is not None:
                    return frame, True
            else:
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

    def _once(self, place: int, plan: Callable[[], PlannedFrame | None]) -> PlannedFrame | None:
        if place not in self._planned:
            self._planned[place] = plan()
        return self._planned[place]

    def needed(self, relation: syntax.Relation) -> PlannedFrame:
        """Return the frame of a relation. Raises SqlError if there is none."""
        frame, _ = self.frame(relation, needed=True)
        assert frame is not None
        return frame

    def stored(self, name: syntax.Name) -> PlannedFrame:
        """Return the table, view or common table of a name. Raises SqlError if there is none."""
        frame = self._common(name) or self.tables.frame(name)
        if frame is None:
            raise self.tables.unknown(name, self.scope)
        return frame

    def _common(self, name: syntax.Name) -> PlannedFrame | None:
        return self.scope.get(name.parts[0].lower()) if len(name.parts) == 1 else None

    def checked(
        self, make: Callable[[], DataFrame], node: syntax.Node, frame: PlannedFrame
    ) -> DataFrame:
        """Return what `make` gives of a frame, analysed now; see `checked_by_spark`."""
        known = [*frame.attributes, *frame.df.columns]
        return checked_by_spark(make, self.tables.spark, self.script, node, known=known)

    # ---- its words

    def clause(self, word: str) -> syntax.Clause | None:
        """Return the first clause of that kind, or None."""
        return next((clause for clause in self.clauses if clause.word == word), None)

    @property
    def relations(self) -> tuple[syntax.Relation | syntax.SimilarityJoinClause, ...]:
        """The elements of its FROM clause."""
        return () if self.from_ is None else self.from_.sources

    def conditions(self) -> list[tuple[syntax.Item, ...]]:
        """Return what follows the tables of FROM: join conditions, lateral views."""
        listed = [r for r in self.relations if isinstance(r, syntax.Relation)]
        return [r.rest for r in listed if r.start not in self.joined]

    def word_lists(self) -> list[tuple[syntax.Item, ...]]:
        """Return the words of all its clauses and conditions."""
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
        tables = [r for r in self.relations if isinstance(r, syntax.Relation)]
        return len(tables) == 1 and not tables[0].rest

    def unqualify(self, items: tuple[syntax.Item, ...], source: Source, edits: Rewriting) -> None:
        """Leave aliases out: our functions know the frame's columns, not the query's names."""
        for reference in references(items, enter=outside_measures([source])):
            parts, words = reference.parts, reference.words
            if len(parts) < 2 or not source.goes_by(parts[0]):
                continue
            if not source.sides:
                edits.remove(start_of(words[0]), start_of(words[1]))
            elif (attribute := source.attribute(parts[:2])) is not None:
                edits.replace(start_of(words[0]), end_of(words[1]), quoted(attribute))
