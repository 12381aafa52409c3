"""The syntax tree of a script, before any checks or name resolution, and SqlError.

Words are strings with a `type`. Every word and node has its span `[start, end)`, because a query is
rewritten by replacing spans of the user's text. The last part finds names in expressions:
references, calls, stars, measures and Spark aggregates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TypeAlias, TypeGuard

import lark

from sfumato.sql_tokens import SqlToken, unquote_name

START = attrgetter("start")
QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
"""Words that can start a query; other statements change something."""
MAX_LISTED = 8  # names listed in a message; further names are only counted


@dataclass(frozen=True)
class Node:
    start: int
    end: int

    def contains(self, other: Node | Token | SqlToken) -> bool:
        return self.start <= other.start and other.end <= self.end


class Token(lark.Token):
    """A word with its span."""

    __slots__ = ()

    @property
    def start(self) -> int:
        return self.start_pos or 0

    @property
    def end(self) -> int:
        return self.end_pos or 0


@dataclass(frozen=True)
class Nested(Node):
    """The content of parentheses or brackets inside an expression."""

    body: Body | None

    @property
    def query(self) -> Body | None:
        """Return the content if it is a query; otherwise None."""
        return self.body if self.body is not None and self.body.is_query else None

    def word_lists(self) -> Iterator[Items]:
        """Yield the word lists of an expression; a query has none, as its tables are separate."""
        return self.body.word_lists() if self.body is not None and not self.query else iter(())


class Group(Nested):
    """`( ... )`: a nested query, arguments or an expression."""


class Index(Nested):
    """`[ ... ]` in an expression: Spark's array or map index."""


Item: TypeAlias = Token | Nested
Items: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True)
class Name(Node):
    """A table or column name with one or more parts, such as `db.table` or `a.x`."""

    words: tuple[Token, ...]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(unquote_name(word) for word in self.words)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Measure(Node):
    """A number with its units, sign or percent sign: `300 SECONDS`, `95%`, `-1`."""

    numbers: tuple[Token, ...]
    units: tuple[Token, ...] = ()
    negative: bool = False
    percent: bool = False

    @property
    def value(self) -> float:
        """Return the first number with its sign: an int if whole, a percentage as a fraction."""
        value = float(self.numbers[0]) * (-1 if self.negative else 1)
        return value / 100 if self.percent else int(value) if value.is_integer() else value


@dataclass(frozen=True)
class Option(Node):
    """A word of a construct (in upper case) with the numbers, names and strings that follow it."""

    word: str
    measures: tuple[Measure, ...] = ()
    names: tuple[Name, ...] = ()
    strings: tuple[Token, ...] = ()

    @property
    def place(self) -> Node:
        """Return the position of errors about the value."""
        return self.measures[0] if len(self.measures) == 1 else self


@dataclass(frozen=True)
class Bracket(Node):
    """`[RANGE 300 SECONDS WATTR ts ...]` after a table name."""

    options: tuple[Option, ...]


@dataclass(frozen=True)
class Impute(Node):
    """`IMPUTE (x, y) FROM repository BY 'a -> x : 0.1 -> 0.2', ... [JOINT ...]` after a table."""

    keyword: Token
    attributes: tuple[Name, ...]
    repository: Name
    dependencies: tuple[Token, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Similarity(Node):
    """A complete `SIMILARITY JOIN b ON (x) WITHIN ...`; `b` is the relation."""

    keyword: Token
    on: tuple[Name, ...]
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Relation(Node):
    """One table of a FROM clause: its name (or nested query), alias, bracket and what follows.

    head : None if it cannot be a table (a number in `substring(s FROM 2)`)
    rest : text for Spark: a join condition, a lateral view
    own_end : the end of head, alias and bracket, where `rest` starts
    call : the arguments of the table function named by `head`
    join : the similarity join of which this is the right side
    """

    head: Name | Group | None
    alias: Token | None
    bracket: Bracket | None
    rest: Items
    own_end: int
    imputation: Impute | None = None
    call: Group | None = None
    join: Similarity | None = None

    @property
    def query(self) -> Body | None:
        return self.head.query if isinstance(self.head, Group) else None

    @property
    def table(self) -> Name | None:
        return self.head if isinstance(self.head, Name) and self.call is None else None

    @property
    def name(self) -> str:
        """Return the qualifier of its columns: the alias, the last part of the name, or ""."""
        if self.alias is not None:
            return unquote_name(self.alias)
        return self.head.parts[-1] if isinstance(self.head, Name) else ""

    def __str__(self) -> str:
        return str(self.head) if isinstance(self.head, Name) else "the query"


@dataclass(frozen=True)
class Clause(Node):
    """A keyword (None for words before the first) and the words up to the next keyword.

    tables : the tables of FROM;  options : the options of RANK BY after the score, or FREQUENCY
        itself
    """

    keyword: Token | None
    items: Items
    tables: tuple[Relation, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def word(self) -> str:
        """Return the kind of the keyword: SELECT, WHERE, GROUP_BY, ..."""
        return "" if self.keyword is None else self.keyword.type

    @property
    def place(self) -> Node | Token:
        return self.keyword or self

    def values(self) -> list[Items]:
        """Return the items of a SELECT without TOP n and their aliases, or of another clause."""
        if self.word != "SELECT":
            return [self.items]
        top, number = (*self.items[:2], None, None)[:2]
        has_top = is_word(top, "TOP") and is_type(number, "NUMBER")
        return [alias_of(item)[1] for item in list_items(self.items[2 * has_top :])]


@dataclass(frozen=True)
class Cte(Node):
    """One `name [(columns)] AS (query)` of a WITH."""

    name: Token
    columns: Group | None
    query: Group


@dataclass(frozen=True)
class Body(Node):
    """The content of a statement or of parentheses: common tables, then clauses.

    It is a query only if `is_query`: `extract(year FROM ts)` also has a FROM clause.
    """

    with_token: Token | None
    ctes: tuple[Cte, ...]
    recursive: bool
    clauses: tuple[Clause, ...]

    def opening_words(self) -> Iterator[Item]:
        """Yield the first words, inside parentheses too: a WITH, then the main query's start."""
        if self.with_token is not None:
            yield self.with_token
        first = self.clauses[0] if self.clauses else None
        if first is not None and first.keyword is not None:
            yield first.keyword
        elif first is not None:
            item = first.items[0]
            inner = item.body if isinstance(item, Group) else None
            yield from [item] if inner is None else inner.opening_words()

    @cached_property
    def is_query(self) -> bool:
        """Return whether the body starts like a query."""
        words = list(self.opening_words())
        return bool(words) and all(is_word(word, *QUERY_WORDS) for word in words)

    @property
    def relations(self) -> Iterator[Relation]:
        """Yield the tables of the FROM clauses, except the tables in nested queries."""
        return chain.from_iterable(clause.tables for clause in self.clauses)

    def word_lists(self) -> Iterator[Items]:
        """Yield all word lists, including those around FROM in extract(year FROM ts)."""
        for clause in self.clauses:
            if clause.word != "FROM":
                yield clause.items
            for relation in clause.tables:
                head: list[Item] = []
                for word in getattr(relation.head, "words", ()):
                    head += [Token("DOT", "."), word] if head else [word]
                groups = (relation.head, relation.call)
                yield (*head, *(g for g in groups if isinstance(g, Group)), *relation.rest)

    def bodies(self) -> Iterator[Body]:
        yield self
        for item in chain((cte.query for cte in self.ctes), *self.word_lists()):
            if isinstance(item, Nested) and item.body is not None:
                yield from item.body.bodies()

    def blocks(self) -> Iterator[tuple[Clause, ...]]:
        """Yield the SELECT blocks between UNION, INTERSECT and EXCEPT."""
        block: list[Clause] = []
        for clause in self.clauses:
            if clause.word == "SET_OPERATOR":
                yield tuple(block)
                block = []
            block.append(clause)
        yield tuple(block)

    def union_parts(self) -> list[Node]:
        """Return the queries that UNION combines, without ORDER BY and LIMIT; [] without UNION."""
        parts = list[Node]()
        for block in self.blocks():
            clauses = [c for c in block if c.word not in ("ORDER_BY", "LIMIT")]
            first, starts = clauses[0], [clause.start for clause in clauses]
            if first.word == "SET_OPERATOR":
                kept = (n for n in first.items if not is_word(n, "ALL", "DISTINCT", "BY", "NAME"))
                starts = [*(item.start for item in kept), *starts[1:]]
            if first.word != "SET_OPERATOR" or is_word(first.keyword, "UNION"):
                parts.append(Node(starts[0], clauses[-1].end))
        return parts if len(parts) > 1 else []


@dataclass(frozen=True)
class Statement(Node):
    explain: bool
    body: Body


@dataclass(frozen=True)
class Script:
    """The statements of `text`.

    tokens : its words in order
    check_tokens : its tokens for the checks, or None if the text is trusted
    """

    text: str
    statements: tuple[Statement, ...]
    tokens: tuple[Token, ...] = field(default=(), repr=False)
    check_tokens: tuple[SqlToken, ...] | None = field(default=None, repr=False)

    def words(self, node: Node) -> tuple[Token, ...]:
        first, last = (bisect_left(self.tokens, p, key=START) for p in (node.start, node.end))
        return self.tokens[first:last]


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def span_of(items: Sequence[Item]) -> Node:
    return Node(items[0].start, items[-1].end)


# ---- errors --------------------------------------------------------------------------------------


WORD = "{word}"
"""In a reason: a placeholder for the text at the place of the error."""


class SqlError(ValueError):
    """The error for a query that cannot be parsed, resolved or run; nothing has been executed.

    The message shows the line with the offending words underlined. The same facts are attributes:
    `line` and `column` (both from 1), `word` (the offending text), `text_line` (the whole line),
    `reason`, `expected` (the correct words or values, may be empty) and `suggestion` (the closest
    word, or None).
    """

    line = column = 0
    word = text_line = ""

    def __init__(
        self,
        reason: str,
        start: int,
        end: int,
        *,
        expected: Iterable[str] = (),
        suggestion: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.start, self.end = reason, start, end
        self.expected, self.suggestion = tuple(expected), suggestion

    def show_in(self, text: str) -> None:
        """Add the line and the word to the message, unless it already shows a nested text."""
        if self.line:
            return
        start = min(self.start, len(text))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        self.line = text.count("\n", 0, start) + 1
        self.column = start - line_start + 1
        self.text_line = text[line_start:line_end].rstrip("\r")
        self.word = text[start : self.end]
        self.reason = self.reason.replace(WORD, self.word)
        # Tabs remain tabs, so that the underline is below the word in any terminal.
        before = "".join("\t" if c == "\t" else " " for c in text[line_start:start])
        lines = [
            f"line {self.line}, column {self.column}: {self.reason}",
            f"    {self.text_line}",
            f"    {before}{'^' * max(1, min(self.end, line_end) - start)}",
        ]
        lines += [f"expected {format_choices(self.expected)}"] if self.expected else []
        lines += [f"did you mean {self.suggestion}?"] if self.suggestion is not None else []
        self.args = ("\n".join(lines),)


@contextmanager
def errors_in(text: str) -> Iterator[None]:
    """Add the line of the text, and the word, to a SqlError raised in this context."""
    try:
        yield
    except SqlError as error:
        error.show_in(text)
        raise


def format_choices(words: Iterable[str]) -> str:
    """Format `a`, `a or b` or `a, b or c`; a long list is truncated, and the rest counted."""
    shown = list(words)
    if len(shown) > MAX_LISTED:
        return f"{', '.join(shown[:MAX_LISTED])} or one of {len(shown) - MAX_LISTED} more"
    return " or ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def at(node: Node | Token, reason: str, *expected: str, suggestion: str | None = None) -> SqlError:
    """Return a SqlError that points at a node or word."""
    return SqlError(reason, node.start, node.end, expected=expected, suggestion=suggestion)


# ---- names in expressions ------------------------------------------------------------------------

MEASURE_FUNCTIONS = ("EXPECTED", "EXISTENCE", "STDDEV", "QUANTILE")
"""Measures of an uncertain attribute. Over other values, STDDEV is a Spark aggregate."""

AGGREGATES = word_set(
    "any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and "
    "bit_or bit_xor bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set "
    "corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping "
    "grouping_id histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg "
    "max max_by mean median min min_by mode percentile percentile_approx percentile_cont "
    "percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx "
    "regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg "
    "try_sum var_pop var_samp variance"
)
"""Spark's aggregate functions."""
SIGNS = frozenset("+-*/%<>=!^&|~")
OPERATORS = ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV", "AND", "OR", "NOT")
OPENING = (*OPERATORS, "WHEN", "CASE")  # words that precede an operand


@dataclass(frozen=True)
class Reference(Name):
    """A name in an expression: `x`, `s.x`, or a function's name, with its arguments in `call`.

    filter : the parentheses of a following FILTER
    before, after : its neighbours;  whole : whether it is a complete list item without an alias
    """

    call: Group | None
    filter: Group | None
    before: Item | None
    after: Item | None
    whole: bool

    @property
    def word(self) -> Token:
        return self.words[0]

    @property
    def arguments(self) -> list[Items]:
        body = None if self.call is None else self.call.body
        return [] if body is None else split(chain.from_iterable(body.word_lists()))

    @property
    def is_measure(self) -> bool:
        is_named = len(self.words) == 1 and is_word(self.word, *MEASURE_FUNCTIONS)
        return self.call is not None and is_named

    @property
    def is_spark_aggregate(self) -> bool:
        return self.call is not None and self.parts[-1].lower() in AGGREGATES

    @property
    def operator(self) -> str:
        """Return the sign or word whose operand it is, or ""."""
        for item, known in ((self.after, OPERATORS), (self.before, OPENING)):
            if isinstance(item, Token) and (
                is_word(item, *known) or item.type == "DISTINCT_FROM" or str(item) in SIGNS
            ):
                return item.upper()
        return ""


def is_type(item: Item | None, *types: str) -> TypeGuard[Token]:
    return isinstance(item, Token) and item.type in types


def is_name(item: Item | None) -> TypeGuard[Token]:
    return is_type(item, "NAME", "BACKQUOTED")


def is_word(item: Item | None, *words: str) -> TypeGuard[Token]:
    """Return whether an item is one of these unquoted words."""
    return isinstance(item, Token) and item.type != "STRING" and item.upper() in words


def name_in(items: Items) -> Name | None:
    """Return the name `x` or `a.x` if the words form one; otherwise None."""
    dotted = [is_type(i, "DOT") if n % 2 else is_name(i) for n, i in enumerate(items)]
    if not all(dotted) or len(items) % 2 == 0:
        return None
    words = tuple(item for item in items[::2] if isinstance(item, Token))
    return Name(items[0].start, items[-1].end, words)


def number_in(items: Items) -> float | None:
    """Return the number that the words form, such as `-1.5` or `95%`; otherwise None."""
    negative = is_type(next(iter(items), None), "MINUS")
    digits, percent = (*items[negative:], None, None)[:2]
    if len(items) != negative + 1 + is_type(percent, "PERCENT") or not is_type(digits, "NUMBER"):
        return None
    value = float(digits) / (1 if percent is None else 100)
    value = int(value) if digits.isdigit() and percent is None else value
    return -value if negative else value


def references(
    items: Items,
    *,
    enter: Callable[[Reference], bool] = lambda reference: True,
    outermost: bool = True,
) -> Iterator[Reference]:
    """Yield the names in an expression, except in nested queries, whose tables are separate.

    enter : predicate of calls whose arguments are searched
    """

    def inside(item: Nested) -> Iterator[Reference]:
        for words in item.word_lists():
            yield from references(words, enter=enter, outermost=False)

    padded, i = (*items, None, None, None, None), 0
    while i < len(items):
        item, before = items[i], items[i - 1] if i else None
        i += 1
        if isinstance(item, Nested):
            yield from inside(item)
            continue
        if not is_name(item) or is_word(before, "AS") or is_type(before, "DOT"):
            continue
        names = [item]
        while is_type(padded[i], "DOT") and is_name(part := padded[i + 1]):
            names.append(part)
            i += 2
        following, after, last = padded[i : i + 3]
        call = following if isinstance(following, Group) else None
        where = last if call is not None and is_word(after, "FILTER") else None
        where = where if isinstance(where, Group) else None
        groups = [group for group in (call, where) if group is not None]
        after = following if call is None else after if where is None else padded[i + 3]
        begins = before is None or is_type(before, "COMMA") or is_word(before, "DISTINCT", "ALL")
        whole = outermost and begins and (after is None or is_type(after, "COMMA"))
        end, words = (groups or names)[-1].end, tuple(names)
        reference = Reference(item.start, end, words, call, where, before, after, whole)
        yield reference
        i += len(groups) + (where is not None)
        for group in groups if enter(reference) else ():
            yield from inside(group)


def split(
    items: Iterable[Item], between: Callable[[Item], bool] = lambda item: is_type(item, "COMMA")
) -> list[Items]:
    """Split a list at its commas or other separators."""
    parts: list[list[Item]] = [[]]
    for item in items:
        if between(item):
            parts.append([])
        else:
            parts[-1].append(item)
    return [tuple(part) for part in parts]


def list_items(items: Items) -> Iterator[Items]:
    """Yield the items of a SELECT list, without a leading DISTINCT."""
    for part in split(items):
        yield part[1:] if part and is_word(part[0], "DISTINCT", "ALL") else part


def alias_of(item: Items) -> tuple[Token | None, Items]:
    """Return the alias of a SELECT item, and the words of its value."""
    if len(item) < 2 or not is_name(last := item[-1]):
        return None, item
    before = item[-2]
    if is_word(before, "AS"):
        return last, item[:-2]
    signs = ("DOT", "OPERATOR", "MINUS", "EQUAL", "PERCENT", "DISTINCT_FROM")
    joined = is_type(before, *signs) or is_word(before, *OPENING, "IS", "THEN", "ELSE")
    return (None, item) if joined or is_word(last, "END") else (last, item[:-1])


def nested_queries(items: Items) -> Iterator[Body]:
    """Yield the outermost nested queries of an expression."""
    for item in items:
        if isinstance(item, Nested):
            yield from [item.query] if item.query is not None else ()
            for inner in item.word_lists():
                yield from nested_queries(inner)


@dataclass(frozen=True)
class Star:
    """`*` or `s.*` for columns. except_list : the list of a following EXCEPT"""

    token: Token
    qualifier: str | None
    except_list: Group | None


def stars(items: Items) -> Iterator[Star]:
    """Yield the stars in an expression that denote columns, not products or count(*)."""
    for i, item in enumerate(items):
        before = items[i - 1] if i else None
        if isinstance(item, Nested):
            for inner in item.word_lists() if not is_word(before, "COUNT") else ():
                yield from stars(inner)
            continue
        after, following = (*items[i + 1 : i + 3], None, None)[:2]
        begins = before is None or is_type(before, "COMMA", "DOT")
        ends = after is None or is_type(after, "COMMA") or is_word(after, "EXCEPT", "AS")
        if item == "*" and (begins or is_word(before, "DISTINCT", "ALL")) and ends:
            of = items[i - 2] if is_type(before, "DOT") and i > 1 else None
            except_list = (
                following if is_word(after, "EXCEPT") and isinstance(following, Group) else None
            )
            yield Star(item, unquote_name(of) if is_name(of) else None, except_list)
