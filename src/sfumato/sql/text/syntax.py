"""The syntax tree: what stands where in the text, before anything is checked or resolved.

Words are Lark tokens (strings with `type`, `start_pos` and `end_pos`). Every node knows its span
`[start, end)` in the script, because a query is rewritten by replacing spans of the user's text:
what we do not understand reaches Spark letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from lark import Token

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
        """What to point at when its value is wrong."""
        return self.measures[0] if len(self.measures) == 1 else self


@dataclass(frozen=True)
class Bracket(Node):
    """`[RANGE 300 SECONDS WATTR ts ...]` after a table name."""

    options: tuple[Option, ...]

    def get(self, word: str) -> Option | None:
        """The option of that keyword, or None."""
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

    `head` is None for what cannot be a table (a number in `substring(s FROM 2)`). `rest` is text
    for Spark: a join condition, the arguments of a table function, a lateral view.
    """

    head: Name | Group | None
    alias: Token | None
    bracket: Bracket | None
    rest: tuple[Item, ...]
    own_end: int  # where head, alias and bracket end and the rest begins
    imputation: Impute | None = None

    @property
    def is_function(self) -> bool:
        """A table function, `VALUES (...)` or the like: a name followed by parentheses."""
        return self.alias is None and bool(self.rest) and isinstance(self.rest[0], Group)


@dataclass(frozen=True)
class SimilarityJoin(Node):
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
        """What to point at: its keyword."""
        return self.keyword or self


@dataclass(frozen=True)
class FromClause(Node):
    """The tables of a query."""

    keyword: Token
    sources: tuple[Relation | SimilarityJoin, ...]
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
        """What it begins with, looking through parentheses: a WITH, then what its tables serve."""
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

    @property
    def is_query(self) -> bool:
        """Whether it begins as a query does."""
        words = list(self.opening_words())
        return bool(words) and all(is_query_word(word) for word in words)

    def blocks(self) -> Iterator[tuple[Clause | FromClause, ...]]:
        """The SELECT blocks between UNION, INTERSECT and EXCEPT."""
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
    """The statements of `text`."""

    text: str
    statements: tuple[Statement, ...]


def is_query_word(item: Item) -> bool:
    """Whether a query can begin with it."""
    return isinstance(item, Token) and item.upper() in QUERY_WORDS


def words(text: str) -> tuple[str, ...]:
    """The words of a list written as text."""
    return tuple(text.split())


def start_of(piece: Node | Token) -> int:
    """Where a node or word begins in the script."""
    return piece.start if isinstance(piece, Node) else piece.start_pos or 0


def end_of(piece: Node | Token) -> int:
    """Where a node or word ends in the script."""
    return piece.end if isinstance(piece, Node) else piece.end_pos or 0


def plain(word: Token | str) -> str:
    """An identifier without its backquotes."""
    if word.startswith("`"):
        return word[1:-1].replace("``", "`")
    return str(word)


def quoted(name: str) -> str:
    """An identifier in backquotes, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
