"""From the words of a construct to the arguments of its function, and its errors back to the words.

What an argument may be is checked where it is used, by the function or its configuration, and
nowhere else. Their messages name the argument in backquotes (or as `argument=`): by that name an
error finds the word that gave it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from pyspark.errors import AnalysisException

from sfumato.duration import SHORT, UNITS, microseconds
from sfumato.near_misses import near
from sfumato.spark.model.spark_sentences import TWICE
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import Frame, column, found
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import Measure, Node, Option
from sfumato.sql.text.words import Word

UNIT_WORDS = tuple(f"{unit}s" for unit in UNITS)
CHOICES = re.compile(r"must be one of ([\w, ]+?); got")

T = TypeVar("T")


@dataclass(frozen=True)
class Given:
    """The words that a text gives to a construct, over a frame.

    node : what to point at where no word is to blame;  of : what messages call the table
    frame : the frame whose columns they name; None while it is not known
    """

    options: tuple[Option, ...]
    words: Sequence[Word]
    node: Node
    text: str
    of: str = ""
    frame: Frame | None = None

    def __post_init__(self) -> None:
        """Raises SqlError for words given twice, and for one that is needed and missing."""
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
        """The option of that word, or None."""
        return next((option for option in self.options if option.word == word), None)

    def over(self, frame: Frame) -> Given:
        """The same words over another frame."""
        return replace(self, frame=frame)

    # ---- values

    def arguments(self, *but: str) -> dict[str, Any]:
        """The function's arguments that words give; those of the words in `but` left out."""
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
        """What a word gives: a number or several, a duration, a choice, one column or several; or
        None."""
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
        """The frame's column or columns that a word names; `default`'s without it; or None."""
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
        """What `make` gives. What a function finds wrong is said at the word that gave it."""
        try:
            return make()
        except SqlError:
            raise
        except (ValueError, TypeError) as error:
            cause = error.__cause__
            if isinstance(cause, AnalysisException) and cause.getCondition() != TWICE:
                raise cause from None  # who asked finds its place in the text
            raise self.placed(str(error)) from error

    def placed(self, message: str) -> SqlError:
        """The error of a function about its arguments, as one about words of the text."""
        mentioned = [
            (match.start(), word)
            for word in self.words
            if word.argument
            and self.get(word.word) is not None
            and (match := re.search(rf"`{word.argument}\b|\b{word.argument}=", message))
        ]
        if not mentioned:
            return at(self.text, self.node, self._in_words(message))
        _, word = min(mentioned, key=lambda pair: pair[0])
        option = self.get(word.word)
        assert option is not None
        choices = CHOICES.search(message)
        expected = () if choices is None else choices.group(1).upper().split(", ")
        place = option.place
        if choices is None:
            return at(self.text, place, self._in_words(message, option))
        name = option.names[0] if option.names else option
        written = self.text[name.start : name.end]
        reason = f"{word.word} {written} is unknown"
        likely = near(written, expected)
        return at(self.text, name, reason, expected=expected, suggestion=likely)

    def _in_words(self, message: str, blamed: Option | None = None) -> str:
        """A message with words in place of the names of arguments."""
        for word in self.words:
            if word.argument and (self.get(word.word) is not None or word.constant is None):
                spelled = rf"`{word.argument}( \({word.word}\))?`( \({word.word}\))?"
                message = re.sub(spelled, word.word, message)
        said, got, _ = message.rpartition("; got ")
        if blamed is None or not got or not blamed.measures:
            return message
        place = blamed.place
        return f"{said}; got {self.text[place.start : place.end]}"


def duration_of(word: str, measure: Measure, text: str, words: Sequence[str] = ()) -> int:
    """Microseconds of `300 SECONDS` or `1 hour 30 mins`; not positive where that is not.

    words : what may have been meant instead of an unknown unit
    """
    if len(measure.units) < len(measure.numbers):
        reason = f"{word} has no unit of time"
        raise at(text, measure, reason, expected=UNIT_WORDS)
    total = 0.0
    for number, unit in zip(measure.numbers, measure.units, strict=True):
        spelled = unit.lower()
        singular = spelled.removesuffix("s")
        if singular not in UNITS and spelled not in SHORT and singular not in SHORT:
            likely = near(unit, UNIT_WORDS) or near(unit, words, cutoff=0.75)
            reason = f"{unit} is no unit of time"
            raise at(text, unit, reason, expected=UNIT_WORDS, suggestion=likely)
        if float(number) > 0:
            total += microseconds(word, f"{float(number):.12f} {spelled}")
    return -round(total) if measure.negative else round(total)
