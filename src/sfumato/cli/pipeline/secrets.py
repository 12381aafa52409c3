"""Find secrets in text that leaves the process, also where their writing was changed.

Spark, Java and formats of text change what they quote: the case of letters, backslashes before
quotes, `%2F`, `\\u002f`, `&quot;`, a long value that is cut, and one such writing inside another.
So the text and the secrets are brought into one plain form, the same for all these writings, and
compared in it.
"""

import html
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

SHORTEST = 4  # characters of a secret: a shorter one would be found everywhere
SHORTEST_CUT = 8  # characters of the beginning of a secret that counts where text is cut
LAYERS = 6  # writings inside one another that are undone
CUT = re.compile(r"\.\.\.|…|\Z")
ENCODED = re.compile(
    r"(?P<percent>(?:%[0-9a-fA-F]{2})+)"
    r"|\\+(?:U(?P<point>00[01][0-9a-fA-F]{5})|[uU]+(?P<unit>[0-9a-fA-F]{4})"
    r"|[xX](?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2}))"
    r"|(?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]+[0-9]*);)"
)
ODD = re.compile(r"\\+|(?:\\*'){2,}|(?:\\*\"){2,}|[^\x20-*,-\x7e]|\+")  # in its plain form another
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # of one length
CONTROLS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v"}  # as after a \


@dataclass
class Plain:
    """A text in plain form, and the places in the text from which each character comes."""

    text: str
    starts: list[int]
    ends: list[int]


class _Builder:
    """A form of a text, made of pieces of an earlier one."""

    def __init__(self, before: Plain) -> None:
        self.before, self.read = before, 0
        self.parts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def keep(self, stop: int) -> None:
        """Take what comes before `stop` as it is."""
        self.parts.append(self.before.text[self.read : stop])
        self.starts += self.before.starts[self.read : stop]
        self.ends += self.before.ends[self.read : stop]
        self.read = stop

    def replace(self, stop: int, characters: str) -> None:
        """Take `characters` instead of what comes before `stop`."""
        self.parts.append(characters)
        self.starts += [self.before.starts[self.read]] * len(characters)
        self.ends += [self.before.ends[stop - 1]] * len(characters)
        self.read = stop

    def built(self) -> Plain:
        self.keep(len(self.before.text))
        return Plain("".join(self.parts), self.starts, self.ends)


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """Return the text with `${NAME}` in the place of each secret, by name.

    Cost: O(length of the text) per secret.
    """
    for name, value in sorted(secrets.items(), key=lambda item: -len(item[1])):
        for secret in _pieces(value):
            text = _without(text, secret, f"${{{name}}}", decode=False)
            text = _without(text, secret, f"${{{name}}}", decode=True)
    return text


def plain_length(secret: str) -> int:
    """Count the characters of a secret by which it can be found."""
    return min(len(_plain_secret(secret, True)), len(secret.strip()))


def _pieces(value: str) -> Iterator[str]:
    """The secret, and of one with several lines each line: a log prints them one by one."""
    yield value.strip()
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= SHORTEST_CUT)


@lru_cache(maxsize=1024)
def _plain_secret(secret: str, decode: bool) -> str:
    return _plain(secret, decode).text.strip()


def _without(text: str, secret: str, name: str, *, decode: bool) -> str:
    secret = _plain_secret(secret, decode)
    if len(secret) < SHORTEST:
        return text
    shortest = min(len(secret), max(SHORTEST_CUT, (len(secret) + 1) // 2))
    plain = _plain(text, decode)
    if secret[:shortest] not in plain.text:
        return text
    kept, begin = [], 0
    for start, end in _places(plain, text, secret, shortest):
        if start >= begin:
            kept += [text[begin:start], name]
            begin = end
    return "".join([*kept, text[begin:]])


def _places(plain: Plain, text: str, secret: str, shortest: int) -> Iterator[tuple[int, int]]:
    """Where the secret stands in the text, or a beginning of it before a cut."""
    borders, matched = _borders(secret), 0
    for at, character in enumerate(plain.text):
        while matched and secret[matched] != character:
            matched = borders[matched - 1]
        matched += secret[matched] == character
        is_whole = matched == len(secret)
        if is_whole or (matched >= shortest and CUT.match(text, plain.ends[at])):
            yield plain.starts[at + 1 - matched], plain.ends[at]
            matched = 0


@lru_cache(maxsize=1024)
def _borders(secret: str) -> tuple[int, ...]:
    """Of each beginning of the secret the length of the longest border (Knuth, Morris, Pratt)."""
    found = [0] * len(secret)
    for at in range(1, len(secret)):
        border = found[at - 1]
        while border and secret[at] != secret[border]:
            border = found[border - 1]
        found[at] = border + (secret[at] == secret[border])
    return tuple(found)


def _plain(text: str, decode: bool) -> Plain:
    """The plain form of a text. decode : undo writings of characters by their numbers or names"""
    found = Plain(text, list(range(len(text))), list(range(1, len(text) + 1)))
    for _ in range(LAYERS if decode else 0):
        if ENCODED.search(found.text) is None:
            break
        found = _decoded(found)
    return _folded(found)


def _decoded(before: Plain) -> Plain:
    """One writing undone."""
    building = _Builder(before)
    for place in ENCODED.finditer(before.text):
        building.keep(place.start())
        if place["percent"]:
            for stop, character in _percent(before.text, *place.span()):
                building.replace(stop, character)
        else:
            building.replace(place.end(), _meaning(place))
    return building.built()


def _meaning(place: re.Match[str]) -> str:
    if place["entity"]:
        return html.unescape(place["entity"])
    if place["octal"]:
        return chr(int(place["octal"], 8))
    number = int(place["unit"] or place["byte"] or place["point"], 16)
    return chr(min(number, 0x10FFFF))


def _percent(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """(end, character) of a run of `%XX`, in UTF-8 where it is that."""
    run = bytes.fromhex(text[start:end].replace("%", ""))
    at = 0
    while at < len(run):
        first = run[at]
        length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        try:
            character = run[at : at + length].decode()
        except UnicodeDecodeError:
            length, character = 1, chr(first)
        at = min(at + length, len(run))
        yield start + 3 * at, character


def _folded(before: Plain) -> Plain:
    """Without case, backslashes and doubled quotes; a control as it is after a backslash."""
    building = _Builder(before)
    for place in ODD.finditer(before.text):
        building.keep(place.start())
        building.replace(place.end(), _fold(place[0]))
    found = building.built()
    found.text = found.text.translate(LOWER)
    return found


def _fold(characters: str) -> str:
    """Beyond 16 bits two units, as `\\u` has them."""
    if characters[-1] in "\\'\"":  # quotes that are doubled, or escaped
        return characters[-1].replace("\\", "")
    folded = CONTROLS.get(characters, " " if characters == "+" else characters)
    units = folded.upper().casefold().encode("utf-16-be", "surrogatepass")
    return "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2))
