"""The words of a ranking, read before any table: TOP, RANK BY with its options, FREQUENCY."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lark import Token

from sfumato.near_misses import near
from sfumato.sql.plan.given import duration_of
from sfumato.sql.plan.nodes import at
from sfumato.sql.text.references import arguments, is_name, is_type, is_word
from sfumato.sql.text.syntax import Clause, Group, Item, Measure, Name, end_of, start_of

SEMANTICS = {
    "PK_TOPK": "pk_topk",
    "GLOBAL_TOPK": "pk_topk",
    "PT_K": "pt_k",
    "U_TOPK": "u_topk",
    "U_KRANKS": "u_kranks",
    "EXPECTED_RANK": "expected_rank",
    "PRF": "prf",
    "PRFE": "prfe",
}
WITH_NUMBERS = {"pt_k": "PT_K(0.5)", "prf": "PRF(0.9)", "prfe": "PRFE(0.9)"}
PLANS = ("DP", "GREEDY", "NONE")
COLUMNS = ("RULES", "EXISTENCE", "STREAMS")  # options that name a column
OPTIONS = ("ASC", "DESC", "USING", *COLUMNS, "PLAN")
# Words of an expression, next to which EXISTENCE, STREAMS or PLAN is a column.
BEFORE_OPERAND = (
    *("AND", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "ESCAPE", "FROM", "ILIKE", "IN"),
    *("LIKE", "NOT", "OR", "REGEXP", "RLIKE", "THEN", "WHEN", "XOR"),
)
AFTER_OPERAND = (
    *("AND", "BETWEEN", "DIV", "ELSE", "END", "ESCAPE", "ILIKE", "IN", "IS", "LIKE", "NOT", "OR"),
    *("REGEXP", "RLIKE", "THEN", "WHEN", "XOR"),
)


@dataclass(frozen=True)
class Asked:
    """What a block's words ask for.

    top : the words from TOP to its number;  rest : whether more is selected after them
    every : microseconds, or None without FREQUENCY
    by : the expression of RANK BY, empty without one
    semantics : arguments of `sf.top_k`
    rules, existence, streams : columns, None where they are not named
    rescale : whether rules of probability above 1 are scaled
    """

    top: tuple[Token, Token]
    rest: bool
    k: int
    every: int | None
    by: tuple[Item, ...]
    ascending: bool
    semantics: tuple[tuple[str, Any], ...]
    using: str
    rules: Name | None
    rescale: bool
    existence: Name | None
    streams: Name | None
    plan: str
    clauses: tuple[Clause, ...]  # RANK BY and FREQUENCY, as far as they are there


def asked(clauses: Sequence[Clause], text: str) -> Asked | None:
    """What a block asks for, None if it has no TOP. Raises SqlError for what is wrong with it."""
    words: dict[str, Clause] = {}
    for clause in clauses:
        if clause.word in ("RANK_BY", "FREQUENCY") and clause.word in words:
            raise at(text, clause.place, f"{clause.keyword} is given twice")
        words.setdefault(clause.word, clause)
    items = words["SELECT"].items if "SELECT" in words else ()
    top = _top(items, words)
    if top is None:
        return None
    number, count = _number(items, top, text)
    rest = items[count:]
    if rest and is_type(rest[0], "COMMA"):
        raise at(text, rest[0], "a column is missing after TOP k", expected=("*", "a column"))
    rank = words.get("RANK_BY")
    by, options = _split_options(() if rank is None else rank.items)
    if rank is not None:
        _check_score(by, rank, text)
    seen = _options(options, text)
    semantics, using = seen.get("USING", ((("semantics", "pk_topk"),), "PK_TOPK"))
    return Asked(
        top=(top, number),
        rest=bool(rest),
        k=int(number),
        every=_every(words.get("FREQUENCY"), text),
        by=by,
        ascending=seen.get("ASC", False),
        semantics=semantics,
        using=using,
        rules=seen.get("RULES"),
        rescale=seen.get("RESCALE", False),
        existence=seen.get("EXISTENCE"),
        streams=seen.get("STREAMS"),
        plan=seen.get("PLAN", "dp"),
        clauses=tuple(words[word] for word in ("RANK_BY", "FREQUENCY") if word in words),
    )


def _top(items: tuple[Item, ...], words: dict[str, Clause]) -> Token | None:
    """The TOP of `TOP 3` and, in a ranking, of `TOP-3`; `top - 3` may be Spark's difference."""
    first = items[0] if items else None
    if not is_type(first, "NAME") or not is_word(first, "TOP"):
        return None
    numbered = len(items) > 1 and is_type(items[1], "NUMBER")
    return first if numbered or words.keys() & {"RANK_BY", "FREQUENCY"} else None


def _number(items: tuple[Item, ...], top: Token, text: str) -> tuple[Token, int]:
    """The k of `TOP k` or `TOP-k`, and how many words that takes."""
    place = 2 if len(items) > 2 and is_type(items[1], "MINUS") else 1
    number = items[place] if len(items) > place else None
    if not is_type(number, "NUMBER"):
        raise at(text, top, "TOP has no number of rows", expected=("SELECT TOP 3",))
    value = float(number)
    if not value.is_integer() or not 1 <= value < 2**31 or not number.isdigit():
        raise at(text, number, "the k of TOP is a whole number of at least 1")
    return number, place + 1


def _every(clause: Clause | None, text: str) -> int | None:
    """Microseconds of a FREQUENCY: `2 MINUTES`, `1 hour 30 mins`."""
    if clause is None:
        return None
    items = clause.items
    negative = bool(items) and is_type(items[0], "MINUS")
    parts = items[negative:]
    numbers = tuple(i for i in parts[0::2] if is_type(i, "NUMBER"))
    units = tuple(i for i in parts[1::2] if is_type(i, "NAME"))
    kinds = ("NUMBER", "NAME")
    extra = next((i for j, i in enumerate(parts) if not is_type(i, kinds[j % 2])), None)
    if not parts or extra is not None:
        place = clause.place if extra is None else extra
        reason = "FREQUENCY is the longest time between two answers"
        raise at(text, place, reason, expected=("FREQUENCY 2 MINUTES",))
    measure = Measure(start_of(items[0]), end_of(items[-1]), numbers, units, negative)
    every = duration_of("FREQUENCY", measure, text)
    if every <= 0:
        raise at(text, measure, "FREQUENCY must be positive")
    return every


def _split_options(items: tuple[Item, ...]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """The expression of RANK BY, and the words after it."""
    for i, item in enumerate(items):
        after = items[i + 1] if i + 1 < len(items) else None
        ends = after is None or (
            isinstance(after, Token) and (after.type == "COMMA" or near(after, OPTIONS) is not None)
        )
        if is_type(item, "NAME") and i and (
            (is_word(item, "ASC", "DESC") and ends)
            or (is_word(item, "USING", "RULES") and not is_type(items[i - 1], "DOT", "OPERATOR"))
            or (is_word(item, "EXISTENCE", "STREAMS", "PLAN") and _is_option(items, i))
        ):  # fmt: skip
            return items[:i], items[i:]
    return items, ()


def _is_option(items: tuple[Item, ...], i: int) -> bool:
    """Return whether the word at `i` follows a whole expression, so that it is no column of it."""
    before, after = items[i - 1], items[i + 1] if i + 1 < len(items) else None
    whole = isinstance(before, Group) or is_type(before, "NAME", "BACKQUOTED", "NUMBER", "STRING")
    if not whole or is_word(before, *BEFORE_OPERAND):
        return False
    open_cases = sum(is_word(item, "CASE") - is_word(item, "END") for item in items[:i])
    return open_cases == 0 and (after is None or _is_operand(after))


def _is_operand(item: Item | None) -> bool:
    """Return whether an item is a name, and not a word that goes on with an expression."""
    return is_name(item) and not is_word(item, *AFTER_OPERAND)


def _check_score(by: tuple[Item, ...], rank: Clause, text: str) -> None:
    first, second = (*by[:2], None, None)[:2]
    option = is_word(first, "EXISTENCE", "STREAMS", "PLAN") and _is_operand(second)
    if not by or is_word(by[0], "USING", "RULES") or option:
        raise at(text, rank.place, "RANK BY has no score", expected=("RANK BY column",))
    for item in by:
        if is_type(item, "COMMA"):
            raise at(text, item, "RANK BY takes one score: combine several in one expression")
    for one, other in pairwise(by):
        ends = is_name(one) and not is_word(one, *BEFORE_OPERAND)
        word = is_type(other, "NAME") and _is_operand(other)
        if ends and word and (likely := near(str(other), OPTIONS)):
            reason = f"{other} is not expected in RANK BY"
            raise at(text, other, reason, expected=OPTIONS, suggestion=likely)


def _options(items: tuple[Item, ...], text: str) -> dict[str, Any]:
    """Read the options behind the score: by word, ASC for both directions."""
    seen: dict[str, Any] = {}
    i = 0
    while i < len(items):
        word = items[i]
        kind = word.upper() if is_word(word, *OPTIONS) else None
        if kind is None:
            likely = near(word, OPTIONS) if isinstance(word, Token) else None
            reason = f"{text[start_of(word) : end_of(word)]} is not expected in RANK BY"
            raise at(text, word, reason, expected=OPTIONS, suggestion=likely)
        place = "ASC" if kind == "DESC" else kind
        if place in seen:
            raise at(text, word, f"{word} is given twice")
        if kind in ("ASC", "DESC"):
            seen[place], i = kind == "ASC", i + 1
        elif kind == "USING":
            seen[place], i = _semantics(items, i + 1, word, text)
        elif kind == "PLAN":
            seen[place], i = _plan(items, i + 1, word, text)
        else:
            seen[place], i = _column(items, i + 1, word, text)
        if kind == "RULES" and i < len(items) and is_word(items[i], "RESCALE"):
            seen["RESCALE"], i = True, i + 1
    return seen


def _plan(items: tuple[Item, ...], i: int, word: Item, text: str) -> tuple[str, int]:
    name = items[i] if i < len(items) else None
    if not is_type(name, "NAME"):
        raise at(text, name or word, "PLAN has no name", expected=PLANS)
    if not is_word(name, *PLANS):
        reason = f"there is no plan {name}"
        raise at(text, name, reason, expected=PLANS, suggestion=near(name, PLANS))
    return name.lower(), i + 1


def _semantics(
    items: tuple[Item, ...], i: int, word: Item, text: str
) -> tuple[tuple[tuple[tuple[str, Any], ...], str], int]:
    name = items[i] if i < len(items) else None
    known = tuple(WITH_NUMBERS.get(s, n) for n, s in SEMANTICS.items())
    if not is_type(name, "NAME"):
        raise at(text, name or word, "USING has no semantics", expected=known)
    semantics = SEMANTICS.get(name.upper())
    if semantics is None:
        likely = near(name, SEMANTICS)
        reason = f"the semantics {name} are unknown"
        raise at(text, name, reason, expected=known, suggestion=likely)
    following = items[i + 1] if i + 1 < len(items) else None
    call = following if isinstance(following, Group) else None
    place = call or name
    numbers = [] if call is None else [_value(a, call, text) for a in arguments(call)]
    if bool(numbers) != (semantics in WITH_NUMBERS):
        example = WITH_NUMBERS.get(semantics, name.upper())
        reason = f"{name} takes " + ("a number" if semantics in WITH_NUMBERS else "no number")
        raise at(text, place, reason, expected=(example,))
    if len(numbers) > 1 and semantics != "prf":
        raise at(text, place, f"{name} takes one number", expected=(WITH_NUMBERS[semantics],))
    single = numbers[0] if len(numbers) == 1 else None
    if single is not None and not 0 < single <= 1:
        raise at(text, place, f"the number of {name} lies above 0 and is at most 1 (or 100%)")
    given: tuple[tuple[str, Any], ...] = (("semantics", semantics),)
    if semantics == "pt_k":
        given += (("probability", single),)
    elif semantics == "prf" and single is None:
        given += (("weights", tuple(numbers)),)
    elif single is not None:
        given = (("semantics", "prfe"), ("alpha", single))
    after = i + 1 + (call is not None)
    return (given, text[start_of(name) : end_of(items[after - 1])]), after


def _value(items: tuple[Item, ...], call: Group, text: str) -> float:
    """A number or percentage."""
    negative = bool(items) and is_type(items[0], "MINUS")
    number, *more = items[negative:] or (None,)
    if not is_type(number, "NUMBER") or any(m != "%" for m in more):
        raise at(text, call, "expected a number", expected=("0.5", "50%"))
    value = float(number) / (100 if more else 1)
    return -value if negative else value


def _column(items: tuple[Item, ...], i: int, word: Item, text: str) -> tuple[Name, int]:
    end, parts = i, []
    while end < len(items) and is_name(part := items[end]):
        parts.append(part)
        end += 1
        if end + 1 < len(items) and is_type(items[end], "DOT"):
            end += 1
        else:
            break
    if not parts or len(parts) > 2:
        kind = text[start_of(word) : end_of(word)].upper()
        raise at(text, word, f"{kind} has no column", expected=(f"{kind} column",))
    return Name(start_of(parts[0]), end_of(parts[-1]), tuple(parts)), end
