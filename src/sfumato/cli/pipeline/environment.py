"""`${NAME}` in a pipeline file: environment variables, whose values are never printed.

Spark, Java and text formats change quoted text: letter case, backslashes before quotes, `%2F`,
`\\u002f`, `&quot;`, truncated long values, and combinations of these changes. Therefore the text
and the secrets are normalised before they are compared.
"""

import html
import os
import re
import string
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TextIO, cast

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.cli.configure import children_print_to

MIN_SECRET = 4  # characters; shorter secrets would match everywhere
MIN_CUT = 8  # characters; the shortest prefix of a secret that is hidden in truncated text
FILE_WIDTH = 120  # columns of output without a terminal
MAX_LAYERS = 6  # nested encodings that are decoded
SHORTENED = re.compile(r"\.\.\.|…|\Z")
ENCODED = re.compile(
    r"(?P<utf8>%[0-7]H|%[c-dC-D]H%[89abAB]H|%[eE]H(?:%[89abAB]H){2}|%[fF]H(?:%[89abAB]H){3}|%HH)"
    r"|\\+(?:U(?P<point>00[01]H{5})|[uU]+(?P<unit>H{4})|[xX](?P<byte>HH)|(?P<octal>[0-3][0-7]{2}))"
    r"|(?P<entity>&(?:\#[0-9]{1,7}|\#[xX]H{1,6}|[a-zA-Z]+[0-9]*);)".replace("H", "[0-9a-fA-F]")
)
FOLDED = re.compile(
    r"\\+|(?:\\*'){2,}|(?:\\*\"){2,}|[\ud800-\udbff][\udc00-\udfff]|[^\x20-*,-\x7e]|\+"
)
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps the length
# Control characters, and the letters after the backslash in their escapes
CONTROL_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v"}


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """Replace each secret in a string with `${NAME}`. secrets : value by name"""
    for name, value in sorted(secrets.items(), key=lambda item: -len(item[1])):
        for secret in _secret_parts(value):
            for decode in (False, True):
                text = _replace_secret(text, secret, f"${{{name}}}", decode)
    return text


def normal_length(secret: str) -> int:
    """Return the length of the normalised secret; short secrets cannot be hidden."""
    return min(len(_normalise_secret(secret, True)), len(secret.strip()))


def _secret_parts(value: str) -> Iterator[str]:
    """Yield the secret and each of its lines, since logs print lines one by one."""
    yield value.strip()
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= MIN_CUT)


def _replace_secret(text: str, secret: str, name: str, decode: bool) -> str:
    """Replace a secret with `name`, and a prefix of the secret where the text is truncated."""
    secret = _normalise_secret(secret, decode)
    if len(secret) < MIN_SECRET:
        return text
    shortest = min(len(secret), max(MIN_CUT, (len(secret) + 1) // 2))
    normal, cuts = _normalise(text, decode)
    kept, begin, at = list[str](), 0, normal.find(secret[:shortest])
    while at >= 0:
        is_whole = normal.startswith(secret, at)
        lengths = [len(secret)] if is_whole else range(shortest, len(secret))
        begun = (n for n in lengths if normal.startswith(secret[:n], at))
        ends = (n for n in begun if is_whole or SHORTENED.match(text, cuts[at + n]))
        length = next(ends, 0)
        if length and cuts[at] >= begin:
            kept += [text[begin : cuts[at]], name]
            begin = cuts[at + length]
        at = normal.find(secret[:shortest], at + max(length, 1))
    return "".join([*kept, text[begin:]])


@lru_cache(maxsize=1024)
def _normalise_secret(secret: str, decode: bool) -> str:
    return _normalise(secret, decode)[0].strip()


def _normalise(text: str, decode: bool) -> tuple[str, list[int]]:
    """Normalise a string; return it, and the start of each character in the original string."""
    cuts = list(range(len(text) + 1))
    for _ in range(MAX_LAYERS if decode else 0):
        if ENCODED.search(text) is None:
            break
        text, cuts = _rewrite(text, cuts, ENCODED, _decode)
    text, cuts = _rewrite(text, cuts, FOLDED, _fold)
    return text.translate(LOWER), cuts


def _rewrite(
    text: str, cuts: list[int], pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]
) -> tuple[str, list[int]]:
    """Replace a pattern's matches; a dropped character becomes part of the next character."""
    parts, places, at = list[str](), list[int](), 0
    for match in pattern.finditer(text):
        start, end = match.span()
        characters = new(match)
        parts += [text[at:start], characters]
        places += cuts[at:start] + [cuts[start]] * len(characters)
        if not characters:
            cuts[end] = cuts[start]
        at = end
    return "".join([*parts, text[at:]]), places + cuts[at:]


def _decode(match: re.Match[str]) -> str:
    """Undo one layer of a character's encoding."""
    if match["utf8"]:
        run = bytes.fromhex(match[0].replace("%", ""))
        try:
            return run.decode()
        except UnicodeDecodeError:
            return run.decode("latin-1")
    if match["entity"]:
        return html.unescape(match["entity"])
    if match["octal"]:
        return chr(int(match["octal"], 8))
    return chr(min(int(match["unit"] or match["byte"] or match["point"], 16), 0x10FFFF))


def _fold(match: re.Match[str]) -> str:
    """Fold case, drop backslashes and doubled quotes, write controls as their escape letters."""
    characters = match[0]
    if characters[-1] in "\\'\"":  # doubled or escaped quotes
        return characters[-1].replace("\\", "")
    if len(characters) == 2:  # a surrogate pair decoded from \\u
        characters = characters.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    folded = CONTROL_ESCAPES.get(characters, " " if characters == "+" else characters)
    units = folded.upper().casefold().encode("utf-16-be", "surrogatepass")
    return "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2))


VARIABLE_PLACE = re.compile(r"\$(?P<plain>\$(?=\{))|\$\{(?P<name>[^}]*)\}?")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Environment:
    """The environment variables, the subset used by the file, and the options that contain them."""

    variables: Mapping[str, str]
    used_variables: dict[str, str] = field(default_factory=dict, repr=False)
    options: set[str] = field(default_factory=set)

    def fill(self, text: str) -> str:
        """Replace the variables in a string with their values; `$${` is an escaped `${`."""

        def value(place: re.Match[str]) -> str:
            if place["plain"]:
                return "$"
            name = place["name"]
            if not place[0].endswith("}") or not VARIABLE_NAME.fullmatch(name):
                why = f"has {place[0]!r}: write a variable as ${{NAME}}, and a plain ${{ as $${{"
                raise ValueError(why)
            if name not in self.variables:
                raise ValueError(f"needs the environment variable {name}, which is not set")
            value = self.variables[name]
            if normal_length(value) < MIN_SECRET:
                why = (
                    f"cannot use the environment variable {name}: its value has fewer than "
                    f"{MIN_SECRET} characters, too few to hide it in printed text; if it is not a "
                    "secret, write it into the file itself"
                )
                raise ValueError(why)
            self.used_variables[name] = value
            return value

        return VARIABLE_PLACE.sub(value, text)

    def hidden(self, text: str) -> str:
        """Replace each used variable's value in a string, in any encoding, with `${NAME}`."""
        return hide(text, self.used_variables) if self.used_variables else text


class RedactingConsole(Console):
    """A console that never prints a value of its environment.

    It is as wide as the terminal, `width` or $COLUMNS; without these, FILE_WIDTH wide.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.environment = Environment({})
        if not (self.is_terminal or "width" in options or "COLUMNS" in os.environ):
            self.width = FILE_WIDTH

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*map(self.hidden, objects), **how)

    def hidden(self, shown: Any) -> Any:
        """Hide the values in a string, table or group before lines are wrapped."""
        if not self.environment.used_variables:
            return shown
        if isinstance(shown, str):
            return self.environment.hidden(shown)
        if isinstance(shown, Text):
            text = self.environment.hidden(shown.plain)
            return shown if text == shown.plain else Text(text, style=shown.style)
        if isinstance(shown, Group):
            return Group(*map(self.hidden, shown.renderables))
        if isinstance(shown, Table):
            for column in shown.columns:
                column.header = self.hidden(column.header)
                column._cells = [self.hidden(cell) for cell in column._cells]
        return shown


class RedactingStream:
    """A text stream that never writes a value of an environment."""

    def __init__(self, stream: TextIO, hidden: Callable[[str], str]) -> None:
        self._stream, self._hidden = stream, hidden

    def write(self, text: str) -> int:
        self._stream.write(self._hidden(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def redact_streams(environment: Environment) -> Iterator[None]:
    """Hide values in all output of this process: logs, warnings, tracebacks in threads."""
    out, err = (RedactingStream(of, environment.hidden) for of in (sys.stdout, sys.stderr))
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        yield


def redact_children(environment: Environment) -> AbstractContextManager[None]:
    """Hide values in the standard error of processes started in this context, such as Spark's."""
    printed = os.dup(2)
    reading, writing = os.pipe()

    def pass_on() -> None:
        how: Any = {"encoding": "utf-8", "errors": "backslashreplace"}
        with open(reading, **how) as lines, open(printed, "w", **how) as out:
            for line in lines:
                out.write(environment.hidden(line))
                out.flush()

    threading.Thread(target=pass_on, name="sfumato-stderr", daemon=True).start()
    return children_print_to(writing)
