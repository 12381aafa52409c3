"""What Spark would do to a distribution as to any array, and nobody means."""

from collections.abc import Callable, Iterator

from sfumato.sql.plan.block import Block
from sfumato.sql.plan.measures import attribute_argument, is_measure_of, outside_measures
from sfumato.sql.plan.nodes import at
from sfumato.sql.text.references import (
    AGGREGATES,
    Reference,
    alias_of,
    is_name,
    is_word,
    list_items,
    operator_of,
    references,
    word_lists,
)
from sfumato.sql.text.syntax import Clause, Group, Index, Item, end_of, plain, start_of

NOT_HERE = ("WHERE", "RANK_BY", "FREQUENCY")  # they are about alternatives


def refuse_aggregates(block: Block) -> None:
    """Raise SqlError for an aggregate of Spark's over an uncertain attribute."""
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


def refuse_uncertain_conditions(block: Block) -> None:
    """Raise SqlError for a join on an uncertain attribute."""
    for items in block.conditions():
        if not any(is_word(item, "ON") for item in items):
            continue
        for reference in _uncertain(items, block):
            name = reference.parts[-1]
            reason = f"a join on the uncertain {name}: compare EXPECTED({name})"
            raise at(block.text, reference.words[0], reason, expected=("SIMILARITY JOIN",))


def refuse_uncertain_operands(block: Block, done: Callable[[int], bool]) -> None:
    """Raise SqlError where a distribution is compared, computed with, ordered or grouped by.

    done : whether what stands at a place of the text has another meaning
    """
    select = block.clause("SELECT")
    renamed = set() if select is None else set(_aliases(select, block))
    for clause in block.clauses:
        if clause.word in NOT_HERE:
            continue
        for items, what in _ordering(clause):
            for reference in _uncertain(items, block):
                if not done(reference.start) and reference.parts[-1].lower() not in renamed:
                    raise _refused(block, reference, what)
        distinct = clause.word == "SELECT" and is_word(next(iter(clause.items), None), "DISTINCT")
        for reference in _uncertain(clause.items, block):
            if done(reference.start):
                continue
            if distinct and reference.whole:
                raise _refused(block, reference, "DISTINCT compares numbers")
            sign = operator_of(reference)
            if sign:
                raise _refused(block, reference, f"{sign} takes a number")


def _refused(block: Block, reference: Reference, what: str) -> Exception:
    name = ".".join(reference.parts[:2])
    reason = f"{name} is uncertain, a distribution, and {what}: EXPECTED({name}) is one"
    return at(block.text, reference.words[0], reason, expected=(f"EXPECTED({name})",))


def _uncertain(items: tuple[Item, ...], block: Block) -> Iterator[Reference]:
    """The references to uncertain attributes that stand for their distributions."""
    bound = set(_lambda_names(items))
    for reference in references(items, enter=outside_measures(block.sources)):
        parts = reference.parts
        if reference.call is not None or parts[0].lower() in bound:
            continue
        if any(source.meant(parts) for source in block.sources):
            yield reference


def _ordering(clause: Clause) -> Iterator[tuple[tuple[Item, ...], str]]:
    """The words that rows are ordered or grouped by, and what to say of them."""
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
    """The words of a list without the arguments of its calls."""
    return tuple(item for item in items if not isinstance(item, Group | Index))


def _aliases(select: Clause, block: Block) -> Iterator[str]:
    """The names, in lower case, that a SELECT gives to something else than a distribution."""
    for item in list_items(select.items):
        name, said = alias_of(item)
        if name is not None and not any(r.whole for r in _uncertain(said, block)):
            yield plain(name).lower()


def _lambda_names(items: tuple[Item, ...]) -> Iterator[str]:
    """The names, in lower case, that `x ->` and `(x, y) ->` bind somewhere in an expression."""
    for i, item in enumerate(items):
        arrow = (
            i + 2 < len(items)
            and str(items[i + 1]) == "-"
            and str(items[i + 2]) == ">"
            and end_of(items[i + 1]) == start_of(items[i + 2])
        )
        inside = [] if not isinstance(item, Group | Index) or item.body is None else [item.body]
        lists = [words for body in inside if not body.is_query for words in word_lists(body)]
        for words in lists:
            yield from _lambda_names(words)
            if arrow:
                yield from (plain(word).lower() for word in words if is_name(word))
        if arrow and is_name(item):
            yield plain(item).lower()
