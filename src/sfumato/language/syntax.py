"""The syntax tree: what stands where in the text, before anything is checked or resolved.

Words are Lark tokens (strings with `type`, `start_pos` and `end_pos`). Every node knows its span
`[start, end)` in the script, because a query is rewritten by replacing spans of the user's text.
Spark gets the rest letter by letter. The second half finds the names in expressions: references,
calls, stars, our measures, Spark's aggregates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeGuard

from lark import Token

from sfumato.sql_tokens import SqlToken

QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
"""The words a query can begin with; any other statement would change something."""


@dataclass(frozen=True)
class Node:
    """A piece of the text, from character `start` to just before `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Group(Node):
    """`( ... )`: a nested query, arguments or an expression."""

    body: Body | None


@dataclass(frozen=True)
class Index(Node):
    """`[ ... ]` in an expression: Spark's array or map index."""

    body: Body | None


Item: TypeAlias = Token | Group | Index


@dataclass(frozen=True)
class Name(Node):
    """A table or column name of one or more parts, `db.table` or `a.x`."""

    words: tuple[Token, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts without backquotes."""
        return tuple(plain(word) for word in self.words)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Measure(Node):
    """A number with its unit, sign or percent sign as written: `300 SECONDS`, `95%`, `-1`."""

    numbers: tuple[Token, ...]
    units: tuple[Token, ...] = ()
    negative: bool = False
    percent: bool = False

    @property
    def value(self) -> float:
        """The first number, signed, a percentage as a fraction."""
        value = float(self.numbers[0])
        return (-value if self.negative else value) / (100 if self.percent else 1)

    @property
    def whole(self) -> int | None:
        """The number if it is a whole one without percent sign, else None."""
        return int(self.value) if self.value.is_integer() and not self.percent else None


@dataclass(frozen=True)
class Option(Node):
    """A word of a construct with what follows it: its keyword (upper case), numbers and names."""

    word: str
    measures: tuple[Measure, ...] = ()
    names: tuple[Name, ...] = ()

    @property
    def place(self) -> Node:
        """The node to point at when its value is wrong."""
        return self.measures[0] if len(self.measures) == 1 else self


@dataclass(frozen=True)
class Bracket(Node):
    """`[RANGE 300 SECONDS WATTR ts ...]` after a table name."""

    options: tuple[Option, ...]

    def get(self, word: str) -> Option | None:
        """Return the option of that keyword, or None."""
        return next((option for option in self.options if option.word == word), None)


@dataclass(frozen=True)
class Impute(Node):
    """`IMPUTE (x, y) FROM repository BY 'a -> x : 0.1 -> 0.2', ... [JOINT ...]` after a table."""

    keyword: Token
    attributes: tuple[Name, ...]
    repository: Name
    dependencies: tuple[Token, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Relation(Node):
    """One table of a FROM clause: its name (or nested query), alias, bracket and what follows.

    head : None for what cannot be a table (a number in `substring(s FROM 2)`)
    call : the arguments of a table function, of which `head` is the name
    rest : text for Spark: a join condition, a lateral view
    own_end : where head, alias and bracket end and the rest begins
    """

    head: Name | Group | None
    alias: Token | None
    bracket: Bracket | None
    rest: tuple[Item, ...]
    own_end: int
    imputation: Impute | None = None
    call: Group | None = None

    @property
    def query(self) -> Body | None:
        """The nested query that it is, or None."""
        body = self.head.body if isinstance(self.head, Group) else None
        return body if body is not None and body.is_query else None


@dataclass(frozen=True)
class SimilarityJoinClause(Node):
    """`SIMILARITY JOIN b ON (x) WITHIN ...`: the right side of the relation before it."""

    keyword: Token
    side: Relation
    on: tuple[Name, ...]
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Clause(Node):
    """A keyword (None for words before any) and the words up to the next clause."""

    keyword: Token | None
    items: tuple[Item, ...]

    @property
    def word(self) -> str:
        """The keyword's kind: SELECT, WHERE, GROUP_BY, ..."""
        return "" if self.keyword is None else self.keyword.type

    @property
    def place(self) -> Node | Token:
        """The node to point at: its keyword."""
        return self.keyword or self


@dataclass(frozen=True)
class FromClause(Node):
    """The tables of a query."""

    keyword: Token
    sources: tuple[Relation | SimilarityJoinClause, ...]
    word: str = "FROM"


@dataclass(frozen=True)
class Cte(Node):
    """One `name [(columns)] AS (query)` of a WITH."""

    name: Token
    columns: Group | None
    query: Group


@dataclass(frozen=True)
class Body(Node):
    """What a statement or a pair of parentheses holds: common tables, then clauses.

    It is a query only if `is_query`; `extract(year FROM ts)` has a FROM clause as well.
    """

    with_: Token | None
    ctes: tuple[Cte, ...]
    recursive: bool
    clauses: tuple[Clause | FromClause, ...]

    def opening_words(self) -> Iterator[Item]:
        """Yield what it begins with, through parentheses: a WITH, then what its tables serve."""
        if self.with_ is not None:
            yield self.with_
        if not self.clauses:
            return
        first = self.clauses[0]
        if first.keyword is not None:
            yield first.keyword
        elif isinstance(first, Clause):
            item = first.items[0]
            if isinstance(item, Group) and item.body is not None:
                yield from item.body.opening_words()
            else:
                yield item

    @cached_property
    def is_query(self) -> bool:
        """Whether it begins as a query does."""
        words = list(self.opening_words())
        return bool(words) and all(is_query_word(word) for word in words)

    @property
    def relations(self) -> Iterator[Relation]:
        """The tables of its own FROM clauses, the right sides of similarity joins included."""
        for clause in self.clauses:
            if isinstance(clause, FromClause):
                for source in clause.sources:
                    yield source.side if isinstance(source, SimilarityJoinClause) else source

    def word_lists(self) -> Iterator[tuple[Item, ...]]:
        """Yield the word lists of an expression, those after a FROM too: extract(year FROM ts)."""
        for clause in self.clauses:
            if isinstance(clause, Clause):
                yield clause.items
                continue
            for source in clause.sources:
                relation = source.side if isinstance(source, SimilarityJoinClause) else source
                head: list[Item] = []
                for word in getattr(relation.head, "words", ()):
                    head += [Token("DOT", "."), word] if head else [word]
                if isinstance(relation.head, Group):
                    head.append(relation.head)
                if relation.call is not None:
                    head.append(relation.call)
                yield (*head, *relation.rest)

    def bodies(self) -> Iterator[Body]:
        """Yield the body and all that are nested in it."""
        yield self
        groups: list[Item] = [cte.query for cte in self.ctes]
        for items in self.word_lists():
            groups += items
        for group in groups:
            if isinstance(group, Group | Index) and group.body is not None:
                yield from group.body.bodies()

    def tables(self) -> list[Name]:
        """Return the tables and views that a statement reads, without its common tables."""
        parts = list(self.bodies())
        common = {plain(cte.name).lower() for part in parts for cte in part.ctes}
        names: dict[tuple[str, ...], Name] = {}
        for part in parts:
            for relation in part.relations if part.is_query else ():
                head = relation.head
                if not isinstance(head, Name) or relation.call is not None:
                    continue
                if len(head.parts) > 1 or head.parts[0].lower() not in common:
                    names.setdefault(head.parts, head)
        return list(names.values())

    def blocks(self) -> Iterator[tuple[Clause | FromClause, ...]]:
        """Yield the SELECT blocks between UNION, INTERSECT and EXCEPT."""
        block: list[Clause | FromClause] = []
        for clause in self.clauses:
            if clause.word == "SET_OPERATOR":
                yield tuple(block)
                block = []
            block.append(clause)
        yield tuple(block)


@dataclass(frozen=True)
class Statement(Node):
    """One statement of a script."""

    explain: bool
    body: Body


@dataclass(frozen=True)
class Script:
    """The statements of `text`.

    tokens : its words in order;  read : the same as they were checked, unless the text is trusted
    """

    text: str
    statements: tuple[Statement, ...]
    tokens: tuple[Token, ...] = field(default=(), repr=False)
    read: tuple[SqlToken, ...] | None = field(default=None, repr=False)

    def words(self, node: Node) -> tuple[Token, ...]:
        """Return the words within a node."""
        first = bisect_left(self.tokens, node.start, key=start_of)
        return self.tokens[first : bisect_left(self.tokens, node.end, key=start_of)]


def is_query_word(item: Item) -> bool:
    """Whether a query can begin with it."""
    return isinstance(item, Token) and item.upper() in QUERY_WORDS


def words(text: str) -> tuple[str, ...]:
    """Return the words of a list written as text."""
    return tuple(text.split())


def start_of(piece: Node | Token) -> int:
    """Return where a node or word begins in the script."""
    return piece.start if isinstance(piece, Node) else piece.start_pos or 0


def end_of(piece: Node | Token) -> int:
    """Return where a node or word ends in the script."""
    return piece.end if isinstance(piece, Node) else piece.end_pos or 0


def plain(word: Token | str) -> str:
    """Return an identifier without its backquotes."""
    if word.startswith("`"):
        return word[1:-1].replace("``", "`")
    return str(word)


def quoted(name: str) -> str:
    """Return an identifier in backquotes, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


# ---- names in expressions ------------------------------------------------------------------------

MEASURE_FUNCTIONS = ("EXPECTED", "EXISTENCE", "STDDEV", "QUANTILE")
"""Numbers of an uncertain attribute. Over anything else STDDEV is Spark's own aggregate."""

# Spark's aggregate functions: over a window by time they are per extent, not per stream.
AGGREGATES = frozenset(
    words(
        "any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg "
        "bit_and bit_or bit_xor bitmap_construct_agg bitmap_or_agg bool_and bool_or "
        "collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp "
        "every first first_value grouping grouping_id histogram_numeric hll_sketch_agg "
        "hll_union_agg kurtosis last last_value listagg max max_by mean median min min_by mode "
        "percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy "
        "regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some "
        "std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp "
        "variance"
    )
)


SIGNS = frozenset("+-*/%<>=!^&|~")
OPERATORS = words("BETWEEN IN LIKE ILIKE RLIKE REGEXP DIV AND OR NOT")
OPENING = (*OPERATORS, "WHEN", "CASE")  # words before an operand


@dataclass(frozen=True)
class Reference:
    """A name in an expression: `x`, `s.x`, or with `call` a function's name and arguments."""

    words: tuple[Token, ...]
    call: Group | None
    before: Item | None
    after: Item | None  # what follows the name or call
    whole: bool  # it is all of an item of the list, without an alias

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(plain(word) for word in self.words)

    @property
    def arguments(self) -> list[tuple[Item, ...]]:
        """The arguments of the call; none without a call."""
        return [] if self.call is None else arguments(self.call)

    @property
    def start(self) -> int:
        return start_of(self.words[0])

    @property
    def end(self) -> int:
        return end_of(self.words[-1] if self.call is None else self.call)


def is_type(item: Item | None, *types: str) -> TypeGuard[Token]:
    """Whether an item is a word of one of these kinds."""
    return isinstance(item, Token) and item.type in types


def is_name(item: Item | None) -> TypeGuard[Token]:
    """Whether an item can be (a part of) an identifier."""
    return is_type(item, "NAME", "BACKQUOTED")


def is_word(item: Item | None, *words: str) -> TypeGuard[Token]:
    """Whether an item is one of these unquoted words."""
    return isinstance(item, Token) and item.type != "STRING" and item.upper() in words


def references(
    items: tuple[Item, ...],
    *,
    enter: Callable[[Reference], bool] = lambda reference: True,
    outermost: bool = True,
) -> Iterator[Reference]:
    """Yield the names of an expression, except in nested queries, which have their own tables.

    enter : whether the names among the arguments of a call are wanted
    """
    i = 0
    while i < len(items):
        item = items[i]
        if isinstance(item, Group | Index):
            yield from _inside(item, enter)
            i += 1
            continue
        before = items[i - 1] if i else None
        if not is_name(item) or is_word(before, "AS") or is_type(before, "DOT"):
            i += 1
            continue
        chain, i = [item], i + 1
        while i + 1 < len(items) and is_type(items[i], "DOT") and is_name(part := items[i + 1]):
            chain.append(part)
            i += 2
        following = items[i] if i < len(items) else None
        call = following if isinstance(following, Group) else None
        after = following
        if call is not None:
            after = items[i + 1] if i + 1 < len(items) else None
        begins = before is None or is_type(before, "COMMA") or is_word(before, "DISTINCT", "ALL")
        whole = outermost and begins and (after is None or is_type(after, "COMMA"))
        reference = Reference(tuple(chain), call, before, after, whole)
        yield reference
        if call is not None:
            i += 1
            if enter(reference):
                yield from _inside(call, enter)


def operator_of(reference: Reference) -> str:
    """Return the sign or word that a reference is an operand of, or ""."""
    for item, known in ((reference.after, OPERATORS), (reference.before, OPENING)):
        if not isinstance(item, Token):
            continue
        if is_word(item, *known) or item.type == "DISTINCT_FROM" or str(item) in SIGNS:
            return item.upper()
    return ""


def split(
    items: Iterable[Item], between: Callable[[Item], bool] = lambda item: is_type(item, "COMMA")
) -> list[tuple[Item, ...]]:
    """Return the parts of a list between its commas or other separators."""
    parts: list[list[Item]] = [[]]
    for item in items:
        if between(item):
            parts.append([])
        else:
            parts[-1].append(item)
    return [tuple(part) for part in parts]


def arguments(call: Group) -> list[tuple[Item, ...]]:
    """Return the arguments of a call, split at its commas."""
    return [] if call.body is None else split(i for items in call.body.word_lists() for i in items)


def list_items(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    """Yield the parts of a SELECT list, without a DISTINCT before one."""
    for part in split(items):
        yield part[1:] if part and is_word(part[0], "DISTINCT", "ALL") else part


def alias_of(item: tuple[Item, ...]) -> tuple[Token | None, tuple[Item, ...]]:
    """Return the name that a part of a SELECT list gives its value, and the value's words."""
    if len(item) < 2 or not is_name(last := item[-1]):
        return None, item
    before = item[-2]
    if is_word(before, "AS"):
        return last, item[:-2]
    joined = isinstance(before, Token) and (
        before.type in ("DOT", "OPERATOR", "MINUS", "EQUAL", "PERCENT", "DISTINCT_FROM")
        or is_word(before, *OPENING, "IS", "THEN", "ELSE")
    )
    return (None, item) if joined or is_word(last, "END") else (last, item[:-1])


def is_measure(chain: Sequence[Token]) -> bool:
    """Whether a function's name is that of one of our measures."""
    return len(chain) == 1 and is_word(chain[0], *MEASURE_FUNCTIONS)


def _inside(item: Group | Index, enter: Callable[[Reference], bool]) -> Iterator[Reference]:
    body = item.body
    if body is None or body.is_query:
        return
    for clause_items in body.word_lists():
        yield from references(clause_items, enter=enter, outermost=False)


def nested_queries(items: tuple[Item, ...]) -> Iterator[Body]:
    """Yield the outermost nested queries of an expression."""
    for item in items:
        if isinstance(item, Group | Index) and item.body is not None:
            if item.body.is_query:
                yield item.body
            else:
                for inner in item.body.word_lists():
                    yield from nested_queries(inner)


@dataclass(frozen=True)
class Star:
    """`*` or `s.*` standing for columns; `but` is the list of an EXCEPT that follows."""

    token: Token
    qualifier: str | None
    but: Group | None


def stars(items: tuple[Item, ...]) -> Iterator[Star]:
    """Yield the stars of an expression that stand for columns: not products, not count(*)."""
    for i, item in enumerate(items):
        before = items[i - 1] if i else None
        if isinstance(item, Group | Index):
            if item.body is not None and not item.body.is_query and not is_word(before, "COUNT"):
                for inner in item.body.word_lists():
                    yield from stars(inner)
            continue
        after = items[i + 1] if i + 1 < len(items) else None
        begins = (
            before is None or is_type(before, "COMMA", "DOT") or is_word(before, "DISTINCT", "ALL")
        )
        ends = after is None or is_type(after, "COMMA") or is_word(after, "EXCEPT", "AS")
        if item == "*" and item.type == "OPERATOR" and begins and ends:
            qualifier = None
            if is_type(before, "DOT") and i > 1 and is_name(items[i - 2]):
                qualifier = plain(str(items[i - 2]))
            but = items[i + 2] if is_word(after, "EXCEPT") and i + 2 < len(items) else None
            yield Star(item, qualifier, but if isinstance(but, Group) else None)
