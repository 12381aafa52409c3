"""What a block asks for that is almost our language, not yet supported, or not to be guessed."""

from itertools import pairwise

from sfumato.sql.plan.block import Block
from sfumato.sql.plan.measures import is_measure_of
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.ranking_words import asked
from sfumato.sql.planner.first_look import almost_impute, bracket_words
from sfumato.sql.text.references import AGGREGATES, is_type, is_word, references
from sfumato.sql.text.syntax import Relation, SimilarityJoin
from sfumato.windows import Range

OVER = (
    "OVER (...) takes the rows of the whole stream, and not those of an extent: leave OVER out and "
    "GROUP BY what it partitions by"
)
PER_EXTENT = "over a RANGE window means each extent by itself, which is not supported"


def refuse_near_misses(relation: Relation, text: str) -> None:
    """Our constructs, almost: what Spark would call a syntax error somewhere else."""
    alias, rest = relation.alias, relation.rest
    if is_word(alias, *bracket_words()) and rest and is_type(rest[0], "NUMBER"):
        raise at(text, alias, "a window is written in brackets", expected=(f"[{alias}",))
    for one, other in pairwise(rest):
        if is_word(one, "WITHIN", "PROBABILITY") and is_type(other, "NUMBER"):
            reason = f"{one} is a word of SIMILARITY JOIN only"
            raise at(text, one, reason, expected=("SIMILARITY JOIN",))


def refuse_later_work(block: Block) -> None:
    """A ranking, or an IMPUTE, that is not written as it should be."""
    words, text = {clause.word: clause for clause in block.clauses}, block.text
    if asked(block.clauses, text) is None:
        for word, name in (("FREQUENCY", "FREQUENCY"), ("RANK_BY", "RANK BY")):
            if word in words:
                reason = f"{name} belongs to SELECT TOP k, and there is no TOP"
                raise at(text, words[word].place, reason, expected=("SELECT TOP k",))
    for relation in block.relations:
        one = relation.side if isinstance(relation, SimilarityJoin) else relation
        if almost_impute(one):
            shape = "IMPUTE (attribute, ...) FROM repository BY 'a -> b : 0.1 -> 0.2', ..."
            reason = f"IMPUTE is written {shape}"
            raise at(text, one.rest[0], reason, expected=("IMPUTE (",))


def refuse_per_extent(block: Block) -> None:
    """What means each extent over a RANGE window, and to Spark would mean the whole stream."""
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
                over = is_word(reference.after, "OVER")
                reason = OVER if over else PER_EXTENT
                raise at(text, reference.words[0], f"{name.upper()} {reason}")
