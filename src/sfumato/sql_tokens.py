"""Tokens of untrusted SQL, and the canonical text that Spark gets for them.

`tokenize` accepts tokens of an exactly known form and refuses everything else, so that it cannot
read SQL differently from Spark's lexer. `render` writes the tokens, separated by one space: it
copies no comment and no byte of the original, and quotes strings and quoted names again.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

LONGEST_TEXT = 100_000  # characters; the parser reads about 100,000 per second
DEEPEST_NESTING = 200  # nested brackets: Spark's parser recurses into each

NAME, QUOTED, STRING, NUMBER, SIGN, FRAME = "name", "quoted", "string", "number", "sign", "frame"

DECIMALS = r"(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[dDfF])?"
NUMERAL = re.compile(rf"(?:[0-9]+[lLsSyY]|(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+){DECIMALS})(?!\w)")
WITH_UNIT = re.compile(r"[0-9]+(?:\.[0-9]*)?(?=[A-Za-z]+\b)")
# Longest first. `>>` is read as two signs if it closes two types, and refused elsewhere.
OPERATOR_SIGNS = (
    *("<=>", "||", "|>", "->", "=>", "::", "<=", ">=", "<>", "!=", "=="),
    *"()[],.;+-*/%=<>~&|^!",
)
SIGN_AT = re.compile("|".join(re.escape(sign) for sign in OPERATOR_SIGNS))
REFUSED_SIGNS = {
    "<<": "write shiftleft(a, n)",
    ">>": "write shiftright(a, n)",
    "!<": "write >=",
    "!>": "write <=",
    "/*+": "hints are not allowed in a query",
    "*/": "no comment is open here",
}
QUERY_VARIABLE = re.compile(r"\$\{[^}]{0,1000}\}?")
NO_VARIABLES = "variables like ${name} are not allowed in a query"
CLOSING_BRACKETS = {"(": ")", "[": "]"}
FRAME_AT = re.compile(r"\{d\d+\}")
TYPES_WITH_ARGUMENTS = ("array", "map", "struct")
# Letters whose upper case is an ASCII letter: Spark would accept them in keywords.
LIKE_ASCII = "\u0131\u017f"
ESCAPES = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "0": "\0"}
KEPT_ESCAPES = "%_"  # escapes of LIKE patterns: the backslash is part of the value
ESCAPE = re.compile(
    r"\\(?:(?P<octal>[01][0-7]{2})|u(?P<hex4>[0-9A-Fa-f]{4})|U(?P<hex8>[0-9A-Fa-f]{8})|(?P<sign>.))"
    r"|''|\"\"",
    re.DOTALL,
)
TOKEN_PATTERN = re.compile(
    r"""(?P<space>[ \t\r\n]+) | (?P<line>--[^\r\n]*) | (?P<comment>/\*)
    | (?P<string>'(?:[^'\\]|\\.|\'\')*+' | "(?:[^"\\]|\\.|"")*+")
    | (?P<raw>[rR](?:'[^']*' | "[^"]*"))
    | (?P<quoted>`(?:[^`]|``)*+`)
    | (?P<open>[rR]?['"]|`)
    | (?P<number>\.?[0-9]) | (?P<word>\w+)""",
    re.DOTALL | re.VERBOSE,
)


class TokenError(ValueError):
    """The error for SQL with anything but known tokens.

    start, end : the position in the text;  is_open : whether a bracket or quote is unmatched
    function : the unknown function, or ""
    """

    def __init__(
        self, reason: str, start: int, end: int, *, is_open: bool = False, function: str = ""
    ) -> None:
        super().__init__(reason)
        self.start, self.end, self.is_open, self.function = start, end, is_open, function


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token.

    kind : NAME, QUOTED (a name in backquotes), STRING, NUMBER, SIGN or FRAME (a placeholder)
    value : a name or number as written, a quoted name or string without its quotes and escapes
    """

    kind: str
    value: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.value.lower()

    @property
    def is_name(self) -> bool:
        return self.kind in (NAME, QUOTED)

    def is_word(self, *words: str) -> bool:
        """Return whether the token is one of the given lower-case keywords."""
        return self.kind == NAME and self.value.lower() in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind == SIGN and self.value in signs


def tokenize(text: str, *, frames: bool = False, constructs: bool = False) -> list[SqlToken]:
    """Return the tokens of a query, script or expression, without comments, in linear time.

    frames : whether `{d0}`, `{d1}`, ... are placeholders of frames; otherwise braces are refused
    constructs : whether units may directly follow numbers in brackets, as in `[RANGE 5min ...]`;
        Spark never gets such text

    Raises TokenError for text that is too long or too deeply nested, an unclosed quote, comment or
    bracket, and any unknown character or token.
    """
    if len(text) > LONGEST_TEXT:
        reason = f"the text has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed"
        raise TokenError(reason, LONGEST_TEXT, LONGEST_TEXT + 1)
    found: list[SqlToken] = []
    opened: list[SqlToken] = []
    place = types = 0  # types: the number of open ARRAY <, MAP < and STRUCT <
    while place < len(text):
        piece = TOKEN_PATTERN.match(text, place)
        kind = None if piece is None else piece.lastgroup
        end = place + 1 if piece is None else piece.end()
        if kind == "line" and text[end - 1] == "\\":  # Spark would continue on the next line
            raise TokenError("a comment must not end in a backslash", end - 1, end)
        if kind == "comment":
            end = _end_of_comment(text, place)
        elif kind in ("string", "raw"):
            found.append(SqlToken(STRING, _text_in(text, place, end), place, end))
        elif kind == "quoted":
            found.append(SqlToken(QUOTED, _name_in(text, place, end), place, end))
        elif kind == "open":
            what = "name" if text[place] == "`" else "string"
            raise TokenError(f"this {what} is not closed", place, place + 1, is_open=True)
        elif kind == "number":
            in_bracket = bool(opened) and opened[-1].value == "["
            end = _end_of_number(text, place, with_unit=constructs and in_bracket)
            found.append(SqlToken(NUMBER, text[place:end], place, end))
        elif kind == "word":
            _check_word(text[place:end], place)
            found.append(SqlToken(NAME, text[place:end], place, end))
        elif kind is None and frames and (frame := FRAME_AT.match(text, place)) is not None:
            end = frame.end()
            found.append(SqlToken(FRAME, frame[0], place, end))
        elif kind is None:
            token = _sign_at(text, place, closes_types=types > 1)
            if token.value == "<" and found and found[-1].is_word(*TYPES_WITH_ARGUMENTS):
                types += 1
            elif token.value == ">" and types:
                types -= 1
            end = token.end
            found.append(token)
            _nest(token, opened)
        place = end
    if opened:
        raise _not_closed(opened[-1])
    return found


def _end_of_comment(text: str, place: int) -> int:
    if text.startswith("/*+", place):
        raise TokenError(REFUSED_SIGNS["/*+"], place, place + 3)
    end = text.find("*/", place + 2)
    if end < 0:
        raise TokenError("this comment is not closed", place, place + 2)
    inner = text.find("/*", place + 1, end + 1)
    if inner >= 0:
        raise TokenError("a comment must not contain another /*", inner, inner + 2)
    return end + 2


def _text_in(text: str, start: int, end: int) -> str:
    """Return the value of a string literal; raw literals start with r."""
    _refuse_variables(text, start, end)
    if text[start] in "rR":
        return text[start + 2 : end - 1]
    quote = text[start]

    def value(escape: re.Match[str]) -> str:
        sign, code = escape["sign"], escape["hex4"] or escape["hex8"]
        if escape["octal"]:
            return chr(int(escape["octal"], 8))
        if code:
            number, at = int(code, 16), start + 1 + escape.start()
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                reason = f"{escape[0][:2]}{number:x} is not a character"
                raise TokenError(reason, at, at + 6)
            return chr(number)
        if sign is None:  # two quotes
            return quote if escape[0][0] == quote else escape[0]
        return escape[0] if sign in KEPT_ESCAPES else ESCAPES.get(sign, sign)

    return ESCAPE.sub(value, text[start + 1 : end - 1])


def _name_in(text: str, start: int, end: int) -> str:
    if end == start + 2:
        raise TokenError("a name in backquotes is empty", start, end)
    _refuse_variables(text, start, end)
    return text[start + 1 : end - 1].replace("``", "`")


def _refuse_variables(text: str, start: int, end: int) -> None:
    # Even in strings, Spark replaces variables with settings and environment variables.
    if (variable := QUERY_VARIABLE.search(text, start, end)) is not None:
        raise TokenError(NO_VARIABLES, variable.start(), variable.end())


def _end_of_number(text: str, place: int, *, with_unit: bool) -> int:
    number = NUMERAL.match(text, place) or (WITH_UNIT.match(text, place) if with_unit else None)
    if number is None:
        word = re.compile(r"\w+|.").match(text, place)
        said = word[0] if word else ""
        reason = f"{said} is not a number; to use it as a name, write it in backquotes"
        raise TokenError(reason, place, place + len(said))
    return number.end()


def _check_word(word: str, place: int) -> None:
    for sign in "" if word.isascii() else word:
        letter = sign.isascii() or unicodedata.category(sign).startswith("L")
        if not letter or sign in LIKE_ASCII:
            reason = f"{word} contains {_describe_sign(sign)}; write the name in backquotes"
            raise TokenError(reason, place, place + len(word))


def _sign_at(text: str, place: int, *, closes_types: bool) -> SqlToken:
    for refused, instead in REFUSED_SIGNS.items():
        if text.startswith(refused, place) and not (refused == ">>" and closes_types):
            reason = f"{refused} is not supported here: {instead}"
            raise TokenError(reason, place, place + len(refused))
    if (variable := QUERY_VARIABLE.match(text, place)) is not None:
        raise TokenError(NO_VARIABLES, place, variable.end())
    sign = SIGN_AT.match(text, place)
    if sign is None:
        unknown = _describe_sign(text[place])
        raise TokenError(f"{unknown} is not allowed in a query", place, place + 1)
    return SqlToken(SIGN, sign[0], place, sign.end())


def _nest(token: SqlToken, opened: list[SqlToken]) -> None:
    if token.value in CLOSING_BRACKETS:
        opened.append(token)
        if len(opened) > DEEPEST_NESTING:
            deep = f"brackets are nested too deeply: at most {DEEPEST_NESTING} levels are allowed"
            raise TokenError(deep, token.start, token.end)
    elif token.value in (")", "]"):
        if not opened:
            raise TokenError(f"unmatched {token.value}", token.start, token.end, is_open=True)
        opening = opened.pop()
        if CLOSING_BRACKETS[opening.value] != token.value:
            raise _not_closed(opening)


def _not_closed(opening: SqlToken) -> TokenError:
    reason = f"this {opening.value} is not closed"
    return TokenError(reason, opening.start, opening.end, is_open=True)


def _describe_sign(sign: str) -> str:
    """Describe a character by itself if it is printable ASCII, otherwise by its number and name."""
    if sign.isprintable() and sign.isascii():
        return f"the character {sign!r}"
    name = unicodedata.name(sign, "a control character").lower()
    return f"the character U+{ord(sign):04X} ({name})"


def render(tokens: Iterable[SqlToken], *, braces: bool = False) -> str:
    """Return text that Spark reads as the given tokens.

    braces : whether the text goes to a formatter, which needs doubled braces in strings and names
    """
    return " ".join(_render_token(token, braces) for token in tokens)


def _render_token(token: SqlToken, braces: bool) -> str:
    if token.kind == STRING:
        text = "'" + "".join(map(_escape, token.value)) + "'"
    # Names with non-ASCII letters are quoted, because Spark versions differ in what they accept.
    elif token.kind == QUOTED or (token.kind == NAME and not token.value.isascii()):
        text = quote_name(token.value)
    else:
        return token.value
    return double_braces(text) if braces else text


def _escape(sign: str) -> str:
    if sign in "'\\":
        return "\\" + sign
    # A $ starts a variable, which Spark replaces even in strings.
    if sign.isprintable() and sign != "$":
        return sign
    code = ord(sign)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote_name(name: str) -> str:
    """Return a name in backquotes, with its own backquotes doubled."""
    return "`" + name.replace("`", "``") + "`"


def unquote_name(text: str) -> str:
    """Remove the backquotes of a quoted name; return any other string unchanged."""
    inner = text[1:-1].replace("``", "`")
    return inner if text == quote_name(inner) else str(text)


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """Append underscores to a name until it differs from all taken names, ignoring case."""
    known = {name.lower() for name in taken}
    while wanted.lower() in known:
        wanted += "_"
    return wanted


def double_braces(text: str) -> str:
    """Double the braces, so that a formatter leaves them in the text."""
    return text.replace("{", "{{").replace("}", "}}")
