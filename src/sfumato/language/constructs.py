"""Constructs as calls of functions: brackets after a table, IMPUTE, table functions in FROM.

The words of a construct are derived from the signature of its function. The functions check the
values. Their errors name the argument in backquotes (or as `argument=`); this name locates the
error in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from importlib import import_module
from inspect import Parameter, signature
from pkgutil import iter_modules
from typing import Any, TypeVar

from lark import Token
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from sfumato import api
from sfumato.api.calls import PUBLIC
from sfumato.api.earlier_values import earlier_values
from sfumato.api.imputation import Dependency, Imputation
from sfumato.api.impute import impute, impute_frame
from sfumato.api.reorder import reorder
from sfumato.api.window_aggregate import window_aggregate
from sfumato.duration import MICROSECONDS, SHORT, microseconds
from sfumato.language import syntax
from sfumato.language.parse import Word
from sfumato.language.steps import (
    Lines,
    Step,
    argument_lines,
    names_in,
    one_line,
    per_key,
    percent,
    size,
    span,
)
from sfumato.language.syntax import (
    Body,
    Group,
    Item,
    Items,
    Measure,
    Name,
    Node,
    Option,
    Relation,
    SqlError,
    at,
    end_of,
    is_name,
    is_type,
    is_word,
    name_in,
    plain,
    span_of,
    split,
    start_of,
)
from sfumato.language.tables import PlannedFrame, Scope, Tables, Window, column, found
from sfumato.near_misses import near
from sfumato.queries import Top
from sfumato.spark.model.figures import row_bytes
from sfumato.spark.model.validation import DUPLICATED_NAME, require_frame
from sfumato.spark.runtime.fuse import steps_of
from sfumato.windows import Delta, JoinWindow, Range, Rows, Session

UNIT_WORDS = tuple(f"{unit}s" for unit in MICROSECONDS)
CHOICES = re.compile(r'must be (?:one of )?("?\w+"?(?:(?:, | or )"?\w+"?)+); got')
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
"""Arguments whose word differs from their name; most of these words are from the papers."""
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
DEFAULTS = {"event_time": "event_time", "order": "arrival"}
"""Columns used by default, if the table has them."""
SHAPES = {"timedelta": "duration", "Mapping": "numbers", "bool": "", "int": "number"}
"""The syntax after the word of an argument, by a part of its annotation."""
NUMBER_SHAPES = ("numbers", "fraction", "distance")
"""Shapes that are given as "number" in messages."""


def words_of(function: Callable[..., Any], *arguments: str) -> tuple[Word, ...]:
    """Return the words for some arguments of a function, as described by its signature."""
    parameters = signature(function).parameters
    return tuple(_word(parameters[argument]) for argument in arguments)


def _word(parameter: Parameter) -> Word:
    name, kind = parameter.name, str(parameter.annotation)
    spelled = WORDS.get(name, name.upper())
    if name in COLUMN_SHAPES:
        return Word(spelled, COLUMN_SHAPES[name], name, default=DEFAULTS.get(name))
    other = "fraction" if "float" in kind else "choice"
    shape = next((SHAPES[part] for part in SHAPES if part in kind), other)
    needed = parameter.kind is Parameter.KEYWORD_ONLY and parameter.default is Parameter.empty
    return Word(spelled, shape, name, needed=needed)


T = TypeVar("T")
FORGET, NAMED = words_of(reorder, "forget_after", "name")
EARLY, LEVEL = words_of(window_aggregate, "early", "level")
UNIQUE, VERSION, SHARED = words_of(window_aggregate, "unique", "version", "shared")
OF_AGGREGATES = (EARLY.word, LEVEL.word, VERSION.word, SHARED.word)
OF_OPERATORS = (FORGET.word, NAMED.word, *OF_AGGREGATES)
"""Words of a bracket that do not belong to its window."""
BOUND = words_of(Rows, "max_tuples")[0]
ORDER = replace(words_of(earlier_values, "order")[0], argument="")  # read together with the window


class Options:
    """The words that a text gives to a construct, over a frame.

    words : the words that the construct accepts
    node : the node marked by errors about no specific word;  of : the table's name in messages
    frame : the frame whose columns the words name; None if it is not known yet

    Raises SqlError for duplicate words and for missing required words.
    """

    words: Sequence[Word] = ()

    def __init__(
        self,
        options: Sequence[Option],
        node: Node,
        text: str,
        of: object = "",
        frame: PlannedFrame | None = None,
        words: Sequence[Word] = (),
    ) -> None:
        self.options, self.node, self.text, self.of, self.frame = options, node, text, of, frame
        self.words = words or self.words
        repeated = {word.word for word in self.words if word.repeated}
        for i, option in enumerate(options):
            again = option.word in [other.word for other in options[:i]]
            if again and option.word not in repeated:
                raise at(text, option.place, f"{option.word} is given twice")
        for word in self.words:
            if word.needed and self.get(word.word) is None:
                shape = "number" if word.shape in NUMBER_SHAPES else word.shape
                raise at(text, node, f"{word.word} is missing", f"{word.word} {shape}")

    @property
    def table(self) -> PlannedFrame:
        """Return the frame, which must be known."""
        assert self.frame is not None
        return self.frame

    def get(self, word: str) -> Option | None:
        """Return the option with this word, or None."""
        return next((option for option in self.options if option.word == word), None)

    # ---- values

    def arguments(self, *but: str) -> dict[str, Any]:
        """Return the function's arguments given by words, except the words in `but`."""
        values: dict[str, Any] = {}
        for word in self.words:
            value = self.value(word) if word.argument and word.word not in but else None
            if value is not None and word.argument in values:
                same = [w.word for w in self.words if w.argument == word.argument]
                option = self.get(word.word) or self.node
                raise at(self.text, option, f"{' and '.join(same)} exclude each other")
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
        if option.measures:
            if word.shape == "duration":
                names = [word.word for word in self.words]
                length = duration_of(option.word, option.measures[0], self.text, names)
                return timedelta(microseconds=length)
            numbers = [measure.value for measure in option.measures]
            return numbers[0] if len(numbers) == 1 else numbers
        if word.shape == "distance":
            return option.names[0].parts[-1]
        return option.names[0].parts[-1].lower() if word.shape == "choice" else word.constant

    def columns(self, word: str, default: str | None = None, *, qualified: bool = False) -> Any:
        """Return the column or columns named by a word; without the word `default`, or None."""
        option, known = self.get(word), self.table.df.columns
        if option is not None:
            of, text = self.of, self.text
            named = [column(n, known, of, text, qualified=qualified) for n in option.names]
            return named[0] if len(named) == 1 else named
        match = None if default is None else found(default, known)
        if default is not None and match is None:
            reason = f"{self.of} has no column `{default}`: name another one"
            raise at(self.text, self.node, reason, f"{word} column")
        return match

    # ---- errors

    def call(self, make: Callable[[], T]) -> T:
        """Return the result of `make`; its errors point at the words that they concern."""
        return called(make, self._placed)

    def _placed(self, message: str) -> SqlError:
        given = {w.argument: w for w in self.words if w.argument and self.get(w.word) is not None}
        blamed = argument_in(message, given)
        option = None if blamed is None else self.get(given[blamed].word)
        choices = CHOICES.search(message)
        if option is None or choices is None:
            place = self.node if option is None else option.place
            return at(self.text, place, self._in_words(message, option))
        expected = re.findall(r"\w+", choices[1].replace(" or ", " ").upper())
        name = option.names[0] if option.names else option
        written = self.text[name.start : name.end]
        reason, likely = f"{option.word} {written} is unknown", near(written, expected)
        return at(self.text, name, reason, *expected, suggestion=likely)

    def _in_words(self, message: str, blamed: Option | None) -> str:
        """Return a message with arguments replaced by the words that give them."""
        for word in self.words:
            if word.argument and (self.get(word.word) is not None or word.constant is True):
                spelled = rf"`{word.argument}( \({word.word}\))?`( \({word.word}\))?"
                message = re.sub(spelled, word.word, message)
        said, got, _ = message.rpartition("; got ")
        if blamed is None or not got or not blamed.measures:
            return message
        return f"{said}; got {self.text[blamed.place.start : blamed.place.end]}"


def called(make: Callable[[], T], placed: Callable[[str], SqlError]) -> T:
    """Return the result of `make`; `placed` converts an error about an argument to a SqlError."""
    try:
        return make()
    except SqlError:
        raise
    except (ValueError, TypeError) as error:
        cause = error.__cause__
        if isinstance(cause, AnalysisException) and cause.getCondition() != DUPLICATED_NAME:
            raise cause from None  # the caller locates it in the text
        raise placed(str(error)) from error


def argument_in(message: str, arguments: Iterable[str]) -> str | None:
    """Return the first of the arguments that an error message names, or None."""
    named = [
        (match.start(), argument)
        for argument in arguments
        if (match := re.search(rf"`{argument}\b|\b{argument}=", message)) is not None
    ]
    return min(named)[1] if named else None


def duration_of(word: str, measure: Measure, text: str, words: Sequence[str] = ()) -> int:
    """Return the microseconds of `300 SECONDS` or `1 hour 30 mins`; negative for `-5 s`.

    words : suggestions for an unknown unit
    """
    if len(measure.units) < len(measure.numbers):
        raise at(text, measure, f"{word} has no unit of time", *UNIT_WORDS)
    total = 0.0
    for number, unit in zip(measure.numbers, measure.units, strict=True):
        spelled = unit.lower()
        singular = spelled.removesuffix("s")
        if singular not in MICROSECONDS and spelled not in SHORT and singular not in SHORT:
            likely = near(unit, UNIT_WORDS) or near(unit, words, cutoff=0.75)
            raise at(text, unit, f"{unit} is not a unit of time", *UNIT_WORDS, suggestion=likely)
        if float(number) > 0:
            total += microseconds(word, f"{float(number):.12f} {spelled}")
    return -round(total) if measure.negative else round(total)


# ---- constructs in brackets ----------------------------------------------------------------------

WAIT_WORDS = {"drop_ratio", "slack", "max_delay", "punctuation", "estimator", "max_buffer"}
"""Arguments that limit the delay; without any of them no rows are buffered."""
CONTROL_WORDS = WAIT_WORDS | {"source", "unique", "max_ahead", "max_behind"}
"""Arguments that request disorder control; without any of them rows are assumed to be in order."""
ESTIMATOR = "conformal"  # default of `sf.reorder` for a drop ratio


class TableOptions(Options):
    """A construct in brackets after a table, `s [ROWS 5]`, identified by its first word.

    kind : "time", "count" or "value" for a window, "" without a window
    """

    kind = ""

    def rows(self, *, answered: bool) -> PlannedFrame:
        """Return the rows of the construct.

        answered : whether an aggregate, ranking or join follows, which reads rows in order
        """
        return self.table

    def window(self) -> tuple[Window | None, list[str]]:
        """Return the window over the frame, and its order columns."""
        return None, []

    def ordered(self) -> list[str]:
        """Return the columns that order the rows."""
        return names_in(self.columns("ORDER", "arrival"))


def of_operator(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options of a bracket that belong to the operator over its window.

    UNIQUE names duplicates, which the controller drops, or with VERSION rows that are corrected.
    """
    versioned = any(option.word == VERSION.word for option in options)
    words = (*OF_OPERATORS, UNIQUE.word) if versioned else OF_OPERATORS
    return tuple(option for option in options if option.word in words)


def refuse_of_aggregates(options: Sequence[Option], text: str) -> None:
    """Raise SqlError for EARLY, LEVEL, VERSION or SHARED of a window without aggregates."""
    for option in options:
        if option.word in OF_AGGREGATES:
            reason = f"{option.word} belongs to aggregates over a RANGE"
            raise at(text, option, reason, "SELECT AVG(x)")


class TimeOptions(TableOptions):
    """`sf.reorder`, and with RANGE, `sf.Range` over its rows."""

    words = (
        *words_of(Range, "length", "slide"),
        *words_of(reorder, "event_time", "arrival", "key", "source", "slack", "drop_ratio"),
        *words_of(reorder, "max_delay", "punctuation"),
        Word("MAX", "", "estimator", constant="max"),
        *words_of(reorder, "estimator", "max_buffer", "max_ahead", "max_behind", "unique"),
        *words_of(reorder, "idle_timeout", "forget_after", "name"),
        EARLY,
        LEVEL,
        VERSION,
        SHARED,
    )
    kind = "time"

    def rows(self, *, answered: bool) -> PlannedFrame:
        """Return the rows in order, or unchanged if the next operator orders them itself.

        A controller without slack would hold rows of one event time until a later row arrives.
        """
        frame, extent = self.table, self._extent()
        if not answered or extent is None:
            refuse_of_aggregates(self.options, self.text)
        if (level := self.get(LEVEL.word)) is not None and self.get(EARLY.word) is None:
            raise at(self.text, level, "LEVEL belongs to EARLY", "EARLY 10 SECONDS")
        if self._uncertain_time() is not None:
            self._check_uncertain(extent, answered)
            return frame
        of_answers = answered and self.get("KEY") is None  # no controllers per key
        others = ["RANGE", "SLIDE", *OF_AGGREGATES]
        others += [UNIQUE.word] if self.get(VERSION.word) is not None else []
        arguments = self.arguments(*others, *([FORGET.word] if of_answers else []))
        controlled = bool(CONTROL_WORDS & arguments.keys())
        if answered and extent is not None and not controlled:
            return frame
        if not WAIT_WORDS & arguments.keys():
            arguments["slack"] = 0
        if self.get(EARLY.word) is not None:
            arguments["early"] = True
        name = arguments.pop("name", None)
        known, asked = frame.ordered, repr(sorted(arguments.items()))
        if asked not in known:  # windows over one table share its controller and name
            rows = frame
            if "arrival" not in arguments:
                rows, arguments["arrival"] = self._arrival(arguments, controlled)
            df = self.call(lambda: reorder(rows.df, name=name, **arguments))
            known[asked] = rows, arguments, df, name or ""
        frame, arguments, df, named = known[asked]
        lines = _reorder_lines(arguments, extent, row_bytes(df))
        key, ratio = names_in(arguments.get("key")), arguments.get("drop_ratio")
        facts = {"controlled": True, "key": key, "drop_ratio": ratio}
        step = Step("reorder by event time", lines, {"": frame.step}, facts, named=named)
        return PlannedFrame(df, step)

    def window(self) -> tuple[Window | None, list[str]]:
        extent = self._extent()
        if extent is None:
            return None, []
        return extent, [self._uncertain_time() or str(self.columns("WATTR", "event_time"))]

    def _check_uncertain(self, extent: Range | None, answered: bool) -> None:
        """Raise SqlError for an uncertain event time where a certain one is required."""
        wattr = self.get("WATTR")
        assert wattr is not None
        name = wattr.names[0].parts[0]
        if extent is None or not answered:
            reason = f"{name} is an uncertain event time, which only aggregates over a RANGE take"
            raise at(self.text, wattr.place, reason, "SELECT AVG(x)")
        own = {"RANGE", "SLIDE", "WATTR", *OF_OPERATORS}
        if other := next((o for o in self.options if o.word not in own), None):
            earliest = f"SELECT *, array_min(alternatives.{name}) AS earliest FROM {self.of}"
            reason = (
                f"{name} is an uncertain event time, and {other.word} is about a certain one: "
                f"reorder by the earliest in a subquery first, ({earliest}) [WATTR earliest "
                f"{other.word} ...]"
            )
            raise at(self.text, other, reason)

    def _extent(self) -> Range | None:
        slide = self.get("SLIDE")
        if self.get("RANGE") is None and slide is not None:
            raise at(self.text, slide, "SLIDE needs the RANGE of the extents that slide")
        if self.get("RANGE") is None:
            return None
        names = ("length", "slide", "idle_timeout")
        given = {w.argument: self.value(w) for w in self.words if w.argument in names}
        return self.call(lambda: Range(**given))

    def _arrival(self, arguments: dict[str, Any], controlled: bool) -> tuple[PlannedFrame, str]:
        """Return a column `arrival`: the table's column, or the time of a row's micro-batch."""
        frame = self.table
        if (own := found("arrival", frame.df.columns)) is not None:
            return frame, own
        if frame.df.isStreaming:
            step = frame.step
            if "table" in step.facts:
                added = "; arrival added: when Spark received the row"
                step = replace(step, title=step.title + added)
            df = frame.df.withColumn("arrival", F.current_timestamp())
            return PlannedFrame(df, step), "arrival"
        if not controlled:
            return frame, str(arguments["event_time"])  # all rows are present, and in order
        reason = "the table has no column `arrival`: name the column of arrival times"
        raise at(self.text, self.node, reason, "ARRIVAL column")

    def _uncertain_time(self) -> str | None:
        """Return the attribute named by WATTR, if the table has no such column."""
        wattr, frame = self.get("WATTR"), self.frame
        if wattr is None or frame is None or len(wattr.names) != 1:
            return None
        parts = wattr.names[0].parts
        if len(parts) != 1 or found(parts[0], frame.df.columns) is not None:
            return None
        return found(parts[0], frame.attributes)


class RowsOptions(TableOptions):
    """`sf.Rows`: the newest tuples with a number of existing ones; SPAN is their age in joins."""

    words = (
        *words_of(Rows, "rows"),
        *words_of(JoinWindow, "span"),
        replace(words_of(Rows, "slide")[0], shape="duration"),  # the syntax of SLIDE after RANGE
        *words_of(Rows, "confidence", "max_tuples"),
        ORDER,
        FORGET,
        NAMED,
    )
    kind = "count"

    def window(self) -> tuple[Window | None, list[str]]:
        length = self.get("SPAN")
        if length is not None:
            reason = "SPAN belongs to a SIMILARITY JOIN; an aggregate or a ranking over "
            raise at(self.text, length, reason + "time has extents", "[RANGE duration]")
        return self.call(lambda: Rows(**self.arguments(*OF_OPERATORS))), self.ordered()

    def value(self, word: Word) -> Any:
        """Return the value of a word; SLIDE is a number of rows here."""
        option = self.get(word.word)
        if option is None or word.argument != "slide":
            return super().value(word)
        (measure,) = option.measures
        if measure.units:
            raise at(self.text, measure, "SLIDE in [ROWS ...] must be a number of rows", "SLIDE n")
        return measure.value

    def join_window(self) -> JoinWindow:
        """Return the window of one side of a join."""
        if (slide := self.get("SLIDE")) is not None:
            reason = "SLIDE belongs to aggregates; the window of a join moves with every tuple: "
            raise at(self.text, slide, f"{reason}leave it out")
        if self.get("ROWS") is None:
            for word in ("CONFIDENCE", BOUND.word):
                if (option := self.get(word)) is not None:
                    raise at(self.text, option, f"{word} belongs to a window of ROWS", "ROWS n")
        else:  # also checks the bound
            self.call(lambda: Rows(**self.arguments(*OF_OPERATORS, "SPAN")))
        return self.call(lambda: JoinWindow(**self.arguments(*OF_OPERATORS)))


class DeltaOptions(TableOptions):
    """`sf.Delta`: the newest tuples, bounded by the change of an attribute."""

    words = (
        Word("DELTA", "number ON name", "delta"),
        *words_of(Delta, "threshold", "max_tuples"),
        ORDER,
        FORGET,
        NAMED,
    )
    kind = "value"

    def window(self) -> tuple[Window | None, list[str]]:
        option = self.get("DELTA")
        assert option is not None
        known = self.table.attributes or self.table.df.columns
        on = column(option.names[0], known, self.of, self.text)
        arguments: dict[str, Any] = self.arguments(*OF_OPERATORS)
        return self.call(lambda: Delta(on=on, **arguments)), self.ordered()


class EarlierOptions(TableOptions):
    """`sf.earlier_values`: the values known from each key's earlier rows."""

    words = (
        Word("EARLIER", "names", "attributes"),
        *words_of(earlier_values, "order", "key", "forget_after", "name"),
    )

    def rows(self, *, answered: bool) -> PlannedFrame:
        arguments = self.arguments()
        df = self.call(lambda: earlier_values(self.table.df, **arguments))
        named, attributes = arguments.pop("name", ""), names_in(arguments["attributes"])
        lines = [
            *argument_lines(arguments),
            ("columns", "earlier_ATTR, the newest known value before a row, and age_ATTR"),
            ("parallel", per_key(arguments.get("key"))),
            ("state", f"{16 * len(attributes)} bytes per key"),
        ]
        title = f"earlier values of {', '.join(attributes)}"
        return PlannedFrame(df, Step(title, lines, {"": self.table.step}, named=named))


BRACKETS = (TimeOptions, RowsOptions, DeltaOptions, EarlierOptions)
"""All classes of brackets; the first is the default if no word identifies one."""
BRACKET_WORDS = tuple(word.word for bracket in BRACKETS for word in bracket.words)


def bracket_of(
    relation: Relation, text: str, frame: PlannedFrame | None = None
) -> TableOptions | None:
    """Return the construct of a relation's bracket with its words; None without a bracket.

    Raises SqlError for words that cannot be combined.
    """
    node = relation.bracket
    if node is None:
        return None
    by_word = {bracket.words[0].word: bracket for bracket in BRACKETS} | {"SPAN": RowsOptions}
    asking = {by_word[o.word]: o for o in reversed(node.options) if o.word in by_word}
    bracket = next((each for each in BRACKETS if each in asking), BRACKETS[0])
    own, first = {word.word for word in bracket.words}, bracket.words[0].word
    for option in node.options:
        if option.word not in own or by_word.get(option.word, bracket) is not bracket:
            other = next(b for b in BRACKETS if option.word in [w.word for w in b.words])
            order = sorted((bracket, other), key=lambda b: (bool(b.kind), b.kind != "time"))
            one, two = (each.words[0].word.replace("RANGE", "WATTR") for each in order)
            hint = f"take one in a subquery first, FROM (SELECT * FROM s [{one} ...]) [{two} ...]"
            hint = hint if order[0].kind in ("", "time") else "keep one"
            reason = f"{option.word} belongs to [{other.words[0].word} ...] and has no meaning "
            last = max(asking.values(), key=start_of) if len(asking) > 1 else option
            raise at(text, last, f"{reason}in [{first} ...]: {hint}")
    return bracket(node.options, node, text, relation, frame)


def _reorder_lines(given: dict[str, Any], extent: Range | None, each: int) -> Lines:
    """Return the lines of a reordering for EXPLAIN. each : bytes per row"""
    ratio, key = given.get("drop_ratio"), given.get("key")
    known = {"estimator": ESTIMATOR} if ratio is not None else {}
    shown = dict(given)
    late = "the share of late rows is measured, not bounded"
    if ratio is not None and "max_buffer" not in given:
        conformal = given.get("estimator", ESTIMATOR) == "conformal"
        assumed = "whatever the delays" if conformal else "if gaps and delays are as assumed"
        late = f"{percent(ratio)} of the rows are late in the long run, {assumed}"
    state = f"the rows after the punctuation, about {each} bytes each, without a bound (BSIZE)"
    bounds = [given[name] for name in ("slack", "max_buffer") if name in given]
    if bounds:
        rows, per = min(bounds), " per key" if key else ""
        state = f"at most {rows} rows{per}, about {size(rows * each)} at {each} bytes per row"
    if given.get("early"):
        shown["early"] = "each row also on its arrival, for the early answers"
    lines = argument_lines({"event_time": None, "arrival": None} | known | shown)
    if extent is not None:
        lines.append(("extents", f"RANGE {span(extent.length_us)} SLIDE {span(extent.slide_us)}"))
    return [
        *lines,
        ("parallel", per_key(key)),
        ("state", state),
        ("guarantee", "each row once, in order of event time, or at once with late = true"),
        ("invalid", "rows without valid times are emitted with late = true"),
        ("late rows", late),
    ]


# ---- IMPUTE --------------------------------------------------------------------------------------

IMPUTE_WORDS = (
    *words_of(impute, "joint", "max_alternatives", "fallback"),
    Word("SCALING", "name number number", "scaling", repeated=True),
    *words_of(impute, "method", "least_donors", "key", "least_rows", "name"),
)


def imputed_frame(
    frame: PlannedFrame, relation: Relation, text: str, repository: Callable[..., PlannedFrame]
) -> PlannedFrame:
    """Return a table after its IMPUTE. repository : returns the table with a given name"""
    node = relation.imputation
    if node is None:
        return frame
    given = Options(node.options, node, text, relation, frame, IMPUTE_WORDS)
    imputation, lines = read_imputation(given, node, repository)
    name = given.value(NAMED)
    df = given.call(lambda: impute_frame(frame.df, imputation, name))
    title = f"impute {', '.join(imputation.attributes)}"
    lines.append(("state", "none; every worker keeps the prepared repository"))
    inputs = {"": frame.step}
    return PlannedFrame(df, Step(title, lines, inputs, frame.step.facts, named=name or ""))


def read_imputation(
    given: Options, node: syntax.Impute, repository: Callable[..., PlannedFrame]
) -> tuple[Imputation, Lines]:
    """Return the imputation of an IMPUTE, and its lines for EXPLAIN. Raises SqlError."""
    text, columns = given.text, given.table.df.columns
    attributes = tuple(column(name, columns, given.of, text) for name in node.attributes)
    dependencies = [_dependency(token, text) for token in node.dependencies]
    table, how = repository(node.repository).df, given.arguments("SCALING", NAMED.word)
    for option in given.options:
        if option.word == "SCALING":
            name, scaling = plain(option.names[0].parts[-1]), how.setdefault("scaling", {})
            if name in scaling:
                raise at(text, option, f"SCALING of {name} is given twice")
            scaling[name] = tuple(float(measure.value) for measure in option.measures)
    imputation = given.call(lambda: Imputation(table, dependencies, attributes, **how))
    known = {"method": imputation.method, "fallback": "marginal"}
    lines = [
        ("repository", f"{node.repository}, read when the query is made"),
        ("by", "; ".join(map(str, dependencies))),
        *argument_lines(known | how),
    ]
    return imputation, lines


def agreed(relations: tuple[Relation, Relation], text: str) -> int | None:
    """Return the side whose IMPUTE applies to a join: one applies to both, two must be equal."""
    given = [(i, r.imputation) for i, r in enumerate(relations) if r.imputation is not None]
    if len({_said(node) for _, node in given}) > 1:
        raise at(text, given[1][1], "the IMPUTE of both sides must be the same: one is for both")
    return given[0][0] if given else None


def _said(node: syntax.Impute) -> str:
    options = sorted(
        (o.word, [str(name).lower() for name in o.names], [number.value for number in o.measures])
        for o in node.options
    )
    texts, names = [unquoted(token) for token in node.dependencies], [*node.attributes]
    return str(([n.parts for n in names], node.repository.parts, texts, options))


def _dependency(token: Token, text: str) -> Any:
    """Return the dependency given as text. Raises SqlError at its position."""
    try:
        return Dependency.parse(unquoted(token))
    except ValueError as error:
        place = start_of(token) + _opening(token) + getattr(error, "position", 0)
        reason = str(error).partition(" at position")[0]
        hint = "BY takes a dependency like 'humidity -> temperature : 0.05 -> 0.1'"
        raise at(text, Node(place, place + 1), f"{reason}: {hint}") from error


def unquoted(token: Token) -> str:
    """Return the value of a quoted text."""
    begin = _opening(token)
    inside = str(token)[begin:-1]
    return inside if begin == 2 else re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL)


def _opening(token: Token) -> int:
    return 2 if token[0] in "rR" else 1


# ---- table functions -----------------------------------------------------------------------------

REPOSITORY = "repository"
"""The argument that names a table in every function, so that a text never names a path."""
CLASSES: Mapping[str, Callable[..., Any]] = {
    "rows": Rows,
    "range": Range,
    "session": Session,
    "delta": Delta,
    "top": Top,
    "imputation": Imputation,
}
"""Classes allowed as values, in addition to literals, arrays and maps."""
NAMED_KINDS = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
CONSTANTS = {"true": True, "false": False, "null": None}


@cache
def public_functions() -> Mapping[str, Callable[..., Any]]:
    """Return the public functions by name; importing their modules registers them in `PUBLIC`."""
    for module in iter_modules(api.__path__):
        import_module(f"{api.__name__}.{module.name}")
    return PUBLIC


def function_of(name: Name, tables: Tables | None = None) -> Callable[..., Any] | None:
    """Return the table function of a name (passed with the text, or public), or None."""
    if len(name.parts) > 1:
        return None
    word = name.parts[0].lower()
    if tables is not None and word in tables.functions:
        return tables.functions[word]
    function = PUBLIC.get(word) or public_functions().get(word)
    gives = str(signature(function).return_annotation) if function is not None else "tuple"
    return None if gives.startswith("tuple") else function


def tables_read(body: Body) -> list[Name]:
    """Return the tables that a statement reads, including arguments of public functions."""
    names = {name.parts: name for name in body.tables()}
    for part in body.bodies():
        for relation in part.relations if part.is_query else ():
            for name in _tables_in(relation.head, relation.call):
                if not body.is_common(name):
                    names.setdefault(name.parts, name)
    return list(names.values())


def _tables_in(head: Any, call: Group | None) -> Iterator[Name]:
    function = function_of(head) if call is not None else None
    parameters = [] if function is None else list(signature(function).parameters)
    for place, items in enumerate(_arguments(call) if function and call else ()):
        word, value = _named(items)
        argument = str(word or (*parameters[place : place + 1], "")[0]).lower()
        if function is not None and argument in _table_parameters(function):
            nested, name = _call_in(value), name_in(value)
            if nested is not None:
                yield from _tables_in(*nested)
            elif name is not None:
                yield name


@dataclass
class TableFunctions:
    """Planner of the calls in FROM.

    scope : the common tables;  query : plans a query in parentheses
    """

    scope: Scope
    tables: Tables
    query: Callable[[Body, Scope], PlannedFrame]

    def frame(self, name: Name, call: Group) -> PlannedFrame | None:
        """Return the result of a call; None for a function that is not a table function here."""
        function, text = function_of(name, self.tables), self.tables.text
        if function is None:
            return None
        inputs: dict[str, PlannedFrame] = {}
        make, places = self._bound(function, name, call, inputs)
        known = [column for frame in inputs.values() for column in frame.df.columns]
        df = self.tables.checked(make, Node(name.start, call.end), known)
        try:
            require_frame(str(name), df)
        except TypeError:
            reason = f"{name} does not return one table, but {type(df).__name__}"
            raise at(text, name, reason) from None
        given = {n: one_line(text[p.start : p.end]) for n, p in places.items() if n not in inputs}
        steps = {n if len(inputs) > 1 else "": frame.step for n, frame in inputs.items()}
        facts = {"controlled": True} if function is PUBLIC.get("reorder") else {}
        step = Step(f"{name} of rows", [*given.items()], steps, facts, runs=steps_of(df))
        return PlannedFrame(df, step)

    def _bound(
        self, function: Callable[..., Any], name: Name, call: Group, inputs: dict[str, PlannedFrame]
    ) -> tuple[Callable[[], Any], dict[str, Node]]:
        """Return the call of a function or class, and its arguments' nodes; fills `inputs`."""
        text, parameters = self.tables.text, signature(function).parameters
        kinds = {n: p.kind for n, p in parameters.items()}
        known = [n for n, kind in kinds.items() if kind in NAMED_KINDS]
        positional = [n for n in known if kinds[n] is Parameter.POSITIONAL_OR_KEYWORD]
        values: dict[str, Any] = {}
        places: dict[str, Node] = {}
        by_name = False
        for place, items in enumerate(_arguments(call)):
            node, (word, value) = span_of(items) if items else call, _named(items)
            argument = plain(word).lower() if word else (*positional[place : place + 1], "")[0]
            if not value:
                raise at(text, node, f"an argument of {name} is empty")
            if word is None and (by_name or not argument):
                expected = [f"{n} => ..." for n in known if n not in values]
                reason = f"this argument of {name} needs a name"
                if by_name:
                    reason = f"an argument of {name} without a name follows a named one"
                raise at(text, node, reason, *([] if by_name else expected))
            takes_any = Parameter.VAR_KEYWORD in kinds.values()
            if word is not None and argument not in known and not takes_any:
                likely, reason = near(word, known), f"{name} has no argument {word}"
                raise at(text, word, reason, *known, suggestion=likely)
            if argument in values:
                raise at(text, node, f"{argument} is given twice")
            by_name, places[argument] = word is not None, span_of(value)
            is_table = argument in _table_parameters(function)
            read = partial(self._tables, argument, inputs) if is_table else self._value
            values[argument] = read(value)
        for argument in known:
            if parameters[argument].default is Parameter.empty and argument not in values:
                reason = f"{name} needs the argument {argument}"
                raise at(text, name, reason, f"{argument} => ...")

        def placed(message: str) -> SqlError:
            blamed = argument_in(message, places)
            return at(text, name if blamed is None else places[blamed], message)

        return lambda: called(partial(function, **values), placed), places

    # ---- tables

    def _tables(self, argument: str, inputs: dict[str, PlannedFrame], items: Items) -> Any:
        """Return the frame of a table argument, or frames by name for `map('a', a, 'b', b)`."""
        call = _call_in(items)
        if call is None or call[0].parts != ("map",):
            inputs[argument] = self._frame(items)
            return inputs[argument].df
        parts = _arguments(call[1])
        named = {
            self._value(n): self._frame(t) for n, t in zip(parts[::2], parts[1::2], strict=False)
        }
        inputs.update({f"{argument}.{name}": frame for name, frame in named.items()})
        return {name: frame.df for name, frame in named.items()}

    def _frame(self, items: Items) -> PlannedFrame:
        first, text = items[0], self.tables.text
        if len(items) == 1 and isinstance(first, Group) and first.query is not None:
            return self.query(first.query, self.scope)
        if (call := _call_in(items)) is not None:
            frame = self.frame(*call)
            if frame is None:
                known = sorted({*public_functions(), *self.tables.functions})
                likely, reason = near(str(call[0]), known), f"there is no table function {call[0]}"
                raise at(text, call[0], reason, *known, suggestion=likely)
            return frame
        if (name := name_in(items)) is None:
            expected = ("the name of a table", "(SELECT ...)", "a table function")
            raise at(text, span_of(items), "a table is expected here", *expected)
        return self.tables.stored(name, self.scope)

    # ---- values

    def _value(self, items: Items) -> Any:
        """Return a literal, duration, array, map, window or column name."""
        if (call := _call_in(items)) is not None:
            return self._constructed(*call)
        first = items[0]
        if len(items) == 1 and is_type(first, "STRING"):
            return unquoted(first)
        if len(items) == 1 and is_type(first, "NAME") and first.lower() in CONSTANTS:
            return CONSTANTS[first.lower()]
        values = (name_in(items), _duration(items), _number(items))
        value = next((value for value in values if value is not None), None)
        if value is None:
            node = span_of(items)
            written = one_line(self.tables.text[node.start : node.end])
            reason = f"{written} is not a value of an argument; an expression is written as text"
            expected = ("a literal", "a column", "array(...)", "map(...)", *CLASSES)
            raise at(self.tables.text, node, reason, *expected)
        return str(value) if isinstance(value, Name) else value

    def _constructed(self, name: Name, call: Group) -> Any:
        kind, text = str(name).lower(), self.tables.text
        parts = _arguments(call)
        if kind == "array":
            return [self._value(part) for part in parts]
        if kind == "map":
            if len(parts) % 2:
                raise at(text, call, "map takes keys and values alternately", "map('a', 1)")
            keys = [self._value(part) for part in parts[::2]]
            return {
                key: self._frame(part).df if key == REPOSITORY else self._value(part)
                for key, part in zip(keys, parts[1::2], strict=True)
            }
        if kind not in CLASSES:
            known = ("array", "map", *CLASSES)
            reason, likely = f"{name} is not a value of an argument", near(kind, known)
            raise at(text, name, reason, *known, suggestion=likely)
        return self._bound(CLASSES[kind], name, call, {})[0]()


def _table_parameters(function: Callable[..., Any]) -> set[str]:
    parameters = signature(function).parameters
    frames = {n for n, p in parameters.items() if "DataFrame" in str(p.annotation)}
    first = () if isinstance(function, type) else tuple(parameters)[:1]
    return {REPOSITORY, *(getattr(function, "frames", ()) or (*first, *frames))}


def _arguments(call: Group) -> list[Items]:
    """Return the arguments of a call; the function WHERE is allowed among them."""
    items: list[Item] = []
    for clause in call.body.clauses if call.body is not None else ():
        items += [clause.keyword] if clause.keyword is not None else []
        items += clause.items
    return split(items) if items else []


def _named(items: Items) -> tuple[Token | None, Items]:
    """Return the name and value of `name => value`; (None, value) without a name."""
    word, signs = (*items, None)[0], items[1:3]
    if isinstance(word, Token) and [str(sign) for sign in signs] == ["=", ">"]:
        is_arrow = end_of(signs[0]) == start_of(signs[1])
        return (word, items[3:]) if is_arrow else (None, items)
    return None, items


def _call_in(items: Items) -> tuple[Name, Group] | None:
    """Return the name and arguments if the argument is a single call, else None."""
    word, call = items if len(items) == 2 else (None, None)
    if isinstance(call, Group) and (is_name(word) or is_word(word, "WHERE")):
        return Name(start_of(word), end_of(word), (word,)), call
    return None


def _number(items: Items) -> float | None:
    negative, percent = is_type(items[0], "MINUS"), is_type(items[-1], "PERCENT")
    digits = items[negative : len(items) - percent]
    if len(digits) != 1 or not is_type(digits[0], "NUMBER"):
        return None
    value = float(digits[0]) / (100 if percent else 1)
    value = int(value) if digits[0].isdigit() and not percent else value
    return -value if negative else value


def _duration(items: Items) -> str | None:
    """Return `5 MINUTES`, `INTERVAL 5 MINUTES` or `INTERVAL '5' MINUTE` as text, or None."""
    interval = is_word(items[0], "INTERVAL")
    words = items[interval:]
    if interval and words and is_type(words[0], "STRING"):
        words = (Token("NUMBER", unquoted(words[0])), *words[1:])
        if len(words) == 1:
            return str(words[0])
    kinds = [is_type(word, ("NUMBER", "NAME")[n % 2]) for n, word in enumerate(words)]
    return " ".join(map(str, words)) if kinds and len(kinds) % 2 == 0 and all(kinds) else None
