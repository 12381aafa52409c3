"""Which names in a query mean what: references, calls, stars, our measures, Spark's aggregates."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from lark import Token

from sfumato.sql.text.syntax import Body, Clause, Group, Index, Item, end_of, plain, start_of, words

MEASURES = ("EXPECTED", "EXISTENCE", "STDDEV", "QUANTILE")
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
        """The arguments of the call; none of what is no call."""
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
    """The names of an expression, those in nested queries left out: they have tables of their own.

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
    """The sign or word that a reference is an operand of; "" if it is of none."""
    for item, known in ((reference.after, OPERATORS), (reference.before, OPENING)):
        if not isinstance(item, Token):
            continue
        if is_word(item, *known) or item.type == "DISTINCT_FROM" or str(item) in SIGNS:
            return item.upper()
    return ""


def split(
    items: Iterable[Item], between: Callable[[Item], bool] = lambda item: is_type(item, "COMMA")
) -> list[tuple[Item, ...]]:
    """The parts of a list between its commas, or what else stands between them."""
    parts: list[list[Item]] = [[]]
    for item in items:
        if between(item):
            parts.append([])
        else:
            parts[-1].append(item)
    return [tuple(part) for part in parts]


def arguments(call: Group) -> list[tuple[Item, ...]]:
    """The arguments of a call, split at its commas."""
    return [] if call.body is None else split(i for items in word_lists(call.body) for i in items)


def list_items(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    """The parts of a SELECT list; a DISTINCT before one is left out."""
    for part in split(items):
        yield part[1:] if part and is_word(part[0], "DISTINCT", "ALL") else part


def alias_of(item: tuple[Item, ...]) -> tuple[Token | None, tuple[Item, ...]]:
    """The name that a part of a SELECT list gives its value, and the words of the value."""
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
    return len(chain) == 1 and is_word(chain[0], *MEASURES)


def _inside(item: Group | Index, enter: Callable[[Reference], bool]) -> Iterator[Reference]:
    body = item.body
    if body is None or body.is_query:
        return
    for clause_items in word_lists(body):
        yield from references(clause_items, enter=enter, outermost=False)


def word_lists(body: Body) -> Iterator[tuple[Item, ...]]:
    """The word lists of an expression's body, those after an inner FROM too."""
    for clause in body.clauses:
        if isinstance(clause, Clause):
            yield clause.items
            continue
        for source in clause.sources:  # extract(year FROM ts)
            head = getattr(source, "head", None)
            first: tuple[Item, ...] = ()
            if isinstance(head, Group):
                first = (head,)
            elif head is not None:
                dotted: list[Item] = []
                for word in head.words:
                    dotted += [Token("DOT", "."), word] if dotted else [word]
                first = tuple(dotted)
            yield first + tuple(getattr(source, "rest", ()))


def nested_queries(items: tuple[Item, ...]) -> Iterator[Body]:
    """The outermost nested queries of an expression."""
    for item in items:
        if isinstance(item, Group | Index) and item.body is not None:
            if item.body.is_query:
                yield item.body
            else:
                for inner in word_lists(item.body):
                    yield from nested_queries(inner)


@dataclass(frozen=True)
class Star:
    """`*` or `s.*` standing for columns; `but` is the list of an EXCEPT that follows."""

    token: Token
    qualifier: str | None
    but: Group | None


def stars(items: tuple[Item, ...]) -> Iterator[Star]:
    """The stars of an expression that stand for columns: not products, not count(*)."""
    for i, item in enumerate(items):
        before = items[i - 1] if i else None
        if isinstance(item, Group | Index):
            if item.body is not None and not item.body.is_query and not is_word(before, "COUNT"):
                for inner in word_lists(item.body):
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
