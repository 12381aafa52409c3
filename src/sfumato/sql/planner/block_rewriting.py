"""One SELECT block for Spark: its tables become frames, its filter on alternatives is applied."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sfumato.sql.constructs.registered import CONSTRUCTS
from sfumato.sql.plan.block import Block, Scope
from sfumato.sql.plan.bracket import OF_OPERATORS, Window
from sfumato.sql.plan.construct import Answers
from sfumato.sql.plan.measures import Measures, is_measure_of, nowhere
from sfumato.sql.plan.sources import Frame, Source
from sfumato.sql.planner.alternatives_filter import filter_alternatives
from sfumato.sql.planner.refusals import refuse_later_work, refuse_near_misses, refuse_per_extent
from sfumato.sql.planner.uncertain_operands import (
    refuse_aggregates,
    refuse_uncertain_conditions,
    refuse_uncertain_operands,
)
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import (
    alias_of,
    is_measure,
    is_word,
    list_items,
    nested_queries,
    references,
    stars,
)
from sfumato.sql.text.syntax import (
    Body,
    Clause,
    FromClause,
    Group,
    Item,
    Name,
    Option,
    Relation,
    end_of,
    plain,
    quoted,
    start_of,
)


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


class BlockRewriting:
    """Enters a block into the text for Spark.

    The order is that of SQL: tables and their brackets, then WHERE, then the numbers and
    distributions that the remaining clauses use, which see the filtered alternatives.

    nested : enters a query that is nested in an expression, which may be correlated
    """

    def __init__(
        self,
        block: Block,
        rewriting: Rewriting,
        nested: Callable[[Body, Scope, Rewriting], None],
    ) -> None:
        self.block, self.text, self.edits = block, block.text, block.edits
        self.rewriting, self.nested = rewriting, nested
        self.answered = any(
            answers.wanted(block.clauses, block.text) for answers in CONSTRUCTS.answers
        )

    def rewrite(self) -> None:
        """Enter the block's edits and frames."""
        block = self.block
        refuse_later_work(block)
        if block.from_ is not None:
            block.sources += self._sources(block.from_)
        self._refuse_unknown()
        answers = self._answers()
        covered = nowhere if answers is None else answers.covers
        beside_attributes = answers is None or answers.beside_attributes
        if answers is None:
            refuse_per_extent(block)
            refuse_aggregates(block)
        refuse_uncertain_conditions(block)
        self._rewrite_nested()
        if answers is not None:
            answers.read()
        if beside_attributes:
            refuse_uncertain_operands(block, covered)
        filtered = filter_alternatives(block, always=answers is not None)
        if answers is not None:
            answers.apply()
        self._measure(filtered, covered)
        select = block.clause("SELECT")
        if select is not None and beside_attributes:
            self._name_columns(select)
        for items in [c.items for c in block.clauses if c is not filtered] + block.conditions():
            self._spare_from_stars(items)
        for source in block.sources:
            if source.changed or source.extra:
                self.rewriting.put(source)

    def _answers(self) -> Answers | None:
        wanted = (kind.of(self.block) for kind in CONSTRUCTS.answers)
        return next((answers for answers in wanted if answers is not None), None)

    # ---- tables

    def _sources(self, clause: FromClause) -> Iterator[Source]:
        place = 0
        while place < len(clause.sources):
            element, source = clause.sources[place], self._joined(clause, place)
            place += 1 if source is None else 2
            if source is None and isinstance(element, Relation):
                source = self._table(element)
            if source is not None:
                yield source

    def _joined(self, clause: FromClause, place: int) -> Source | None:
        if place + 1 == len(clause.sources):
            return None
        sources = (join.source(self.block, clause, place) for join in CONSTRUCTS.joins)
        return next((source for source in sources if source is not None), None)

    def _table(self, relation: Relation) -> Source | None:
        """The source of a relation; None for what Spark is to make out by itself."""
        refuse_near_misses(relation, self.text)
        altered = relation.bracket is not None or relation.imputation is not None
        frame, changed = self.block.frame(relation, needed=altered)
        if frame is None:
            return None
        window: Window | None = None
        order: list[str] = []
        of_operator: tuple[Option, ...] = ()
        asked = self.block.brackets.given(relation, self.text, frame)
        if asked is not None:
            bracket, given = asked
            frame = bracket.frame(given, answered=self.answered)
        for clause in CONSTRUCTS.clauses:
            frame = clause.frame(frame, relation, self.block)
        if asked is not None:
            window, order = bracket.window(given.over(frame))
            if bracket.kind and (self.answered or bracket.kind != "time"):
                of_operator = tuple(o for o in given.options if o.word in OF_OPERATORS)
        alias, head = relation.alias, relation.head
        name = plain(alias) if alias is not None else ""
        if not name and isinstance(head, Name):
            name = head.parts[-1]
        sampled = bool(relation.rest) and is_word(relation.rest[0], "TABLESAMPLE")
        written = f" AS {quoted(name)}" if name and not sampled else ""
        return Source(
            relation.start,
            relation.own_end,
            frame,
            (name,) if name else (),
            written,
            relation.bracket or relation,
            window,
            order,
            of_operator,
            changed=changed or altered,
        )

    def _refuse_unknown(self) -> None:
        """A measure of a table that is not there: the table is what is wrong."""
        block = self.block
        named = (
            reference
            for items in block.word_lists()
            for reference in references(items)
            if is_measure(reference.words) and reference.call
        )
        if block.unknown and any(is_measure_of(reference, block.sources) for reference in named):
            raise block.tables.unknown(block.unknown[0], block.scope)

    # ---- the rest

    def _measure(self, filtered: Clause | None, done: Callable[[int], bool]) -> None:
        """Put columns in place of what is asked of uncertain attributes."""
        block = self.block
        clauses = [clause for clause in block.clauses if clause is not filtered]
        measures = Measures(self.text, block.sources, self.edits, done)
        for clause in clauses:
            measures.replace_in(clause.items, named=clause.word == "SELECT")
        for items in block.conditions():
            measures.replace_in(items, named=False)
        measures.add()

    def _rewrite_nested(self) -> None:
        """Rewrite the queries nested in expressions, in place: they may be correlated."""
        block = self.block
        lists = block.word_lists()
        for relation in block.relations:
            head = relation.head if isinstance(relation, Relation) else None
            if isinstance(head, Group) and head.body is not None and not head.body.is_query:
                lists.append((head,))
        for items in lists:
            for body in nested_queries(items):
                self.nested(body, block.scope, self.rewriting)

    def _name_columns(self, select: Clause) -> None:
        """Call the columns of the result as the query writes them, where it gives them no name.

        Named are the parts of SELECT that have become something else in the text for Spark; those
        that are one call of ours have got their name with it.
        """
        for item in list_items(select.items):
            if not item or any(True for _ in stars(item)) or any(is_word(i, "AS") for i in item):
                continue
            start, end = start_of(item[0]), end_of(item[-1])
            if alias_of(item)[0] is None and self.edits.changes_within(start, end):
                self.edits.insert(end, f" AS {quoted(' '.join(self.text[start:end].split()))}")

    def _spare_from_stars(self, items: tuple[Item, ...]) -> None:
        """Columns added for this query alone are not what a star means."""
        several = len(self.block.conditions()) > 1
        for star in stars(items):
            spared = []
            for source in self.block.sources:
                mine = star.qualifier is None or (
                    not source.sides and source.goes_by(star.qualifier)
                )
                prefix = f"{quoted(source.aliases[0])}." if several and source.written else ""
                spared += [prefix + quoted(name) for name in source.extra if mine]
            if not spared:
                continue
            if star.but is not None:
                self.edits.insert(star.but.start + 1, ", ".join(spared) + ", ")
            else:
                self.edits.insert(end_of(star.token), f" EXCEPT ({', '.join(spared)})")
