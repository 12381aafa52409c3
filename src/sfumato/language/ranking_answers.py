"""Rankings (TOP queries) over a window: the answers replace the block's table.

All queries that differ only in k, FREQUENCY and the probability of PT_K become one `sf.top_k`. They
are parsed and grouped before any table is resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import chain, pairwise
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.top_k import Semantics, top_k
from sfumato.duration import spelled
from sfumato.language.aggregate_answers import WindowedBlock
from sfumato.language.blocks import Block
from sfumato.language.brackets import FORGET, NAMED, refuse_aggregate_words
from sfumato.language.construct_options import Options, duration_of
from sfumato.language.parse import Word
from sfumato.language.steps import ranking_lines
from sfumato.language.syntax import (
    OPENING,
    Body,
    Clause,
    Group,
    Item,
    Items,
    Reference,
    Script,
    Token,
    at,
    is_name,
    is_type,
    is_word,
    references,
    span_of,
)
from sfumato.language.tables import PlannedFrame, Source, describe_existence, match_name
from sfumato.near_misses import near
from sfumato.queries import Top
from sfumato.sql_tokens import quote_name
from sfumato.windows import Delta, Range, Rows

RANK_WORDS = (
    Word("ASC", "", "ascending"),
    Word("DESC", "", "ascending", constant=False),
    *(Word("USING", 'choice ("(" fraction ("," fraction)* ")")?', argument)
      for argument in ("semantics", "probability", "alpha", "weights")),
    Word("RULES", "column", "exclusive"),
    Word("RESCALE", "", "rescale"),
    Word("EXISTENCE", "column", "existence"),
    Word("STREAMS", "column", "group"),
    Word("PLAN", "choice", "plan"),
    Word("PROCESSING_TIME", "", "processing_time"),
)  # fmt: skip
RANK_OPTIONS = tuple(dict.fromkeys(word.word for word in RANK_WORDS))
BEFORE_OPERAND = ("THEN", "ELSE", "ESCAPE", "XOR", "BY", "DISTINCT", "FROM")
PROB = "prob"  # the name of existence in the multi-top-k paper
SCORE = "score"  # the default column or attribute of RANK BY
PK_TOPK, PT_K = "pk_topk", "pt_k"  # rankings by Pr_k
RANKING_COLUMNS = ("query", "k", "time", "rank", "score", "probability", "answered")
TAKEN_KEYS = (*RANKING_COLUMNS, "row")  # names that a key of `sf.top_k` cannot have


class RankOptions(Options):
    words = RANK_WORDS

    def arguments(self, *excluded: str) -> dict[str, Any]:
        given = {"plan": "dp", **super().arguments("USING", *excluded), **self.semantics()}
        if given["semantics"] == PT_K:  # each query has its own probability
            given |= {"semantics": PK_TOPK, "probability": None}
        return given

    def semantics(self) -> dict[str, Any]:
        """Return the arguments of `sf.top_k` that USING gives. Raises SqlError."""
        none = dict.fromkeys(("probability", "alpha", "weights"))
        given: dict[str, Any] = {"semantics": PK_TOPK, **none}
        if (using := self.get("USING")) is not None:
            name, numbers = using.names[0].parts[0].lower(), [m.value for m in using.measures]
            argument = {"pt_k": "probability", "prf": "weights"}.get(name, "alpha")
            if name == "prf" and len(numbers) == 1:
                name, argument = "prfe", "alpha"
            single = len(numbers) < 2 and argument != "weights"
            given |= {"semantics": name, argument: next(iter(numbers), None) if single else numbers}
        self.call(lambda: Semantics(*given.values()))
        return given


def _top_query(k: int, every: int | None, probability: float | None) -> Top:
    """Return a TOP query. Its name, for state and files, does not depend on other queries.

    every : FREQUENCY in microseconds;  probability : of PT_K
    """
    # All digits of the probability, because names must differ.
    least = "" if probability is None else f" from {probability!r}"
    name = f"top_{k}{least}" + (f" every {spelled(every)}" if every else "")
    interval = None if every is None else timedelta(microseconds=every)
    return Top(k, interval, name, probability=probability)


@dataclass(frozen=True)
class RankingClause:
    """The clauses of a TOP query.

    top : TOP and its number;  rest : whether columns follow;  by : the score in RANK BY, or ()
    clauses : RANK BY and FREQUENCY, if present;  rank_options : the options of RANK BY
    """

    top: tuple[Token, Token]
    rest: bool
    query: Top
    by: Items
    clauses: tuple[Clause, ...]
    rank_options: RankOptions


def parse_ranking(clauses: Sequence[Clause]) -> RankingClause | None:
    """Return the TOP query of a block, or None without TOP. Raises SqlError."""
    words: dict[str, Clause] = {}
    for clause in clauses:
        if clause.word in ("RANK_BY", "FREQUENCY") and clause.word in words:
            raise at(clause.place, f"{clause.keyword} is given twice")
        words.setdefault(clause.word, clause)
    items = words["SELECT"].items if "SELECT" in words else ()
    padded: tuple[Item | None, ...] = (*items, None, None, None)
    top, after = padded[0], padded[1:]
    rank, frequency = words.get("RANK_BY"), words.get("FREQUENCY")
    # `TOP-3` is `TOP 3`, but without RANK BY or FREQUENCY `top - 3` may be a subtraction.
    if not is_type(top, "NAME") or not is_word(top, "TOP"):
        return None
    if not (rank or frequency or is_type(after[0], "NUMBER")):
        return None
    place = 1 if is_type(after[0], "MINUS") else 0
    number, rest = after[place], items[place + 2 :]
    if not is_type(number, "NUMBER"):
        raise at(top, "TOP needs a number of rows", "SELECT TOP 3")
    if not number.isdigit() or not 1 <= int(number) < 2**31:
        raise at(number, "TOP k needs an integer k of at least 1")
    if rest and is_type(rest[0], "COMMA"):
        raise at(rest[0], "a column is missing after TOP k", "*", "a column")
    every = None
    if frequency is not None:
        measure = frequency.options[0].measures[0]
        every = duration_of("FREQUENCY", measure)
        if every <= 0:
            raise at(measure, "FREQUENCY must be positive")
    if rank is not None:
        _check_score(rank)
    by, options = (rank.items, rank.options) if rank is not None else ((), ())
    given = RankOptions(options, rank or span_of([top, number]), "the table")
    found = tuple(clause for clause in (rank, frequency) if clause is not None)
    wanted = _top_query(int(number), every, given.semantics()["probability"])
    return RankingClause((top, number), bool(rest), wanted, by, found, given)


def _check_score(rank: Clause) -> None:
    if not rank.items:
        raise at(rank.place, "RANK BY needs a score", "RANK BY column")
    for one, other in pairwise((None, *rank.items)):
        if is_type(other, "COMMA"):
            raise at(other, "RANK BY accepts one score: combine several scores in one expression")
        likely = near(other, RANK_OPTIONS) if is_type(other, "NAME") else None
        ends = is_name(one) or isinstance(one, Group) or is_type(one, "NUMBER", "STRING")
        if likely is None or not ends or is_word(one, *OPENING, *BEFORE_OPERAND):
            continue
        if likely == str(other).upper():
            raise at(other or rank, f"{other} needs a column", f"{likely} column")
        reason = f"{other} is not expected in RANK BY"
        raise at(other or rank, reason, *RANK_OPTIONS, suggestion=likely)


# ---- queries that are planned together ----------------------------------------------------------


@dataclass
class RankingGroup:
    """TOP queries over the same table, window, filter and ranking, and their answers.

    members : the name of each query's statement, or ""
    key : the words that identify the ranking; PK_TOPK and PT_K are one ranking
    """

    queries: list[Top] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    key: tuple[str, ...] = ()
    frame: PlannedFrame | None = None

    def names(self) -> dict[Top, str]:
        """Return the name per query in answers: top_3, or `top_3 every 2 min` if ambiguous."""
        ks = [of.k for of in self.queries]
        return {of: of.label if ks.count(of.k) > 1 else f"top_{of.k}" for of in self.queries}


class RankingGroups:
    """The TOP queries of one or more scripts.

    fold : whether names that differ only in case are equal
    share : function that maps a group's answers to the rows that its queries read instead, so that
        several sinks share the computation; called once per group of named queries
    groups : the groups by signature
    """

    def __init__(
        self,
        *,
        fold: bool,
        share: Callable[[RankingGroup, PlannedFrame], PlannedFrame] | None = None,
    ) -> None:
        self.fold, self.share = fold, share
        self.groups: dict[tuple[str, ...], RankingGroup] = {}
        # The keys are the text and TOP's position in it.
        self._group_by_place: dict[tuple[str, int], RankingGroup] = {}

    def gather(self, script: Script, body: Body, name: str = "") -> None:
        """Collect the TOP queries of a statement.

        TOP queries in nested queries, or over common tables (which other statements may define
        differently), are planned separately.
        """
        for block in body.blocks() if body.is_query and not body.ctes else ():
            ranking_clause = parse_ranking(block)
            if ranking_clause is not None:
                key = self._signature(block, script)
                group = self.groups.setdefault(key, RankingGroup(key=key))
                if ranking_clause.query not in group.queries:
                    group.queries.append(ranking_clause.query)
                group.members.append(name)
                self._group_by_place[script.text, ranking_clause.top[0].start] = group

    def group_of(self, ranking_clause: RankingClause, text: str) -> RankingGroup:
        alone = RankingGroup([ranking_clause.query])
        return self._group_by_place.setdefault((text, ranking_clause.top[0].start), alone)

    def _signature(self, block: Sequence[Clause], script: Script) -> tuple[str, ...]:
        exact = ("STRING",) if self.fold else ("STRING", "NAME", "BACKQUOTED")
        parts = []
        for word in ("FROM", "WHERE", "GROUP_BY", "HAVING", "RANK_BY"):
            for clause in (clause for clause in block if clause.word == word):
                using = [option for option in clause.options if option.word == "USING"]
                same = [o for o in using if o.names[0].parts[0].lower() in (PK_TOPK, PT_K)]
                words = [t for t in script.words(clause) if not any(o.contains(t) for o in same)]
                parts += [str(t) if t.type in exact else t.lower() for t in words] + [";"]
        return tuple(parts)


# ---- rankings ------------------------------------------------------------------------------------


class Ranking(WindowedBlock):
    """A block with TOP: `sf.top_k` over its one windowed table replaces the table.

    The answers have the columns `query`, `k`, `time`, `rank`, `score`, `probability`, `answered`
    and the tuple's certain columns. If a certain column has one of these names, the answers' own
    column is prefixed with `top_`.
    """

    def __init__(self, block: Block, source: Source, ranking_clause: RankingClause) -> None:
        super().__init__(block, source)
        self.ranking_clause = ranking_clause
        self.handled += [*ranking_clause.clauses, span_of(ranking_clause.top)]
        self.place = ranking_clause.clauses[0] if ranking_clause.clauses else source.node
        options = (*source.operator_options, *ranking_clause.rank_options.options)
        words = (FORGET, NAMED, *RANK_WORDS)
        self.error_options = Options(options, self.place, words=words)

    @classmethod
    def of(cls, block: Block) -> Ranking | None:
        """Return the ranking of a block with TOP. Raises SqlError for unsuitable tables."""
        ranking_clause = parse_ranking(block.clauses)
        if ranking_clause is None:
            return None
        if block.unknown:
            raise block.tables.unknown(block.unknown[0])
        relations = block.relations
        if len(block.sources) != 1 or len(relations) != 1 or relations[0].rest:
            joins = (r.join.keyword for r in relations if r.join is not None)
            reason = "TOP accepts only one table: join in a subquery"
            raise at(next(joins, ranking_clause.top[0]), reason)
        source = block.sources[0]
        if source.window is None:
            reason = "TOP needs a window, but the table has none"
            raise at(source.node, reason, "[RANGE 20 MINUTES]", "[ROWS 100]")
        return cls(block, source, ranking_clause)

    def read(self) -> None:
        grouping, having = self.block.clause("GROUP_BY"), self.block.clause("HAVING")
        if having is not None:
            reason = "HAVING is not allowed with TOP: filter with WHERE, or in an outer query"
            raise at(having.place, reason)
        self.handled += [grouping] if grouping is not None else []
        self.key = self.keys()
        taken = next((name for name in self.key if name.lower() in TAKEN_KEYS), None)
        if taken is not None and grouping is not None:
            reason = (
                f"GROUP BY cannot name {taken}, because the answers of TOP have a column with this "
                f"name: rename it in a subquery, FROM (SELECT *, {quote_name(taken)} AS name FROM "
                "...)"
            )
            raise at(grouping, reason)
        self.window = self._window()
        for clause in self.block.clauses:
            if clause.word in ("SELECT", "ORDER_BY"):
                for reference in chain(*map(references, clause.values())):
                    self._check_selected(reference)

    def _check_selected(self, reference: Reference) -> None:
        """Raise SqlError for Spark aggregates, and for attributes, which answers do not have."""
        columns, name = self.source.frame.df.columns, reference.parts[-1]
        if reference.is_spark_aggregate and not is_word(reference.after, "OVER"):
            reason = f"{name.upper()} is not allowed with TOP: aggregate in an outer query"
            raise at(reference.word, reason)
        if (
            self.source.leading_attribute(reference.parts)
            and match_name(name, [*columns, *RANKING_COLUMNS]) is None
        ):
            reason = (
                f"{name} is uncertain, but answers have only certain columns: the column score has "
                "the value for the likeliest alternative"
            )
            known = [name for name in columns if name != "alternatives"]
            raise at(reference.word, reason, "score", *known)

    def _window(self) -> Range | Rows:
        window, every = self.source.window, self.ranking_clause.query.every
        bracket = self.block.relations[0].bracket
        assert bracket is not None
        assert window is not None
        refuse_aggregate_words(bracket.options)
        if isinstance(window, Delta):
            raise at(bracket, "TOP needs a RANGE or a ROWS window")
        slide = next((option for option in bracket.options if option.word == "SLIDE"), None)
        if slide is not None and every is not None:
            reason = (
                "SLIDE and FREQUENCY cannot be combined, because both set how often TOP is "
                "answered: keep one"
            )
            raise at(slide, reason)
        if isinstance(window, Rows) and every is None:
            reason = "over a ROWS window, TOP needs a FREQUENCY"
            raise at(self.ranking_clause.top[0], reason, "FREQUENCY 2 MINUTES")
        by_clock = self.ranking_clause.rank_options.get("PROCESSING_TIME")
        if by_clock is not None and (isinstance(window, Rows) or window.idle_timeout is None):
            reason = (
                "PROCESSING TIME needs a RANGE with IDLE, the time without rows after which the "
                "system clock advances event time"
            )
            raise at(by_clock, reason, "IDLE 30 SECONDS")
        return window

    def _score(self) -> str:
        frame, by = self.source.frame, self.ranking_clause.by
        if not by:
            score = match_name(SCORE, [*frame.attributes, *frame.df.columns])
            if score is None:
                reason = f"TOP needs RANK BY, because the table has no column `{SCORE}`"
                raise at(self.ranking_clause.top[0], reason, "RANK BY column")
            return quote_name(score)
        for reference in references(by):
            if reference.is_measure:
                reason = (
                    f"RANK BY cannot use {reference.parts[0].upper()}, because each alternative is "
                    "ranked by its own score: compute other numbers in a subquery"
                )
                raise at(reference.word, reason)
        return self.block.unqualified(by, self.source).render(span_of(by))

    def apply(self) -> None:
        source, ranking_clause, edits = self.source, self.ranking_clause, self.block.edits
        rankings = self.block.rankings
        group = rankings.group_of(ranking_clause, self.text)
        if group.frame is None:
            group.frame = self._answers(group)
            if rankings.share is not None and any(group.members):
                group.frame = rankings.share(group, group.frame)
        name, label = group.names()[ranking_clause.query], ranking_clause.query.label
        column = _prefixed_name("query", self._columns())
        df = group.frame.df.where(F.col(quote_name(column)) == F.lit(label))
        df = df.withColumn(column, F.lit(name)) if name != label else df
        step = replace(group.frame.step, title=f"top-k answers of {name}")
        source.frame, source.changed = PlannedFrame(df, step), True
        edits.replace(span_of(ranking_clause.top), "" if ranking_clause.rest else "*")
        self.block.remove("GROUP_BY", "RANK_BY", "FREQUENCY")

    def _columns(self) -> list[str]:
        controlled = self.source.frame.step.facts.get("controlled")
        dropped = {"alternatives", *(("late", "punctuation") if controlled else ())}
        return [name for name in self.source.frame.df.columns if name not in dropped]

    def _answers(self, group: RankingGroup) -> PlannedFrame:
        source, ranking_clause, window = self.source, self.ranking_clause, self.window
        frame = source.frame
        options: dict[str, Any] = {"window": window, "order": source.order[0]}
        options |= {"key": self.key or None, "by": self._score()}
        ranking_clause.rank_options.frame = frame
        options |= {**ranking_clause.rank_options.arguments(), **self.options.arguments()}
        if not frame.attributes and match_name("existence", frame.df.columns) is None:
            options.setdefault("existence", match_name(PROB, frame.df.columns))
        make = partial(top_k, frame.df, group.queries, **options)
        otherwise = window.slide_us if isinstance(window, Range) else 0
        named = group.names().items()
        timetable = tuple((name, q.k, q.interval or otherwise) for q, name in named)
        facts = {"timetable": (timetable, options["plan"]), "ranked by": options["by"]}
        answers = self.answer("top-k answers", make, self.place, [], **facts)
        # The timetable can be computed only for queries that the function has accepted.
        least = [wanted.probability for wanted in group.queries]
        existence = describe_existence(frame, options.get("existence"))
        lines = ranking_lines(window, timetable, least, options, existence)
        step = replace(answers.step, lines=lines)
        streams = options.get("group")
        kept = None if streams is None else [*self.key, streams]
        return PlannedFrame(_flatten(answers.df, self._columns(), kept), step)


def _flatten(df: DataFrame, columns: list[str], named: list[str] | None) -> DataFrame:
    """Return answers with the tuple's columns, or for ranked streams with the columns `named`."""
    own = [F.col(name).alias(_prefixed_name(name, columns)) for name in RANKING_COLUMNS]
    if named is not None:
        return df.select(*own, *map(F.col, map(quote_name, named)))
    return df.select(*own, *(F.col(f"row.{quote_name(name)}").alias(name) for name in columns))


def _prefixed_name(name: str, columns: list[str]) -> str:
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"top_{name}"
    return name
