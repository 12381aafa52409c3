"""Hide secrets in text that leaves the process, even where they are written in another form.

Spark, Java and text formats change what they quote: the case of letters, backslashes before quotes,
`%2F`, `\\u002f`, `&quot;`, a long value that is cut, and one such form inside another. So the text
and the secrets are normalised to one form, the same for all of these, and compared in it.
"""

import html
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

MIN_SECRET = 4  # characters: a shorter secret would be found everywhere
MIN_CUT = 8  # characters of the beginning of a secret that count where text is cut
MAX_LAYERS = 6  # encodings inside one another that are undone
SHORTENED = re.compile(r"\.\.\.|…|\Z")
ENCODED = re.compile(
    r"(?P<percent>(?:%[0-9a-fA-F]{2})+)"
    r"|\\+(?:U(?P<point>00[01][0-9a-fA-F]{5})|[uU]+(?P<unit>[0-9a-fA-F]{4})"
    r"|[xX](?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2}))"
    r"|(?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]+[0-9]*);)"
)
FOLDED = re.compile(
    r"\\+|(?:\\*'){2,}|(?:\\*\"){2,}|[\ud800-\udbff][\udc00-\udfff]|[^\x20-*,-\x7e]|\+"
)
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps the length
CONTROL_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v"}  # as after a \


@dataclass
class NormalText:
    """A text in normal form. starts, ends : where each character comes from in the first text"""

    text: str
    starts: list[int]
    ends: list[int]

    def replace(self, changes: Iterator[tuple[int, int, str]]) -> "NormalText":
        """Return the text with (start, end, characters) replaced, in the order of the text."""
        parts, starts, ends, at = list[str](), list[int](), list[int](), 0
        for start, end, characters in changes:
            parts += [self.text[at:start], characters]
            starts += [*self.starts[at:start], *[self.starts[start]] * len(characters)]
            ends += [*self.ends[at:start], *[self.ends[end - 1]] * len(characters)]
            at = end
        text = "".join([*parts, self.text[at:]])
        return NormalText(text, starts + self.starts[at:], ends + self.ends[at:])


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """Return the text with `${NAME}` in the place of each secret, by name.

    Cost: O(length of the text) per secret, unless the text repeats beginnings of the secret.
    """
    for name, value in sorted(secrets.items(), key=lambda item: -len(item[1])):
        for secret in _pieces(value):
            text = _without(text, secret, f"${{{name}}}", decode=False)
            text = _without(text, secret, f"${{{name}}}", decode=True)
    return text


def normal_length(secret: str) -> int:
    """Count the characters of a secret by which it can be found."""
    return min(len(_normal_secret(secret, True)), len(secret.strip()))


def _pieces(value: str) -> Iterator[str]:
    """Yield the secret, and each line of one with several lines: a log prints them one by one."""
    yield value.strip()
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= MIN_CUT)


@lru_cache(maxsize=1024)
def _normal_secret(secret: str, decode: bool) -> str:
    return _normal(secret, decode).text.strip()


def _without(text: str, secret: str, name: str, *, decode: bool) -> str:
    secret = _normal_secret(secret, decode)
    if len(secret) < MIN_SECRET:
        return text
    shortest = min(len(secret), max(MIN_CUT, (len(secret) + 1) // 2))
    normal = _normal(text, decode)
    kept, begin = [], 0
    for start, end in _places(normal, text, secret, shortest):
        if start >= begin:
            kept += [text[begin:start], name]
            begin = end
    return "".join([*kept, text[begin:]])


def _places(normal: NormalText, text: str, secret: str, shortest: int) -> Iterator[tuple[int, int]]:
    """Yield where the secret is in the text, or a beginning of it where the text is cut."""
    at = normal.text.find(secret[:shortest])
    while at >= 0:
        after = at + 1
        for length in range(shortest, len(secret) + 1):
            if normal.text[at + length - 1 : at + length] != secret[length - 1]:
                break
            end = normal.ends[at + length - 1]
            if length == len(secret) or SHORTENED.match(text, end):
                yield normal.starts[at], end
                after = at + length
                break
        at = normal.text.find(secret[:shortest], after)


def _normal(text: str, decode: bool) -> NormalText:
    """Normalise a text. decode : undo characters written as numbers or names"""
    found = NormalText(text, list(range(len(text))), list(range(1, len(text) + 1)))
    for _ in range(MAX_LAYERS if decode else 0):
        if ENCODED.search(found.text) is None:
            break
        found = found.replace(_decode(found.text))
    folds = ((*place.span(), _fold(place[0])) for place in FOLDED.finditer(found.text))
    found = found.replace(folds)
    found.text = found.text.translate(LOWER)
    return found


def _decode(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, meaning) of each encoded character, one layer of encoding."""
    for place in ENCODED.finditer(text):
        if place["percent"]:
            yield from _percent(text, *place.span())
        else:
            yield *place.span(), _meaning(place)


def _meaning(place: re.Match[str]) -> str:
    if place["entity"]:
        return html.unescape(place["entity"])
    if place["octal"]:
        return chr(int(place["octal"], 8))
    number = int(place["unit"] or place["byte"] or place["point"], 16)
    return chr(min(number, 0x10FFFF))


def _percent(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield the characters of a run of `%XX`, as UTF-8 where it is valid."""
    run = bytes.fromhex(text[start:end].replace("%", ""))
    at = 0
    while at < len(run):
        first = run[at]
        length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        try:
            character = run[at : at + length].decode()
        except UnicodeDecodeError:
            length, character = 1, chr(first)
        after = min(at + length, len(run))
        yield start + 3 * at, start + 3 * after, character
        at = after


def _fold(characters: str) -> str:
    """Drop case, backslashes and doubled quotes; write a control as it is after a backslash.

    A character beyond 16 bits becomes two units, as `\\u` writes it.
    """
    if characters[-1] in "\\'\"":  # quotes that are doubled, or escaped
        return characters[-1].replace("\\", "")
    if len(characters) == 2:  # two units, as decoded from \\u, of one character
        characters = characters.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    folded = CONTROL_ESCAPES.get(characters, " " if characters == "+" else characters)
    units = folded.upper().casefold().encode("utf-16-be", "surrogatepass")
    return "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2))
