"""TOP queries: their source, window, filter and ranking become one `sf.top_k` for all of them.

Their words (TOP, RANK BY with its options, FREQUENCY) are read before any table. Queries that share
everything but k and FREQUENCY are grouped before any is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from lark import Token
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.top_k import top_k
from sfumato.duration import spelled
from sfumato.language.aggregation import WindowedBlock, grouped_by
from sfumato.language.block import Block
from sfumato.language.errors import at
from sfumato.language.measures import Rewriting
from sfumato.language.options import duration_of
from sfumato.language.steps import Lines, Step, newest, one_line, per_key, span
from sfumato.language.syntax import (
    AGGREGATES,
    Body,
    Clause,
    FromClause,
    Group,
    Item,
    Measure,
    Name,
    Reference,
    Relation,
    Script,
    SimilarityJoinClause,
    arguments,
    end_of,
    is_measure,
    is_name,
    is_type,
    is_word,
    quoted,
    references,
    start_of,
)
from sfumato.language.tables import PlannedFrame, Source, column, existence_said, found
from sfumato.near_misses import near
from sfumato.queries import Top
from sfumato.spark.model.figures import Timetable, timetables
from sfumato.spark.runtime.lineage import steps_of
from sfumato.windows import Delta, Range, Rows

SEMANTICS_WORDS = {
    "PK_TOPK": "pk_topk",
    "GLOBAL_TOPK": "pk_topk",
    "PT_K": "pt_k",
    "U_TOPK": "u_topk",
    "U_KRANKS": "u_kranks",
    "EXPECTED_RANK": "expected_rank",
    "PRF": "prf",
    "PRFE": "prfe",
}
WITH_NUMBERS = {"pt_k": "PT_K(0.5)", "prf": "PRF(0.9)", "prfe": "PRFE(0.9)"}
PLAN_WORDS = ("DP", "GREEDY", "NONE")
COLUMN_WORDS = ("RULES", "EXISTENCE", "STREAMS")  # options that name a column
RANK_BY_OPTIONS = ("ASC", "DESC", "USING", *COLUMN_WORDS, "PLAN")
# Words of an expression, next to which EXISTENCE, STREAMS or PLAN is a column.
BEFORE_OPERAND = (
    *("AND", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "ESCAPE", "FROM", "ILIKE", "IN"),
    *("LIKE", "NOT", "OR", "REGEXP", "RLIKE", "THEN", "WHEN", "XOR"),
)
AFTER_OPERAND = (
    *("AND", "BETWEEN", "DIV", "ELSE", "END", "ESCAPE", "ILIKE", "IN", "IS", "LIKE", "NOT", "OR"),
    *("REGEXP", "RLIKE", "THEN", "WHEN", "XOR"),
)
PROB = "prob"  # what D calls the existence
SCORE = "score"  # the column or attribute that ranks a stream where there is no RANK BY
RUNS_SHOWN = 8  # of a timetable, in EXPLAIN
RANKING_COLUMNS = ("query", "k", "time", "rank", "score", "probability", "answered")


@dataclass(frozen=True)
class Asked:
    """What a block's words ask for.

    top : the words from TOP to its number;  rest : whether more is selected after them
    every : microseconds, or None without FREQUENCY
    by : the expression of RANK BY, empty without one
    clauses : RANK BY and FREQUENCY, as far as they are there
    semantics : arguments of `sf.top_k`
    rules, existence, streams : columns, None where they are not named
    rescale : whether rules of probability above 1 are scaled
    """

    top: tuple[Token, Token]
    rest: bool
    k: int
    every: int | None
    by: tuple[Item, ...]
    clauses: tuple[Clause, ...]
    ascending: bool = False
    semantics: tuple[tuple[str, Any], ...] = (("semantics", "pk_topk"),)
    using: str = "PK_TOPK"
    rules: Name | None = None
    rescale: bool = False
    existence: Name | None = None
    streams: Name | None = None
    plan: str = "dp"


def asked(clauses: Sequence[Clause], text: str) -> Asked | None:
    """Return what a block asks for, None without TOP. Raises SqlError for what is wrong in it."""
    words: dict[str, Clause] = {}
    for clause in clauses:
        if clause.word in ("RANK_BY", "FREQUENCY") and clause.word in words:
            raise at(text, clause.place, f"{clause.keyword} is given twice")
        words.setdefault(clause.word, clause)
    items = words["SELECT"].items if "SELECT" in words else ()
    top, ours = items[0] if items else None, words.keys() & {"RANK_BY", "FREQUENCY"}
    # `TOP 3` and, in a ranking, `TOP-3`: elsewhere `top - 3` may be Spark's difference.
    if not is_type(top, "NAME") or not is_word(top, "TOP"):
        return None
    if not ours and not (len(items) > 1 and is_type(items[1], "NUMBER")):
        return None
    place = 2 if len(items) > 2 and is_type(items[1], "MINUS") else 1
    number, rest = items[place] if len(items) > place else None, items[place + 1 :]
    if not is_type(number, "NUMBER"):
        raise at(text, top, "TOP has no number of rows", expected=("SELECT TOP 3",))
    if not number.isdigit() or not 1 <= int(number) < 2**31:
        raise at(text, number, "the k of TOP is a whole number of at least 1")
    if rest and is_type(rest[0], "COMMA"):
        raise at(text, rest[0], "a column is missing after TOP k", expected=("*", "a column"))
    by, options = _split_options(words["RANK_BY"].items if "RANK_BY" in words else ())
    if "RANK_BY" in words:
        _check_score(by, words["RANK_BY"], text)
    given = _options(options, text)
    every = _every(words.get("FREQUENCY"), text)
    found = tuple(words[word] for word in ("RANK_BY", "FREQUENCY") if word in words)
    return Asked((top, number), bool(rest), int(number), every, by, found, **given)


def _every(clause: Clause | None, text: str) -> int | None:
    """Return the microseconds of a FREQUENCY: `2 MINUTES`, `1 hour 30 mins`."""
    if clause is None:
        return None
    items = clause.items
    negative = bool(items) and is_type(items[0], "MINUS")
    parts = items[negative:]
    numbers = tuple(i for i in parts[0::2] if is_type(i, "NUMBER"))
    units = tuple(i for i in parts[1::2] if is_type(i, "NAME"))
    kinds = ("NUMBER", "NAME")
    extra = next((i for j, i in enumerate(parts) if not is_type(i, kinds[j % 2])), None)
    if not parts or extra is not None:
        place = clause.place if extra is None else extra
        reason = "FREQUENCY is the longest time between two answers"
        raise at(text, place, reason, expected=("FREQUENCY 2 MINUTES",))
    measure = Measure(start_of(items[0]), end_of(items[-1]), numbers, units, negative)
    every = duration_of("FREQUENCY", measure, text)
    if every <= 0:
        raise at(text, measure, "FREQUENCY must be positive")
    return every


def _split_options(items: tuple[Item, ...]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Return the expression of RANK BY, and the words after it."""
    for i, item in enumerate(items):
        after = items[i + 1] if i + 1 < len(items) else None
        ends = after is None or (
            isinstance(after, Token)
            and (after.type == "COMMA" or near(after, RANK_BY_OPTIONS) is not None)
        )
        if is_type(item, "NAME") and i and (
            (is_word(item, "ASC", "DESC") and ends)
            or (is_word(item, "USING", "RULES") and not is_type(items[i - 1], "DOT", "OPERATOR"))
            or (is_word(item, "EXISTENCE", "STREAMS", "PLAN") and _is_option(items, i))
        ):  # fmt: skip
            return items[:i], items[i:]
    return items, ()


def _is_option(items: tuple[Item, ...], i: int) -> bool:
    """Whether the word at `i` follows a whole expression, so that it is no column of it."""
    before, after = items[i - 1], items[i + 1] if i + 1 < len(items) else None
    whole = isinstance(before, Group) or is_type(before, "NAME", "BACKQUOTED", "NUMBER", "STRING")
    if not whole or is_word(before, *BEFORE_OPERAND):
        return False
    open_cases = sum(is_word(item, "CASE") - is_word(item, "END") for item in items[:i])
    return open_cases == 0 and (after is None or _is_operand(after))


def _is_operand(item: Item | None) -> bool:
    """Whether an item is a name, and not a word that goes on with an expression."""
    return is_name(item) and not is_word(item, *AFTER_OPERAND)


def _check_score(by: tuple[Item, ...], rank: Clause, text: str) -> None:
    first, second = (*by[:2], None, None)[:2]
    option = is_word(first, "EXISTENCE", "STREAMS", "PLAN") and _is_operand(second)
    if not by or is_word(by[0], "USING", "RULES") or option:
        raise at(text, rank.place, "RANK BY has no score", expected=("RANK BY column",))
    for item in by:
        if is_type(item, "COMMA"):
            raise at(text, item, "RANK BY takes one score: combine several in one expression")
    for one, other in pairwise(by):
        ends = is_name(one) and not is_word(one, *BEFORE_OPERAND)
        likely = near(str(other), RANK_BY_OPTIONS) if is_type(other, "NAME") else None
        if ends and _is_operand(other) and likely is not None:
            reason = f"{other} is not expected in RANK BY"
            raise at(text, other, reason, expected=RANK_BY_OPTIONS, suggestion=likely)


def _options(items: tuple[Item, ...], text: str) -> dict[str, Any]:
    """Read the options after the score, as fields of `Asked`."""
    given: dict[str, Any] = {}
    while items:
        word, items = items[0], items[1:]
        kind = word.upper() if is_word(word, *RANK_BY_OPTIONS) else None
        if kind is None:
            likely = near(word, RANK_BY_OPTIONS) if isinstance(word, Token) else None
            reason = f"{text[start_of(word) : end_of(word)]} is not expected in RANK BY"
            raise at(text, word, reason, expected=RANK_BY_OPTIONS, suggestion=likely)
        name = {"ASC": "ascending", "DESC": "ascending"}.get(kind, kind.lower())
        if name in given:
            raise at(text, word, f"{word} is given twice")
        if name == "ascending":
            given[name] = kind == "ASC"
        elif kind == "USING":
            given["semantics"], given[name], items = _semantics(items, word, text)
        elif kind == "PLAN":
            given[name], items = _plan(items, word, text), items[1:]
        else:
            given[name], items = _column(items, word, text)
        if kind == "RULES" and items and is_word(items[0], "RESCALE"):
            given["rescale"], items = True, items[1:]
    return given


def _plan(items: tuple[Item, ...], word: Item, text: str) -> str:
    name = items[0] if items else None
    if not is_type(name, "NAME"):
        raise at(text, name or word, "PLAN has no name", expected=PLAN_WORDS)
    if not is_word(name, *PLAN_WORDS):
        reason = f"there is no plan {name}"
        raise at(text, name, reason, expected=PLAN_WORDS, suggestion=near(name, PLAN_WORDS))
    return name.lower()


def _semantics(
    items: tuple[Item, ...], word: Item, text: str
) -> tuple[tuple[tuple[str, Any], ...], str, tuple[Item, ...]]:
    """Return the arguments of a USING, what it says, and the words after it."""
    name = items[0] if items else None
    known = tuple(WITH_NUMBERS.get(s, n) for n, s in SEMANTICS_WORDS.items())
    if not is_type(name, "NAME"):
        raise at(text, name or word, "USING has no semantics", expected=known)
    semantics = SEMANTICS_WORDS.get(name.upper())
    if semantics is None:
        reason = f"the semantics {name} are unknown"
        raise at(text, name, reason, expected=known, suggestion=near(name, SEMANTICS_WORDS))
    call = items[1] if len(items) > 1 and isinstance(items[1], Group) else None
    place = call or name
    numbers = [] if call is None else [_value(a, call, text) for a in arguments(call)]
    example = WITH_NUMBERS.get(semantics, name.upper())
    if bool(numbers) != (semantics in WITH_NUMBERS):
        reason = f"{name} takes " + ("a number" if semantics in WITH_NUMBERS else "no number")
        raise at(text, place, reason, expected=(example,))
    if len(numbers) > 1 and semantics != "prf":
        raise at(text, place, f"{name} takes one number", expected=(example,))
    single = numbers[0] if len(numbers) == 1 else None
    if single is not None and not 0 < single <= 1:
        raise at(text, place, f"the number of {name} lies above 0 and is at most 1 (or 100%)")
    given: tuple[tuple[str, Any], ...] = (("semantics", semantics),)
    if semantics == "pt_k":
        given += (("probability", single),)
    elif semantics == "prf" and single is None:
        given += (("weights", tuple(numbers)),)
    elif single is not None:
        given = (("semantics", "prfe"), ("alpha", single))
    return given, text[start_of(name) : end_of(place)], items[1 + (call is not None) :]


def _value(items: tuple[Item, ...], call: Group, text: str) -> float:
    """Return a number or percentage."""
    negative = bool(items) and is_type(items[0], "MINUS")
    number, *more = items[negative:] or (None,)
    if not is_type(number, "NUMBER") or any(m != "%" for m in more):
        raise at(text, call, "expected a number", expected=("0.5", "50%"))
    value = float(number) / (100 if more else 1)
    return -value if negative else value


def _column(items: tuple[Item, ...], word: Item, text: str) -> tuple[Name, tuple[Item, ...]]:
    """Return the column `x` or `a.x` of an option, and the words after it."""
    parts = []
    while items and is_name(items[0]):
        parts.append(items[0])
        dotted = len(items) > 2 and is_type(items[1], "DOT")
        items = items[2 if dotted else 1 :]
        if not dotted:
            break
    if not parts or len(parts) > 2:
        kind = text[start_of(word) : end_of(word)].upper()
        raise at(text, word, f"{kind} has no column", expected=(f"{kind} column",))
    return Name(start_of(parts[0]), end_of(parts[-1]), tuple(parts)), items


# ---- queries that are planned together ----------------------------------------------------------


@dataclass
class RankingGroup:
    """TOP queries over the same table, window, filter and ranking, and what answers them.

    wanted : (k, FREQUENCY in microseconds or None) of each;  members : the names of their
    statements, one a query, where these have names;  key : the words that say what is ranked
    """

    wanted: list[tuple[int, int | None]] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    key: tuple[str, ...] = ()
    frame: PlannedFrame | None = None

    def labels(self) -> dict[tuple[int, int | None], str]:
        """Return the name of each query in state and in files, the same whichever others exist."""
        of = {every: f" every {spelled(every)}" if every else "" for _, every in self.wanted}
        return {(k, every): f"top_{k}{of[every]}" for k, every in self.wanted}

    def names(self) -> dict[tuple[int, int | None], str]:
        """Return what the queries are called: top_3, and `top_3 every 2 min` to tell two apart."""
        ks, labels = [k for k, _ in self.wanted], self.labels()
        return {of: labels[of] if ks.count(of[0]) > 1 else f"top_{of[0]}" for of in self.wanted}


class RankingGroups:
    """The TOP queries of one script, or of several that are planned one after the other."""

    def __init__(
        self,
        *,
        fold: bool,
        share: Callable[[RankingGroup, PlannedFrame], PlannedFrame] | None = None,
    ) -> None:
        """fold : whether names that differ in case only are the same
        share : given a group's answers, what its queries are to read instead, so that a run whose
            parts go different ways need not be repeated; called once per group of named queries"""
        self.fold, self._share = fold, share
        self._groups: dict[tuple[str, ...], RankingGroup] = {}
        # By text, and where the query's TOP stands.
        self._of: dict[tuple[str, int], RankingGroup] = {}

    def gather(self, script: Script, body: Body, name: str = "") -> None:
        """Note the TOP queries of a statement. Those in nested queries, and those over common
        tables, which another statement may define otherwise, are planned by themselves."""
        if body.ctes or not body.is_query:
            return
        for block in body.blocks():
            wish = asked([clause for clause in block if isinstance(clause, Clause)], script.text)
            if wish is not None:
                key = self._signature(block, script)
                group = self._groups.setdefault(key, RankingGroup(key=key))
                self._add(group, wish, script.text, name)

    def group_of(self, wish: Asked, text: str) -> RankingGroup:
        """Return the queries that are planned with this one."""
        place = (text, start_of(wish.top[0]))
        if place not in self._of:
            self._add(RankingGroup(), wish, text, "")
        return self._of[place]

    def shared(self, group: RankingGroup, answers: PlannedFrame) -> PlannedFrame:
        """Return what the queries of a group read as the answers to all of them."""
        if self._share is None or not any(group.members):
            return answers
        return self._share(group, answers)

    def groups(self) -> list[RankingGroup]:
        """Return all that were gathered, in order."""
        return list(self._groups.values())

    def _add(self, group: RankingGroup, wish: Asked, text: str, name: str) -> None:
        if (wish.k, wish.every) not in group.wanted:
            group.wanted.append((wish.k, wish.every))
        group.members.append(name)
        self._of[text, start_of(wish.top[0])] = group

    def _signature(self, block: Sequence[Clause | FromClause], script: Script) -> tuple[str, ...]:
        """Return the words that say what is ranked."""
        parts = []
        for word in ("FROM", "WHERE", "GROUP_BY", "HAVING", "RANK_BY"):
            for clause in block:
                if clause.word == word:
                    words = script.words(clause)
                    exact = ("STRING",) if self.fold else ("STRING", "NAME", "BACKQUOTED")
                    parts += [str(t) if t.type in exact else t.lower() for t in words]
                    parts.append(";")
        return tuple(parts)


# ---- answers -------------------------------------------------------------------------------------


class Ranking(WindowedBlock):
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
        """Return the ranking of a block with TOP. Raises SqlError for tables it cannot rank."""
        wish = asked(block.clauses, block.text)
        if wish is None:
            return None
        if block.unknown:
            raise block.tables.unknown(block.unknown[0], block.scope)
        relations = block.relations
        top, plain = wish.top[0], [r for r in relations if isinstance(r, Relation)]
        if len(block.sources) != 1 or len(relations) != 1 or not plain or plain[0].rest:
            several = next((r for r in relations if isinstance(r, SimilarityJoinClause)), None)
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
            for reference in references(clause.items):
                if clause.word in ("SELECT", "ORDER_BY"):
                    self._check_selected(reference)

    def _check_selected(self, reference: Reference) -> None:
        """Raise SqlError for what answers do not have: attributes, and Spark's aggregates."""
        columns, name = self.source.frame.df.columns, reference.parts[-1]
        aggregate = reference.call is not None and name.lower() in AGGREGATES
        if aggregate and not is_word(reference.after, "OVER"):
            reason = f"{name.upper()} beside TOP: aggregate in a query around it"
            raise at(self.text, reference.words[0], reason)
        if self.source.meant(reference.parts) and found(name, [*columns, *RANKING_COLUMNS]) is None:
            reason = f"{name} is uncertain, and answers have certain columns only: score is that "
            reason += "of the likeliest alternative"
            known = [name for name in columns if name != "alternatives"]
            raise at(self.text, reference.words[0], reason, expected=("score", *known))

    def _window(self) -> Range | Rows:
        window, wish, relation = self.source.window, self.wish, self.block.relations[0]
        bracket = relation.bracket if isinstance(relation, Relation) else None
        assert bracket is not None
        assert window is not None
        if isinstance(window, Delta):
            raise at(self.text, bracket, "TOP ranks a RANGE or a ROWS window")
        slide = bracket.get("SLIDE")
        if slide is not None and wish.every is not None:
            reason = "SLIDE and FREQUENCY both say how often TOP is answered: keep one"
            raise at(self.text, slide, reason)
        if isinstance(window, Rows) and wish.every is None:
            reason = "over a ROWS window TOP needs a FREQUENCY"
            raise at(self.text, wish.top[0], reason, expected=("FREQUENCY 2 MINUTES",))
        return window

    def _score(self) -> str:
        """Return the expression that ranks, as text for Spark."""
        frame, by = self.source.frame, self.wish.by
        if not by:
            score = found(SCORE, [*frame.attributes, *frame.df.columns])
            if score is None:
                reason = f"TOP has no RANK BY, and the table has no column `{SCORE}`"
                raise at(self.text, self.wish.top[0], reason, expected=("RANK BY column",))
            return quoted(score)
        for reference in references(by):
            if reference.call is not None and is_measure(reference.words):
                reason = f"RANK BY {reference.parts[0].upper()}: each alternative is ranked by "
                reason += "its own score; compute other numbers in a subquery"
                raise at(self.text, reference.words[0], reason)
        local = Rewriting(self.text)
        self.block.unqualify(by, self.source, local)
        return local.render(start_of(by[0]), end_of(by[-1]), braces=False)

    def _column(self, name: Name | None) -> str | None:
        """Return the column that an option of RANK BY names, None without one."""
        if name is None:
            return None
        return column(name, self.source.frame.df.columns, "the table", self.text, qualified=True)

    def _existence(self) -> str | None:
        """Return the column of how probably a row exists: `Prob` as in D, without another one."""
        frame, named = self.source.frame, self._column(self.wish.existence)
        if named is not None or frame.attributes or found("existence", frame.df.columns):
            return named
        return found(PROB, frame.df.columns)

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
        column = _called("query", self._columns())
        df = group.frame.df.where(F.col(quoted(column)) == F.lit(label))
        if name != label:
            df = df.withColumn(column, F.lit(name))
        step = replace(group.frame.step, title=f"top-k answers of {name}")
        source.frame, source.changed = PlannedFrame(df, step), True
        edits.replace(start_of(wish.top[0]), end_of(wish.top[1]), "" if wish.rest else "*")
        for word in ("GROUP_BY", "RANK_BY", "FREQUENCY"):
            if word in self.clauses:
                edits.remove(self.clauses[word].start, self.clauses[word].end)
                self.block.gone.add(word)

    def _columns(self) -> list[str]:
        """Return the certain columns of the table."""
        dropped = {"alternatives"}
        if self.source.frame.step.facts.get("controlled"):
            dropped |= {"late", "punctuation"}
        return [name for name in self.source.frame.df.columns if name not in dropped]

    def _answers(self, group: RankingGroup) -> PlannedFrame:
        """Return the answers to all queries of a group, flat."""
        source, wish, window = self.source, self.wish, self.window
        frame, columns = source.frame, self._columns()
        options: dict[str, Any] = {
            "window": window,
            "order": source.order[0],
            "key": self.key or None,
            "by": self._score(),
            "exclusive": self._column(wish.rules),
            "existence": self._existence(),
            "group": self._column(wish.streams),
            **{name: getattr(wish, name) for name in ("rescale", "plan", "ascending")},
            **dict(wish.semantics),
        }
        queries = [
            Top(k, None if every is None else timedelta(microseconds=every), label)
            for (k, every), label in group.labels().items()
        ]
        place = wish.clauses[0] if wish.clauses else source.node
        given = self.of_operator(place)

        def build() -> DataFrame:
            answers: DataFrame = top_k(frame.df, queries, **given.arguments(), **options)
            return answers

        df = self.block.checked(lambda: given.call(build), place, frame)
        otherwise = window.slide_us if isinstance(window, Range) else 0
        names = group.names().values()
        timetable = [
            (name, q.k, q.interval or otherwise) for name, q in zip(names, queries, strict=True)
        ]
        step = Step(
            "top-k answers",
            self._lines(timetable, options),
            {"": frame.step},
            {"timetable": (tuple(timetable), wish.plan), "ranked by": options["by"]},
            runs=steps_of(df),
            named=given.arguments().get("name", ""),
        )
        return PlannedFrame(_flat(df, columns, options["group"]), step)

    def _lines(self, timetable: Sequence[tuple[str, int, int]], given: dict[str, Any]) -> Lines:
        """Return what EXPLAIN says.

        timetable : (name, k, every) of all queries together;  given : the function's arguments
        """
        wish, window, frame = self.wish, self.window, self.source.frame
        answered = "once a row of that time or a later one came"
        if isinstance(window, Rows):
            held = newest(window)
        else:
            held = f"the last {span(window.length_us)} before an instant"
            if frame.step.facts.get("controlled"):
                answered = "once the punctuation has reached the instant"
        rules, streams = given["exclusive"], given["group"]
        scaled = "; scaled where they sum to more than 1" if wish.rescale else ""
        ruled = f"{rules}{scaled}" if rules else "none: tuples are independent"
        shared, alone = timetables(timetable, wish.plan)
        hour = 3_600_000_000
        cost, most = shared.cost_per_unit * hour, alone.cost_per_unit * hour
        lowest = "lowest" if wish.ascending else "highest"
        lines = [
            ("queries", "; ".join(f"{n} (k = {k}, every {span(f)})" for n, k, f in timetable)),
            ("ranked by", f"{one_line(given['by'])}, {lowest} first"),
            ("answers", wish.using),
            ("rules", ruled),
            ("existence", existence_said(frame, given["existence"])),
            ("streams", streams and f"ranked by the sums of their tuples' Pr_k: {streams}"),
            ("window", held),
            ("answered", answered),
            ("timetable", f"a cycle of {span(shared.cycle)}: {_runs(shared, timetable)}"),
            ("cost", f"{cost:.6g} (sum of k) an hour; {most:.6g} without sharing (NS)"),
            ("saving", f"{most / cost:.3g} times"),
            ("order", ", ".join(self.source.order)),
            ("rankings", per_key(self.key, "one, in one task")),
            ("state", "the tuples of one window, with their rows"),
            ("guarantee", "no query waits longer than its FREQUENCY; probabilities to 1e-12"),
        ]
        return [(heading, said) for heading, said in lines if said]


def _runs(table: Timetable, queries: Sequence[tuple[str, int, int]]) -> str:
    runs: list[str] = []
    for time, group in table.until(0, table.cycle):
        if len(runs) == RUNS_SHOWN:
            runs.append("...")
            break
        names = ", ".join(queries[i][0] for i in table.answers(group))
        runs.append(f"at {span(time)} {names}")
    return "; ".join(runs)


def _flat(df: DataFrame, columns: list[str], streams: str | None) -> DataFrame:
    """Return answers with the tuple's columns next to their own; of streams, with the stream."""
    own = [F.col(name).alias(_called(name, columns)) for name in RANKING_COLUMNS]
    if streams is not None:
        return df.select(*own, F.col("stream").alias(streams))
    return df.select(*own, *(F.col(f"row.{quoted(name)}").alias(name) for name in columns))


def _called(name: str, columns: list[str]) -> str:
    """Return what a column of the answers is called next to those of the table."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"top_{name}"
    return name
