"""From the words of a construct to the arguments of its function, and its errors back to the words.

What an argument may be is checked where it is used, by the function or its configuration, and
nowhere else. Their messages name the argument in backquotes (or as `argument=`): by that name an
error finds the word that gave it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import Parameter, signature
from typing import Any, TypeVar

from pyspark.errors import AnalysisException

from sfumato.duration import MICROSECONDS, SHORT, microseconds
from sfumato.language.errors import SqlError, at
from sfumato.language.parse import Word
from sfumato.language.syntax import Measure, Node, Option
from sfumato.language.tables import PlannedFrame, column, found
from sfumato.near_misses import near
from sfumato.spark.model.validation import DUPLICATED_NAME

UNIT_WORDS = tuple(f"{unit}s" for unit in MICROSECONDS)
CHOICES = re.compile(r"must be one of ([\w, ]+?); got")

WORDS = {
    "length": "RANGE",
    "event_time": "WATTR",
    "drop_ratio": "DRATIO",
    "max_buffer": "BSIZE",
    "idle_timeout": "IDLE",
    "forget_after": "FORGET",
    "name": "NAMED",
    "strategy": "USING",
}
"""Arguments whose word is not their name: most are the words of the papers."""
KIND_OF_COLUMN = {
    "event_time": "name",
    "arrival": "name",
    "key": "names",
    "source": "names",
    "order": "names",
}
"""Arguments that name columns, and how many of them: one ("name") or several ("names")."""
DEFAULTS = {"event_time": "event_time", "order": "arrival"}
"""The columns that are taken without a word, if the table has them."""


def words_of(function: Callable[..., Any], *arguments: str) -> tuple[Word, ...]:
    """Return the words that give some arguments of a function, as its signature describes them."""
    parameters = signature(function).parameters
    return tuple(_word(parameters[argument]) for argument in arguments)


def _word(parameter: Parameter) -> Word:
    name, kind = parameter.name, str(parameter.annotation)
    spelled, default = WORDS.get(name, name.upper()), DEFAULTS.get(name)
    required = parameter.kind is Parameter.KEYWORD_ONLY and parameter.default is Parameter.empty
    if name in KIND_OF_COLUMN:
        shape = KIND_OF_COLUMN[name]
    elif "timedelta" in kind:
        shape = "duration"
    elif "Mapping" in kind:
        shape = "numbers"
    else:
        shapes = {"bool": "", "int": "number", "float": "fraction"}
        shape = next((shapes[known] for known in shapes if known in kind), "choice")
    return Word(
        spelled, shape, name, default=default, needed=required and name not in KIND_OF_COLUMN
    )


T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """The words that a text gives to a construct, over a frame.

    node : what to point at where no word is to blame;  of : what messages call the table
    frame : the frame whose columns they name; None while it is not known
    """

    options: tuple[Option, ...]
    words: Sequence[Word]
    node: Node
    text: str
    of: str = ""
    frame: PlannedFrame | None = None

    def __post_init__(self) -> None:
        """Raise SqlError for words given twice, and for one that is needed and missing."""
        repeated = {word.word for word in self.words if word.repeated}
        for i, option in enumerate(self.options):
            again = any(other.word == option.word for other in self.options[:i])
            if again and option.word not in repeated:
                raise at(self.text, option.place, f"{option.word} is given twice")
        for word in self.words:
            if word.needed and self.get(word.word) is None:
                reason = f"{word.word} is missing"
                shape = "number" if word.shape in ("numbers", "fraction") else word.shape
                example = f"{word.word} {shape}"
                raise at(self.text, self.node, reason, expected=(example,))

    def get(self, word: str) -> Option | None:
        """Return the option of that word, or None."""
        return next((option for option in self.options if option.word == word), None)

    def over(self, frame: PlannedFrame) -> Options:
        """Return the same words over another frame."""
        return replace(self, frame=frame)

    # ---- values

    def arguments(self, *but: str) -> dict[str, Any]:
        """Return the function's arguments that words give, without those of the words in `but`."""
        values = {}
        for word in self.words:
            value = self.value(word) if word.argument and word.word not in but else None
            if value is not None:
                if word.argument in values:
                    option = self.get(word.word)
                    assert option is not None
                    same = [w.word for w in self.words if w.argument == word.argument]
                    raise at(self.text, option, f"{' and '.join(same)} exclude each other")
                values[word.argument] = value
        return values

    def value(self, word: Word) -> Any:
        """Return what a word gives: numbers, a duration, a choice or columns; or None."""
        option = self.get(word.word)
        if word.default is not None:
            return self.columns(word.word, word.default)
        if option is None:
            return None
        if option.measures:
            if word.shape == "duration":
                return self._duration(option, option.measures[0])
            numbers = [m.value if m.whole is None else m.whole for m in option.measures]
            return numbers[0] if len(numbers) == 1 else numbers
        if word.shape in ("name", "names"):
            return self.columns(word.word)
        if word.shape == "choice":
            return option.names[0].parts[-1].lower()
        return True if word.constant is None else word.constant

    def columns(self, word: str, default: str | None = None) -> Any:
        """Return the column or columns that a word names; without it `default`, or None."""
        option = self.get(word)
        assert self.frame is not None
        if option is not None:
            known = self.frame.df.columns
            named = [column(name, known, self.of, self.text) for name in option.names]
            return named[0] if len(named) == 1 else named
        if default is None:
            return None
        match = found(default, self.frame.df.columns)
        if match is None:
            reason = f"{self.of} has no column `{default}`: say which it is"
            raise at(self.text, self.node, reason, expected=(f"{word} column",))
        return match

    def _duration(self, option: Option, measure: Measure) -> timedelta:
        names = [word.word for word in self.words]
        return timedelta(microseconds=duration_of(option.word, measure, self.text, names))

    # ---- errors

    def call(self, make: Callable[[], T]) -> T:
        """Return what `make` gives; its errors are reported at the words that they are about."""
        return called(make, self.placed)

    def placed(self, message: str) -> SqlError:
        """Return the error of a function about its arguments as one about words of the text."""
        given = {w.argument: w for w in self.words if w.argument and self.get(w.word) is not None}
        blamed = argument_in(message, given)
        if blamed is None:
            return at(self.text, self.node, self._in_words(message))
        word = given[blamed]
        option = self.get(word.word)
        assert option is not None
        choices = CHOICES.search(message)
        if choices is None:
            return at(self.text, option.place, self._in_words(message, option))
        expected = choices.group(1).upper().split(", ")
        name = option.names[0] if option.names else option
        written = self.text[name.start : name.end]
        reason = f"{word.word} {written} is unknown"
        likely = near(written, expected)
        return at(self.text, name, reason, expected=expected, suggestion=likely)

    def _in_words(self, message: str, blamed: Option | None = None) -> str:
        """Return a message with words in place of the names of arguments."""
        for word in self.words:
            if word.argument and (self.get(word.word) is not None or word.constant is None):
                spelled = rf"`{word.argument}( \({word.word}\))?`( \({word.word}\))?"
                message = re.sub(spelled, word.word, message)
        said, got, _ = message.rpartition("; got ")
        if blamed is None or not got or not blamed.measures:
            return message
        place = blamed.place
        return f"{said}; got {self.text[place.start : place.end]}"


def called(make: Callable[[], T], placed: Callable[[str], SqlError]) -> T:
    """Return what a function gives; `placed` makes a SqlError of what it finds wrong."""
    try:
        return make()
    except SqlError:
        raise
    except (ValueError, TypeError) as error:
        cause = error.__cause__
        if isinstance(cause, AnalysisException) and cause.getCondition() != DUPLICATED_NAME:
            raise cause from None  # the caller finds its place in the text
        raise placed(str(error)) from error


def argument_in(message: str, arguments: Iterable[str]) -> str | None:
    """Return the one of some arguments that a function's message names first, or None."""
    found = [
        (match.start(), argument)
        for argument in arguments
        if (match := re.search(rf"`{argument}\b|\b{argument}=", message)) is not None
    ]
    return min(found)[1] if found else None


def duration_of(word: str, measure: Measure, text: str, words: Sequence[str] = ()) -> int:
    """Return the microseconds of `300 SECONDS` or `1 hour 30 mins`, negative for `-5 s`.

    words : what may have been meant instead of an unknown unit
    """
    if len(measure.units) < len(measure.numbers):
        reason = f"{word} has no unit of time"
        raise at(text, measure, reason, expected=UNIT_WORDS)
    total = 0.0
    for number, unit in zip(measure.numbers, measure.units, strict=True):
        spelled = unit.lower()
        singular = spelled.removesuffix("s")
        if singular not in MICROSECONDS and spelled not in SHORT and singular not in SHORT:
            likely = near(unit, UNIT_WORDS) or near(unit, words, cutoff=0.75)
            reason = f"{unit} is not a unit of time"
            raise at(text, unit, reason, expected=UNIT_WORDS, suggestion=likely)
        if float(number) > 0:
            total += microseconds(word, f"{float(number):.12f} {spelled}")
    return -round(total) if measure.negative else round(total)
