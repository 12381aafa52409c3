"""Plan statements: check the syntax tree, then lower it bottom-up, block by block.

Each construct becomes a call of its function. Spark gets the remaining text, with `{d0}`, `{d1}`,
... in place of replaced tables; `spark.sql(text, d0=frame)` inserts the frames without temporary
views. So Spark resolves names, types and functions; the planner handles only uncertain attributes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lark import Token
from pyspark.sql import DataFrame, SparkSession

from sfumato.api.where import where
from sfumato.language.answers import (
    RANK_WORDS,
    Aggregation,
    Ranking,
    RankingGroup,
    RankingGroups,
    asked,
)
from sfumato.language.constructs import (
    BRACKET_WORDS,
    BRACKETS,
    IMPUTE_WORDS,
    TableFunctions,
    bracket_of,
    function_of,
    imputed_frame,
    of_operator,
    tables_read,
)
from sfumato.language.joins import JOIN_WORDS, joined_tables
from sfumato.language.parse import parse
from sfumato.language.steps import Step, explained, one_line
from sfumato.language.syntax import (
    AGGREGATES,
    MEASURE_FUNCTIONS,
    QUERY_WORDS,
    Body,
    Clause,
    Group,
    Items,
    Name,
    Nested,
    Node,
    Reference,
    Relation,
    Script,
    SqlError,
    alias_of,
    at,
    end_of,
    is_name,
    is_type,
    is_word,
    list_items,
    nested_queries,
    plain,
    quoted,
    references,
    span_of,
    stars,
    start_of,
)
from sfumato.language.tables import (
    Block,
    Measures,
    PlainSelect,
    PlannedFrame,
    Rewriting,
    Scope,
    Source,
    Tables,
    attribute_argument,
    is_measure_of,
    nowhere,
    outside_measures,
    plain_select,
    where_named,
)
from sfumato.near_misses import near
from sfumato.spark.model.declared_frame import DeclaredFrame
from sfumato.spark.model.outside_text import (
    ALLOWED_FUNCTIONS,
    check_expression,
    check_statement,
    for_spark,
    is_trusted,
    query_for_spark,
)
from sfumato.spark.model.repository import without_data
from sfumato.spark.runtime.fuse import remember_selected
from sfumato.spark.runtime.run import operators_of
from sfumato.sql_tokens import TokenError
from sfumato.windows import Range

VOCABULARY = {
    "bracket": [word for bracket in BRACKETS for word in bracket.words],
    "impute": IMPUTE_WORDS,
    "join": JOIN_WORDS,
    "rank": RANK_WORDS,
}
"""The words of all constructs, by position."""
REFUSED = (
    "over a declared frame SELECT takes a list, FROM one of them or one construct, and WHERE; "
    "write the other clauses as a separate table of the pipeline, in Spark's SQL"
)


def parsed(text: str, *, trusted: bool = False) -> Script:
    """Parse the statements of a script. Raises SqlError.

    trusted : whether the text may contain syntax that only Spark knows, such as hints
    """
    return parse(text, VOCABULARY, trusted=trusted)


class Planner:
    """Planner of the statements of one script over a session's tables; runs nothing.

    rankings : the collected TOP queries of several texts; None: only this text's
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
        self._gathered = rankings is not None
        self.rankings = rankings or RankingGroups(fold=folds_case(spark))

    def frames(self) -> list[PlannedFrame]:
        """Return all statements as frames; TOP queries that can share work are planned once."""
        for statement in self.script.statements:
            check_query(self.script, statement.body)
            if not self._gathered:
                self.rankings.gather(self.script, statement.body)
        found = []
        for statement in self.script.statements:
            with without_data() if statement.explain else nullcontext():
                found.append(self._statement(statement.body))
        return found

    def answers(self) -> list[PlannedFrame]:
        """Return all statements as frames; an EXPLAIN becomes a frame with the plan."""
        return [
            replace(frame, df=self.spark.createDataFrame([(explained(frame.step),)], "plan string"))
            if statement.explain
            else frame
            for statement, frame in zip(self.script.statements, self.frames(), strict=True)
        ]

    def _statement(self, body: Body) -> PlannedFrame:
        """Return one statement as a frame; text without constructs goes to Spark unchanged."""
        check_reach(self.script, body, self.spark)
        calls = (r.head for b in body.bodies() for r in b.relations if b.is_query and r.call)
        if (
            has_constructs(body)
            or any(isinstance(n, Name) and function_of(n, self.tables) for n in calls)
            or any(self.tables.is_given(n) or self.tables.is_uncertain(n) for n in body.tables())
        ):
            return self.query(body, {})
        text = self.text[body.start : body.end]
        return PlannedFrame(self._spark_sql(text, {}, body), _select(text))

    # ---- lowering

    def query(self, body: Body, scope: Scope) -> PlannedFrame:
        """Return a query, of a statement or in parentheses, as a separate frame."""
        edits = Rewriting(self.text)
        select = self._rewrite(body, scope, edits)
        frames: dict[str, Any] = {f"d{i}": frame.df for i, frame in enumerate(edits.inputs)}
        text = edits.render(body, braces=bool(frames) and is_trusted(self.spark))
        if any(isinstance(frame, DeclaredFrame) for frame in frames.values()):
            df = self._by_methods(body, select, edits)
        else:
            df = self._spark_sql(text, frames, body)
        chosen = select.selection() if select is not None and len(frames) == 1 else None
        if chosen is not None:
            remember_selected(df, frames["d0"], chosen)
        return PlannedFrame(df, _select(text, [frame.step for frame in edits.inputs]))

    def _rewrite(self, body: Body, scope: Scope, edits: Rewriting) -> PlainSelect | None:
        """Add the edits of a query and its nested queries; return it if it is a plain SELECT."""
        if body.with_ is not None and body.recursive:
            reason = "WITH RECURSIVE next to windows or uncertain tables is not supported"
            raise at(self.text, body.with_, f"{reason}: make it a temporary view first")
        common = dict(scope)
        for cte in body.ctes:
            if cte.query.query is None:
                raise at(self.text, cte.query, "a common table needs a query")
            frame = self.query(cte.query.query, common)
            if cte.columns is not None and cte.columns.body is not None:
                names = [plain(str(i)) for i in cte.columns.body.clauses[0].items if i != ","]
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

    def _block(self, clauses: Sequence[Clause], scope: Scope, edits: Rewriting) -> Block:
        others = tuple(c for c in clauses if c.word != "FROM")
        relations = next((c.tables for c in clauses if c.word == "FROM"), ())
        return Block(self.tables, self.rankings, others, relations, scope, edits, self._relation)

    def _relation(self, relation: Relation, scope: Scope) -> PlannedFrame | None:
        if relation.query is not None:
            return self.query(relation.query, scope)
        if not isinstance(relation.head, Name) or relation.call is None:
            return None
        functions = TableFunctions(scope, self.tables, self.query)
        return functions.frame(relation.head, relation.call)

    def _lower(self, block: Block) -> None:
        """Add a block's edits and frames to the text for Spark, in SQL's order of evaluation."""
        check_words(block.clauses, block.relations, block.text)
        answered = asked(block.clauses, block.text) or Aggregation.wanted(block.clauses)
        place = 0
        while place < len(block.relations):
            joined = joined_tables(block, place)
            source = joined or _table(block, block.relations[place], bool(answered))
            block.sources += [source] if source is not None else []
            place += 1 if joined is None else 2
        check_tables(block)
        answers = Ranking.of(block) or Aggregation.of(block)
        covered = nowhere if answers is None else answers.covers
        beside_attributes = not isinstance(answers, Ranking)  # of the table, with the answers
        if answers is None:
            check_unanswered(block)
        self._rewrite_nested(block)
        if answers is not None:
            answers.read()
        if beside_attributes:
            check_operands(block, covered)
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
        select = block.clause("SELECT")
        if beside_attributes and select is not None:
            _name_columns(block, select)
        for items in [clause.items for clause in remaining] + block.conditions():
            _spare_from_stars(block, items)
        for source in block.sources:
            if source.changed or source.extra:
                block.edits.put(source)

    def _rewrite_nested(self, block: Block) -> None:
        """Rewrite the queries nested in expressions in place, since they may be correlated."""
        lists = block.word_lists()
        for relation in block.relations:
            if isinstance(relation.head, Group) and relation.query is None:
                lists.append((relation.head,))
        for items in lists:
            for body in nested_queries(items):
                self._rewrite(body, block.scope, block.edits)

    # ---- Spark

    def _spark_sql(self, text: str, frames: dict[str, Any], node: Node) -> DataFrame:
        def run() -> DataFrame:
            try:
                checked = query_for_spark(text, self.spark, frames=bool(frames))
            except TokenError as error:
                raise refused(error, node, self.script) from None
            return self.spark.sql(checked, **frames) if frames else self.spark.sql(checked)

        known = [name for df in frames.values() for name in df.columns]
        return self.tables.checked(run, node, known)

    def _by_methods(self, body: Body, select: PlainSelect | None, edits: Rewriting) -> DataFrame:
        """Return a plain SELECT over one declared frame, built with the frame's own methods.

        In a declarative pipeline, Spark accepts SQL text over a pipeline table only as the complete
        definition of another table. The result of frame methods can be used anywhere.
        """
        refusal = at(self.text, body, REFUSED)
        if select is None or len(edits.inputs) > 1 or edits.spared:
            raise refusal
        filters = [select.where.items] if select.where is not None else []
        for items in [*select.items, *filters]:
            words = self.script.words(span_of(items))
            if any(is_word(word, "SELECT", "OVER", "EXCEPT") for word in words):
                raise refusal

        def checked(argument: str, text: str) -> str:
            check_expression(argument, text, self.spark)
            return for_spark(text, self.spark)

        def run() -> DataFrame:
            frame, source = edits.inputs[0].df, select.source
            condition = source.written.removeprefix(" WHERE ") if source.sides else ""
            if source.written and not source.sides:
                frame = frame.alias(source.aliases[0])
            if select.where is not None:
                place = Node(end_of(select.where.place), select.where.end)
                condition = edits.render(place)
            if condition:
                frame = frame.where(checked("WHERE", condition))
            listed = [edits.render(span_of(items)) for items in select.items]
            return frame.selectExpr(*(checked("SELECT", item) for item in listed))

        return self.tables.checked(run, body, edits.inputs[0].df.columns)


def folds_case(spark: SparkSession) -> bool:
    """Return whether names that differ only in case are equal in a session."""
    return spark.conf.get("spark.sql.caseSensitive", "false") != "true"


def _select(text: str, inputs: Sequence[Step] = ()) -> Step:
    """Return the step of a text handed to Spark; `{d0}`, `{d1}`, ... in it are the inputs."""
    title = f"Spark SQL{'' if inputs else ', as it stands'}: {one_line(text)}"
    return Step(title, inputs={f"{{d{i}}}": step for i, step in enumerate(inputs)})


def _table(block: Block, relation: Relation, answered: bool) -> Source | None:
    """Return the source of a relation; None for a relation that Spark resolves itself."""
    altered = relation.bracket is not None or relation.imputation is not None
    frame, changed = block.frame(relation, needed=altered)
    if frame is None:
        return None
    given = bracket_of(relation, block.text, frame)
    rows = frame if given is None else given.rows(answered=answered)
    frame = imputed_frame(rows, relation, block.text, block.stored)
    name = relation.name
    sampled = bool(relation.rest) and is_word(relation.rest[0], "TABLESAMPLE")
    source = Source(
        relation.start,
        relation.own_end,
        frame,
        (name,) if name else (),
        f" AS {quoted(name)}" if name and not sampled else "",
        relation.bracket or relation,
        changed=changed or altered,
    )
    if given is not None:
        given.frame = frame
        source.window, source.order = given.window()
        if given.kind and (answered or given.kind != "time"):
            source.of_operator = of_operator(given.options)
    return source


def _filter_alternatives(block: Block, *, always: bool) -> Clause | None:
    """Apply a WHERE on uncertain attributes (`always`: any WHERE); remove it from the text."""
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
    is_alone = len(block.relations) == 1 + any(r.join for r in block.relations)
    obstacles = {
        "a pipe |>": block.is_piped(),
        "several tables": not is_alone or bool(block.relations[0].rest),
        "a nested query": any(nested_queries(clause.items)),
    }
    if (
        obstacle := next((what for what, is_there in obstacles.items() if is_there), None)
    ) is not None:
        node = clause if reference is None else reference.word
        what = "before a window's aggregates"
        what = f"on the uncertain {reference.parts[-1]}" if reference is not None else what
        reason = f"a filter {what} next to {obstacle} is not supported: filter in a subquery, "
        raise at(block.text, node, reason + "FROM (SELECT ... WHERE ...)")
    local = block.unqualified(clause.items, source)
    measures = Measures(block.text, block.sources, local)
    measures.replace_in(clause.items, named=False, distributions=False)
    before = list(source.extra)
    measures.add()
    condition = local.render(Node(start_of(clause.items[0]), clause.end))
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


def _name_columns(block: Block, select: Clause) -> None:
    """Give result columns that were replaced in the text the names of the query's expressions."""
    for item in list_items(select.items):
        if not item or any(stars(item)) or any(is_word(i, "AS") for i in item):
            continue
        place = span_of(item)
        if alias_of(item)[0] is None and block.edits.changes_within(place):
            name = one_line(block.text[place.start : place.end])
            block.edits.insert(place.end, f" AS {quoted(name)}")


def _spare_from_stars(block: Block, items: Items) -> None:
    """Exclude columns that were added for this query from stars."""
    several = len(block.conditions()) > 1
    for star in stars(items):
        spared = []
        for source in block.sources:
            mine = star.qualifier is None or (not source.sides and source.goes_by(star.qualifier))
            prefix = f"{quoted(source.aliases[0])}." if several and source.written else ""
            spared += [prefix + quoted(name) for name in source.extra if mine]
        if spared:
            block.edits.spared, names = True, ", ".join(spared)
            if star.but is not None:
                block.edits.insert(star.but.start + 1, f"{names}, ")
            else:
                block.edits.insert(end_of(star.token), f" EXCEPT ({names})")


# ---- queries with names --------------------------------------------------------------------------


class NamedQueries:
    """Texts by name. Each becomes frames when it is requested and the views that it reads exist.

    All wanted TOP queries over the same table, window, filter and ranking are planned together
    first.

    wanted : names of queries with an output; their upstream queries are included
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
        self._scripts: dict[str, Script] = {}
        for name, text in texts.items():
            with suppress(SqlError):  # it is planned later, and the error is then located
                self._scripts[name] = parsed(text, trusted=is_trusted(spark))
        needed = self._needed(wanted)
        for name, script in self._scripts.items():
            for statement in script.statements if name in needed else ():
                with suppress(SqlError):
                    self.rankings.gather(script, statement.body, name)

    def frames(self, name: str) -> list[PlannedFrame]:
        """Return the statements of a text as frames; an EXPLAIN becomes a frame with the plan.

        Raises SqlError and Spark's errors, like `sql`.
        """
        with operators_of(name):
            script = self._scripts.get(name)
            if script is None:
                script = parsed(self.texts[name], trusted=is_trusted(self.spark))
            return Planner(self.spark, script, self.rankings).answers()

    def read_by(self, name: str) -> set[str]:
        """Return the names of the queries upstream of a query, including itself."""
        return self._needed([name])

    def with_(self, name: str) -> list[str]:
        """Return the names of the queries answered together with a query, including itself."""
        groups = [group.members for group in self.rankings.groups() if name in group.members]
        return next((list(dict.fromkeys(members)) for members in groups if len(members) > 1), [])

    def _needed(self, wanted: Iterable[str]) -> set[str]:
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


# ---- refusals before any function is called: statements ------------------------------------------

DECISIVE = tuple(word for word in MEASURE_FUNCTIONS if word != "STDDEV")
TUMBLING = "s [RANGE 10 MINUTES WATTR ts] after the table's name"
HOPPING = "s [RANGE 10 MINUTES SLIDE 5 MINUTES WATTR ts] after the table's name"
SESSIONS = (
    "FROM window_aggregate(s, map('n', 'count(*)'), window => session('5 minutes'), order => ts)"
)
FOREIGN_FUNCTIONS = {"TUMBLE": TUMBLING, "HOP": HOPPING, "SESSION": SESSIONS}
"""Windows of Flink and Calcite. With _START and _END they are window.start and window.end here."""
FOREIGN_WINDOWS = {"TUMBLING": TUMBLING, "HOPPING": HOPPING, "SESSION": SESSIONS}  # ksqlDB
OVER = (
    "OVER (...) takes the rows of the whole stream, not the rows of an extent: leave OVER out and "
    "GROUP BY what it partitions by"
)
PER_EXTENT = "over a RANGE window means each extent by itself, which is not supported"
ABOUT_ALTERNATIVES = ("WHERE", "RANK_BY", "FREQUENCY")


def check_query(script: Script, body: Body) -> None:
    """Raise SqlError unless a statement is a query.

    A query can hide an INSERT after WITH or FROM, and a script after USING; both are refused.
    """
    text, opening = script.text, list(body.opening_words())
    wrong = [word for word in opening if not is_word(word, *QUERY_WORDS)]
    if wrong or not opening:
        word = wrong[0] if wrong else body
        likely = near(word, QUERY_WORDS) if isinstance(word, Token) else None
        reason = "only queries run here; spark.sql runs other statements"
        raise at(text, word, reason, *QUERY_WORDS, suggestion=likely)
    for before, token in pairwise(script.words(body)):
        if is_word(before, "INSERT") and is_word(token, "INTO", "OVERWRITE"):
            raise at(text, token, "INSERT would change a table: only queries run here")
        if is_word(before, "USING") and token.type == "STRING":
            raise at(text, token, "a query may not run a script")


def check_reach(script: Script, body: Body, spark: SparkSession) -> None:
    """Raise SqlError for text that reaches beyond the session's tables, unless texts are trusted.

    Windows in the syntax of Flink and ksqlDB are refused too, with a hint at the syntax used here.
    """
    text = script.text
    if script.read is not None:
        try:
            within = [t for t in script.read if body.start <= t.start and t.end <= body.end]
            check_statement(within, text, spark)
        except TokenError as error:
            raise at(text, Node(error.start, error.end), str(error)) from None
    words = script.words(body)
    for one, other, after in zip(words, words[1:], [*words[2:], None], strict=False):
        last, here = other, None
        function = one.upper().removesuffix("_START").removesuffix("_END")
        foreign = function in FOREIGN_FUNCTIONS and not is_type(after, "STRING")  # session('1 h')
        if other.type == "LPAR" and one.type == "NAME" and foreign:
            last, here = one, FOREIGN_FUNCTIONS[function]
        elif is_word(one, "WINDOW") and is_word(other, *FOREIGN_WINDOWS) and is_type(after, "LPAR"):
            here = FOREIGN_WINDOWS[other.upper()]
        elif is_word(one, "EMIT") and is_word(other, "CHANGES", "FINAL"):
            here = "without it: changed results are emitted at once"
        if here is not None and not (last is one and spark.catalog.functionExists(str(one))):
            place = Node(start_of(one), end_of(last))
            written = " ".join(text[place.start : place.end].split())
            reason = f"{written} is not part of this language; write {here}"
            raise at(text, place, reason)


def refused(error: TokenError, node: Node, script: Script) -> SqlError:
    """Return the SqlError for an error in text generated from a node of the user's text."""
    if error.function is None:
        return at(script.text, node, str(error))
    place = where_named(error.function, script, node) or node
    likely = near(error.function, [*MEASURE_FUNCTIONS, *sorted(ALLOWED_FUNCTIONS)])
    return at(script.text, place, str(error), suggestion=likely)


def has_constructs(body: Body) -> bool:
    """Return whether the text contains a construct of this language anywhere."""
    return any(map(_shows_construct, body.bodies()))


def _shows_construct(body: Body) -> bool:
    for clause in body.clauses:
        top, number = (*clause.items[:2], None, None)[:2]
        is_top = clause.word == "SELECT" and is_word(top, "TOP") and is_type(number, "NUMBER")
        if is_top or clause.word in ("RANK_BY", "FREQUENCY"):
            return True
    for relation in body.relations:
        after = relation.rest if relation.alias is None else (relation.alias, *relation.rest)
        hints = any(  # signs of a misspelled construct: `WITHIN 1`, `s ROWS 5`
            is_word(one, "WITHIN", *BRACKET_WORDS) and is_type(other, "NUMBER")
            for one, other in pairwise(after)
        )
        constructs = relation.bracket or relation.imputation or relation.join
        if constructs or hints or _is_almost_impute(relation):
            return True
    return any(
        reference.call is not None and is_word(reference.word, *DECISIVE)
        for items in body.word_lists()
        for reference in references(items)
    )


def _is_almost_impute(relation: Relation) -> bool:
    first, second = (*relation.rest[:2], None, None)[:2]
    return is_word(first, "IMPUTE") and (is_name(second) or isinstance(second, Group))


# ---- refusals: blocks ----------------------------------------------------------------------------


def check_words(clauses: Sequence[Clause], relations: Sequence[Relation], text: str) -> None:
    """Raise SqlError for a malformed ranking, IMPUTE or window."""
    if asked(clauses, text) is None:
        for clause in sorted(clauses, key=lambda clause: clause.word):
            if clause.word in ("FREQUENCY", "RANK_BY"):
                name = clause.word.replace("_", " ")
                reason = f"{name} belongs to SELECT TOP k, and there is no TOP"
                raise at(text, clause.place, reason, "SELECT TOP k")
    for relation in relations:
        alias, rest = relation.alias, relation.rest
        if _is_almost_impute(relation):
            shape = "IMPUTE (attribute, ...) FROM repository BY 'a -> b : 0.1 -> 0.2', ..."
            raise at(text, rest[0], f"IMPUTE is written {shape}", "IMPUTE (")
        if is_word(alias, *BRACKET_WORDS) and rest and is_type(rest[0], "NUMBER"):
            raise at(text, alias, "a window is written in brackets", f"[{alias}")
        for one, other in pairwise(rest):
            if is_word(one, "WITHIN", "PROBABILITY") and is_type(other, "NUMBER"):
                raise at(text, one, f"{one} is a word of SIMILARITY JOIN only", "SIMILARITY JOIN")


def check_tables(block: Block) -> None:
    """Raise SqlError for a measure of an unknown table, or a join on an uncertain attribute."""
    named = (reference for items in block.word_lists() for reference in references(items))
    if block.unknown and any(is_measure_of(reference, block.sources) for reference in named):
        raise block.tables.unknown(block.unknown[0], block.scope)
    for items in block.conditions():
        for reference in _uncertain(items, block) if any(is_word(i, "ON") for i in items) else ():
            name = reference.parts[-1]
            reason = f"a join on the uncertain {name}: compare EXPECTED({name})"
            raise at(block.text, reference.word, reason, "SIMILARITY JOIN")


def check_unanswered(block: Block) -> None:
    """Raise SqlError for aggregates in a block whose windows feed no operator.

    Over a RANGE window they would apply to each extent, but Spark would apply them to the stream.
    """
    sources, text = block.sources, block.text
    ranged = [source for source in sources if isinstance(source.window, Range)]
    if len(ranged) > 1:
        raise at(text, ranged[1].node, f"a join {PER_EXTENT}")
    for clause in block.clauses if ranged else ():
        first = (*clause.items, None)[0]
        if clause.word in ("GROUP_BY", "HAVING"):
            raise at(text, clause.place, f"{clause.keyword} {PER_EXTENT}")
        if clause.word == "SELECT" and is_word(first, "DISTINCT"):
            raise at(text, first, f"DISTINCT {PER_EXTENT}")
    for items in block.word_lists():
        for reference in references(items):
            name = reference.parts[-1].upper()
            is_aggregate = reference.call is not None and name.lower() in AGGREGATES
            if not is_aggregate or is_measure_of(reference, sources):
                continue
            attribute = attribute_argument(reference, sources)
            if ranged:
                reason = OVER if is_word(reference.after, "OVER") else PER_EXTENT
                raise at(text, reference.word, f"{name} {reason}")
            if attribute is not None:
                hint = f"{name}(EXPECTED({attribute})) is one of the expected values"
                reason = f"{name} of the uncertain {attribute} is not supported yet; {hint}"
                raise at(text, reference.word, reason)


def check_operands(block: Block, done: Callable[[int], bool]) -> None:
    """Raise SqlError if a distribution is compared, used in arithmetic, sorted or grouped by.

    done : whether a position in the text has another meaning
    """
    select = block.clause("SELECT")
    named = map(alias_of, list_items(select.items)) if select is not None else ()
    renamed = {
        plain(name).lower()
        for name, value in named
        if name is not None and not any(r.whole for r in _uncertain(value, block))
    }
    for clause in block.clauses:
        if clause.word in ABOUT_ALTERNATIVES:
            continue
        wrong = [(r, what) for items, what in _ordered(clause) for r in _uncertain(items, block)]
        wrong = [(r, what) for r, what in wrong if r.parts[-1].lower() not in renamed]
        distinct = clause.word == "SELECT" and is_word(next(iter(clause.items), None), "DISTINCT")
        for reference in _uncertain(clause.items, block):
            if distinct and reference.whole:
                wrong.append((reference, "DISTINCT compares numbers"))
            elif reference.operator:
                wrong.append((reference, f"{reference.operator} takes a number"))
        for reference, what in wrong:
            if not done(reference.start):
                name = ".".join(reference.parts[:2])
                reason = f"{name} is a distribution, and {what}: write EXPECTED({name})"
                raise at(block.text, reference.word, reason, f"EXPECTED({name})")


def _uncertain(items: Items, block: Block) -> Iterator[Reference]:
    """Yield the references to uncertain attributes that denote their distributions."""
    bound = set(_lambda_names(items))
    for reference in references(items, enter=outside_measures(block.sources)):
        parts = reference.parts
        is_column = reference.call is None and parts[0].lower() not in bound
        if is_column and any(source.meant(parts) for source in block.sources):
            yield reference


def _ordered(clause: Clause, *, over: bool = False) -> Iterator[tuple[Items, str]]:
    """Yield words that order or group rows, and the error's reason; over : in a Spark window."""
    outside_calls = tuple(item for item in clause.items if not isinstance(item, Nested))
    if clause.word in ("GROUP_BY", "ORDER_BY"):
        how = "grouped" if clause.word == "GROUP_BY" else "ordered"
        yield outside_calls, f"rows are {how} by numbers"
    elif over:
        yield clause.items, "rows are partitioned and ordered by numbers"
    for before, item in pairwise((None, *clause.items)):
        if isinstance(item, Group) and item.body is not None and item.query is None:
            windows = clause.word == "WINDOW" or is_word(before, "OVER")
            for inner in item.body.clauses:
                yield from _ordered(inner, over=windows)


def _lambda_names(items: Items) -> Iterator[str]:
    """Yield the names, in lower case, bound by `x ->` and `(x, y) ->` in an expression."""
    for item, *sign in zip(items, (*items[1:], None), (*items[2:], None, None), strict=False):
        tokens = [s for s in sign if isinstance(s, Token)]
        is_arrow = [str(s) for s in tokens] == ["-", ">"]
        arrow = is_arrow and end_of(tokens[0]) == start_of(tokens[1])
        for words in item.word_lists() if isinstance(item, Nested) else ():
            yield from _lambda_names(words)
            yield from (plain(w).lower() for w in words if arrow and is_name(w))
        if arrow and is_name(item):
            yield plain(item).lower()
