"""From syntax tree to frames: each of our constructs becomes a call of the function of its name.

Spark gets the rest of a query as the user wrote it, with `{d0}`, `{d1}`, ... where a table stood
that is now a frame of ours: `spark.sql(text, d0=frame)` puts them in, on classic sessions and under
Spark Connect, and leaves no temporary view behind, as registering them under names would. Names,
types and functions are therefore Spark's to resolve; we look only at what is uncertain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.sql.plan.block import Block, Rewriting, Scope
from sfumato.sql.plan.nodes import Select, Table, at
from sfumato.sql.plan.sources import Frame
from sfumato.sql.plan.spark_errors import checked_by_spark
from sfumato.sql.plan.together import Together
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.errors import SqlError, near
from sfumato.sql.text.scan import check_is_query, table_names, uses_ours
from sfumato.sql.text.syntax import Body, Name, Node, Statement, plain, quoted, start_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Planner:
    """Plans the statements of one script over the tables of a session; runs nothing."""

    def __init__(self, spark: SparkSession, text: str, together: Together | None = None) -> None:
        """together : the TOP queries of several texts, this one's gathered; None: this one's"""
        self.spark = spark
        self.text = text
        self._tables: dict[tuple[str, ...], Frame | None] = {}
        self._gathered = together is not None
        self.together = Together(fold=folds_case(spark)) if together is None else together

    def script(self, statements: Iterable[Statement]) -> list[Frame]:
        """All statements as frames, TOP queries that can share their work planned together."""
        listed = list(statements)
        for statement in listed:
            check_is_query(statement.body, self.text)
            if not self._gathered:
                self.together.gather(statement.body, self.text)
        return [self.statement(statement) for statement in listed]

    def statement(self, statement: Statement) -> Frame:
        """The statement as a frame. Raises SqlError; Spark's own errors where it knows better."""
        body = statement.body
        check_is_query(body, self.text)
        if uses_ours(body) or any(self._is_uncertain(name) for name in table_names(body)):
            return self.query(body, {})
        whole = self.text[body.start : body.end]
        return Frame(self._spark_sql(whole, {}, body), Select(whole))

    def query(self, body: Body, scope: Scope) -> Frame:
        """A query, of a statement or in parentheses, as a frame of its own."""
        rewriting = Rewriting(Edits(self.text))
        self.rewrite(body, scope, rewriting)
        frames: dict[str, Any] = {f"d{i}": frame.df for i, frame in enumerate(rewriting.inputs)}
        text = rewriting.edits.render(body.start, body.end, braces=bool(frames))
        steps = tuple(frame.step for frame in rewriting.inputs)
        return Frame(self._spark_sql(text, frames, body), Select(text, steps))

    def rewrite(self, body: Body, scope: Scope, rewriting: Rewriting) -> None:
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
        for block in body.blocks():
            Block(self, block, common, rewriting).rewrite()

    # ---- the session's tables

    def table(self, name: Name) -> Frame | None:
        """The table or view of that name, or None if the session has none."""
        if name.parts not in self._tables:
            self._tables[name.parts] = self._look_up(name)
        return self._tables[name.parts]

    def _look_up(self, name: Name) -> Frame | None:
        from pyspark.errors import AnalysisException

        try:
            df = self.spark.table(".".join(quoted(part) for part in name.parts))
            columns = tuple((f.name, f.dataType.simpleString()) for f in df.schema.fields)
        except AnalysisException:
            return None
        return Frame(df, Table(str(name), df.isStreaming, columns))

    def _is_uncertain(self, name: Name) -> bool:
        frame = self.table(name)
        return frame is not None and bool(frame.attributes)

    def unknown_table(self, name: Name, scope: Scope) -> SqlError:
        """The error about a stream that neither the query nor the session has."""
        known = [*scope, *(t.name for t in self.spark.catalog.listTables())]
        likely = near(name.parts[-1], known)
        reason = f"there is no stream, table or view {name}"
        return at(self.text, name, reason, expected=known, suggestion=likely)

    # ---- calls

    def _spark_sql(self, text: str, frames: dict[str, Any], node: Node) -> DataFrame:
        def run() -> DataFrame:
            return self.spark.sql(text, **frames) if frames else self.spark.sql(text)

        known = [name for df in frames.values() for name in df.columns]
        return checked_by_spark(run, self.spark, self.text, node, known=known)


def folds_case(spark: SparkSession) -> bool:
    """Whether names that differ in case only are the same in a session."""
    return spark.conf.get("spark.sql.caseSensitive", "false") != "true"
