"""The words of a construct, derived from its function's signature, and the values after them.

The functions check the values. Their errors name the argument in backquotes (or as `argument=`),
which locates the error in the text.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from inspect import Parameter, signature
from typing import Any, TypeVar

from pyspark.errors import AnalysisException

from sfumato.duration import MICROSECONDS, UNIT_SYMBOLS, UNIT_WORDS, microseconds
from sfumato.language.parse import Word
from sfumato.language.syntax import WORD, Measure, Node, Option, SqlError, Token, at
from sfumato.language.tables import PlannedFrame, match_name, resolve_column
from sfumato.limits import MAX_TIME_US
from sfumato.near_misses import near
from sfumato.spark.model.validation import DUPLICATED_NAME

CHOICES = re.compile(r'must be (?:one of )?("?\w+"?(?:(?:, | or )"?\w+"?)+); got')
WORDS = {
    "length": "RANGE",
    "event_time": "WATTR",
    "drop_ratio": "DRATIO",
    "max_buffer": "BSIZE",
    "max_buffer_total": "BSIZE_TOTAL",
    "idle_timeout": "IDLE",
    "forget_after": "FORGET",
    "name": "NAMED",
    "strategy": "USING",
}
"""Words that differ from their argument's name; most of them are from the papers."""
COLUMN_SHAPES = {
    "event_time": "name",
    "arrival": "name",
    "key": "names",
    "source": "names",
    "unique": "names",
    "version": "name",
    "shared": "name",
    "punctuation": "name",
    "order": "names",
}
"""Arguments that name one column ("name") or several ("names")."""
STRING_ARGUMENTS = ("zone",)
"""Arguments that are written as a quoted string."""
DEFAULTS = {"event_time": "event_time", "order": "arrival"}
"""Default columns, used if the table has them."""
SHAPES = {"timedelta": "duration", "Mapping": "numbers", "bool": "", "int": "number"}
"""Syntax after an argument's word, by a part of the argument's annotation."""
NUMBER_SHAPES = ("numbers", "fraction", "distance")
"""Shapes that messages show as "number"."""


def words_of(function: Callable[..., Any], *arguments: str) -> tuple[Word, ...]:
    """Return the words for a function's arguments, derived from its signature."""
    parameters = signature(function).parameters
    return tuple(_word(parameters[argument]) for argument in arguments)


def _word(parameter: Parameter) -> Word:
    name, kind = parameter.name, str(parameter.annotation)
    spelled = WORDS.get(name, name.upper())
    if name in COLUMN_SHAPES:
        return Word(spelled, COLUMN_SHAPES[name], name, default=DEFAULTS.get(name))
    other = "fraction" if "float" in kind else "choice"
    other = "STRING" if name in STRING_ARGUMENTS else other
    shape = next((SHAPES[part] for part in SHAPES if part in kind), other)
    needed = parameter.kind is Parameter.KEYWORD_ONLY and parameter.default is Parameter.empty
    return Word(spelled, shape, name, needed=needed)


T = TypeVar("T")


class Options:
    """A construct's words in the text. Raises SqlError for duplicate and missing words.

    words : the words that the construct accepts
    node : position of errors that do not concern one word;  table_name : for messages
    frame : the frame whose columns the words name; None until it is known
    """

    words: Sequence[Word] = ()

    def __init__(
        self,
        options: Sequence[Option],
        node: Node,
        table_name: object = "",
        frame: PlannedFrame | None = None,
        words: Sequence[Word] = (),
    ) -> None:
        self.options, self.node, self.frame, self.table_name = options, node, frame, table_name
        self.words = words or self.words
        repeated = {word.word for word in self.words if word.repeated}
        for i, option in enumerate(options):
            again = option.word in [other.word for other in options[:i]]
            if again and option.word not in repeated:
                raise at(option.place, f"{option.word} is given twice")
        for word in self.words:
            if word.needed and self.get(word.word) is None:
                shape = "number" if word.shape in NUMBER_SHAPES else word.shape
                raise at(node, f"{word.word} is missing", f"{word.word} {shape}")

    @property
    def table(self) -> PlannedFrame:
        assert self.frame is not None
        return self.frame

    def get(self, word: str) -> Option | None:
        return next((option for option in self.options if option.word == word), None)

    # ---- values

    def arguments(self, *excluded: str) -> dict[str, Any]:
        """Return the function's arguments that the words give, except words in `excluded`."""
        values: dict[str, Any] = {}
        for word in self.words:
            value = self.value(word) if word.argument and word.word not in excluded else None
            if value is not None and word.argument in values:
                same = [w.word for w in self.words if w.argument == word.argument]
                option = self.get(word.word) or self.node
                raise at(option, f"{' and '.join(same)} cannot be combined: keep one of them")
            if value is not None:
                values[word.argument] = value
        return values

    def value(self, word: Word) -> Any:
        """Return the value of a word (numbers, a duration, a choice or columns), or None."""
        option = self.get(word.word)
        if word.default is not None or (option and word.shape in ("name", "names", "column")):
            return self.columns(word.word, word.default, qualified=word.shape == "column")
        if option is None:
            return None
        if option.strings:
            return string_value(option.strings[0])
        if option.measures:
            if word.shape == "duration":
                names = [word.word for word in self.words]
                length = duration_of(option.word, option.measures[0], names)
                return timedelta(microseconds=length)
            numbers = [measure.value for measure in option.measures]
            return numbers[0] if len(numbers) == 1 else numbers
        if word.shape == "distance":
            return option.names[0].parts[-1]
        return option.names[0].parts[-1].lower() if word.shape == "choice" else word.constant

    def columns(self, word: str, default: str | None = None, *, qualified: bool = False) -> Any:
        """Return the column or columns that a word names; without the word, `default` or None."""
        option, known = self.get(word), self.table.df.columns
        if option is not None:
            of = self.table_name
            named = [resolve_column(n, known, of, qualified=qualified) for n in option.names]
            return named[0] if len(named) == 1 else named
        match = None if default is None else match_name(default, known)
        if default is not None and match is None:
            reason = f"{self.table_name} has no column `{default}`: name a different column"
            raise at(self.node, reason, f"{word} column")
        return match

    # ---- errors

    def call(self, make: Callable[[], T]) -> T:
        """Return the result of `make`; its errors point at the words that caused them."""
        return with_located_errors(make, self.locate_error)

    def locate_error(self, message: str) -> SqlError:
        given = {w.argument: w for w in self.words if w.argument and self.get(w.word) is not None}
        blamed = argument_in(message, given)
        option = None if blamed is None else self.get(given[blamed].word)
        choices = CHOICES.search(message)
        if option is None or choices is None or not option.names:
            place = self.node if option is None else option.place
            return at(place, self.in_words(message, option))
        expected = re.findall(r"\w+", choices[1].replace(" or ", " ").upper())
        reason, (name,) = f"{WORD} is not a known value of {option.word}", option.names
        return at(name, reason, *expected, suggestion=near(str(name), expected))

    def in_words(self, message: str, blamed: Option | None = None) -> str:
        """Return a message that names words instead of arguments."""
        for word in self.words:
            if word.argument and (self.get(word.word) is not None or word.constant is True):
                spelled = rf"`{word.argument}( \({word.word}\))?`( \({word.word}\))?"
                message = re.sub(spelled, word.word, message)
        said, got, _ = message.rpartition("; got ")
        if blamed is None or not got or not blamed.measures:
            return message
        return f"{said}; got {WORD}"


def with_located_errors(make: Callable[[], T], locate: Callable[[str], SqlError]) -> T:
    """Return the result of `make`; `locate` converts error messages to SqlErrors."""
    try:
        return make()
    except SqlError:
        raise
    except (ValueError, TypeError) as error:
        cause = error.__cause__
        if isinstance(cause, AnalysisException) and cause.getCondition() != DUPLICATED_NAME:
            raise locate(str(error)) from cause  # the caller may find a better place for it
        raise locate(str(error)) from error


def argument_in(message: str, arguments: Iterable[str]) -> str | None:
    """Return the argument that an error message names first, or None."""
    named = [
        (match.start(), argument)
        for argument in arguments
        if (match := re.search(rf"`{argument}\b|\b{argument}=", message)) is not None
    ]
    return min(named)[1] if named else None


def string_value(token: Token) -> str:
    """Return the value of a quoted string; a raw string, such as r'a', has no escapes."""
    begin = opening(token)
    inside = str(token)[len(begin) : -1]
    return inside if len(begin) == 2 else re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL)


def opening(token: Token) -> str:
    """Return what opens a quoted string: a quote, with r in front of it for a raw string."""
    return token[: 2 if token[0] in "rR" else 1]


def duration_of(word: str, measure: Measure, words: Sequence[str] = ()) -> int:
    """Return the microseconds in `300 SECONDS` or `1 hour 30 mins`; `-5 s` is negative.

    words : further suggestions for an unknown unit
    """
    if len(measure.units) < len(measure.numbers):
        raise at(measure, f"{word} needs a unit of time", *UNIT_WORDS)
    total = 0.0
    for number, unit in zip(measure.numbers, measure.units, strict=True):
        spelled = unit.lower()
        singular = spelled.removesuffix("s")
        if singular not in MICROSECONDS and not {spelled, singular} & UNIT_SYMBOLS.keys():
            likely = near(unit, UNIT_WORDS) or near(unit, words, cutoff=0.75)
            raise at(unit, f"{unit} is not a unit of time", *UNIT_WORDS, suggestion=likely)
        if 0 < float(number) <= MAX_TIME_US:
            total += microseconds(word, f"{float(number):.12f} {spelled}")
        if not max(float(number), total) <= MAX_TIME_US:
            raise at(measure, f"{word} must be at most 2**60 microseconds")
    return -round(total) if measure.negative else round(total)
