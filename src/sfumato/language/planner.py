"""From syntax tree to frames: a statement is checked, then lowered bottom-up, block by block.

Each construct becomes a call of its function. Spark gets the rest of a query as the user wrote it,
with `{d0}`, `{d1}`, ... where a table stood that is now a frame of ours: `spark.sql(text,
d0=frame)` puts them in, on classic sessions and under Spark Connect, and leaves no temporary view
behind. Names, types and functions are therefore Spark's to resolve; we look only at what is
uncertain.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sfumato.api.where import where
from sfumato.language import checks, syntax
from sfumato.language.aggregation import Aggregation, WindowedBlock
from sfumato.language.block import Block, Scope
from sfumato.language.brackets import BRACKETS, OF_OPERATORS, Window, bracket_of
from sfumato.language.errors import SqlError, at
from sfumato.language.imputation import IMPUTE_WORDS, imputed_frame
from sfumato.language.joins import JOIN_WORDS, joined_tables
from sfumato.language.measures import (
    Measures,
    PlainSelect,
    Rewriting,
    nowhere,
    outside_measures,
    plain_select,
)
from sfumato.language.parse import parse
from sfumato.language.ranking import Ranking, RankingGroup, RankingGroups
from sfumato.language.steps import Step, explained, one_line
from sfumato.language.syntax import (
    Body,
    Clause,
    FromClause,
    Group,
    Name,
    Option,
    Relation,
    Script,
    alias_of,
    end_of,
    is_word,
    list_items,
    nested_queries,
    plain,
    quoted,
    references,
    stars,
    start_of,
)
from sfumato.language.table_functions import function_of, table_function, tables_read
from sfumato.language.tables import PlannedFrame, Source, Tables, checked_by_spark
from sfumato.spark.model.declared_frame import DeclaredFrame
from sfumato.spark.model.outside_text import (
    check_expression,
    for_spark,
    is_trusted,
    query_for_spark,
)
from sfumato.spark.model.repository import without_data
from sfumato.spark.runtime.lineage import remember_selected
from sfumato.spark.runtime.run import operators_of
from sfumato.sql_tokens import TokenError

VOCABULARY = {
    "bracket": [word for bracket in BRACKETS for word in bracket.words],
    "impute": IMPUTE_WORDS,
    "join": JOIN_WORDS,
}
"""The words of all constructs, by where they can stand."""
WINDOWED_BLOCKS: tuple[type[WindowedBlock], ...] = (Ranking, Aggregation)
"""What is asked of windows, tried in this order."""
REFUSED = (
    "over a declared frame SELECT takes a list, FROM one of them or one construct, and WHERE; "
    "what else the text has goes into a table of the pipeline of its own, in Spark's SQL"
)


def parsed(text: str, *, trusted: bool = False) -> Script:
    """Read the statements of a script. Raises SqlError.

    trusted : whether the text may hold what only Spark knows, such as hints
    """
    return parse(text, VOCABULARY, trusted=trusted)


class Planner:
    """Plans the statements of one script over the tables of a session; runs nothing."""

    def __init__(
        self,
        spark: SparkSession,
        script: Script,
        rankings: RankingGroups | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """rankings : the TOP queries of several texts, this one's gathered; None: this one's
        given : tables by name that go before the session's, and functions by name"""
        self.spark, self.script, self.text = spark, script, script.text
        self.tables = Tables(spark, script, given or {})
        self._gathered = rankings is not None
        self.rankings = RankingGroups(fold=folds_case(spark)) if rankings is None else rankings

    def frames(self) -> list[PlannedFrame]:
        """Return all statements as frames, TOP queries that can share their work planned once."""
        for statement in self.script.statements:
            checks.check_query(self.script, statement.body)
            if not self._gathered:
                self.rankings.gather(self.script, statement.body)
        found = []
        for statement in self.script.statements:
            with without_data() if statement.explain else nullcontext():
                found.append(self._statement(statement))
        return found

    def answers(self) -> list[PlannedFrame]:
        """Return all statements as frames, EXPLAIN of one as a frame with its plan."""
        return [
            replace(frame, df=self.spark.createDataFrame([(explained(frame.step),)], "plan string"))
            if statement.explain
            else frame
            for statement, frame in zip(self.script.statements, self.frames(), strict=True)
        ]

    def _statement(self, statement: syntax.Statement) -> PlannedFrame:
        """Return one statement as a frame; Spark's own text goes to Spark as it is read."""
        body = statement.body
        checks.check_reach(self.script, body, self.spark)
        ours = (
            checks.has_constructs(body)
            or any(self._calls_function(part) for part in body.bodies())
            or any(self.tables.is_given(name) for name in body.tables())
            or any(self.tables.is_uncertain(name) for name in body.tables())
        )
        if ours:
            return self.query(body, {})
        whole = self.text[body.start : body.end]
        return PlannedFrame(self._spark_sql(whole, {}, body), _select(whole))

    def _calls_function(self, body: Body) -> bool:
        """Whether a query has a table function of ours in its FROM."""
        called = (r.head for r in body.relations if body.is_query and r.call is not None)
        return any(
            isinstance(name, Name) and function_of(name, self.tables) is not None for name in called
        )

    # ---- lowering

    def query(self, body: Body, scope: Scope) -> PlannedFrame:
        """Return a query, of a statement or in parentheses, as a frame of its own."""
        edits = Rewriting(self.text)
        select = self._rewrite(body, scope, edits)
        frames: dict[str, Any] = {f"d{i}": frame.df for i, frame in enumerate(edits.inputs)}
        doubled = bool(frames) and is_trusted(self.spark)
        text = edits.render(body.start, body.end, braces=doubled)
        if any(isinstance(frame, DeclaredFrame) for frame in frames.values()):
            df = self._by_methods(body, select, edits)
        else:
            df = self._spark_sql(text, frames, body)
        chosen = select.selection() if select is not None and len(frames) == 1 else None
        if chosen is not None:
            remember_selected(df, frames["d0"], chosen)
        return PlannedFrame(df, _select(text, [frame.step for frame in edits.inputs]))

    def _rewrite(self, body: Body, scope: Scope, edits: Rewriting) -> PlainSelect | None:
        """Enter the edits of a query, and of those within it, into a text for Spark.

        Returns what it is if it is a plain SELECT.
        """
        if body.recursive:
            assert body.with_ is not None
            reason = "WITH RECURSIVE beside windows or uncertain tables is not supported"
            raise at(self.text, body.with_, f"{reason}: make it a temporary view first")
        common = dict(scope)
        for cte in body.ctes:
            if cte.query.body is None or not cte.query.body.is_query:
                raise at(self.text, cte.query, "a common table needs a query")
            frame = self.query(cte.query.body, common)
            if cte.columns is not None and cte.columns.body is not None:
                clause = cte.columns.body.clauses[0]
                names = [plain(str(i)) for i in getattr(clause, "items", ()) if i != ","]
                frame = replace(frame, df=frame.df.toDF(*names))
            common[plain(cte.name).lower()] = frame
        if body.with_ is not None and body.clauses:
            edits.remove(start_of(body.with_), body.clauses[0].start)
        blocks = [self._block(clauses, common, edits) for clauses in body.blocks()]
        for block in blocks:
            self._lower(block)
        if len(blocks) > 1 or blocks[0].is_piped():
            return None
        return plain_select(body, blocks[0].gone, blocks[0].sources, edits)

    def _block(
        self, clauses: Sequence[Clause | FromClause], scope: Scope, edits: Rewriting
    ) -> Block:
        return Block(
            self.script,
            self.tables,
            self.rankings,
            tuple(c for c in clauses if isinstance(c, Clause)),
            next((c for c in clauses if isinstance(c, FromClause)), None),
            scope,
            edits,
            self.query,
            lambda name, call, scope: table_function(name, call, scope, self.tables, self.query),
        )

    def _lower(self, block: Block) -> None:
        """Enter a block's edits and frames into the text for Spark.

        The order is that of SQL: tables and their brackets, then WHERE, then the numbers and
        distributions that the remaining clauses use, which see the filtered alternatives.
        """
        checks.check_words(block)
        answered = any(kind.wanted(block.clauses, block.text) for kind in WINDOWED_BLOCKS)
        if block.from_ is not None:
            block.sources += _sources(block, block.from_, answered)
        checks.check_tables(block)
        wanted = (kind.of(block) for kind in WINDOWED_BLOCKS)
        answers = next((answers for answers in wanted if answers is not None), None)
        covered = nowhere if answers is None else answers.covers
        beside_attributes = answers is None or answers.beside_attributes
        if answers is None:
            checks.check_unanswered(block)
        checks.check_conditions(block)
        self._rewrite_nested(block)
        if answers is not None:
            answers.read()
        if beside_attributes:
            checks.check_operands(block, covered)
        filtered = _filter_alternatives(block, always=answers is not None)
        if answers is not None:
            answers.apply()
        remaining = [clause for clause in block.clauses if clause is not filtered]
        measures = Measures(block.text, block.sources, block.edits, covered)
        for clause in remaining:
            measures.replace_in(clause.items, named=clause.word == "SELECT")
        for items in block.conditions():
            measures.replace_in(items, named=False)
        measures.add()
        if beside_attributes:
            _name_columns(block)
        for items in [clause.items for clause in remaining] + block.conditions():
            _spare_from_stars(block, items)
        for source in block.sources:
            if source.changed or source.extra:
                block.edits.put(source)

    def _rewrite_nested(self, block: Block) -> None:
        """Rewrite the queries nested in expressions, in place: they may be correlated."""
        lists = block.word_lists()
        for relation in block.relations:
            head = relation.head if isinstance(relation, Relation) else None
            if isinstance(head, Group) and head.body is not None and not head.body.is_query:
                lists.append((head,))
        for items in lists:
            for body in nested_queries(items):
                self._rewrite(body, block.scope, block.edits)

    # ---- Spark

    def _spark_sql(self, text: str, frames: dict[str, Any], node: syntax.Node) -> DataFrame:
        def run() -> DataFrame:
            try:
                checked = query_for_spark(text, self.spark, frames=bool(frames))
            except TokenError as error:
                raise checks.refused(error, node, self.script) from None
            return self.spark.sql(checked, **frames) if frames else self.spark.sql(checked)

        known = [name for df in frames.values() for name in df.columns]
        return checked_by_spark(run, self.spark, self.script, node, known=known)

    def _by_methods(self, body: Body, select: PlainSelect | None, edits: Rewriting) -> DataFrame:
        """Return a plain SELECT over one declared frame by the frame's own methods.

        Spark takes a text over a table of a declarative pipeline only as the whole of what defines
        another one; what methods made of it may stand anywhere.
        """
        refused = at(self.text, body, REFUSED)
        if select is None or len(edits.inputs) > 1 or edits.spared:
            raise refused
        lists = [*select.items, *([select.where.items] if select.where is not None else [])]
        for items in lists:
            words = self.script.words(syntax.Node(start_of(items[0]), end_of(items[-1])))
            if any(is_word(word, "SELECT", "OVER", "EXCEPT") for word in words):
                raise refused

        def run() -> DataFrame:
            frame, source = edits.inputs[0].df, select.source
            where = source.written.removeprefix(" WHERE ") if source.sides else ""
            if source.written and not source.sides:
                frame = frame.alias(source.aliases[0])
            if select.where is not None:
                first = end_of(select.where.place)
                where = edits.render(first, select.where.end, braces=False)
            if where:
                check_expression("WHERE", where, self.spark)
                frame = frame.where(for_spark(where, self.spark))
            listed = [
                edits.render(start_of(items[0]), end_of(items[-1]), braces=False)
                for items in select.items
            ]
            for item in listed:
                check_expression("SELECT", item, self.spark)
            return frame.selectExpr(*(for_spark(item, self.spark) for item in listed))

        known = edits.inputs[0].df.columns
        return checked_by_spark(run, self.spark, self.script, body, known=known)


# ---- queries with names --------------------------------------------------------------------------


class NamedQueries:
    """Texts by name. Each becomes frames when the views that it reads are there, in its turn; the
    TOP queries of all that are wanted, over the same table, window, filter and ranking, are planned
    together before.

    wanted : names whose answers go somewhere; those they read are wanted too
    share : see RankingGroups
    """

    def __init__(
        self,
        spark: SparkSession,
        texts: Mapping[str, str],
        wanted: Iterable[str],
        share: Callable[[RankingGroup, PlannedFrame], PlannedFrame] | None = None,
    ) -> None:
        self.spark, self.texts = spark, texts
        self.rankings = RankingGroups(fold=folds_case(spark), share=share)
        trusted = is_trusted(spark)
        scripts = {name: _readable(text, trusted) for name, text in texts.items()}
        self._scripts = scripts
        needed = _needed(scripts, wanted)
        for name, script in scripts.items():
            if script is not None and name in needed:
                for statement in script.statements:
                    with suppress(SqlError):  # its turn comes, and an error then has its place
                        self.rankings.gather(script, statement.body, name)

    def frames(self, name: str) -> list[PlannedFrame]:
        """Return the statements of a text as frames; EXPLAIN of one as a frame with its plan.

        Raises SqlError and Spark's errors, as `sql` does.
        """
        text = self.texts[name]
        with operators_of(name):
            script = self._scripts[name] or parsed(text, trusted=is_trusted(self.spark))
            return Planner(self.spark, script, self.rankings).answers()

    def read_by(self, name: str) -> set[str]:
        """Return the names of the queries that are read for one of them, including itself."""
        return _needed(self._scripts, [name])

    def with_(self, name: str) -> list[str]:
        """Return the names of the queries that are answered together with one, including itself."""
        groups = [group.members for group in self.rankings.groups() if name in group.members]
        return next((list(dict.fromkeys(members)) for members in groups if len(members) > 1), [])


def _readable(text: str, trusted: bool) -> Script | None:
    try:
        return parsed(text, trusted=trusted)
    except SqlError:
        return None


def _needed(scripts: Mapping[str, Script | None], wanted: Iterable[str]) -> set[str]:
    """Return the wanted names, and those that these read."""
    by_name = {name.lower(): name for name in scripts}
    open_, needed = [name for name in wanted if name in scripts], set[str]()
    while open_:
        name = open_.pop()
        script = scripts[name]
        if name in needed or script is None:
            continue
        needed.add(name)
        for statement in script.statements:
            for table in tables_read(statement.body):
                other = by_name.get(table.parts[-1].lower())
                if other is not None:
                    open_.append(other)
    return needed


def folds_case(spark: SparkSession) -> bool:
    """Whether names that differ in case only are the same in a session."""
    return spark.conf.get("spark.sql.caseSensitive", "false") != "true"


def _select(text: str, inputs: Sequence[Step] = ()) -> Step:
    """Return the step of text handed to Spark; `{d0}`, `{d1}`, ... in it are the inputs."""
    title = f"Spark SQL{'' if inputs else ', as it stands'}: {one_line(text)}"
    return Step(title, inputs={f"{{d{i}}}": step for i, step in enumerate(inputs)})


# ---- tables --------------------------------------------------------------------------------------


def _sources(block: Block, clause: FromClause, answered: bool) -> Iterator[Source]:
    place = 0
    while place < len(clause.sources):
        element, source = clause.sources[place], joined_tables(block, clause, place)
        place += 1 if source is None else 2
        if source is None and isinstance(element, Relation):
            source = _table(block, element, answered)
        if source is not None:
            yield source


def _table(block: Block, relation: Relation, answered: bool) -> Source | None:
    """Return the source of a relation; None for what Spark is to make out by itself."""
    altered = relation.bracket is not None or relation.imputation is not None
    frame, changed = block.frame(relation, needed=altered)
    if frame is None:
        return None
    window: Window | None = None
    order: list[str] = []
    of_operator: tuple[Option, ...] = ()
    asked = bracket_of(relation, block.text, frame)
    if asked is not None:
        bracket, given = asked
        frame = bracket.frame(given, answered=answered)
    frame = imputed_frame(frame, relation, block)
    if asked is not None:
        window, order = bracket.window(given.over(frame))
        if bracket.kind and (answered or bracket.kind != "time"):
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


# ---- WHERE on alternatives -----------------------------------------------------------------------


def _filter_alternatives(block: Block, *, always: bool) -> Clause | None:
    """Apply a WHERE that mentions uncertain attributes; it is then no longer in the text.

    always : apply any WHERE: what follows is not a clause of Spark's
    """
    clause = block.clause("WHERE")
    if clause is None:
        return None
    uncertain = (
        (reference, source)
        for reference in references(clause.items, enter=outside_measures(block.sources))
        for source in block.sources
        if reference.call is None and source.meant(reference.parts)
    )
    reference, source = next(uncertain, (None, block.sources[0] if always else None))
    if source is None:
        return None
    obstacle = (
        "a pipe |>"
        if block.is_piped()
        else "several tables"
        if not block.has_one_table()
        else "a nested query"
        if any(nested_queries(clause.items))
        else None
    )
    if obstacle is not None:
        what = "before a window's aggregates"
        if reference is not None:
            what = f"on the uncertain {reference.parts[-1]}"
        raise at(
            block.text,
            clause if reference is None else reference.words[0],
            f"a filter {what} beside {obstacle} is not supported: filter in a subquery, "
            "FROM (SELECT ... WHERE ...)",
        )
    local = Rewriting(block.text)
    measures = Measures(block.text, block.sources, local)
    measures.replace_in(clause.items, named=False, distributions=False)
    before = list(source.extra)
    measures.add()
    block.unqualify(clause.items, source, local)
    condition = local.render(start_of(clause.items[0]), clause.end, braces=False)
    frame = source.frame
    df = block.checked(lambda: where(frame.df, condition), clause, frame)
    added = [name for name in source.extra if name not in before]
    title = f"filter on alternatives: {one_line(condition)}"
    step = Step(title, inputs={"": frame.step}, facts=frame.step.facts)
    source.frame = PlannedFrame(df.drop(*added), step)
    source.extra, source.changed = before, True
    block.edits.remove(clause.start, clause.end)
    block.gone.add("WHERE")
    return clause


# ---- columns -------------------------------------------------------------------------------------


def _name_columns(block: Block) -> None:
    """Call the columns of the result as the query writes them, where it gives them no name.

    Named are the parts of SELECT that have become something else in the text for Spark; those
    that are one call of ours have got their name with it.
    """
    select = block.clause("SELECT")
    for item in list_items(select.items) if select is not None else ():
        if not item or any(True for _ in stars(item)) or any(is_word(i, "AS") for i in item):
            continue
        start, end = start_of(item[0]), end_of(item[-1])
        if alias_of(item)[0] is None and block.edits.changes_within(start, end):
            block.edits.insert(end, f" AS {quoted(one_line(block.text[start:end]))}")


def _spare_from_stars(block: Block, items: tuple[syntax.Item, ...]) -> None:
    """Leave columns that were added for this query alone out of what a star means."""
    several = len(block.conditions()) > 1
    for star in stars(items):
        spared = []
        for source in block.sources:
            mine = star.qualifier is None or (not source.sides and source.goes_by(star.qualifier))
            prefix = f"{quoted(source.aliases[0])}." if several and source.written else ""
            spared += [prefix + quoted(name) for name in source.extra if mine]
        if not spared:
            continue
        block.edits.spared = True
        if star.but is not None:
            block.edits.insert(star.but.start + 1, ", ".join(spared) + ", ")
        else:
            block.edits.insert(end_of(star.token), f" EXCEPT ({', '.join(spared)})")
