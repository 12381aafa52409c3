"""The planner: it checks a statement's syntax tree, then lowers it bottom-up, block by block.

Each construct becomes a call of its function. Spark gets the remaining text, with `{d0}`, `{d1}`,
... in place of replaced tables; `spark.sql(text, d0=frame)` inserts the frames without temporary
views. Spark resolves names, types and functions; the planner handles only uncertain attributes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sfumato.language.aggregate_answers import Aggregation
from sfumato.language.blocks import Block, Measures, PlainSelect, Rewriting, plain_select
from sfumato.language.brackets import BRACKETS, bracket_of, operator_options
from sfumato.language.impute_clause import IMPUTE_WORDS, imputed_frame
from sfumato.language.joins import JOIN_WORDS, join_tables
from sfumato.language.parse import parse
from sfumato.language.ranking_answers import (
    RANK_WORDS,
    Ranking,
    RankingGroup,
    RankingGroups,
    parse_ranking,
)
from sfumato.language.refusals import (
    check_column_aliases,
    check_operands,
    check_pipe,
    check_query,
    check_reach,
    check_tables,
    check_unanswered,
    check_words,
    has_constructs,
    remove_stream_word,
    translate_token_error,
)
from sfumato.language.steps import Step, explain_step, one_line
from sfumato.language.syntax import (
    Body,
    Group,
    Name,
    Node,
    Relation,
    Script,
    SqlError,
    Statement,
    at,
    errors_in,
    is_word,
    nested_queries,
    span_of,
)
from sfumato.language.table_functions import TableFunctions, function_of, tables_read
from sfumato.language.tables import PlannedFrame, Source, Tables
from sfumato.spark.model.declared_frame import DeclaredFrame
from sfumato.spark.model.repository import without_data
from sfumato.spark.model.untrusted_sql import check_expression, is_trusted, query_for_spark
from sfumato.spark.rows import mark_union
from sfumato.spark.runtime.fuse import remember_selected
from sfumato.spark.runtime.run import operators_of
from sfumato.sql_tokens import TokenError, quote_name, unquote_name

VOCABULARY = {
    "bracket": [word for bracket in BRACKETS for word in bracket.words],
    "impute": IMPUTE_WORDS,
    "join": JOIN_WORDS,
    "rank": RANK_WORDS,
}
"""The words of all constructs, by position."""
DECLARED_FRAME_REFUSAL = (
    "over a declared frame, a query may have only SELECT with a list of columns, FROM with one "
    "declared frame or one construct, and WHERE; write other clauses as a separate table of the "
    "pipeline, in Spark's SQL"
)


def parse_script(text: str, *, trusted: bool = False) -> Script:
    """Parse a script with the words of all constructs; see `parse`."""
    return parse(text, VOCABULARY, trusted=trusted)


class Planner:
    """Planner of the statements of one script over a session's tables; it runs nothing.

    rankings : TOP queries collected from several scripts; by default, only this script's
    given : tables by name, which take precedence over the session's, and functions by name
    """

    def __init__(
        self,
        spark: SparkSession,
        script: Script,
        rankings: RankingGroups | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.spark, self.script, self.text = spark, script, script.text
        self.tables = Tables(spark, script, given or {})
        self.rankings = rankings or RankingGroups(fold=folds_case(spark))
        for statement in script.statements:
            check_query(script, statement.body)
            if rankings is None:
                self.rankings.gather(script, statement.body)

    def frames(self) -> list[PlannedFrame]:
        """Return all statements as frames; an EXPLAIN becomes a frame with the plan.

        TOP queries that can share work are planned together.
        """
        return [
            self._explain(s) if s.explain else self._plan(s.body) for s in self.script.statements
        ]

    def _explain(self, statement: Statement) -> PlannedFrame:
        with without_data():
            step = self._plan(statement.body).step
        plan = self.spark.createDataFrame([(explain_step(step),)], "plan string")
        return PlannedFrame(plan, step)

    def _plan(self, body: Body) -> PlannedFrame:
        """Return a statement as a frame; text without constructs goes to Spark unchanged."""
        check_reach(self.script, body, self.spark)
        calls = (r.head for b in body.bodies() for r in b.relations if b.is_query and r.call)
        is_ours = has_constructs(body) or any(
            isinstance(name, Name) and function_of(name, self.tables) for name in calls
        )
        for name in () if is_ours else tables_read(body):
            frame = self.tables.frame(name)
            is_uncertain = frame is not None and bool(frame.attributes)
            is_ours = is_ours or is_uncertain or self.tables.is_given(name)
        if is_ours:
            return self.plan_query(body, self.tables)
        text = self.text[body.start : body.end]
        return PlannedFrame(self._spark_sql(text, {}, body), _spark_sql_step(text))

    # ---- lowering

    def plan_query(self, body: Body, tables: Tables) -> PlannedFrame:
        """Return a query, of a statement or in parentheses, as a frame."""
        edits = Rewriting(self.text)
        select = self._rewrite(body, tables, edits)
        frames: dict[str, Any] = {f"d{i}": frame.df for i, frame in enumerate(edits.inputs)}
        braces = bool(frames) and is_trusted(self.spark)
        text = edits.render(body, braces=braces)
        if any(isinstance(frame, DeclaredFrame) for frame in frames.values()):
            df = self._apply_methods(body, select, edits)
        else:
            df = self._spark_sql(text, frames, body)
            words = self.script.words(body)
            piped = any(a == "|" and b == ">" and a.end == b.start for a, b in pairwise(words))
            if parts := [] if piped else body.union_parts():
                written = [(edits.render(part, braces=braces), part) for part in parts]
                df = mark_union(df, [self._spark_sql(t, frames, part) for t, part in written])
        chosen = select.selection() if select is not None and len(frames) == 1 else None
        if chosen is not None:
            remember_selected(df, frames["d0"], chosen)
        return PlannedFrame(df, _spark_sql_step(text, [frame.step for frame in edits.inputs]))

    def _rewrite(self, body: Body, tables: Tables, edits: Rewriting) -> PlainSelect | None:
        """Add the edits of a query and its nested queries; return it if it is a plain SELECT."""
        if body.with_token is not None and body.recursive:
            reason = "WITH RECURSIVE is not supported together with windows or uncertain tables"
            raise at(body.with_token, f"{reason}: create a temporary view first")
        for cte in body.ctes:
            if cte.query.query is None:
                raise at(cte.query, "a common table expression must be a query")
            frame = self.plan_query(cte.query.query, tables)
            if cte.columns is not None and cte.columns.body is not None:
                columns = cte.columns.body.clauses[0].items
                names = [unquote_name(str(item)) for item in columns if item != ","]
                frame = replace(frame, df=frame.df.toDF(*names))
            tables = tables.with_common(unquote_name(cte.name), frame)
        if body.with_token is not None and body.clauses:
            edits.remove(body.with_token.start, body.clauses[0].start)
        blocks = []
        for clauses in body.blocks():
            relations = next((c.tables for c in clauses if c.word == "FROM"), ())
            others = tuple(c for c in clauses if c.word != "FROM")
            others = remove_stream_word(others, relations, edits)
            given = others, relations, edits, self._plan_relation
            blocks.append(Block(tables, self.rankings, *given))
        for block in blocks:
            self._lower(block)
        if len(blocks) > 1 or blocks[0].pipe() is not None:
            return None
        return plain_select(body, blocks[0].answered, blocks[0].sources, edits)

    def _plan_relation(self, relation: Relation, tables: Tables) -> PlannedFrame | None:
        if relation.query is not None:
            return self.plan_query(relation.query, tables)
        if not isinstance(relation.head, Name) or relation.call is None:
            return None
        return TableFunctions(tables, self.plan_query).frame(relation.head, relation.call)

    def _lower(self, block: Block) -> None:
        """Add a block's edits and frames to the text for Spark, in SQL's order of evaluation."""
        check_words(block.clauses, block.relations)
        check_pipe(block)
        answered = parse_ranking(block.clauses) or Aggregation.has_aggregates(block.clauses)
        place = 0
        while place < len(block.relations):
            is_last = place + 1 == len(block.relations)
            joined = None if is_last else join_tables(block, place)
            source = joined or _plan_table(block, block.relations[place], bool(answered))
            block.sources += [source] if source is not None else []
            place += 1 if joined is None else 2
        check_tables(block)
        answers = Ranking.of(block) or Aggregation.of(block)
        keeps_attributes = not isinstance(answers, Ranking)  # whether rows keep their attributes
        if answers is None:
            check_unanswered(block)
        self._rewrite_nested(block)
        if answers is not None:
            answers.read()
        if keeps_attributes:
            check_operands(block)
        filtered = block.filter_alternatives(always=answers is not None)
        if answers is not None:
            answers.apply()
        remaining = [clause for clause in block.clauses if clause is not filtered]
        measures = Measures(block, block.edits)
        for clause in remaining:
            measures.replace_in(clause.items, named=clause.word == "SELECT")
        for items in block.conditions():
            measures.replace_in(items, named=False)
        measures.add()
        select = block.clause("SELECT")
        if keeps_attributes and select is not None:
            block.name_columns(select)
        for items in [clause.items for clause in remaining] + block.conditions():
            block.exclude_from_stars(items)
        for source in block.sources:
            if source.changed or source.extra:
                check_column_aliases(block, source)
                block.edits.put(source)

    def _rewrite_nested(self, block: Block) -> None:
        """Rewrite queries nested in expressions in place, because they may be correlated."""
        lists = block.word_lists()
        for relation in block.relations:
            if isinstance(relation.head, Group) and relation.query is None:
                lists.append((relation.head,))
        for items in lists:
            for body in nested_queries(items):
                self._rewrite(body, block.tables, block.edits)

    # ---- Spark

    def _spark_sql(self, text: str, frames: dict[str, Any], node: Node) -> DataFrame:
        def run() -> DataFrame:
            try:
                checked = query_for_spark(text, self.spark, frames=bool(frames))
            except TokenError as error:
                raise translate_token_error(error, node, self.script) from None
            return self.spark.sql(checked, **frames) if frames else self.spark.sql(checked)

        known = [name for df in frames.values() for name in df.columns]
        return self.tables.build_frame(run, node, known)

    def _apply_methods(self, body: Body, select: PlainSelect | None, edits: Rewriting) -> DataFrame:
        """Return a plain SELECT over one declared frame, built with the frame's own methods.

        In a declarative pipeline, Spark accepts SQL text over a pipeline table only as the complete
        definition of another table. The result of the frame's methods can be used anywhere.
        """
        refusal = at(body, DECLARED_FRAME_REFUSAL)
        if select is None or len(edits.inputs) > 1 or edits.narrows_stars:
            raise refusal
        filters = [select.where.items] if select.where is not None else []
        for items in [*select.items, *filters]:
            words = self.script.words(span_of(items))
            if any(is_word(word, "SELECT", "OVER", "EXCEPT") for word in words):
                raise refusal

        def run() -> DataFrame:
            frame, source = edits.inputs[0].df, select.source
            condition = source.written.removeprefix(" WHERE ") if source.sides else ""
            if source.written and not source.sides:
                frame = frame.alias(source.aliases[0])
            if select.where is not None:
                place = Node(select.where.place.end, select.where.end)
                condition = edits.render(place)
            if condition:
                frame = frame.where(check_expression("WHERE", condition, self.spark))
            listed = (edits.render(span_of(items)) for items in select.items)
            return frame.selectExpr(*(check_expression("SELECT", e, self.spark) for e in listed))

        return self.tables.build_frame(run, body, edits.inputs[0].df.columns)


def folds_case(spark: SparkSession) -> bool:
    """Return whether a session treats names that differ only in case as equal."""
    return spark.conf.get("spark.sql.caseSensitive", "false") != "true"


def _spark_sql_step(text: str, inputs: Sequence[Step] = ()) -> Step:
    """Return the step for SQL that Spark runs; `{d0}`, `{d1}`, ... in it stand for the inputs."""
    title = f"Spark SQL{'' if inputs else ', unchanged'}: {one_line(text)}"
    return Step(title, inputs={f"{{d{i}}}": step for i, step in enumerate(inputs)})


def _plan_table(block: Block, relation: Relation, answered: bool) -> Source | None:
    """Return the source of a relation, or None if Spark resolves the relation."""
    altered = relation.bracket is not None or relation.imputation is not None
    frame = block.required_frame(relation) if altered else block.frame(relation)
    if frame is None:
        return None
    given = bracket_of(relation, frame)
    frame = frame if given is None else given.rows(answered=answered)
    if relation.imputation is not None:
        repository = block.tables.find_table
        frame = imputed_frame(frame, relation, relation.imputation, repository)
    name = relation.name
    sampled = bool(relation.rest) and is_word(relation.rest[0], "TABLESAMPLE")
    source = Source(
        relation.start,
        relation.own_end,
        frame,
        (name,) if name else (),
        f" AS {quote_name(name)}" if name and not sampled else "",
        relation.bracket or relation,
        changed=altered or relation.table is None or block.tables.is_given(relation.table),
    )
    if given is not None:
        given.frame = frame
        source.window, source.order = given.window()
        if given.kind and (answered or given.kind != "time"):
            source.operator_options = operator_options(given.options)
        source.unused_key = given.unused_key
    return source


# ---- queries with names --------------------------------------------------------------------------


class NamedQueries:
    """Scripts by name, each planned on request, once the views that it reads exist.

    wanted : names of scripts with an output; their TOP queries and the TOP queries
        upstream share work
    share : see `RankingGroups`
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
        self._scripts: dict[str, Script] = {}
        for name in texts:
            with suppress(SqlError):  # planning raises the error again
                self._scripts[name] = self._parse(name)
        needed = self.upstream_of(wanted)
        for name, script in self._scripts.items():
            for statement in script.statements if name in needed else ():
                with suppress(SqlError):
                    self.rankings.gather(script, statement.body, name)

    def frames(self, name: str) -> list[PlannedFrame]:
        """Return a script's statements as frames, like `Planner.frames`; raise the same errors."""
        with operators_of(name), errors_in(self.texts[name]):
            script = self._scripts.get(name) or self._parse(name)
            return Planner(self.spark, script, self.rankings).frames()

    def _parse(self, name: str) -> Script:
        return parse_script(self.texts[name], trusted=is_trusted(self.spark))

    def answered_with(self, name: str) -> list[str]:
        """Return the scripts answered together with a script, including itself; [] if none are."""
        groups = [group.members for group in self.rankings.groups.values() if name in group.members]
        return next((list(dict.fromkeys(members)) for members in groups if len(members) > 1), [])

    def upstream_of(self, wanted: Iterable[str]) -> set[str]:
        """Return the names of the scripts upstream of scripts, including themselves."""
        by_name = {name.lower(): name for name in self._scripts}
        waiting, needed = [name for name in wanted if name in self._scripts], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                for statement in self._scripts[name].statements:
                    read = (table.parts[-1].lower() for table in tables_read(statement.body))
                    waiting += [by_name[table] for table in read if table in by_name]
        return needed
