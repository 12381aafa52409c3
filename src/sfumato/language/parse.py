"""The parser of query text into a syntax tree; it does not resolve or run anything.

`grammar.lark` defines the positions of construct words (in a bracket, after SIMILARITY JOIN, in
the options of IMPUTE). A vocabulary defines the words and the syntax after each word.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, Transformer, Tree, UnexpectedCharacters, UnexpectedToken, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from sfumato.language import syntax
from sfumato.language.syntax import SqlError, Token, at
from sfumato.near_misses import near
from sfumato.sql_tokens import TokenError, tokenize

GRAMMAR = Path(__file__).with_name("grammar.lark")
NO_ALIAS = syntax.word_set(
    "ANTI ASOF CROSS EXCEPT FOR FULL IMPUTE INNER INTERSECT LATERAL LEFT MINUS NATURAL ON OUTER "
    "PIVOT RIGHT SEMI SETMINUS TABLESAMPLE TIMESTAMP UNION UNPIVOT USING VERSION WATERMARK"
)
"""Words after a table name that are not an alias, because they start another clause."""
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
    "PERCENT": "%",
    "EQUAL": "=",
}
"""Names of terminals in messages; other terminals keep their names."""
NEVER_NAMED = {"BACKQUOTED", "MINUS", "$END", "_SEMICOLON", "COMMA", "DOT", "STRING"}
CLAUSE_WORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "JOIN")
INSTEAD = {  # replacements for words that other systems, or functions, use for windows
    "MISSED": "FROM window_aggregate(s, ..., missed => true)",
    "ON": "WATTR, then the column of event time",
    "PARTITION": "KEY, then the key columns",
    "TUMBLE": "RANGE 10 MINUTES",
    "TUMBLING": "RANGE 10 MINUTES",
    "HOP": "RANGE 10 MINUTES SLIDE 5 MINUTES",
    "HOPPING": "RANGE 10 MINUTES SLIDE 5 MINUTES",
    "SESSION": "FROM window_aggregate(s, map('n', 'count(*)'), window => session('5 minutes'), "
    "order => ts)",
}
WRITTEN_LENGTH = re.compile(
    r"[^])]*?\b(\d+(?:\.\d+)?)'?\s+((?:milli|micro)?seconds?|minutes?|hours?|days?|weeks?)\b", re.I
)
CLOSES = {"LPAR": "RPAR", "LSQB": "RSQB"}
PLACES = {
    "bracket": ("window_option", "in a window"),
    "join": ("join_option", "after SIMILARITY JOIN"),
    "impute": ("impute_option", "in the options of IMPUTE"),
    "rank": ("rank_option", "in RANK BY"),
}
"""Positions of words: the grammar rule of the position, and its name in messages."""
# A column may have an option's name. Then no name follows, except a word that continues the score.
GOES_ON = (
    "and|between|div|else|end|escape|ilike|in|is|like|not|or|regexp|rlike|then|when|xor|"
    "asc|desc|using|rules|existence|streams|plan|processing|frequency|order|limit"
)
NAME_FOLLOWS = rf"(?=\s+[\w`])(?!\s+(?:{GOES_ON})\b)"
NO_SIGN_FOLLOWS = r"\b(?!\s*[-+*\/%.,(<>=])"
PATTERNS = {
    **{
        w.upper(): rf"/(?<!\.){w}{NAME_FOLLOWS}/i"
        for w in ("rules", "existence", "streams", "plan")
    },
    **{w.upper(): rf"/(?<!\.){w}{NO_SIGN_FOLLOWS}/i" for w in ("asc", "desc", "rescale")},
    "PROCESSING_TIME": r'"processing"i _GAP /time\b/i',
    "ORDER": r'"order"i /\b/ (_GAP /by\b/i)?',  # ORDER BY is the same word
    "NOTHING": r"/(?!)x/",  # placeholder where no words are allowed
}
TEMPLATES = re.compile(r"\b(numbers?|fraction|duration|choice)\b")
"""Rules with a copy for each position."""


@dataclass(frozen=True)
class Word:
    """One word of a construct.

    word : spelling in messages, in upper case
    shape : the syntax after it, as rules of `grammar.lark`: "number", "numbers" (one, or several in
        parentheses), "fraction", "duration", "name" (a column), "names" (columns), "choice" (a word
        that the function accepts), "STRING", "" for nothing, ...
    argument : the function's argument that it sets, or "" if the construct itself reads the word
    constant : the argument's value if nothing follows
    default : the column that is used without the word, if the table has this column
    needed : whether the construct requires it;  repeated : whether it may be repeated
    """

    word: str
    shape: str = ""
    argument: str = ""
    constant: Any = True
    default: str | None = None
    needed: bool = False
    repeated: bool = False


Vocabulary: TypeAlias = Mapping[str, Sequence[Word]]
"""The words allowed at each of `PLACES`."""


def fragment(vocabulary: Vocabulary) -> str:
    """Return the rules and terminals of all words, to append to `grammar.lark`.

    Raises ValueError for a word with different syntax in two constructs at one position.
    """
    lines, terminals = [], set()
    for place, (rule, _) in PLACES.items():
        shapes: dict[str, str] = {}
        for word in vocabulary.get(place, ()) or [Word("NOTHING")]:
            if shapes.setdefault(word.word, word.shape) != word.shape:
                raise ValueError(
                    f"{word.word} is followed by {shapes[word.word]!r} in one construct and by "
                    f"{word.shape!r} in another: choose a different word"
                )
        copy = rf"\1{{{rule}}}"
        alternatives = [f"{w} {TEMPLATES.sub(copy, of)} -> option" for w, of in shapes.items()]
        lines.append(f"{rule}: " + "\n    | ".join(alternatives))
        terminals |= set(shapes)
    for name in sorted(terminals):
        lines.append(f"{name}.5: " + PATTERNS.get(name, rf"/{name.lower()}\b/i"))
    return "\n".join(lines) + "\n"


@cache
def parser(fragment: str) -> Lark:
    """Return the parser of the grammar with a fragment; building it takes about 0.1 s."""
    grammar = f"{GRAMMAR.read_text(encoding='utf-8')}\n{fragment}"
    return Lark(grammar, parser="lalr", start="script", propagate_positions=True)


def parse(text: str, vocabulary: Vocabulary, *, trusted: bool = False) -> syntax.Script:
    """Return the statements of a script, separated by `;`, in linear time.

    trusted : whether the text may contain Spark syntax that is otherwise refused, such as hints

    Raises SqlError for a malformed bracket or similarity join, an unclosed quote, parenthesis or
    bracket, and text without a statement. Spark's own syntax is not checked.
    """
    read, refused = None, None
    if not trusted:
        try:
            read = tuple(tokenize(text, constructs=True))
        except TokenError as error:
            refused = SqlError(str(error), error.start, error.end)
            if not error.is_open:  # otherwise, the parser reports the token that is missing
                raise refused from None
    found: list[Any] = []  # of Token
    run = parser(fragment(vocabulary)).parse_interactive(text)
    try:
        for word in run.lexer_thread.lex(run.parser_state):
            word.__class__ = Token  # copies would make the parser 14% slower
            found.append(word)
            run.feed_token(word)
        statements = ToSyntax().transform(run.feed_eof(found[-1] if found else None))
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedToken):
            error.interactive_parser = run
        raise _syntax_error(error, text, found, vocabulary) from None
    except (VisitError, RecursionError) as error:
        if isinstance(error, VisitError) and not isinstance(error.orig_exc, RecursionError):
            raise
        raise SqlError("parentheses are nested too deeply", 0, 0) from None
    if refused is not None:
        raise refused
    if not statements:
        raise SqlError("the text contains no query", 0, 0, expected=("SELECT",))
    return syntax.Script(text, statements, tuple(found), read)


def _first(children: Iterable[Any], *kinds: type) -> Any:
    return next((child for child in children if isinstance(child, kinds)), None)


def _all(children: Iterable[Any], kind: type) -> tuple[Any, ...]:
    return tuple(child for child in children if isinstance(child, kind))


def _with_span(rule: Callable[..., Any], data: str, children: list[Any], meta: Meta) -> Any:
    span = (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)
    return rule(span, children)


Span = tuple[int, int]


@v_args(wrapper=_with_span)
class ToSyntax(Transformer[Token, Any]):
    """Converter to syntax nodes, with one method per grammar rule; children are converted first.

    Rules without a method remain trees: `alias`, `function` and the words after a table.
    """

    def statement(self, span: Span, children: list[Any]) -> syntax.Statement:
        return syntax.Statement(*span, len(children) > 1, children[-1])

    def body(self, span: Span, children: list[Any]) -> syntax.Body:
        opening, ctes = _all(children, Token), _all(children, syntax.Cte)  # WITH [RECURSIVE]
        with_token = opening[0] if opening else None
        recursive, clauses = len(opening) > 1, _all(children, syntax.Clause)
        return syntax.Body(*span, with_token, ctes, recursive, clauses)

    def cte(self, span: Span, children: list[Any]) -> syntax.Cte:
        columns = children[1] if isinstance(children[1], syntax.Group) else None
        return syntax.Cte(*span, children[0], columns, children[-1])

    def words(self, span: Span, children: list[syntax.Item]) -> syntax.Clause:
        return syntax.Clause(*span, None, tuple(children))

    def clause(self, span: Span, children: list[Any]) -> syntax.Clause:
        return syntax.Clause(*span, children[0], tuple(children[1:]))

    def rank_clause(self, span: Span, children: list[Any]) -> syntax.Clause:
        options = _all(children, syntax.Option)
        items = tuple(children[1 : len(children) - len(options)])
        return syntax.Clause(*span, children[0], items, options=options)

    def frequency(self, span: Span, children: list[Any]) -> syntax.Clause:
        option = syntax.Option(*span, "FREQUENCY", (children[1],))
        return syntax.Clause(*span, children[0], (), options=(option,))

    def group(self, span: Span, children: list[syntax.Body]) -> syntax.Group:
        return syntax.Group(*span, children[0] if children else None)

    def index(self, span: Span, children: list[syntax.Body]) -> syntax.Index:
        return syntax.Index(*span, children[0] if children else None)

    # tables

    def from_clause(self, span: Span, children: list[Any]) -> syntax.Clause:
        return syntax.Clause(*span, children[0], (), _all(children, syntax.Relation))

    def relation(self, span: Span, children: list[Any]) -> syntax.Relation:
        trees = {child.data: child for child in _all(children, Tree)}
        after = trees.get("rest")
        rest = () if after is None else tuple(after.children)
        head, call = _first(children, syntax.Name, syntax.Group), None
        if "function" in trees:
            *words, call = trees["function"].children
            head = self.column((words[0].start, words[-1].end), words)
        pieces = [child for child in children if child is not after]
        lasts: list[Any] = [c.children[-1] if isinstance(c, Tree) else c for c in pieces]
        ends = [last.end for last in lasts]
        alias = trees["alias"].children if "alias" in trees else [None]
        if alias[0] and pieces[-1] is trees["alias"] and alias[0].upper() in NO_ALIAS:
            rest, alias = (*alias, *rest), [None]
            ends.pop()
        bracket = _first(children, syntax.Bracket)
        imputation = _first(children, syntax.Impute)
        own_end = ends[-1] if ends else span[0]
        return syntax.Relation(*span, head, alias[-1], bracket, rest, own_end, imputation, call)

    side = relation

    def head(self, span: Span, children: list[Any]) -> Any:
        is_other = isinstance(children[0], syntax.Group | Tree)
        return children[0] if is_other else self.column(span, children)

    def column(self, span: Span, children: list[Token]) -> syntax.Name:
        return syntax.Name(*span, tuple(w for w in children if w.type != "DOT"))

    name = column
    choice = column

    def names(self, span: Span, children: list[Any]) -> tuple[Any, ...]:
        return tuple(children)

    script = numbers = names

    # constructs

    def bracket(self, span: Span, options: list[syntax.Option]) -> syntax.Bracket:
        return syntax.Bracket(*span, tuple(options))

    def option(self, span: Span, children: list[Any]) -> syntax.Option:
        keyword, *values = children
        flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,))]
        measures, names = _all(flat, syntax.Measure), _all(flat, syntax.Name)
        strings = tuple(token for token in _all(flat, Token) if token.type == "STRING")
        return syntax.Option(*span, keyword.type, measures, names, strings)

    def number(self, span: Span, children: list[Token]) -> syntax.Measure:
        numbers = tuple(c for c in children if c.type == "NUMBER")
        negative, percent = children[0].type == "MINUS", children[-1].type == "PERCENT"
        return syntax.Measure(*span, numbers, (), negative, percent)

    fraction = number

    def duration(self, span: Span, children: list[Any]) -> syntax.Measure:
        first, *others = children
        numbers = first.numbers + tuple(c for c in others if c.type == "NUMBER")
        units = tuple(c for c in others if c.type == "NAME")
        return syntax.Measure(*span, numbers, units, first.negative)

    def imputation(self, span: Span, children: list[Any]) -> syntax.Impute:
        *attributes, repository = _all(children, syntax.Name)
        texts = tuple(token for token in _all(children, Token) if token.type == "STRING")
        options = _all(children, syntax.Option)
        return syntax.Impute(*span, children[0], tuple(attributes), repository, texts, options)

    def similarity_join(self, span: Span, children: list[Any]) -> syntax.Relation:
        keyword, side, *more = children
        on, options = _all(more, syntax.Name), _all(more, syntax.Option)
        return replace(side, join=syntax.Similarity(*span, keyword, on, options))


# ---- errors --------------------------------------------------------------------------------------


def _syntax_error(
    error: UnexpectedInput, text: str, found: Iterable[Token], vocabulary: Vocabulary
) -> SqlError:
    if isinstance(error, UnexpectedCharacters):  # usually an unclosed quote
        start = error.pos_in_stream or 0
        sign = text[start]
        is_quote = sign in "'\"`"
        reason = f"this {sign} is not closed" if is_quote else f"unexpected character {sign!r}"
        return SqlError(reason, start, start + 1)
    assert isinstance(error, UnexpectedToken)
    token, accepts = error.token, set(error.accepts or error.expected)
    token.__class__ = Token
    at_end = token.type == "$END"
    start = len(text.rstrip()) if at_end else token.start
    if at_end or token.type in CLOSES.values():
        opened = _innermost_open(found, start)
        if opened is None and not at_end:
            return at(token, f"unmatched {token}")
        if opened is not None and (at_end or CLOSES[opened.type] != token.type):
            return at(opened, f"this {opened} is not closed", SPELLED[CLOSES[opened.type]])
    ours = {
        place: list(dict.fromkeys(w.word for w in vocabulary.get(place, ()) if w.word in accepts))
        for place in PLACES
    }
    place = max(ours, key=lambda place: len(ours[place]))  # positions share words
    fitting = ours[place]
    others = sorted({SPELLED.get(t, t) for t in accepts - set(fitting) - NEVER_NAMED})
    if fitting:  # Spark's own words are too many to list
        others = [word for word in others if word == "]"]
    expected = fitting + others
    reason = f"{token} is not expected {PLACES[place][1] if fitting else 'here'}"
    if fitting and place == "bracket" and not at_end and token.upper().split()[0] in CLAUSE_WORDS:
        reason = f"{token} is not allowed inside a window: the ] of the window is missing"
    elif place == "bracket" and token.upper() in INSTEAD:
        instead = with_written_length(INSTEAD[token.upper()], text[token.end :])
        return at(token, f"{reason}: write {instead}", *expected)
    elif place == "bracket" and (words := _words_before(found, start)) and not near(token, fitting):
        reason += f": write a name of several words in backquotes, `{words} {token}`"
    elif "a number" in others and token.upper() == "INTERVAL":
        reason += ": write the duration without INTERVAL, such as 10 minutes"
    elif accepts == {"STRING"}:
        reason += f": write it in quotes, '{token}'"
    elif "a number" in others and str(token)[:1] in "'\"":
        reason += f": write {str(token)[1:-1]}, without quotes"
    if at_end:
        return SqlError("the query ends too early", start, start, expected=expected)
    return at(token, reason, *expected, suggestion=near(str(token), fitting))


def with_written_length(instead: str, rest: str) -> str:
    """Return an example of a tumbling window with the length at the start of `rest`, if any."""
    written = None if "SLIDE" in instead else WRITTEN_LENGTH.match(rest)
    return instead if written is None else instead.replace("10 MINUTES", " ".join(written.groups()))


def _words_before(found: Iterable[Token], end: int) -> str:
    """Return the name directly before `end` that follows WATTR, ARRIVAL, KEY or SOURCE, or ""."""
    before = [token for token in found if token.start < end][-2:]
    names = len(before) == 2 and before[0].upper() in ("WATTR", "ARRIVAL", "KEY", "SOURCE")
    return str(before[1]) if names and str(before[1])[:1].isalpha() else ""


def _innermost_open(found: Iterable[Token], end: int) -> Token | None:
    """Return the last parenthesis or bracket that is unclosed at `end`."""
    stack: list[Token] = []
    for token in found:
        if token.start >= end:
            break
        if token.type in CLOSES:
            stack.append(token)
        elif stack and token.type == CLOSES[stack[-1].type]:
            stack.pop()
    return stack[-1] if stack else None
