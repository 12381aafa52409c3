"""All refusals of the language that need no function to be called.

A statement must be a query (`check_query`), use no windows of other systems and reach nothing
beyond its tables (`check_reach`). A block must write our constructs as they are written
(`check_words`), and must not do to a distribution what Spark does to any array (`check_block`).
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from lark import Token
from pyspark.sql import SparkSession

from sfumato.language import syntax
from sfumato.language.block import Block
from sfumato.language.brackets import BRACKET_WORDS
from sfumato.language.errors import SqlError, at
from sfumato.language.measures import attribute_argument, is_measure_of, outside_measures
from sfumato.language.ranking import asked
from sfumato.language.syntax import (
    AGGREGATES,
    MEASURE_FUNCTIONS,
    Clause,
    Group,
    Index,
    Item,
    Node,
    Reference,
    Relation,
    Script,
    SimilarityJoinClause,
    alias_of,
    end_of,
    is_name,
    is_type,
    is_word,
    list_items,
    operator_of,
    plain,
    references,
    start_of,
)
from sfumato.language.tables import where_named
from sfumato.near_misses import near
from sfumato.spark.model.allowed_functions import ALLOWED_FUNCTIONS
from sfumato.spark.model.outside_text import check_statement
from sfumato.sql_tokens import TokenError
from sfumato.windows import Range

DECISIVE = tuple(word for word in MEASURE_FUNCTIONS if word != "STDDEV")
TUMBLING = "s [RANGE 10 MINUTES WATTR ts] after the table's name"
HOPPING = "s [RANGE 10 MINUTES SLIDE 5 MINUTES WATTR ts] after the table's name"
NO_SESSIONS = "Spark's own GROUP BY session_window(ts, '5 minutes'), over certain rows"
FOREIGN_FUNCTIONS = {  # of Flink and Calcite
    "TUMBLE": TUMBLING,
    "TUMBLE_START": "window.start, of s [RANGE 10 MINUTES WATTR ts]",
    "TUMBLE_END": "window.end, of s [RANGE 10 MINUTES WATTR ts]",
    "HOP": HOPPING,
    "HOP_START": "window.start, of s [RANGE ... SLIDE ...]",
    "HOP_END": "window.end, of s [RANGE ... SLIDE ...]",
    "SESSION": NO_SESSIONS,
}
FOREIGN_WINDOWS = {"TUMBLING": TUMBLING, "HOPPING": HOPPING, "SESSION": NO_SESSIONS}  # of ksqlDB
OVER = (
    "OVER (...) takes the rows of the whole stream, and not those of an extent: leave OVER out and "
    "GROUP BY what it partitions by"
)
PER_EXTENT = "over a RANGE window means each extent by itself, which is not supported"
ABOUT_ALTERNATIVES = ("WHERE", "RANK_BY", "FREQUENCY")

# ---- statements ----------------------------------------------------------------------------------


def check_query(script: Script, body: syntax.Body) -> None:
    """Raise SqlError for anything but a query: only queries run here.

    A query can hide an INSERT after a WITH or FROM, and a script after USING; both are refused.
    """
    text, opening = script.text, list(body.opening_words())
    wrong = [word for word in opening if not syntax.is_query_word(word)]
    if wrong or not opening:
        word = wrong[0] if wrong else body
        raise at(
            text,
            word,
            "only queries run here; spark.sql runs other statements",
            expected=syntax.QUERY_WORDS,
            suggestion=near(word, syntax.QUERY_WORDS) if isinstance(word, Token) else None,
        )
    for before, token in pairwise(script.words(body)):
        if is_word(before, "INSERT") and is_word(token, "INTO", "OVERWRITE"):
            raise at(text, token, "INSERT would change a table: only queries run here")
        if is_word(before, "USING") and token.type == "STRING":
            raise at(text, token, "a query may not run a script")


def check_reach(script: Script, body: syntax.Body, spark: SparkSession) -> None:
    """Raise SqlError for what reaches beyond the session's tables, unless its texts are trusted,
    and for windows as Flink and ksqlDB write them, with the way to write them here."""
    text = script.text
    if script.read is not None:
        try:
            within = [t for t in script.read if body.start <= t.start and t.end <= body.end]
            check_statement(within, text, spark)
        except TokenError as error:
            raise SqlError(str(error), text=text, start=error.start, end=error.end) from None
    for first, last, here in _foreign(script.words(body)):
        if first is last and spark.catalog.functionExists(str(first)):
            continue
        place = Node(start_of(first), end_of(last))
        written = " ".join(text[place.start : place.end].split())
        raise at(text, place, f"{written} is not of this language; here it is written {here}")


def _foreign(words: tuple[Token, ...]) -> Iterator[tuple[Token, Token, str]]:
    """Yield what is foreign: its first and last word, and how it is written here."""
    for i, (one, other) in enumerate(pairwise(words)):
        after = words[i + 2] if i + 2 < len(words) else None
        if other.type == "LPAR" and is_word(one, *FOREIGN_FUNCTIONS):
            yield one, one, FOREIGN_FUNCTIONS[one.upper()]
        elif is_word(one, "WINDOW") and is_word(other, *FOREIGN_WINDOWS):
            if is_type(after, "LPAR"):
                yield one, other, FOREIGN_WINDOWS[other.upper()]
        elif is_word(one, "EMIT") and is_word(other, "CHANGES", "FINAL"):
            yield one, other, "without it: what changes comes out as it does"


def refused(error: TokenError, node: Node, script: Script) -> SqlError:
    """Return the SqlError for what was refused in a text made from a node of the user's text."""
    if error.function is None:
        return at(script.text, node, str(error))
    start, end = where_named(error.function, script, node) or (node.start, node.end)
    likely = near(error.function, [*MEASURE_FUNCTIONS, *sorted(ALLOWED_FUNCTIONS)])
    return SqlError(str(error), text=script.text, start=start, end=end, suggestion=likely)


def has_constructs(body: syntax.Body) -> bool:
    """Whether the text itself shows a construct of ours, anywhere in it."""
    return any(_shows_construct(part) for part in body.bodies())


def _shows_construct(body: syntax.Body) -> bool:
    for clause in body.clauses:
        if clause.word in ("RANK_BY", "FREQUENCY"):
            return True
        if isinstance(clause, syntax.FromClause):
            if any(isinstance(source, SimilarityJoinClause) for source in clause.sources):
                return True
        elif clause.word == "SELECT" and len(clause.items) > 1:
            top, number = clause.items[:2]
            if is_word(top, "TOP") and is_type(number, "NUMBER"):
                return True
    for relation in body.relations:
        if relation.bracket or relation.imputation or _almost_construct(relation):
            return True
    return any(
        reference.call is not None and is_word(reference.words[0], *DECISIVE)
        for items in body.word_lists()
        for reference in references(items)
    )


def _almost_construct(relation: Relation) -> bool:
    """Whether what follows a table hints at a construct: `IMPUTE (`, `WITHIN 1`, `s ROWS 5`."""
    following = relation.rest if relation.alias is None else (relation.alias, *relation.rest)
    return _almost_impute(relation) or any(
        is_word(one, "WITHIN", *BRACKET_WORDS) and is_type(other, "NUMBER")
        for one, other in pairwise(following)
    )


def _almost_impute(relation: Relation) -> bool:
    """Whether an IMPUTE right after a table is not written as it should be."""
    if len(relation.rest) < 2 or not is_word(relation.rest[0], "IMPUTE"):
        return False
    return is_name(relation.rest[1]) or isinstance(relation.rest[1], Group)


# ---- blocks --------------------------------------------------------------------------------------


def check_words(block: Block) -> None:
    """Raise SqlError for a ranking, an IMPUTE or a window that is not written as it should be."""
    text = block.text
    if asked(block.clauses, text) is None:
        for word, name in (("FREQUENCY", "FREQUENCY"), ("RANK_BY", "RANK BY")):
            clause = next((c for c in block.clauses if c.word == word), None)
            if clause is not None:
                reason = f"{name} belongs to SELECT TOP k, and there is no TOP"
                raise at(text, clause.place, reason, expected=("SELECT TOP k",))
    sides = [r.side if isinstance(r, SimilarityJoinClause) else r for r in block.relations]
    for relation in sides:
        if _almost_impute(relation):
            shape = "IMPUTE (attribute, ...) FROM repository BY 'a -> b : 0.1 -> 0.2', ..."
            reason = f"IMPUTE is written {shape}"
            raise at(text, relation.rest[0], reason, expected=("IMPUTE (",))
    for relation in sides:
        alias, rest = relation.alias, relation.rest
        if is_word(alias, *BRACKET_WORDS) and rest and is_type(rest[0], "NUMBER"):
            raise at(text, alias, "a window is written in brackets", expected=(f"[{alias}",))
        for one, other in pairwise(rest):
            if is_word(one, "WITHIN", "PROBABILITY") and is_type(other, "NUMBER"):
                reason = f"{one} is a word of SIMILARITY JOIN only"
                raise at(text, one, reason, expected=("SIMILARITY JOIN",))


def check_tables(block: Block) -> None:
    """Raise SqlError for a measure of a table that does not exist: the table is what is wrong."""
    named = (reference for items in block.word_lists() for reference in references(items))
    if block.unknown and any(is_measure_of(reference, block.sources) for reference in named):
        raise block.tables.unknown(block.unknown[0], block.scope)


def check_unanswered(block: Block) -> None:
    """Raise SqlError for aggregates in a block whose windows serve none of our operators."""
    _refuse_per_extent(block)
    for items in block.word_lists():
        for reference in references(items):
            if reference.call is None or reference.parts[-1].lower() not in AGGREGATES:
                continue
            attribute = attribute_argument(reference, block.sources)
            if attribute is not None and not is_measure_of(reference, block.sources):
                call = reference.parts[-1].upper()
                hint = f"{call}(EXPECTED({attribute})) is one of the expected values"
                reason = f"{call} of the uncertain {attribute} is not supported yet; {hint}"
                raise at(block.text, reference.words[0], reason)


def _refuse_per_extent(block: Block) -> None:
    """Refuse what means each extent over a RANGE window, and to Spark the whole stream."""
    sources, text = block.sources, block.text
    ranged = [source for source in sources if isinstance(source.window, Range)]
    if not ranged:
        return
    if len(ranged) > 1:
        raise at(text, ranged[1].node, f"a join {PER_EXTENT}")
    for clause in block.clauses:
        if clause.word in ("GROUP_BY", "HAVING"):
            raise at(text, clause.place, f"{clause.keyword} {PER_EXTENT}")
    for clause in block.clauses:
        first = clause.items[0] if clause.items else None
        if clause.word == "SELECT" and is_word(first, "DISTINCT"):
            raise at(text, first, f"DISTINCT {PER_EXTENT}")
        for reference in references(clause.items):
            name = reference.parts[-1].lower()
            aggregate = reference.call is not None and name in AGGREGATES
            if aggregate and not is_measure_of(reference, sources):
                reason = OVER if is_word(reference.after, "OVER") else PER_EXTENT
                raise at(text, reference.words[0], f"{name.upper()} {reason}")


def check_conditions(block: Block) -> None:
    """Raise SqlError for a join on an uncertain attribute."""
    for items in block.conditions():
        if any(is_word(item, "ON") for item in items):
            for reference in _uncertain(items, block):
                name = reference.parts[-1]
                reason = f"a join on the uncertain {name}: compare EXPECTED({name})"
                raise at(block.text, reference.words[0], reason, expected=("SIMILARITY JOIN",))


def check_operands(block: Block, done: Callable[[int], bool]) -> None:
    """Raise SqlError where a distribution is compared, computed with, ordered or grouped by.

    done : whether what stands at a place of the text has another meaning
    """
    select = block.clause("SELECT")
    renamed = set() if select is None else set(_aliases(select, block))
    for clause in block.clauses:
        if clause.word in ABOUT_ALTERNATIVES:
            continue
        for items, what in _ordering(clause):
            for reference in _uncertain(items, block):
                if not done(reference.start) and reference.parts[-1].lower() not in renamed:
                    raise _needs_number(block, reference, what)
        distinct = clause.word == "SELECT" and is_word(next(iter(clause.items), None), "DISTINCT")
        for reference in _uncertain(clause.items, block):
            if done(reference.start):
                continue
            if distinct and reference.whole:
                raise _needs_number(block, reference, "DISTINCT compares numbers")
            if sign := operator_of(reference):
                raise _needs_number(block, reference, f"{sign} takes a number")


def _needs_number(block: Block, reference: Reference, what: str) -> Exception:
    name = ".".join(reference.parts[:2])
    reason = f"{name} is uncertain, a distribution, and {what}: EXPECTED({name}) is one"
    return at(block.text, reference.words[0], reason, expected=(f"EXPECTED({name})",))


def _uncertain(items: tuple[Item, ...], block: Block) -> Iterator[Reference]:
    """Yield the references to uncertain attributes that stand for their distributions."""
    bound = set(_lambda_names(items))
    for reference in references(items, enter=outside_measures(block.sources)):
        parts = reference.parts
        if reference.call is not None or parts[0].lower() in bound:
            continue
        if any(source.meant(parts) for source in block.sources):
            yield reference


def _ordering(clause: Clause) -> Iterator[tuple[tuple[Item, ...], str]]:
    """Yield the words that rows are ordered or grouped by, and the reason to give."""
    if clause.word == "GROUP_BY":
        yield _outside_calls(clause.items), "rows are grouped by numbers"
    if clause.word == "ORDER_BY":
        yield _outside_calls(clause.items), "rows are ordered by numbers"
    for i, item in enumerate(clause.items):
        if isinstance(item, Group):
            before = clause.items[i - 1] if i else None
            windows = clause.word == "WINDOW" or is_word(before, "OVER")
            yield from _ordering_inside(item, everything=windows)


def _ordering_inside(group: Group, *, everything: bool) -> Iterator[tuple[tuple[Item, ...], str]]:
    if group.body is None or group.body.is_query:
        return
    for clause in group.body.clauses:
        if isinstance(clause, Clause):
            if everything and clause.word != "ORDER_BY":
                yield clause.items, "rows are partitioned and ordered by numbers"
            yield from _ordering(clause)


def _outside_calls(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the words of a list without the arguments of its calls."""
    return tuple(item for item in items if not isinstance(item, Group | Index))


def _aliases(select: Clause, block: Block) -> Iterator[str]:
    """Yield the names, in lower case, that a SELECT gives to anything but a distribution."""
    for item in list_items(select.items):
        name, said = alias_of(item)
        if name is not None and not any(r.whole for r in _uncertain(said, block)):
            yield plain(name).lower()


def _lambda_names(items: tuple[Item, ...]) -> Iterator[str]:
    """Yield the names, in lower case, that `x ->` and `(x, y) ->` bind in an expression."""
    for i, item in enumerate(items):
        arrow = (
            i + 2 < len(items)
            and str(items[i + 1]) == "-"
            and str(items[i + 2]) == ">"
            and end_of(items[i + 1]) == start_of(items[i + 2])
        )
        body = item.body if isinstance(item, Group | Index) else None
        for words in () if body is None or body.is_query else body.word_lists():
            yield from _lambda_names(words)
            if arrow:
                yield from (plain(word).lower() for word in words if is_name(word))
        if arrow and is_name(item):
            yield plain(item).lower()
