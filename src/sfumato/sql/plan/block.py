"""One SELECT block as constructs see it: its clauses, its tables, and the text in the making."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pyspark.sql import DataFrame

from sfumato.sql.plan.bracket import Brackets
from sfumato.sql.plan.measures import outside_measures
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.ranking_groups import RankingGroups
from sfumato.sql.plan.sources import Frame, Source, Tables
from sfumato.sql.plan.spark_errors import checked_by_spark
from sfumato.sql.text import syntax
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import references
from sfumato.sql.text.syntax import end_of, quoted, start_of

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
    clauses: tuple[syntax.Clause, ...]
    from_: syntax.FromClause | None
    scope: Scope
    edits: Edits
    query: Callable[[syntax.Body, Scope], Frame]
    sources: list[Source] = field(default_factory=list)
    unknown: list[syntax.Name] = field(default_factory=list)
    joined: set[int] = field(default_factory=set)
    _planned: dict[int, Frame] = field(default_factory=dict)  # queries in FROM, by their place

    # ---- its tables

    def frame(self, relation: syntax.Relation, *, needed: bool) -> tuple[Frame | None, bool]:
        """The frame a relation names, and whether it stands for more than the table itself."""
        head = relation.head
        if isinstance(head, syntax.Group) and head.body is not None and head.body.is_query:
            if head.start not in self._planned:
                self._planned[head.start] = self.query(head.body, self.scope)
            return self._planned[head.start], True
        if isinstance(head, syntax.Name) and not relation.is_function:
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

    def needed(self, relation: syntax.Relation) -> Frame:
        """The frame a relation names. Raises SqlError if there is none."""
        frame, _ = self.frame(relation, needed=True)
        assert frame is not None
        return frame

    def stored(self, name: syntax.Name) -> Frame:
        """The table, view or common table that a clause names. Raises SqlError if there is none."""
        frame = self._common(name) or self.tables.frame(name)
        if frame is None:
            raise self.tables.unknown(name, self.scope)
        return frame

    def _common(self, name: syntax.Name) -> Frame | None:
        return self.scope.get(name.parts[0].lower()) if len(name.parts) == 1 else None

    def checked(self, make: Callable[[], DataFrame], node: syntax.Node, frame: Frame) -> DataFrame:
        """What `make` gives of a frame, analysed now; see `checked_by_spark`."""
        known = [*frame.attributes, *frame.df.columns]
        return checked_by_spark(make, self.tables.spark, self.text, node, known=known)

    # ---- its words

    def clause(self, word: str) -> syntax.Clause | None:
        """The first clause of that kind, or None."""
        return next((clause for clause in self.clauses if clause.word == word), None)

    @property
    def relations(self) -> tuple[syntax.Relation | syntax.SimilarityJoin, ...]:
        """What its FROM lists; nothing where it has none."""
        return () if self.from_ is None else self.from_.sources

    def conditions(self) -> list[tuple[syntax.Item, ...]]:
        """What stands after the tables of FROM: join conditions, lateral views."""
        listed = [r for r in self.relations if isinstance(r, syntax.Relation)]
        return [r.rest for r in listed if r.start not in self.joined]

    def word_lists(self) -> list[tuple[syntax.Item, ...]]:
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
        tables = [r for r in self.relations if isinstance(r, syntax.Relation)]
        return len(tables) == 1 and not tables[0].rest

    def unqualify(self, items: tuple[syntax.Item, ...], source: Source, edits: Edits) -> None:
        """Leave aliases out: our functions know the frame's columns, not the query's names."""
        for reference in references(items, enter=outside_measures([source])):
            parts, words = reference.parts, reference.words
            if len(parts) < 2 or not source.goes_by(parts[0]):
                continue
            if not source.sides:
                edits.remove(start_of(words[0]), start_of(words[1]))
            elif (attribute := source.attribute(parts[:2])) is not None:
                edits.replace(start_of(words[0]), end_of(words[1]), quoted(attribute))
