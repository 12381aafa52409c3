"""What a text has wrong, in the user's terms: Lark's findings as errors with their place."""

from lark import Token, UnexpectedCharacters, UnexpectedToken
from lark.exceptions import UnexpectedInput

from sfumato.near_misses import near
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.grammar import tokens
from sfumato.sql.text.syntax import end_of, start_of, words
from sfumato.sql.text.words import PLACES, Vocabulary

# How the grammar's terminals are called in messages; the others are called what they are.
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


def explained(error: UnexpectedInput, text: str, vocabulary: Vocabulary) -> SqlError:
    """Lark's finding in the user's terms."""
    if isinstance(error, UnexpectedCharacters):
        return unreadable(error.pos_in_stream or 0, text)
    assert isinstance(error, UnexpectedToken)
    token, accepts = error.token, set(error.accepts or error.expected)
    at_end = token.type == "$END"
    start = len(text.rstrip()) if at_end else start_of(token)
    opened = innermost_open(text, start)
    if opened is not None and (at_end or token.type in CLOSES.values()):
        bracket, position = opened
        if at_end or CLOSES[bracket] != token.type:
            reason = f"this {SPELLED[bracket]} is not closed"
            expected = (SPELLED[CLOSES[bracket]],)
            return SqlError(reason, text=text, start=position, end=position + 1, expected=expected)
    if opened is None and token.type in CLOSES.values():
        reason = f"this {token} closes nothing"
        return SqlError(reason, text=text, start=start, end=start + 1)
    place, ours = accepted(accepts, vocabulary)
    others = sorted({SPELLED.get(t, t) for t in accepts - set(ours) - NEVER_NAMED})
    if ours:  # what else could follow is Spark's, and too much to list
        others = [word for word in others if word == "]"]
    return SqlError(
        "the query ends too early" if at_end else unexpected(token, place),
        text=text,
        start=start,
        end=start if at_end else end_of(token),
        expected=ours + others,
        suggestion=None if at_end else near(str(token), ours),
    )


def accepted(accepts: set[str], vocabulary: Vocabulary) -> tuple[str, list[str]]:
    """The place of `PLACES` where a text went wrong, and the words that could stand there: of
    places that share words the one that more of them belong to."""
    found = {
        place: list(dict.fromkeys(w.word for w in vocabulary.get(place, ()) if w.word in accepts))
        for place in PLACES
    }
    place = max(found, key=lambda place: len(found[place]))
    return (place, found[place]) if found[place] else ("", [])


def unexpected(token: Token, place: str) -> str:
    """Why a word cannot stand where it stands."""
    if place == "bracket" and token.upper().split()[0] in CLAUSE_WORDS:
        return f"{token} inside a window: its ] is missing"
    where = {
        "bracket": "in a window",
        "impute": "in the options of IMPUTE",
        "join": "after SIMILARITY JOIN",
    }
    return f"{token} is not expected {where.get(place, 'here')}"


def unreadable(position: int, text: str) -> SqlError:
    """A character no word begins with: mostly a quote that is never closed."""
    opening = text[position]
    if opening in "'\"`":
        reason = f"this {opening} is never closed"
        return SqlError(reason, text=text, start=position, end=position + 1)
    reason = f"the character {opening!r} begins no word"
    return SqlError(reason, text=text, start=position, end=position + 1)


def innermost_open(text: str, end: int) -> tuple[str, int] | None:
    """The last parenthesis or bracket opened and not closed before `end`, and its position."""
    stack: list[tuple[str, int]] = []
    for token in tokens(text[:end]):
        if token.type in CLOSES:
            stack.append((token.type, start_of(token)))
        elif stack and token.type == CLOSES[stack[-1][0]]:
            stack.pop()
    return stack[-1] if stack else None
