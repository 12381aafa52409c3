"""Checks that refuse queries before any function is called."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from pyspark.sql import SparkSession

from sfumato.api.calls import public_functions
from sfumato.language.aggregate_answers import CALLS, Aggregation
from sfumato.language.blocks import Block, Rewriting
from sfumato.language.brackets import BRACKET_WORDS, bracket_of
from sfumato.language.parse import INSTEAD, with_written_length
from sfumato.language.ranking_answers import parse_ranking
from sfumato.language.steps import one_line
from sfumato.language.syntax import (
    MEASURE_FUNCTIONS,
    QUERY_WORDS,
    Body,
    Clause,
    Group,
    Items,
    Nested,
    Node,
    Reference,
    Relation,
    Script,
    SqlError,
    Token,
    alias_of,
    at,
    is_name,
    is_type,
    is_word,
    list_items,
    references,
)
from sfumato.language.tables import Source, where_named
from sfumato.near_misses import near
from sfumato.spark.model.untrusted_sql import (
    ALLOWED_FUNCTIONS,
    check_tokens,
    column_function_reason,
)
from sfumato.sql_tokens import TokenError, unquote_name
from sfumato.windows import Range

UNAMBIGUOUS_MEASURES = tuple(word for word in MEASURE_FUNCTIONS if word != "STDDEV")
TUMBLING = "the window after the table, for example FROM s [RANGE 10 MINUTES WATTR ts]"
HOPPING = (
    "the window after the table, for example FROM s [RANGE 10 MINUTES SLIDE 5 MINUTES WATTR ts]"
)
SESSIONS = f"the window as a function, for example {INSTEAD['SESSION']}"
FOREIGN_FUNCTIONS = {"TUMBLE": TUMBLING, "HOP": HOPPING, "SESSION": SESSIONS}
"""Flink and Calcite windows, and what to write instead."""
FOREIGN_WINDOWS = {"TUMBLING": TUMBLING, "HOPPING": HOPPING, "SESSION": SESSIONS}  # ksqlDB
TWO_TABLE_FUNCTIONS = {
    "split_late": "SELECT ... FROM reorder(...) WHERE late",
    "split_invalid": "FROM checked(...) or FROM rejected(...)",
    "split_missed": "FROM window_aggregate(..., missed => true) WHERE missed IS NULL",
}
"""Public functions that return two tables, and what to write instead."""
OVER_REASON = (
    "OVER (...) reads the rows of the whole stream, not the rows of an extent: leave OVER out and "
    "write GROUP BY with the columns of PARTITION BY"
)
EXTENT_REASON = "over a RANGE window would apply to each extent separately, which is not supported"
STREAM_WORDS = ("ISTREAM", "RSTREAM", "DSTREAM")  # CQL operators from windows to streams
CLAUSES_ON_ALTERNATIVES = ("WHERE", "RANK_BY", "FREQUENCY")


def check_query(script: Script, body: Body) -> None:
    """Raise SqlError unless a statement is a query, without a hidden INSERT or script."""
    opening = list(body.opening_words())
    wrong = [word for word in opening if not is_word(word, *QUERY_WORDS)]
    if wrong or not opening:
        word = wrong[0] if wrong else body
        likely = near(word, QUERY_WORDS) if isinstance(word, Token) else None
        reason = "sfumato runs only queries; run other statements with spark.sql"
        raise at(word, reason, *QUERY_WORDS, suggestion=likely)
    for before, token in pairwise(script.words(body)):
        if is_word(before, "INSERT") and is_word(token, "INTO", "OVERWRITE"):
            raise at(token, "INSERT would change a table: sfumato runs only queries")
        if is_word(before, "USING") and token.type == "STRING":
            raise at(token, "a query must not run a script")


def check_reach(script: Script, body: Body, spark: SparkSession) -> None:
    """Raise SqlError for untrusted text that reaches beyond the session's tables.

    Flink and ksqlDB window syntax is also refused, with a hint.
    """
    text = script.text
    if script.check_tokens is not None:
        try:
            within = [t for t in script.check_tokens if body.contains(t)]
            check_tokens(within, text, spark, constructs=True)
        except TokenError as error:
            raise at(Node(error.start, error.end), str(error)) from None
    words = script.words(body)
    for one, other, after in zip(words, words[1:], [*words[2:], None], strict=False):
        last, here = other, None
        function = one.upper().removesuffix("_START").removesuffix("_END")
        foreign = function in FOREIGN_FUNCTIONS and not is_type(after, "STRING")  # session('1 h')
        if other.type == "LPAR" and one.type == "NAME" and foreign:
            last, here = one, FOREIGN_FUNCTIONS[function]
        elif is_word(one, "WINDOW") and is_word(other, *FOREIGN_WINDOWS) and is_type(after, "LPAR"):
            here = FOREIGN_WINDOWS[other.upper()]
        elif is_word(one, "EMIT") and is_word(other, "CHANGES", "FINAL"):
            here = "the query without it: changed results are emitted immediately"
        if here is not None and not (last is one and spark.catalog.functionExists(str(one))):
            place = Node(one.start, last.end)
            written = one_line(text[place.start : place.end])
            here = with_written_length(here, text[last.end :])
            raise at(place, f"{written} is not part of this language; write {here}")


def translate_token_error(error: TokenError, node: Node, script: Script) -> SqlError:
    """Return the SqlError for an error in text that was generated from a node."""
    if not error.function:
        return at(node, str(error))
    place = where_named(error.function, script, node) or node
    instead = TWO_TABLE_FUNCTIONS.get(error.function.lower())
    if instead is not None:
        return at(place, f"{error.function} returns two tables; write {instead}")
    if column_function_reason(error.function):
        return at(place, str(error))
    calls = [*MEASURE_FUNCTIONS, *(name.upper() for name in CALLS)]
    likely = near(error.function, [*calls, *public_functions(), *sorted(ALLOWED_FUNCTIONS)])
    return at(place, str(error), suggestion=likely)


def has_constructs(body: Body) -> bool:
    return any(map(_shows_construct, body.bodies()))


def _shows_construct(body: Body) -> bool:
    for clause in body.clauses:
        top, number = (*clause.items[:2], None, None)[:2]
        is_top = clause.word == "SELECT" and is_word(top, "TOP") and is_type(number, "NUMBER")
        if is_top or clause.word in ("RANK_BY", "FREQUENCY"):
            return True
    for relation in body.relations:
        if relation.bracket or relation.imputation or relation.join or any(_misspelled(relation)):
            return True
    return any(
        reference.call is not None and is_word(reference.word, *UNAMBIGUOUS_MEASURES)
        for items in body.word_lists()
        for reference in references(items)
    )


def _misspelled(relation: Relation) -> Iterator[tuple[Token, str, str]]:
    """Yield words of misspelled constructs after a table, with the reason and what to write."""
    alias, rest = relation.alias, relation.rest
    first, second = (*rest[:2], None, None)[:2]
    if is_word(first, "IMPUTE") and (is_name(second) or isinstance(second, Group)):
        shape = "IMPUTE (attribute, ...) FROM repository BY 'a -> b : 0.1 -> 0.2', ..."
        yield first, f"IMPUTE must be written as {shape}", "IMPUTE ("
    if is_word(alias, *BRACKET_WORDS) and is_type(first, "NUMBER"):
        yield alias, "a window must be written in brackets", f"[{alias}"
    for one, other in pairwise(rest):
        if is_word(one, "WITHIN", "PROBABILITY") and is_type(other, "NUMBER"):
            yield one, f"{one} is allowed only in a SIMILARITY JOIN", "SIMILARITY JOIN"


# ---- blocks --------------------------------------------------------------------------------------


def check_words(clauses: Sequence[Clause], relations: Sequence[Relation]) -> None:
    """Raise SqlError for a malformed ranking, IMPUTE or window."""
    if parse_ranking(clauses) is None:
        for clause in sorted(clauses, key=lambda clause: clause.word):
            if clause.word in ("FREQUENCY", "RANK_BY"):
                name = clause.word.replace("_", " ")
                reason = f"{name} needs SELECT TOP k, but the query has no TOP"
                raise at(clause.place, reason, "SELECT TOP k")
    for word, reason, instead in chain.from_iterable(map(_misspelled, relations)):
        raise at(word, reason, instead)


def remove_stream_word(
    clauses: tuple[Clause, ...], relations: Sequence[Relation], edits: Rewriting
) -> tuple[Clause, ...]:
    """Return the clauses without CQL's ISTREAM or RSTREAM, if the word changes nothing.

    Raises SqlError if it would change the answers.
    """
    select = next((c for c in clauses if c.word == "SELECT"), None)
    items = () if select is None else select.items
    word, after, then = (*items[:3], None, None, None)[:3]
    bracket = next((relation.bracket for relation in relations if relation.bracket), None)
    star = str(after) == "*" and (then is None or is_type(then, "COMMA"))
    sure = star or is_type(after, "NUMBER", "STRING") or isinstance(then, Group)
    begins = sure or isinstance(after, Group) or is_type(after, "NAME", "BACKQUOTED")
    if select is None or not is_word(word, *STREAM_WORDS) or not begins:
        return clauses
    name, rest = str(word).upper(), items[1:]
    if bracket is None:
        if sure:  # otherwise, it may be a column, followed by its alias
            raise at(word, f"{name} needs a window in brackets: add one, or leave {name} out")
        return clauses
    if isinstance(after, Group):
        reason = f"{name} must be followed by columns without parentheses"
        raise at(word, reason, f"SELECT {name} a, b")
    others = tuple(replace(c, items=rest) if c is select else c for c in clauses)
    if parse_ranking(others) is not None:
        raise at(word, f"{name} has no effect before TOP: leave {name} out")
    answers = Aggregation.has_aggregates(others)
    extents = any(option.word == "RANGE" for option in bracket.options)
    if name == "DSTREAM":
        raise at(word, "DSTREAM (the rows that leave a window) is not supported")
    if name == "RSTREAM" and not answers:
        reason = (
            "RSTREAM without aggregates is not supported: for all rows of each extent, write ... "
            "HAVING COUNT(*) > 0"
        )
        raise at(word, reason)
    if name == "ISTREAM" and answers and extents:
        reason = (
            "ISTREAM (only answers that differ from the answers of the previous extent) is not "
            "supported: without ISTREAM, each extent is answered"
        )
        raise at(word, reason, "RSTREAM")
    edits.remove(word.start, items[1].start)
    return others


def check_tables(block: Block) -> None:
    """Raise SqlError for a measure over an unknown table, or a join on an uncertain attribute."""
    if block.unknown and any(map(block.is_measure, block.references())):
        raise block.tables.unknown(block.unknown[0])
    for items in block.conditions():
        for reference in (
            _distributions(items, block) if any(is_word(i, "ON") for i in items) else ()
        ):
            name = reference.parts[-1]
            reason = f"a join cannot use the uncertain {name}: compare EXPECTED({name})"
            raise at(reference.word, reason, "SIMILARITY JOIN")


def check_column_aliases(block: Block, source: Source) -> None:
    """Raise SqlError for names of columns after the alias of a table that has other columns now."""
    rest = next((r.rest for r in block.relations if r.start == source.start), ())
    if rest and isinstance(rest[0], Group) and source.extra:
        reason = (
            "names of columns after a table's alias are not supported together with measures: "
            "rename the columns in the subquery"
        )
        raise at(rest[0], reason, "SELECT column AS name")


def check_pipe(block: Block) -> None:
    """Raise SqlError for a pipe after a window: Spark would run it over the whole stream."""
    if (pipe := block.pipe()) is None:
        return
    given = map(bracket_of, block.relations)
    if any(of and of.kind and (of.kind != "time" or of.get("RANGE")) for of in given):
        reason = "a pipe cannot follow a window: put the window and its aggregates in a subquery"
        raise at(pipe, reason, "FROM (SELECT ... GROUP BY ...) |> ...")


def check_unanswered(block: Block) -> None:
    """Raise SqlError for aggregates in a block whose windows no operator reads.

    Over a RANGE window, the user expects them per extent, but Spark would aggregate the stream.
    """
    ranged = [source for source in block.sources if isinstance(source.window, Range)]
    if len(ranged) > 1:
        raise at(ranged[1].node, f"a join {EXTENT_REASON}")
    for clause in block.clauses if ranged else ():
        first = (*clause.items, None)[0]
        if clause.word in ("GROUP_BY", "HAVING"):
            raise at(clause.place, f"{clause.keyword} {EXTENT_REASON}")
        if clause.word == "SELECT" and is_word(first, "DISTINCT"):
            raise at(first, f"DISTINCT {EXTENT_REASON}")
    for reference in block.references():
        name = reference.parts[-1].upper()
        if not reference.is_spark_aggregate or block.is_measure(reference):
            continue
        attribute = block.attribute_of(reference)
        if ranged:
            reason = OVER_REASON if is_word(reference.after, "OVER") else EXTENT_REASON
            raise at(reference.word, f"{name} {reason}")
        if attribute is not None:
            hint = f"{name}(EXPECTED({attribute})) aggregates the expected values"
            reason = f"{name} of the uncertain {attribute} is not supported yet; {hint}"
            raise at(reference.word, reason)


def check_operands(block: Block) -> None:
    """Raise SqlError for a distribution as an operand, or in ORDER BY, GROUP BY or DISTINCT."""
    select = block.clause("SELECT")
    named = map(alias_of, list_items(select.items)) if select is not None else ()
    renamed = {
        unquote_name(name).lower()
        for name, value in named
        if name is not None and not any(r.whole for r in _distributions(value, block))
    }
    for clause in block.clauses:
        if clause.word in CLAUSES_ON_ALTERNATIVES:
            continue
        wrong = [
            (r, what)
            for items, what in _ordering_items(clause)
            for r in _distributions(items, block)
        ]
        wrong = [(r, what) for r, what in wrong if r.parts[-1].lower() not in renamed]
        distinct = clause.word == "SELECT" and is_word(next(iter(clause.items), None), "DISTINCT")
        for reference in _distributions(clause.items, block):
            if distinct and reference.whole:
                wrong.append((reference, "DISTINCT needs numbers"))
            elif reference.operator:
                wrong.append((reference, f"{reference.operator} needs a number"))
        for call in references(clause.items):
            if call.call is None or not is_word(call.word, "PROB"):
                continue
            inner = chain.from_iterable(_distributions(items, block) for items in call.arguments)
            if any(not block.is_handled(reference.start) for reference in inner):
                reason = (
                    "PROB needs a condition on an aggregate; for a condition on each row, write "
                    "it in WHERE and select EXISTENCE()"
                )
                raise at(call.word, reason)
        for reference, what in wrong:
            if not block.is_handled(reference.start):
                name = ".".join(reference.parts[:2])
                reason = f"{name} is a distribution, but {what}: write EXPECTED({name})"
                raise at(reference.word, reason, f"EXPECTED({name})")


def _distributions(items: Items, block: Block) -> Iterator[Reference]:
    """Yield the references to uncertain attributes that denote their distributions."""
    bound = set(_lambda_names(items))
    for reference in block.names(items):
        parts = reference.parts
        is_column = reference.call is None and parts[0].lower() not in bound
        if is_column and any(source.leading_attribute(parts) for source in block.sources):
            yield reference


def _ordering_items(clause: Clause, *, over: bool = False) -> Iterator[tuple[Items, str]]:
    """Yield words that order or group rows, and an error's reason. over : whether within OVER"""
    outside_calls = tuple(item for item in clause.items if not isinstance(item, Nested))
    if clause.word in ("GROUP_BY", "ORDER_BY"):
        how = "grouped" if clause.word == "GROUP_BY" else "ordered"
        yield outside_calls, f"rows must be {how} by numbers"
    elif over:
        yield clause.items, "rows must be partitioned and ordered by numbers"
    for before, item in pairwise((None, *clause.items)):
        if isinstance(item, Group) and item.body is not None and item.query is None:
            windows = clause.word == "WINDOW" or is_word(before, "OVER")
            for inner in item.body.clauses:
                yield from _ordering_items(inner, over=windows)


def _lambda_names(items: Items) -> Iterator[str]:
    """Yield the lower-case names that `x ->` and `(x, y) ->` bind in an expression."""
    for item, *sign in zip(items, (*items[1:], None), (*items[2:], None, None), strict=False):
        tokens = [s for s in sign if isinstance(s, Token)]
        is_arrow = [str(s) for s in tokens] == ["-", ">"]
        arrow = is_arrow and tokens[0].end == tokens[1].start
        for words in item.word_lists() if isinstance(item, Nested) else ():
            yield from _lambda_names(words)
            yield from (unquote_name(w).lower() for w in words if arrow and is_name(w))
        if arrow and is_name(item):
            yield unquote_name(item).lower()
