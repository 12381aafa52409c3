"""A first look at a whole statement: is it a query at all, and does it use anything of ours?"""

from collections.abc import Iterator
from itertools import pairwise

from lark import Token

from sfumato.near_misses import near
from sfumato.sql.constructs.registered import CONSTRUCTS
from sfumato.sql.plan.nodes import at
from sfumato.sql.text import syntax
from sfumato.sql.text.grammar import tokens
from sfumato.sql.text.references import MEASURES, is_name, is_type, is_word, references, word_lists
from sfumato.sql.text.syntax import is_query_word, plain, start_of

DECISIVE = tuple(word for word in MEASURES if word != "STDDEV")


def check_is_query(body: syntax.Body, text: str) -> None:
    """Raise SqlError for anything but a query: only queries run here.

    A query can hide an INSERT after a WITH or FROM, and a script after USING; both are refused.
    """
    opening = list(body.opening_words())
    wrong = [word for word in opening if not is_query_word(word)]
    if wrong or not opening:
        word = wrong[0] if wrong else body
        raise at(
            text,
            word,
            "only queries run here; spark.sql runs other statements",
            expected=syntax.QUERY_WORDS,
            suggestion=near(word, syntax.QUERY_WORDS) if isinstance(word, Token) else None,
        )
    before: Token | None = None
    for token in tokens(text[body.start : body.end]):
        if is_word(before, "INSERT") and is_word(token, "INTO", "OVERWRITE"):
            raise _shifted(token, body, text, "INSERT would change a table: only queries run here")
        if is_word(before, "USING") and token.type == "STRING":
            raise _shifted(token, body, text, "a query may not run a script")
        before = token


def _shifted(token: Token, body: syntax.Body, text: str, reason: str) -> Exception:
    start = body.start + start_of(token)
    return at(text, syntax.Group(start, start + len(token), None), reason)


def bodies(body: syntax.Body) -> Iterator[syntax.Body]:
    """The body and all that are nested in it."""
    yield body
    for inner in _inner(body):
        if inner.body is not None:
            yield from bodies(inner.body)


def _inner(body: syntax.Body) -> Iterator[syntax.Group | syntax.Index]:
    for cte in body.ctes:
        yield cte.query
    pieces: list[syntax.Item] = []
    for clause in body.clauses:
        if isinstance(clause, syntax.Clause):
            pieces += clause.items
    for relation in relations(body):
        if isinstance(relation.head, syntax.Group):
            pieces.append(relation.head)
        pieces += relation.rest
    for piece in pieces:
        if isinstance(piece, syntax.Group | syntax.Index):
            yield piece


def relations(body: syntax.Body) -> Iterator[syntax.Relation]:
    """The relations of a body's own FROM clauses."""
    for clause in body.clauses:
        if isinstance(clause, syntax.FromClause):
            for source in clause.sources:
                yield source.side if isinstance(source, syntax.SimilarityJoin) else source


def has_constructs(body: syntax.Body) -> bool:
    """Whether the text itself shows a construct of ours, anywhere in it."""
    return any(_shows_construct(part) for part in bodies(body))


def _shows_construct(body: syntax.Body) -> bool:
    for clause in body.clauses:
        if clause.word in ("RANK_BY", "FREQUENCY"):
            return True
        if isinstance(clause, syntax.FromClause):
            if any(isinstance(source, syntax.SimilarityJoin) for source in clause.sources):
                return True
        elif clause.word == "SELECT" and len(clause.items) > 1:
            top, number = clause.items[:2]
            if is_word(top, "TOP") and is_type(number, "NUMBER"):
                return True
    for relation in relations(body):
        if relation.bracket or relation.imputation or _almost_construct(relation):
            return True
    return any(
        reference.call is not None and is_word(reference.words[0], *DECISIVE)
        for items in word_lists(body)
        for reference in references(items)
    )


def _almost_construct(relation: syntax.Relation) -> bool:
    """What follows a table hints at a construct of ours: `IMPUTE (`, `WITHIN 1`, `s ROWS 5`."""
    following = relation.rest if relation.alias is None else (relation.alias, *relation.rest)
    return almost_impute(relation) or any(
        is_word(one, "WITHIN", *bracket_words()) and is_type(other, "NUMBER")
        for one, other in pairwise(following)
    )


def bracket_words() -> list[str]:
    """The words that stand in brackets after a table."""
    return [word.word for word in CONSTRUCTS.vocabulary["bracket"]]


def almost_impute(relation: syntax.Relation) -> bool:
    """An IMPUTE right after a table that is not written as it should be."""
    if len(relation.rest) < 2 or not is_word(relation.rest[0], "IMPUTE"):
        return False
    return is_name(relation.rest[1]) or isinstance(relation.rest[1], syntax.Group)


def table_names(body: syntax.Body) -> list[syntax.Name]:
    """The tables and views a statement reads, its common tables left out."""
    parts = list(bodies(body))
    common = {plain(cte.name).lower() for part in parts for cte in part.ctes}
    names: dict[tuple[str, ...], syntax.Name] = {}
    for part in parts:
        if not part.is_query:
            continue
        for relation in relations(part):
            head = relation.head
            if not isinstance(head, syntax.Name) or relation.is_function:
                continue
            if len(head.parts) > 1 or head.parts[0].lower() not in common:
                names.setdefault(head.parts, head)
    return list(names.values())
