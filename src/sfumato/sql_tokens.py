"""The tokens of a SQL text from outside, and the one text that Spark gets for them.

`tokenize` knows every token by its exact shape and refuses everything else, so that it can never
read another sequence of tokens than Spark's lexer does. `render` writes the tokens: no comment and
no byte of the original is copied, texts and quoted names are quoted again, and one space stands
between two tokens.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST_TEXT = 100_000  # characters: the parser reads some 100,000 per second
DEEPEST_NESTING = 200  # brackets within brackets: Spark's parser recurses into each

NAME, QUOTED, STRING, NUMBER, SIGN, FRAME = "name", "quoted", "string", "number", "sign", "frame"

DECIMAL_DIGITS = tuple("0123456789")
SPACE = re.compile(r"[ \t\r\n]+")
WORD_PATTERN = re.compile(r"\w+")
DECIMALS = r"(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[dDfF])?"
NUMERAL = re.compile(rf"(?:[0-9]+[lLsSyY]|(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+){DECIMALS})(?!\w)")
WITH_UNIT = re.compile(r"[0-9]+(?:\.[0-9]*)?(?=[A-Za-z]+\b)")
# Longest first. `>>` is read as two signs where it closes two types, and refused elsewhere.
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
    "/*+": "a hint is not part of a query",
    "*/": "no comment is open here",
}
QUERY_VARIABLE = re.compile(r"\$\{[^}]{0,1000}\}?")
NO_VARIABLES = "variables like ${name} are not allowed in a query"
CLOSING_BRACKETS = {"(": ")", "[": "]"}
FRAME_AT = re.compile(r"\{d\d+\}")
TYPES_WITH_ARGUMENTS = ("array", "map", "struct")
# Letters whose upper case is an ASCII letter: Spark would read them as part of a keyword.
LIKE_ASCII = "\u0131\u017f"
ESCAPES = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
KEPT_ESCAPES = "%_"  # of patterns: the backslash is part of the value
OCTAL = re.compile(r"[01][0-7]{2}")
HEX_4, HEX_8 = re.compile(r"u([0-9A-Fa-f]{4})"), re.compile(r"U([0-9A-Fa-f]{8})")


class TokenError(ValueError):
    """A text with something in it that is not a known token.

    start, end : where it stands in the text
    is_open : whether a bracket or quote has no partner
    function : the function that does not exist, where that is what is wrong
    """

    is_open = False
    function: str | None = None

    def __init__(self, reason: str, start: int, end: int) -> None:
        super().__init__(reason)
        self.start, self.end = start, end


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token of a text.

    kind : NAME, QUOTED (a name in backquotes), STRING, NUMBER, SIGN or FRAME (a place for a frame)
    value : a name or number as written, a quoted name or text without its quotes and escapes
    start, end : where it stands in the text
    """

    kind: str
    value: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The value in lower case."""
        return self.value.lower()

    @property
    def is_name(self) -> bool:
        """Whether it is a name, quoted or not."""
        return self.kind in (NAME, QUOTED)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of some keywords, given in lower case."""
        return self.kind == NAME and self.value.lower() in words

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of some signs."""
        return self.kind == SIGN and self.value in signs


def tokenize(text: str, *, frames: bool = False, constructs: bool = False) -> list[SqlToken]:
    """Read the tokens of a text, without its comments. Linear time.

    Parameters
    ----------
    text : str
        A query, a script or an expression.
    frames : bool
        Whether `{d0}`, `{d1}`, ... are places for frames; braces are refused otherwise.
    constructs : bool
        Whether a unit may follow its number in brackets, `[RANGE 5min ...]`. Spark never sees that.

    Raises
    ------
    TokenError
        For a text that is too long or nested too deeply, for a quote, comment or bracket that is
        not closed, and for each character or token that is not known exactly.
    """
    if len(text) > LONGEST_TEXT:
        reason = f"the text has {len(text):,} characters; at most {LONGEST_TEXT:,} are read"
        raise TokenError(reason, LONGEST_TEXT, LONGEST_TEXT + 1)
    reader = _Tokenizer(text, frames, constructs)
    while reader.place < len(text):
        reader.step()
    if reader.opened:
        raise _not_closed(reader.opened[-1])
    return reader.found


class _Tokenizer:
    """Reads one token after another."""

    def __init__(self, text: str, frames: bool, constructs: bool) -> None:
        self.text, self.frames, self.constructs, self.place = text, frames, constructs, 0
        self.found: list[SqlToken] = []
        self.opened: list[SqlToken] = []
        self.types = 0  # how many ARRAY <, MAP < and STRUCT < are open

    def step(self) -> None:
        text, place = self.text, self.place
        sign = text[place]
        if (space := SPACE.match(text, place)) is not None:
            self.place = space.end()
        elif text.startswith("--", place):
            self._line_comment()
        elif text.startswith("/*", place):
            self._comment()
        elif sign in "'\"":
            self._string(place, raw=False)
        elif sign == "`":
            self._quoted()
        elif sign in DECIMAL_DIGITS or (
            sign == "." and text[place + 1 : place + 2] in DECIMAL_DIGITS
        ):
            self._number()
        elif (word := WORD_PATTERN.match(text, place)) is not None:
            self._word(word[0])
        elif self.frames and (frame := FRAME_AT.match(text, place)) is not None:
            self._add(FRAME, frame[0], frame.end())
        else:
            self._sign()

    def _add(self, kind: str, value: str, end: int) -> None:
        self.found.append(SqlToken(kind, value, self.place, end))
        self.place = end

    def _refuse(self, reason: str, length: int = 1) -> TokenError:
        return TokenError(reason, self.place, self.place + length)

    def _line_comment(self) -> None:
        end = self.place
        while end < len(self.text) and self.text[end] not in "\r\n":
            end += 1
        # A backslash there makes Spark read on in the next line.
        if self.text[end - 1] == "\\":
            raise TokenError("a comment must not end in a backslash", end - 1, end)
        self.place = end

    def _comment(self) -> None:
        if self.text.startswith("/*+", self.place):
            raise self._refuse(REFUSED_SIGNS["/*+"], 3)
        end = self.text.find("*/", self.place + 2)
        if end < 0:
            raise self._refuse("this comment is not closed", 2)
        inner = self.text.find("/*", self.place + 1, end + 1)
        if inner >= 0:
            raise TokenError("a comment must not hold another /*", inner, inner + 2)
        self.place = end + 2

    def _string(self, opens: int, *, raw: bool) -> None:
        text, quote = self.text, self.text[opens]
        at = opens + 1
        parts: list[str] = []
        while at < len(text):
            sign = text[at]
            if sign == quote:
                if raw or text[at + 1 : at + 2] != quote:
                    self._refuse_variables(opens, at)
                    self._add(STRING, "".join(parts), at + 1)
                    return
                parts.append(quote)
                at += 2
            elif sign == "\\" and not raw:
                if at + 1 == len(text):
                    break
                value, at = _unescaped(text, at + 1)
                parts.append(value)
            else:
                parts.append(sign)
                at += 1
        raise _without_partner("this text is not closed", self.place, self.place + 1)

    def _refuse_variables(self, start: int, end: int) -> None:
        # Spark replaces them in texts, too, by settings and by the environment.
        variable = QUERY_VARIABLE.search(self.text, start, end)
        if variable is not None:
            raise TokenError(NO_VARIABLES, variable.start(), variable.end())

    def _quoted(self) -> None:
        text, at = self.text, self.place + 1
        parts: list[str] = []
        while (end := text.find("`", at)) >= 0:
            parts.append(text[at:end])
            if text[end + 1 : end + 2] != "`":
                name = "".join(parts)
                if not name:
                    raise self._refuse("a name in backquotes is empty", 2)
                self._refuse_variables(self.place, end)
                self._add(QUOTED, name, end + 1)
                return
            parts.append("`")
            at = end + 2
        raise _without_partner("this name is not closed", self.place, self.place + 1)

    def _number(self) -> None:
        number = NUMERAL.match(self.text, self.place)
        if number is None and self.constructs and self.opened and self.opened[-1].value == "[":
            number = WITH_UNIT.match(self.text, self.place)
        if number is None:
            word = WORD_PATTERN.match(self.text, self.place)
            length = len(word[0]) if word else 1
            said = self.text[self.place : self.place + length]
            raise self._refuse(f"{said} is not a number; write a name in backquotes", length)
        self._add(NUMBER, number[0], number.end())

    def _word(self, word: str) -> None:
        after = self.place + len(word)
        if word in ("r", "R") and self.text[after : after + 1] in ("'", '"'):
            self._string(after, raw=True)
            return
        for sign in word:
            if not sign.isascii() and (
                not unicodedata.category(sign).startswith("L") or sign in LIKE_ASCII
            ):
                known = f"{word} holds {_called(sign)}"
                raise self._refuse(f"{known}; write the name in backquotes", len(word))
        self._add(NAME, word, after)

    def _sign(self) -> None:
        text = self.text
        for refused, instead in REFUSED_SIGNS.items():
            closes_types = refused == ">>" and self.types > 1
            if text.startswith(refused, self.place) and not closes_types:
                raise self._refuse(f"{refused} is not read here: {instead}", len(refused))
        match = SIGN_AT.match(text, self.place)
        if (variable := QUERY_VARIABLE.match(text, self.place)) is not None:
            raise self._refuse(NO_VARIABLES, len(variable[0]))
        if match is None:
            raise self._refuse(f"{_called(text[self.place])} is not part of a query")
        sign = match[0]
        if sign == "<" and self.found and self.found[-1].is_word(*TYPES_WITH_ARGUMENTS):
            self.types += 1
        elif sign == ">" and self.types:
            self.types -= 1
        self._add(SIGN, sign, match.end())
        self._nest(self.found[-1])

    def _nest(self, token: SqlToken) -> None:
        if token.value in ("(", "["):
            self.opened.append(token)
            if len(self.opened) > DEEPEST_NESTING:
                deep = f"brackets are nested too deeply: at most {DEEPEST_NESTING} levels are read"
                raise TokenError(deep, token.start, token.end)
        elif token.value in (")", "]"):
            if not self.opened:
                raise _without_partner(f"unmatched {token.value}", token.start, token.end)
            opening = self.opened.pop()
            if CLOSING_BRACKETS[opening.value] != token.value:
                raise _not_closed(opening)


def _without_partner(reason: str, start: int, end: int) -> TokenError:
    error = TokenError(reason, start, end)
    error.is_open = True
    return error


def _not_closed(opening: SqlToken) -> TokenError:
    return _without_partner(f"this {opening.value} is not closed", opening.start, opening.end)


def _unescaped(text: str, at: int) -> tuple[str, int]:
    """Return what the escape whose letter stands at `at` means, and where it ends."""
    sign = text[at]
    if (octal := OCTAL.match(text, at)) is not None:
        return chr(int(octal[0], 8)), at + 3
    if (code := HEX_4.match(text, at)) is not None:
        return _character(int(code[1], 16), text, at), code.end()
    if (code := HEX_8.match(text, at)) is not None:
        return _character(int(code[1], 16), text, at), code.end()
    if sign == "0":
        return "\0", at + 1
    if sign in KEPT_ESCAPES:
        return "\\" + sign, at + 1
    return ESCAPES.get(sign, sign), at + 1


def _character(code: int, text: str, at: int) -> str:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise TokenError(f"\\{text[at]}{code:x} is not a character", at - 1, at + 5)
    return chr(code)


def _called(sign: str) -> str:
    """What a message calls a character: itself, or its name and number where it cannot be seen."""
    if sign.isprintable() and sign.isascii():
        return f"the character {sign!r}"
    name = unicodedata.name(sign, "a control character").lower()
    return f"the character U+{ord(sign):04X} ({name})"


def render(tokens: Iterable[SqlToken], *, braces: bool = False) -> str:
    """Write tokens as a text that Spark reads as these tokens.

    braces : whether the text goes to a formatter, for which braces in texts and names are doubled
    """
    return " ".join(_rendered(token, braces) for token in tokens)


def _rendered(token: SqlToken, braces: bool) -> str:
    if token.kind == STRING:
        text = "".join(_escaped(sign) for sign in token.value)
        return _doubled(f"'{text}'", braces)
    # Letters outside ASCII are quoted, for versions of Spark differ in which they take.
    if token.kind == QUOTED or (token.kind == NAME and not token.value.isascii()):
        return _doubled("`" + token.value.replace("`", "``") + "`", braces)
    return token.value


def _escaped(sign: str) -> str:
    if sign in "'\\":
        return "\\" + sign
    # A $ begins a variable, which Spark replaces in texts, too.
    if sign.isprintable() and sign != "$":
        return sign
    code = ord(sign)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _doubled(text: str, braces: bool) -> str:
    return text.replace("{", "{{").replace("}", "}}") if braces else text


def statements(tokens: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split tokens at the semicolons."""
    found: list[list[SqlToken]] = [[]]
    for token in tokens:
        if token.is_sign(";"):
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]
