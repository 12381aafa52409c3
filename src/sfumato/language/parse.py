"""From text to syntax tree. Parsing only reads: nothing is resolved and nothing can run.

`grammar.lark` says where the words of our constructs can stand (in a bracket, after SIMILARITY
JOIN, in the options of IMPUTE). Which words there are, and what follows each, is a vocabulary.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from sfumato.language import syntax
from sfumato.language.errors import SqlError
from sfumato.language.syntax import end_of, start_of, words
from sfumato.near_misses import near
from sfumato.sql_tokens import TokenError, tokenize

GRAMMAR = Path(__file__).with_name("grammar.lark")
Span = tuple[int, int]
# Words that follow a table name without AS and are not its alias: they begin something else.
NO_ALIAS = frozenset(
    words(
        "ANTI ASOF CROSS EXCEPT FOR FULL IMPUTE INNER INTERSECT LATERAL LEFT MINUS NATURAL ON "
        "OUTER PIVOT RIGHT SEMI SETMINUS TABLESAMPLE TIMESTAMP UNION UNPIVOT USING VERSION "
        "WATERMARK"
    )
)


# How messages call the grammar's terminals; the others are called what they are.
SPELLED = {
    "RPAR": ")",
    "LPAR": "(",
    "RSQB": "]",
    "LSQB": "[",
    "COMMA": "a comma",
    "DOT": "a dot",
    "NAME": "a name",
    "BACKQUOTED": "a name",
    "NUMBER": "a number",
    "MINUS": "-",
    "PERCENT": "%",
    "EQUAL": "=",
    "$END": "the end",
    "_SEMICOLON": ";",
}
NEVER_NAMED = {"BACKQUOTED", "MINUS", "$END", "_SEMICOLON", "COMMA", "DOT", "STRING"}
CLAUSE_WORDS = words("SELECT FROM WHERE GROUP HAVING ORDER LIMIT UNION JOIN")
CLOSES = {"LPAR": "RPAR", "LSQB": "RSQB"}


RULE_OF_PLACE = {"bracket": "window_option", "join": "join_option", "impute": "impute_option"}
"""Where words can stand, and the grammar's rule of what stands there."""
PATTERNS = {
    "ORDER": r'"order"i /\b/ (_GAP /by\b/i)?',  # ORDER BY is the same word
    "NOTHING": r"/(?!)x/",  # stands for words where only the rest of the grammar is wanted
}
OWN_TERMINALS = re.compile(
    r"\b(numbers?|fraction|duration|choice)\b"
)  # rules that joins have their own of


@dataclass(frozen=True)
class Word:
    """One word of a construct.

    word : as messages spell it, upper case
    shape : what follows it, in rules of `grammar.lark`: "number", "numbers" (one, or several in
        parentheses), "fraction", "duration", "name" (a column), "names" (columns), "choice" (a word
        that the function knows), "" for nothing, ...
    argument : the function's argument that it gives; "": the construct itself reads it
    constant : the argument's value where nothing follows
    default : for a column, the one that is taken without the word, if the table has it
    needed : whether the construct must have it
    repeated : whether it may be given several times
    """

    word: str
    shape: str = ""
    argument: str = ""
    constant: Any = None
    default: str | None = None
    needed: bool = False
    repeated: bool = False


Vocabulary: TypeAlias = Mapping[str, Sequence[Word]]
"""The words that can stand at each of `RULE_OF_PLACE`."""


def fragment(vocabulary: Vocabulary) -> str:
    """Return the rules and terminals of all words, to follow `grammar.lark`.

    Raises ValueError for a word that two constructs at one place let different things follow.
    """
    lines, terminals = [], set()
    for place, rule in RULE_OF_PLACE.items():
        shapes: dict[str, str] = {}
        for word in vocabulary.get(place, ()) or [Word("NOTHING")]:
            if shapes.setdefault(word.word, word.shape) != word.shape:
                raise ValueError(
                    f"{word.word} is followed by {shapes[word.word]!r} in one construct and by "
                    f"{word.shape!r} in another: choose another word"
                )
        if place == "join":
            shapes = {word: OWN_TERMINALS.sub(r"join_\1", shape) for word, shape in shapes.items()}
        alternatives = [
            f"{word} {shape} -> option".replace("  ", " ") for word, shape in shapes.items()
        ]
        lines.append(f"{rule}: " + "\n    | ".join(alternatives))
        terminals |= set(shapes)
    for name in sorted(terminals):
        lines.append(f"{name}.5: " + PATTERNS.get(name, rf"/{name.lower()}\b/i"))
    return "\n".join(lines) + "\n"


@cache
def parser(fragment: str) -> Lark:
    """Return the parser with the words of constructs, built once per process (about 0.1 s)."""
    return Lark(
        f"{GRAMMAR.read_text(encoding='utf-8')}\n{fragment}",
        parser="lalr",
        start="script",
        propagate_positions=True,
    )


def parse(text: str, vocabulary: Vocabulary, *, trusted: bool = False) -> syntax.Script:
    """Return the statements of a script, separated by `;`, in linear time.

    trusted : whether the text may hold what only Spark knows, such as hints

    Raises SqlError where a bracket or a similarity join is not written as it should be, where a
    quote, parenthesis or bracket is not closed, or where there is no statement. Spark's own syntax
    is not judged.
    """
    read, refused = None, None
    if not trusted:
        try:
            read = tuple(tokenize(text, constructs=True))
        except TokenError as error:
            refused = SqlError(str(error), text=text, start=error.start, end=error.end)
            if not error.is_open:  # else the parser tells what is likely to be missing
                raise refused from None
    found: list[Token] = []
    run = parser(fragment(vocabulary)).parse_interactive(text)
    try:
        for token in run.iter_parse():
            found.append(token)
        statements = ToSyntax().transform(run.feed_eof(found[-1] if found else None))
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedToken):
            error.interactive_parser = run
        raise _explained(error, text, found, vocabulary) from None
    except (VisitError, RecursionError) as error:
        if isinstance(error, VisitError) and not isinstance(error.orig_exc, RecursionError):
            raise
        raise SqlError("parentheses are nested too deeply", text=text, start=0, end=0) from None
    if refused is not None:
        raise refused
    if not statements:
        raise SqlError("there is no query here", text=text, start=0, end=0, expected=("SELECT",))
    return syntax.Script(text, tuple(statements), tuple(found), read)


class _With(NamedTuple):
    word: Token | None
    ctes: tuple[syntax.Cte, ...]
    recursive: bool


class _Alias(NamedTuple):
    token: Token
    explicit: bool  # written with AS


class _Rest(NamedTuple):
    items: tuple[syntax.Item, ...]


class _Function(NamedTuple):
    name: syntax.Name
    call: syntax.Group


def _last(piece: Any) -> Any:
    """Return what a piece of a relation ends with."""
    if isinstance(piece, _Alias):
        return piece.token
    return piece.call if isinstance(piece, _Function) else piece


def _with_span(rule: Callable[..., Any], data: str, children: list[Any], meta: Meta) -> Any:
    span = (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)
    return rule(span, children)


@v_args(wrapper=_with_span)
class ToSyntax(Transformer[Token, Any]):
    """One method per grammar rule; children arrive already converted, with the rule's span."""

    def script(self, span: Span, statements: list[syntax.Statement]) -> list[syntax.Statement]:
        return statements

    def statement(self, span: Span, children: list[Any]) -> syntax.Statement:
        return syntax.Statement(*span, len(children) > 1, children[-1])

    def body(self, span: Span, children: list[Any]) -> syntax.Body:
        with_ = children.pop(0) if isinstance(children[0], _With) else _With(None, (), False)
        return syntax.Body(*span, with_.word, with_.ctes, with_.recursive, tuple(children))

    def ctes(self, span: Span, children: list[Any]) -> _With:
        recursive = not isinstance(children[1], syntax.Cte)
        return _With(children[0], tuple(children[1 + recursive :]), recursive)

    def cte(self, span: Span, children: list[Any]) -> syntax.Cte:
        columns = children[1] if isinstance(children[1], syntax.Group) else None
        return syntax.Cte(*span, children[0], columns, children[-1])

    def after_ctes(self, span: Span, children: list[Any]) -> syntax.Clause:
        items = children[1].items if len(children) > 1 else ()
        return syntax.Clause(*span, None, (children[0], *items))

    def clause(self, span: Span, children: list[Any]) -> syntax.Clause:
        items = children[1].items if len(children) > 1 else ()
        return syntax.Clause(*span, children[0], items)

    def items(self, span: Span, children: list[syntax.Item]) -> syntax.Clause:
        return syntax.Clause(*span, None, tuple(children))

    def group(self, span: Span, children: list[syntax.Body]) -> syntax.Group:
        return syntax.Group(*span, children[0] if children else None)

    def index(self, span: Span, children: list[syntax.Body]) -> syntax.Index:
        return syntax.Index(*span, children[0] if children else None)

    # tables

    def from_clause(self, span: Span, children: list[Any]) -> syntax.FromClause:
        return syntax.FromClause(*span, children[0], tuple(children[1:]))

    def joined(self, span: Span, children: list[Any]) -> syntax.Relation:
        return children[1]

    def relation(self, span: Span, children: list[Any]) -> syntax.Relation:
        rest = children.pop().items if isinstance(children[-1], _Rest) else ()
        head, call = children[0] if children else None, None
        if isinstance(head, _Function):
            head, call = head
        bracket = next((c for c in children if isinstance(c, syntax.Bracket)), None)
        imputation = next((c for c in children if isinstance(c, syntax.Impute)), None)
        alias = next((c for c in children if isinstance(c, _Alias)), None)
        pieces = [_last(child) for child in children]
        own_end = end_of(pieces[-1]) if pieces else span[0]
        last = alias is not None and pieces[-1] is alias.token and not alias.explicit
        if alias and last and alias.token.upper() in NO_ALIAS:
            rest, alias, own_end = (alias.token, *rest), None, end_of(pieces[-2])
        token = alias.token if alias else None
        return syntax.Relation(*span, head, token, bracket, rest, own_end, imputation, call)

    side = relation

    def head(self, span: Span, children: list[Any]) -> Any:
        if isinstance(children[0], syntax.Group | _Function):
            return children[0]
        return self.column(span, children)

    def function(self, span: Span, children: list[Any]) -> _Function:
        *words, call = children
        return _Function(self.column((start_of(words[0]), end_of(words[-1])), words), call)

    def column(self, span: Span, children: list[Token]) -> syntax.Name:
        return syntax.Name(*span, tuple(w for w in children if w.type != "DOT"))

    name = column
    choice = column

    def names(self, span: Span, children: list[syntax.Name]) -> tuple[syntax.Name, ...]:
        return tuple(c for c in children if isinstance(c, syntax.Name))

    def alias(self, span: Span, children: list[Token]) -> _Alias:
        return _Alias(children[-1], explicit=len(children) > 1)

    def rest(self, span: Span, children: list[syntax.Item]) -> _Rest:
        return _Rest(tuple(children))

    odd = rest
    after_open = rest

    # constructs

    def bracket(self, span: Span, options: list[syntax.Option]) -> syntax.Bracket:
        return syntax.Bracket(*span, tuple(options))

    def option(self, span: Span, children: list[Any]) -> syntax.Option:
        keyword, *values = children
        lists = [value if isinstance(value, tuple) else (value,) for value in values]
        names = tuple(v for listed in lists for v in listed if isinstance(v, syntax.Name))
        measures = tuple(v for listed in lists for v in listed if isinstance(v, syntax.Measure))
        return syntax.Option(*span, keyword.type, measures, names)

    def number(self, span: Span, children: list[Token]) -> syntax.Measure:
        return syntax.Measure(
            *span,
            tuple(c for c in children if c.type == "NUMBER"),
            negative=children[0].type == "MINUS",
            percent=children[-1].type == "PERCENT",
        )

    fraction = number

    def numbers(self, span: Span, children: list[syntax.Measure]) -> tuple[syntax.Measure, ...]:
        return tuple(children)

    def unit(self, span: Span, children: list[Token]) -> Token:
        return children[0]

    def duration(self, span: Span, children: list[Any]) -> syntax.Measure:
        first, *others = children
        numbers = first.numbers + tuple(c for c in others if c.type == "NUMBER")
        units = tuple(c for c in others if c.type == "NAME")
        return syntax.Measure(*span, numbers, units, first.negative)

    def imputation(self, span: Span, children: list[Any]) -> syntax.Impute:
        *attributes, repository = (c for c in children if isinstance(c, syntax.Name))
        texts = tuple(c for c in children if isinstance(c, Token) and c.type == "STRING")
        options = tuple(c for c in children if isinstance(c, syntax.Option))
        return syntax.Impute(*span, children[0], tuple(attributes), repository, texts, options)

    def similarity_join(self, span: Span, children: list[Any]) -> syntax.SimilarityJoinClause:
        keyword, side, *more = children
        on = tuple(c for c in more if isinstance(c, syntax.Name))
        options = tuple(c for c in more if isinstance(c, syntax.Option))
        return syntax.SimilarityJoinClause(*span, keyword, side, on, options)


def _explained(
    error: UnexpectedInput, text: str, found: Iterable[Token], vocabulary: Vocabulary
) -> SqlError:
    """Return Lark's finding in the user's terms; `found` : the tokens up to it."""
    if isinstance(error, UnexpectedCharacters):
        return _unreadable(error.pos_in_stream or 0, text)
    assert isinstance(error, UnexpectedToken)
    token, accepts = error.token, set(error.accepts or error.expected)
    at_end = token.type == "$END"
    start = len(text.rstrip()) if at_end else start_of(token)
    opened = _innermost_open(found, start)
    if opened is not None and (at_end or token.type in CLOSES.values()):
        bracket, position = opened
        if at_end or CLOSES[bracket] != token.type:
            reason = f"this {SPELLED[bracket]} is not closed"
            expected = (SPELLED[CLOSES[bracket]],)
            return SqlError(reason, text=text, start=position, end=position + 1, expected=expected)
    if opened is None and token.type in CLOSES.values():
        reason = f"unmatched {token}"
        return SqlError(reason, text=text, start=start, end=start + 1)
    place, ours = _accepted(accepts, vocabulary)
    others = sorted({SPELLED.get(t, t) for t in accepts - set(ours) - NEVER_NAMED})
    if ours:  # what else could follow is Spark's, and too much to list
        others = [word for word in others if word == "]"]
    return SqlError(
        "the query ends too early" if at_end else _unexpected(token, place),
        text=text,
        start=start,
        end=start if at_end else end_of(token),
        expected=ours + others,
        suggestion=None if at_end else near(str(token), ours),
    )


def _accepted(accepts: set[str], vocabulary: Vocabulary) -> tuple[str, list[str]]:
    """Return the place of `RULE_OF_PLACE` where a text went wrong, and the words that fit there.

    Of places that share words it is the one with more of them.
    """
    found = {
        place: list(dict.fromkeys(w.word for w in vocabulary.get(place, ()) if w.word in accepts))
        for place in RULE_OF_PLACE
    }
    place = max(found, key=lambda place: len(found[place]))
    return (place, found[place]) if found[place] else ("", [])


def _unexpected(token: Token, place: str) -> str:
    """Describe why a word cannot stand where it stands."""
    if place == "bracket" and token.upper().split()[0] in CLAUSE_WORDS:
        return f"{token} inside a window: its ] is missing"
    where = {
        "bracket": "in a window",
        "impute": "in the options of IMPUTE",
        "join": "after SIMILARITY JOIN",
    }
    return f"{token} is not expected {where.get(place, 'here')}"


def _unreadable(position: int, text: str) -> SqlError:
    """Return the error about a character that begins no word: mostly a quote without its end."""
    opening = text[position]
    if opening in "'\"`":
        reason = f"this {opening} is never closed"
        return SqlError(reason, text=text, start=position, end=position + 1)
    reason = f"unexpected character {opening!r}"
    return SqlError(reason, text=text, start=position, end=position + 1)


def _innermost_open(found: Iterable[Token], end: int) -> tuple[str, int] | None:
    """Return the last parenthesis or bracket that is open at `end`, and its position."""
    stack: list[tuple[str, int]] = []
    for token in found:
        if start_of(token) >= end:
            break
        if token.type in CLOSES:
            stack.append((token.type, start_of(token)))
        elif stack and token.type == CLOSES[stack[-1][0]]:
            stack.pop()
    return stack[-1] if stack else None
