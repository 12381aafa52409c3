"""From syntax tree to frames: each construct becomes a call of its function.

Spark gets the rest of a query as the user wrote it, with `{d0}`, `{d1}`, ... where a table stood
that is now a frame of ours: `spark.sql(text, d0=frame)` puts them in, on classic sessions and under
Spark Connect, and leaves no temporary view behind, as registering them under names would. Names,
types and functions are therefore Spark's to resolve; we look only at what is uncertain.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sfumato.spark.model.declared_frame import DeclaredFrame
from sfumato.spark.model.outside_text import is_trusted, query_for_spark
from sfumato.spark.model.repository import without_data
from sfumato.spark.runtime.lineage import remember_selected
from sfumato.sql.constructs.registered import CONSTRUCTS
from sfumato.sql.explanation.describe import explained
from sfumato.sql.plan.block import Block, Scope
from sfumato.sql.plan.nodes import Select, at
from sfumato.sql.plan.ranking_groups import RankingGroups
from sfumato.sql.plan.sources import Frame, Tables
from sfumato.sql.plan.spark_errors import checked_by_spark
from sfumato.sql.planner.block_rewriting import BlockRewriting, Rewriting
from sfumato.sql.planner.by_methods import REFUSED, by_methods
from sfumato.sql.planner.first_look import check_is_query, has_constructs, table_names
from sfumato.sql.planner.foreign_windows import refuse_foreign_windows
from sfumato.sql.planner.plain_selection import plain_selection
from sfumato.sql.planner.safety import refuse_reaching, refused
from sfumato.sql.text import syntax
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.parse import parse
from sfumato.sql.text.syntax import plain, start_of
from sfumato.sql_tokens import TokenError, tokenize


def parsed(text: str, *, trusted: bool = False) -> syntax.Script:
    """Read the statements of a script, with the registered constructs.

    trusted : whether the text may hold what only Spark knows, such as hints
    Raises SqlError.
    """
    if not trusted:
        try:
            tokenize(text, constructs=True)
        except TokenError as error:
            if error.is_open:  # the parser tells what is likely to be missing
                parse(text, CONSTRUCTS.vocabulary)
            raise SqlError(str(error), text=text, start=error.start, end=error.end) from None
    return parse(text, CONSTRUCTS.vocabulary)


class Planner:
    """Plans the statements of one script over the tables of a session; runs nothing."""

    def __init__(
        self,
        spark: SparkSession,
        text: str,
        rankings: RankingGroups | None = None,
        frames: Mapping[str, DataFrame] | None = None,
    ) -> None:
        """rankings : the TOP queries of several texts, this one's gathered; None: this one's
        frames : tables by name that go before the session's"""
        self.spark = spark
        self.text = text
        self.tables = Tables(spark, text, frames or {})
        self._gathered = rankings is not None
        self.rankings = RankingGroups(fold=folds_case(spark)) if rankings is None else rankings

    def script(self, statements: Sequence[syntax.Statement]) -> list[Frame]:
        """All statements as frames, TOP queries that can share their work planned together."""
        for statement in statements:
            check_is_query(statement.body, self.text)
            if not self._gathered:
                self.rankings.gather(statement.body, self.text)
        found = []
        for statement in statements:
            with without_data() if statement.explain else nullcontext():
                found.append(self.statement(statement))
        return found

    def answers(self, statements: Sequence[syntax.Statement]) -> list[Frame]:
        """As `script`, but of an EXPLAIN a frame with its plan."""
        return [
            replace(frame, df=self.spark.createDataFrame([(explained(frame.step),)], "plan string"))
            if statement.explain
            else frame
            for statement, frame in zip(statements, self.script(statements), strict=True)
        ]

    def statement(self, statement: syntax.Statement) -> Frame:
        """The statement as a frame. Raises SqlError; Spark's own errors where it knows better."""
        body = statement.body
        check_is_query(body, self.text)
        refuse_reaching(body, self.text, self.spark)
        refuse_foreign_windows(body, self.text, self.spark)
        names = table_names(body)
        ours = any(self.tables.is_given(n) or self.tables.is_uncertain(n) for n in names)
        if has_constructs(body) or ours:
            return self.query(body, {})
        whole = self.text[body.start : body.end]
        return Frame(self._spark_sql(whole, {}, body), Select(whole))

    def query(self, body: syntax.Body, scope: Scope) -> Frame:
        """A query, of a statement or in parentheses, as a frame of its own."""
        rewriting = Rewriting(Edits(self.text))
        self.rewrite(body, scope, rewriting)
        frames: dict[str, Any] = {f"d{i}": frame.df for i, frame in enumerate(rewriting.inputs)}
        doubled = bool(frames) and is_trusted(self.spark)
        text = rewriting.edits.render(body.start, body.end, braces=doubled)
        steps = tuple(frame.step for frame in rewriting.inputs)
        df = self._spark_sql(text, frames, body)
        chosen = plain_selection(text) if len(frames) == 1 else None
        if chosen is not None:
            remember_selected(df, frames["d0"], chosen)
        return Frame(df, Select(text, steps))

    def rewrite(self, body: syntax.Body, scope: Scope, rewriting: Rewriting) -> None:
        """Enter the edits of a query, and of those within it, into a text for Spark."""
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
            rewriting.edits.remove(start_of(body.with_), body.clauses[0].start)
        for clauses in body.blocks():
            block = Block(
                self.text,
                self.tables,
                CONSTRUCTS.brackets,
                self.rankings,
                tuple(c for c in clauses if isinstance(c, syntax.Clause)),
                next((c for c in clauses if isinstance(c, syntax.FromClause)), None),
                common,
                rewriting.edits,
                self.query,
            )
            BlockRewriting(block, rewriting, self.rewrite).rewrite()

    def _spark_sql(self, text: str, frames: dict[str, Any], node: syntax.Node) -> DataFrame:
        def run() -> DataFrame:
            if any(isinstance(frame, DeclaredFrame) for frame in frames.values()):
                found = by_methods(text, frames, self.spark)
                if found is None:
                    raise at(self.text, node, REFUSED)
                return found
            try:
                checked = query_for_spark(text, self.spark, frames=bool(frames))
            except TokenError as error:
                raise refused(error, node, self.text) from None
            return self.spark.sql(checked, **frames) if frames else self.spark.sql(checked)

        known = [name for df in frames.values() for name in df.columns]
        return checked_by_spark(run, self.spark, self.text, node, known=known)


def folds_case(spark: SparkSession) -> bool:
    """Whether names that differ in case only are the same in a session."""
    return spark.conf.get("spark.sql.caseSensitive", "false") != "true"
