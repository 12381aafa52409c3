"""TOP queries: their source, window, filter and ranking become one `sf.top_k` for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.top_k import top_k
from sfumato.queries import Top
from sfumato.spark.runtime.lineage import steps_of
from sfumato.sql.constructs.grouping import grouped_by
from sfumato.sql.constructs.ranked import Ranked, is_controlled
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.construct import Answers
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.ranking_groups import RankingGroup
from sfumato.sql.plan.ranking_words import Asked, asked
from sfumato.sql.plan.sources import Frame, Source, column, existence_said, found
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import AGGREGATES, is_measure, is_word, references
from sfumato.sql.text.syntax import Clause, Name, Relation, SimilarityJoin, end_of, quoted, start_of
from sfumato.windows import Delta, Range, Rows

SCORE = "score"  # the column or attribute that ranks a stream where there is no RANK BY
ANSWER = ("query", "k", "time", "rank", "score", "probability", "answered")


class Ranking(Answers):
    """A block with TOP: its one windowed table becomes the answers of `sf.top_k`.

    The answers' columns are `query`, `k`, `time`, `rank`, `score`, `probability`, `answered` and
    the certain columns of the tuple; where the table has a column of such a name, that one keeps
    it and the answer's is called `top_` and the name.
    """

    beside_attributes = False

    def __init__(self, block: Block, wish: Asked, source: Source) -> None:
        super().__init__(block, source)
        self.wish = wish
        self.handled += [(clause.start, clause.end) for clause in wish.clauses]
        self.handled.append((start_of(wish.top[0]), end_of(wish.top[1])))

    @classmethod
    def wanted(cls, clauses: Sequence[Clause], text: str) -> bool:
        return asked(clauses, text) is not None

    @classmethod
    def of(cls, block: Block) -> Ranking | None:
        """The ranking of a block, if it has a TOP. Raises SqlError for tables it cannot rank."""
        wish = asked(block.clauses, block.text)
        if wish is None:
            return None
        if block.unknown:
            raise block.tables.unknown(block.unknown[0], block.scope)
        relations = block.relations
        top, plain = wish.top[0], [r for r in relations if isinstance(r, Relation)]
        if len(block.sources) != 1 or len(relations) != 1 or not plain or plain[0].rest:
            several = next((r for r in relations if isinstance(r, SimilarityJoin)), None)
            reason = "TOP ranks the tuples of one table: join in a subquery"
            raise at(block.text, top if several is None else several.keyword, reason)
        source = block.sources[0]
        if source.window is None:
            reason = "TOP ranks the tuples of a window, and the table has none"
            raise at(block.text, source.node, reason, expected=("[RANGE 20 MINUTES]", "[ROWS 100]"))
        return cls(block, wish, source)

    # ---- reading

    def read(self) -> None:
        """Check the clauses; raise SqlError for what has no meaning in a ranking."""
        grouping, having = self.clauses.get("GROUP_BY"), self.clauses.get("HAVING")
        if having is not None:
            reason = "HAVING has no meaning with TOP: filter with WHERE, or in a query around it"
            raise at(self.text, having.place, reason)
        if grouping is not None:
            self.handled.append((grouping.start, grouping.end))
        self.key = grouped_by(grouping, self.source, self.text)
        self.window = self._window()
        for clause in self.block.clauses:
            if clause.word in ("SELECT", "ORDER_BY"):
                self._refuse_attributes(clause)
            for reference in references(clause.items):
                name = reference.parts[-1].lower()
                if clause.word not in ("SELECT", "ORDER_BY") or reference.call is None:
                    continue
                if name in AGGREGATES and not is_word(reference.after, "OVER"):
                    reason = f"{name.upper()} beside TOP: aggregate in a query around it"
                    raise at(self.text, reference.words[0], reason)

    def _refuse_attributes(self, clause: Clause) -> None:
        """Answers have the certain columns of a tuple, and its score."""
        columns = self.source.frame.df.columns
        for reference in references(clause.items):
            parts = reference.parts
            attribute = self.source.meant(parts)
            if attribute is None or found(parts[-1], [*columns, *ANSWER]) is not None:
                continue
            reason = f"{parts[-1]} is uncertain, and answers have certain columns only: "
            reason += "score is that of the likeliest alternative"
            known = [name for name in columns if name != "alternatives"]
            raise at(self.text, reference.words[0], reason, expected=("score", *known))

    def _window(self) -> Range | Rows:
        source, wish = self.source, self.wish
        relation = self.block.relations[0]
        bracket = relation.bracket if isinstance(relation, Relation) else None
        assert bracket is not None
        if isinstance(source.window, Delta):
            raise at(self.text, bracket, "TOP ranks a RANGE or a ROWS window")
        slide = bracket.get("SLIDE")
        if slide is not None and wish.every is not None:
            reason = "SLIDE and FREQUENCY both say how often TOP is answered: keep one"
            raise at(self.text, slide, reason)
        if isinstance(source.window, Range):
            return source.window
        assert isinstance(source.window, Rows)
        if wish.every is None:
            reason = "over a ROWS window TOP needs a FREQUENCY"
            raise at(self.text, wish.top[0], reason, expected=("FREQUENCY 2 MINUTES",))
        return source.window

    def _score(self) -> str:
        """The expression that ranks, as text for Spark."""
        source, wish = self.source, self.wish
        if not wish.by:
            known = [*source.frame.attributes, *source.frame.df.columns]
            score = found(SCORE, known)
            if score is None:
                reason = f"TOP has no RANK BY, and the table has no column `{SCORE}`"
                raise at(self.text, wish.top[0], reason, expected=("RANK BY column",))
            return quoted(score)
        for reference in references(wish.by):
            if reference.call is not None and is_measure(reference.words):
                reason = f"RANK BY {reference.parts[0].upper()}: each alternative is ranked by "
                reason += "its own score; compute other numbers in a subquery"
                raise at(self.text, reference.words[0], reason)
        local = Edits(self.text)
        self.block.unqualify(wish.by, source, local)
        return local.render(start_of(wish.by[0]), end_of(wish.by[-1]), braces=False)

    def _column(self, name: Name | None) -> str | None:
        """The column that an option of RANK BY names, None without one."""
        if name is None:
            return None
        return column(name, self.source.frame.df.columns, "the table", self.text, qualified=True)

    # ---- answering

    def apply(self) -> None:
        """Let this query's answers stand for the table, and enter the edits of the text."""
        source, wish, edits = self.source, self.wish, self.block.edits
        rankings = self.block.rankings
        group = rankings.group_of(wish, self.text)
        if group.frame is None:
            group.frame = rankings.shared(group, self._answers(group))
        wanted = wish.k, wish.every
        name, label = group.names()[wanted], group.labels()[wanted]
        step = group.frame.step
        assert isinstance(step, Ranked)
        column = _called("query", self._columns())
        df = group.frame.df.where(F.col(quoted(column)) == F.lit(label))
        if name != label:
            df = df.withColumn(column, F.lit(name))
        source.frame, source.changed = Frame(df, replace(step, name=name)), True
        top, number = wish.top
        edits.replace(start_of(top), end_of(number), "" if wish.rest else "*")
        for word in ("GROUP_BY", "RANK_BY", "FREQUENCY"):
            if word in self.clauses:
                edits.remove(self.clauses[word].start, self.clauses[word].end)

    def _columns(self) -> list[str]:
        """The certain columns of the table."""
        dropped = {"alternatives"}
        if is_controlled(self.source.frame.step):
            dropped |= {"late", "punctuation"}
        return [name for name in self.source.frame.df.columns if name not in dropped]

    def _answers(self, group: RankingGroup) -> Frame:
        """The answers to all queries of a group, flat."""
        source, wish, window = self.source, self.wish, self.window
        frame, columns = source.frame, self._columns()
        by, rules = self._score(), self._column(wish.rules)
        existence, streams = self._column(wish.existence), self._column(wish.streams)
        queries = [
            Top(k, None if every is None else timedelta(microseconds=every), label)
            for (k, every), label in group.labels().items()
        ]
        options: dict[str, Any] = dict(wish.semantics)
        place = wish.clauses[0] if wish.clauses else source.node
        given = self.of_operator(place)

        def build() -> DataFrame:
            return top_k(
                frame.df,
                queries,
                by=by,
                window=window,
                order=source.order[0],
                key=self.key or None,
                exclusive=rules,
                rescale=wish.rescale,
                existence=existence,
                group=streams,
                plan=wish.plan,
                ascending=wish.ascending,
                **given.arguments(),
                **options,
            )

        df = self.block.checked(lambda: given.call(build), place, frame)
        otherwise = window.slide_us if isinstance(window, Range) else 0
        step = Ranked(
            input=frame.step,
            window=window,
            queries=tuple(
                (name, q.k, q.interval or otherwise)
                for name, q in zip(group.names().values(), queries, strict=True)
            ),
            name="",
            by=by,
            ascending=wish.ascending,
            semantics=wish.using,
            rules=rules,
            rescale=wish.rescale,
            existence=existence_said(frame, existence),
            streams=streams,
            plan=wish.plan,
            order=tuple(source.order),
            key=tuple(self.key),
            runs=steps_of(df),
            named=given.arguments().get("name", ""),
        )
        return Frame(_flat(df, columns, streams), step)


def _flat(df: DataFrame, columns: list[str], streams: str | None) -> DataFrame:
    """Return answers with the tuple's columns next to their own; of streams, with the stream."""
    own = [F.col(name).alias(_called(name, columns)) for name in ANSWER]
    if streams is not None:
        return df.select(*own, F.col("stream").alias(streams))
    return df.select(*own, *(F.col(f"row.{quoted(name)}").alias(name) for name in columns))


def _called(name: str, columns: list[str]) -> str:
    """What a column of the answers is called beside those of the table."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"top_{name}"
    return name
