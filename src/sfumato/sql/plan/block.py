"""One SELECT block: its tables become frames, its filter on alternatives is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from sfumato.sql.constructs.aggregation import Aggregation
from sfumato.sql.constructs.extents import extent_join_source
from sfumato.sql.constructs.imputation import imputed
from sfumato.sql.constructs.join import similarity_join_source
from sfumato.sql.constructs.ranking import Ranking
from sfumato.sql.plan import brackets
from sfumato.sql.plan.measures import Measures, is_ours
from sfumato.sql.plan.nodes import Count, Disorder, Earlier, Where, at
from sfumato.sql.plan.options import is_uncontrolled, window_plan
from sfumato.sql.plan.refusals import (
    refuse_later_work,
    refuse_near_misses,
    refuse_per_extent,
    refuse_uncertain_operands,
)
from sfumato.sql.plan.sources import Frame, Source, found
from sfumato.sql.plan.spark_errors import checked_by_spark
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.names import Reference, is_measure, is_word, nested_queries, references, stars
from sfumato.sql.text.syntax import (
    Clause,
    FromClause,
    Group,
    Item,
    Name,
    Relation,
    SimilarityJoin,
    end_of,
    plain,
    quoted,
    start_of,
)
from sfumato.windows import Delta, Range, Rows

if TYPE_CHECKING:
    from sfumato.sql.plan.planner import Planner

EVENT_TIME = "event_time"  # the column that is the event time of a stream unless WATTR says other
Scope = Mapping[str, Frame]
"""The common tables that a query sees, by lower-case name."""


@dataclass
class Rewriting:
    """One text for Spark in the making: its edits and the frames that stand in it."""

    edits: Edits
    inputs: list[Frame] = field(default_factory=list)

    def put(self, source: Source) -> None:
        """Let the source's frame stand where its table stood."""
        name = f"{{d{len(self.inputs)}}}"
        self.inputs.append(source.frame)
        self.edits.replace(source.start, source.end, name + source.written)


class Block:
    """One SELECT block: its tables replaced, its filter on alternatives applied.

    The order is that of SQL: tables and their windows, then WHERE, then the numbers and
    distributions that the remaining clauses use, which see the filtered alternatives.
    """

    def __init__(
        self,
        planner: Planner,
        clauses: tuple[Clause | FromClause, ...],
        scope: Scope,
        rewriting: Rewriting,
    ) -> None:
        self.planner, self.text, self.scope = planner, planner.text, scope
        self.rewriting, self.edits = rewriting, rewriting.edits
        self.from_ = next((c for c in clauses if isinstance(c, FromClause)), None)
        self.clauses = tuple(c for c in clauses if isinstance(c, Clause))
        self.sources: list[Source] = []
        self.joined: set[int] = set()  # relations whose condition has become part of a source
        self._planned: dict[int, Frame] = {}  # nested queries, by where they begin
        self.unknown: list[Name] = []  # tables that the session does not have

    def rewrite(self) -> None:
        """Enter this block's edits and frames into the rewriting."""
        refuse_later_work(self.clauses, self.from_, self.text)
        if self.from_ is not None:
            self.sources = list(self._sources(self.from_))
        self._refuse_unknown()
        operator = Ranking.of(self) or Aggregation.of(self)
        if operator is None:
            refuse_per_extent(self.clauses, self.sources, self.text)
        left = self.clauses if operator is None else ()
        refuse_uncertain_operands(left, self._conditions(), self.sources, self.text)
        self._nested()
        if operator is not None:
            operator.read()
        filtered = self._filter(always=operator is not None)
        if operator is not None:
            operator.apply()
        soups = [c.items for c in self.clauses if c is not filtered] + self._conditions()
        done = _nowhere if operator is None else operator.covers
        measures = Measures(self.text, self.sources, self.edits, done)
        for clause in self.clauses:
            if clause is not filtered:
                measures.replace_in(clause.items, named=clause.word == "SELECT")
        for items in self._conditions():
            measures.replace_in(items, named=False)
        measures.add()
        for items in soups:
            self._spare_from_stars(items)
        for source in self.sources:
            if source.changed or source.extra:
                self.rewriting.put(source)

    # ---- tables

    def _sources(self, clause: FromClause) -> Iterator[Source]:
        extents = extent_join_source(self, clause)
        if extents is not None:
            yield extents
            return
        elements = list(clause.sources)
        for i, element in enumerate(elements):
            following = elements[i + 1] if i + 1 < len(elements) else None
            if isinstance(element, SimilarityJoin):
                if isinstance(following, SimilarityJoin):
                    reason = "a join of three streams: put the first two in a subquery"
                    raise at(self.text, following.keyword, reason)
                continue
            if isinstance(following, SimilarityJoin):
                yield similarity_join_source(
                    element, following, self.needed, self.text, self._stored
                )
                continue
            source = self._table(element)
            if source is not None:
                yield source

    def _table(self, relation: Relation) -> Source | None:
        """The source of a relation; None for what Spark is to make out by itself."""
        refuse_near_misses(relation, self.text)
        altered = relation.window is not None or relation.imputation is not None
        frame, changed = self.frame(relation, needed=altered)
        if frame is None:
            return None
        window: Rows | Range | Delta | None = None
        order: list[str] = []
        declared = found(EVENT_TIME, frame.df.columns)
        plan = None
        uncontrolled: Frame | None = None
        if relation.window is not None:
            plan = window_plan(relation.window, self.text, declared)
        if isinstance(plan, Earlier):
            frame = brackets.remembered(frame, relation, self.text)
        if not isinstance(plan, Disorder):
            frame = imputed(frame, relation, self._stored, self.text)
        if isinstance(plan, Count | Disorder):
            if isinstance(plan, Count):
                window, order = brackets.counted(frame, plan, relation, self.text)
            else:
                assert relation.window is not None
                if is_uncontrolled(relation.window):
                    uncontrolled = imputed(frame, relation, self._stored, self.text)
                frame = brackets.reordered(frame, plan, relation, self.text)
                window, order = brackets.ranged(frame, plan)
                frame = imputed(frame, relation, self._stored, self.text)
        alias = relation.alias
        name = plain(alias) if alias is not None else self._implied(relation)
        sampled = bool(relation.rest) and is_word(relation.rest[0], "TABLESAMPLE")
        written = f" AS {quoted(name)}" if name and not sampled else ""
        return Source(
            relation.start,
            relation.own_end,
            frame,
            (name,) if name else (),
            written,
            window,
            order,
            relation.window or relation,
            uncontrolled=uncontrolled,
            changed=changed or altered,
        )

    def frame(self, relation: Relation, *, needed: bool) -> tuple[Frame | None, bool]:
        """The frame a relation names, and whether it stands for more than the table itself."""
        head = relation.head
        if isinstance(head, Group) and head.body is not None and head.body.is_query:
            if head.start not in self._planned:
                self._planned[head.start] = self.planner.query(head.body, self.scope)
            return self._planned[head.start], True
        if isinstance(head, Name) and not relation.is_function:
            common = self.scope.get(head.parts[0].lower()) if len(head.parts) == 1 else None
            frame = common or self.planner.table(head)
            if frame is None and needed:
                raise self.planner.unknown_table(head, self.scope)
            if frame is None:
                self.unknown.append(head)
            return frame, common is not None
        if needed:
            place = relation.window or relation
            raise at(self.text, place, "a window follows a table, a view or a query in parentheses")
        return None, False

    def needed(self, relation: Relation) -> Frame:
        frame, _ = self.frame(relation, needed=True)
        assert frame is not None
        return frame

    def _stored(self, name: Name) -> Frame:
        """The table, view or common table that a clause names."""
        common = self.scope.get(name.parts[0].lower()) if len(name.parts) == 1 else None
        frame = common or self.planner.table(name)
        if frame is None:
            raise self.planner.unknown_table(name, self.scope)
        return frame

    @staticmethod
    def _implied(relation: Relation) -> str:
        return relation.head.parts[-1] if isinstance(relation.head, Name) else ""

    # ---- filter

    def _filter(self, *, always: bool) -> Clause | None:
        """Apply a WHERE that mentions uncertain attributes; it is then no longer in the text.

        always : apply any WHERE: what follows is not a clause of Spark's
        """
        from sfumato.spark.where import where

        clause = next((c for c in self.clauses if c.word == "WHERE"), None)
        if clause is None or not (always or any(self._attributes(clause.items))):
            return None
        reference, source = next(self._attributes(clause.items), (None, self.sources[0]))
        relations = [] if self.from_ is None else self.from_.sources
        tables = [r for r in relations if not isinstance(r, SimilarityJoin)]
        obstacle = (
            "a pipe |>"
            if self._piped()
            else "several tables"
            if len(tables) != 1 or tables[0].rest
            else "a nested query"
            if any(nested_queries(clause.items))
            else None
        )
        if obstacle is not None:
            what = "before a window's aggregates"
            if reference is not None:
                what = f"on the uncertain {reference.parts[-1]}"
            raise at(
                self.text,
                clause if reference is None else reference.words[0],
                f"a filter {what} beside {obstacle} is not supported: filter in a subquery, "
                "FROM (SELECT ... WHERE ...)",
            )
        local = Edits(self.text)
        measures = Measures(self.text, self.sources, local, _nowhere)
        measures.replace_in(clause.items, named=False, distributions=False)
        before = list(source.extra)
        measures.add()
        self.unqualify(clause.items, source, local)
        start = start_of(clause.items[0])
        condition = local.render(start, clause.end, braces=False)
        frame = source.frame
        df = checked_by_spark(
            lambda: where(frame.df, condition),
            self.planner.spark,
            self.text,
            clause,
            known=[*frame.df.columns, *frame.attributes],
        )
        added = [name for name in source.extra if name not in before]
        source.frame = Frame(df.drop(*added), Where(frame.step, condition))
        source.extra, source.changed = before, True
        self.edits.remove(clause.start, clause.end)
        return clause

    def _attributes(self, items: tuple[Item, ...]) -> Iterator[tuple[Reference, Source]]:
        """The uncertain attributes an expression mentions outside our measures."""
        for reference in references(items, in_measures=False):
            for source in self.sources:
                parts = reference.parts
                if reference.call is None and (
                    source.attribute(parts[:2]) or source.attribute(parts[:1])
                ):
                    yield reference, source

    def unqualify(self, items: tuple[Item, ...], source: Source, edits: Edits) -> None:
        """`sf.where` knows the frame's columns, not the query's aliases: leave those out."""
        for reference in references(items, in_measures=False):
            parts, words = reference.parts, reference.words
            if len(parts) < 2 or parts[0].lower() not in [a.lower() for a in source.aliases]:
                continue
            if not source.sides:
                edits.remove(start_of(words[0]), start_of(words[1]))
            elif (attribute := source.attribute(parts[:2])) is not None:
                edits.replace(start_of(words[0]), end_of(words[1]), quoted(attribute))

    # ---- the rest

    def _conditions(self) -> list[tuple[Item, ...]]:
        """What stands after the tables of FROM: join conditions, lateral views."""
        relations = [] if self.from_ is None else self.from_.sources
        return [r.rest for r in relations if isinstance(r, Relation) and r.start not in self.joined]

    def _nested(self) -> None:
        """Rewrite the queries nested in expressions, in place: they may be correlated."""
        soups = [clause.items for clause in self.clauses] + self._conditions()
        for relation in [] if self.from_ is None else self.from_.sources:
            head = relation.head if isinstance(relation, Relation) else None
            if isinstance(head, Group) and head.body is not None and not head.body.is_query:
                soups.append((head,))
        for items in soups:
            for body in nested_queries(items):
                self.planner.rewrite(body, self.scope, self.rewriting)

    def _spare_from_stars(self, items: tuple[Item, ...]) -> None:
        """Columns added for this query alone are not what a star means."""
        several = len(self._conditions()) > 1
        for star in stars(items):
            spared = []
            for source in self.sources:
                mine = star.qualifier is None or (
                    not source.sides
                    and star.qualifier.lower() in [a.lower() for a in source.aliases]
                )
                prefix = f"{quoted(source.aliases[0])}." if several and source.written else ""
                spared += [prefix + quoted(name) for name in source.extra if mine]
            if not spared:
                continue
            if star.but is not None:
                self.edits.insert(star.but.start + 1, ", ".join(spared) + ", ")
            else:
                self.edits.insert(end_of(star.token), f" EXCEPT ({', '.join(spared)})")

    def _piped(self) -> bool:
        """Whether the block uses Spark's `|>`."""
        for items in [clause.items for clause in self.clauses] + self._conditions():
            for one, other in pairwise(items):
                if one == "|" and other == ">" and end_of(one) == start_of(other):
                    return True
        return False

    def _refuse_unknown(self) -> None:
        """A measure of a table that is not there: the table is what is wrong."""
        soups = [clause.items for clause in self.clauses] + self._conditions()
        named = (r for items in soups for r in references(items) if is_measure(r.words) and r.call)
        if self.unknown and any(is_ours(reference, self.sources) for reference in named):
            raise self.planner.unknown_table(self.unknown[0], self.scope)


def _nowhere(place: int) -> bool:
    return False
