"""What a block asks for that is almost our language, not yet supported, or not to be guessed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from lark import Token

from sfumato.sql.plan.measures import is_measure_of
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.ranking_words import asked
from sfumato.sql.plan.sources import Source
from sfumato.sql.planner.first_look import almost_impute, bracket_words
from sfumato.sql.text.references import AGGREGATES, is_word, references
from sfumato.sql.text.syntax import Clause, FromClause, Item, Relation, SimilarityJoin
from sfumato.windows import Range

OVER = (
    "OVER (...) takes the rows of the whole stream, and not those of an extent: leave OVER out and "
    "GROUP BY what it partitions by"
)
PER_EXTENT = "over a RANGE window means each extent by itself, which is not supported"


def refuse_near_misses(relation: Relation, text: str) -> None:
    """Our constructs, almost: what Spark would call a syntax error somewhere else."""
    alias, rest = relation.alias, relation.rest
    if alias is not None and alias.upper() in bracket_words() and rest and _is_number(rest[0]):
        raise at(text, alias, "a window is written in brackets", expected=(f"[{alias}",))
    for one, other in pairwise(rest):
        if isinstance(one, Token) and is_word(one, "WITHIN", "PROBABILITY") and _is_number(other):
            reason = f"{one} belongs to a SIMILARITY JOIN, and this is none"
            raise at(text, one, reason, expected=("SIMILARITY JOIN",))


def refuse_later_work(
    clauses: tuple[Clause, ...], from_clause: FromClause | None, text: str
) -> None:
    """A ranking, or an IMPUTE, that is not written as it should be."""
    words = {clause.word: clause for clause in clauses}
    if asked(clauses, text) is None:
        for word, name in (("FREQUENCY", "FREQUENCY"), ("RANK_BY", "RANK BY")):
            clause = words.get(word)
            if clause is not None and clause.keyword is not None:
                reason = f"{name} belongs to SELECT TOP k, and there is no TOP"
                raise at(text, clause.keyword, reason, expected=("SELECT TOP k",))
    for relation in [] if from_clause is None else from_clause.sources:
        one = relation.side if isinstance(relation, SimilarityJoin) else relation
        if almost_impute(one):
            shape = "IMPUTE (attribute, ...) FROM repository BY 'a -> b : 0.1 -> 0.2', ..."
            reason = f"IMPUTE is written {shape}"
            raise at(text, one.rest[0], reason, expected=("IMPUTE (",))


def refuse_per_extent(clauses: Iterable[Clause], sources: list[Source], text: str) -> None:
    """What means each extent over a RANGE window, and to Spark would mean the whole stream."""
    ranged = [source for source in sources if isinstance(source.window, Range)]
    if not ranged:
        return
    if len(ranged) > 1:
        raise at(text, ranged[1].node, f"a join {PER_EXTENT}")
    clauses = tuple(clauses)
    for clause in clauses:
        if clause.word in ("GROUP_BY", "HAVING") and clause.keyword is not None:
            raise at(text, clause.keyword, f"{clause.keyword} {PER_EXTENT}")
    for clause in clauses:
        first = clause.items[0] if clause.items else None
        if clause.word == "SELECT" and isinstance(first, Token) and is_word(first, "DISTINCT"):
            raise at(text, first, f"DISTINCT {PER_EXTENT}")
        for reference in references(clause.items):
            name = reference.parts[-1].lower()
            aggregate = reference.call is not None and name in AGGREGATES
            if aggregate and not is_measure_of(reference, sources):
                over = is_word(reference.after, "OVER")
                reason = OVER if over else PER_EXTENT
                raise at(text, reference.words[0], f"{name.upper()} {reason}")


def _is_number(item: Item) -> bool:
    return isinstance(item, Token) and item.type == "NUMBER"
