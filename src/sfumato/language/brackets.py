"""Constructs in brackets after a table: windows, orders, and the control of disorder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.imputation import earlier_values
from sfumato.api.reorder import reorder
from sfumato.api.window_aggregate import window_aggregate
from sfumato.language.construct_options import Options, words_of
from sfumato.language.parse import Word
from sfumato.language.steps import Step, argument_lines, list_names, per_key, reorder_lines
from sfumato.language.syntax import START, Option, Relation, at
from sfumato.language.tables import BracketWindow, PlannedFrame, match_name, resolve_column
from sfumato.spark.model.estimates import row_bytes
from sfumato.windows import CALENDAR_DURATION, Delta, JoinWindow, Range, Rows

WAIT_WORDS = {"drop_ratio", "slack", "max_delay", "punctuation", "estimator"}
WAIT_WORDS |= {"max_buffer", "max_buffer_total"}
"""Arguments that determine how long rows are held; without them, no rows are held."""
CONTROL_WORDS = WAIT_WORDS | {"source", "unique", "max_ahead", "max_behind"}
"""Arguments that request disorder control; without them, rows are assumed to be in order."""
EXTENT_WORDS = ("RANGE", "SLIDE", "OFFSET", "ZONE", "EMPTY")
FORGET, IDLE_TIMEOUT, NAMED = words_of(reorder, "forget_after", "idle_timeout", "name")
SAMPLING = words_of(window_aggregate, "samples", "seed")
AGGREGATE = (*words_of(window_aggregate, "early", "level", "version", "shared"), *SAMPLING)
WINDOW_OPERATOR = (FORGET, NAMED, *words_of(window_aggregate, "unique"), *AGGREGATE)
"""Words of a bracket that belong to the operator over its window; UNIQUE only with VERSION."""
AGGREGATE_WORDS = tuple(word.word for word in AGGREGATE)
OPERATOR_WORDS = ("FORGET", "NAMED", *AGGREGATE_WORDS)
EXAMPLE = "SELECT AVG(x)"
ORDER = replace(words_of(earlier_values, "order")[0], argument="")  # read together with the window


class TableOptions(Options):
    """A construct in brackets after a table, such as `s [ROWS 5]`, identified by its first word.

    kind : "time", "count" or "value" for a window; otherwise ""
    unused_key : the option KEY and its columns, if `rows` did not reorder by them; otherwise None
    """

    kind = ""
    unused_key: tuple[Option, list[str]] | None = None

    def rows(self, *, answered: bool) -> PlannedFrame:
        """Return the construct's rows. answered : whether an aggregate, ranking or join follows"""
        return self.table

    def window(self) -> tuple[BracketWindow | None, list[str]]:
        """Return the window over the frame, and its order columns."""
        return None, []

    def ordered(self) -> list[str]:
        return list_names(self.columns("ORDER", "arrival"))


def operator_options(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options of a bracket that belong to the operator over its window.

    UNIQUE alone identifies duplicates, which the controller drops. With VERSION, it identifies
    corrected rows for the operator.
    """
    versioned = any(option.word == "VERSION" for option in options)
    words = (*OPERATOR_WORDS, "UNIQUE") if versioned else OPERATOR_WORDS
    return tuple(option for option in options if option.word in words)


def refuse_aggregate_words(options: Sequence[Option]) -> None:
    """Raise SqlError for words that only aggregates accept, such as EARLY or EMPTY."""
    sampling = [word.word for word in SAMPLING]
    for option in options:
        if option.word in (*AGGREGATE_WORDS, "OFFSET", "ZONE", "EMPTY"):
            over = "windows" if option.word in sampling else "a RANGE"
            raise at(option, f"{option.word} is allowed only for aggregates over {over}", EXAMPLE)
        if option.word in ("RANGE", "SLIDE") and (length := calendar_length(option, zone=False)):
            reason = f"{option.word} {length}: months and years are allowed only for aggregates"
            raise at(option, reason, EXAMPLE)


def calendar_length(option: Option, *, zone: bool) -> str | None:
    """Return a length in calendar units, such as "1 month"; otherwise None.

    zone : whether days and weeks are calendar units, too
    """
    (measure,) = option.measures
    written = " ".join((*measure.numbers, *measure.units)).lower()
    found = None if measure.negative else CALENDAR_DURATION.fullmatch(written)
    return written if found and (zone or found[2] in ("month", "year")) else None


class TimeOptions(TableOptions):
    """`sf.reorder`, and with RANGE, `sf.Range` over its rows."""

    words = (
        *words_of(Range, "length", "slide", "offset", "zone"),
        Word("EMPTY", "number", "empty"),
        *words_of(reorder, "event_time", "arrival", "key", "source", "slack", "drop_ratio"),
        *words_of(reorder, "max_delay", "punctuation"),
        Word("MAX", "", "estimator", constant="max"),
        *words_of(reorder, "estimator", "max_buffer", "max_buffer_total", "max_ahead"),
        *words_of(reorder, "max_behind", "unique", "remember"),
        *words_of(reorder, "idle_timeout", "forget_after", "name"),
        *AGGREGATE,
    )
    kind = "time"

    def rows(self, *, answered: bool) -> PlannedFrame:
        """Return the rows in order, or unchanged if the next operator orders them itself.

        Even a controller without slack would hold rows until a later event time arrives.
        """
        frame, extent = self.table, self._extent()
        if not answered or extent is None:
            refuse_aggregate_words(self.options)
        if (level := self.get("LEVEL")) is not None and self.get("EARLY") is None:
            raise at(level, "LEVEL needs EARLY", "EARLY 10 SECONDS")
        if self._uncertain_time() is not None:
            self._check_uncertain(extent, answered)
            return frame
        of_answers = answered and self.get("KEY") is None  # no controllers per key
        others = [*EXTENT_WORDS, *AGGREGATE_WORDS]
        others += ["UNIQUE"] if self.get("VERSION") is not None else []
        arguments = self.arguments(*others, *(["FORGET"] if of_answers else []))
        controlled = bool(CONTROL_WORDS & arguments.keys())
        if answered and extent is not None and not controlled:
            if (option := self.get("REMEMBER")) is not None:
                raise at(option, "REMEMBER needs UNIQUE without VERSION", "UNIQUE id")
            if (option := self.get("KEY")) is not None:
                self.unused_key = option, list_names(arguments["key"])
            return frame
        if not WAIT_WORDS & arguments.keys():
            arguments["slack"] = 0
        if self.get("EARLY") is not None:
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
        lines = reorder_lines(arguments, extent, row_bytes(df))
        key, ratio = list_names(arguments.get("key")), arguments.get("drop_ratio")
        facts = {"controlled": True, "key": key, "drop_ratio": ratio}
        step = Step("reorder by event time", lines, {"": frame.step}, facts, named=named)
        return PlannedFrame(df, step)

    def window(self) -> tuple[BracketWindow | None, list[str]]:
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
            reason = f"{name} is an uncertain event time, and only aggregates over a RANGE take it"
            raise at(wattr.place, reason, "SELECT AVG(x)")
        own = {*EXTENT_WORDS, "WATTR", *OPERATOR_WORDS}
        if other := next((o for o in self.options if o.word not in own), None):
            reason = (
                f"{name} is an uncertain event time, but {other.word} needs a certain one: first "
                "reorder by the earliest time in a subquery, (SELECT *, array_min(alternatives."
                f"{name}) AS earliest FROM {self.table_name}) [WATTR earliest {other.word} ...]"
            )
            raise at(other, reason)

    def _extent(self) -> Range | None:
        if self.get("RANGE") is None:
            for word in EXTENT_WORDS:
                if (option := self.get(word)) is not None:
                    raise at(option, f"{word} needs a RANGE")
            return None
        names = ("length", "slide", "offset", "zone", "empty", "idle_timeout")
        values = {w.argument: self.value(w) for w in self.words if w.argument in names}
        given = {argument: value for argument, value in values.items() if value is not None}
        return self.call(lambda: Range(**given))

    def value(self, word: Word) -> Any:
        """Return the value of a word; lengths in calendar units remain text."""
        option, length = self.get(word.word), None
        if option is not None and word.argument in ("length", "slide"):
            both = filter(None, map(self.get, ("RANGE", "SLIDE")))
            zone = self.get("ZONE") is not None or any(
                calendar_length(each, zone=False) for each in both
            )
            length = calendar_length(option, zone=zone)
        return super().value(word) if length is None else length

    def _arrival(self, arguments: dict[str, Any], controlled: bool) -> tuple[PlannedFrame, str]:
        """Return the table with its arrival column; a stream without one gets micro-batch times."""
        frame = self.table
        if (own := match_name("arrival", frame.df.columns)) is not None:
            return frame, own
        if frame.df.isStreaming:
            step = frame.step
            if "table" in step.facts:
                added = "; with a column arrival, the time when Spark received the row"
                step = replace(step, title=step.title + added)
            df = frame.df.withColumn("arrival", F.current_timestamp())
            return PlannedFrame(df, step), "arrival"
        if not controlled:
            return frame, str(arguments["event_time"])  # all rows are present, and in order
        reason = "the table has no column `arrival`: name the arrival column"
        raise at(self.node, reason, "ARRIVAL column")

    def _uncertain_time(self) -> str | None:
        """Return the uncertain attribute that WATTR names, or None."""
        wattr, frame = self.get("WATTR"), self.frame
        if wattr is None or frame is None or len(wattr.names) != 1:
            return None
        parts = wattr.names[0].parts
        if len(parts) != 1 or match_name(parts[0], frame.df.columns) is not None:
            return None
        return match_name(parts[0], frame.attributes)


class RowsOptions(TableOptions):
    """`sf.Rows`: the newest tuples that contain n existing ones; SPAN bounds their age in joins."""

    words = (
        *words_of(Rows, "rows"),
        *words_of(JoinWindow, "span"),
        replace(words_of(Rows, "slide")[0], shape="duration"),  # parsed like SLIDE after RANGE
        *words_of(Rows, "confidence", "max_tuples", "lockstep"),
        ORDER,
        FORGET,
        NAMED,
        *SAMPLING,
    )
    kind = "count"

    def window(self) -> tuple[BracketWindow | None, list[str]]:
        length = self.get("SPAN")
        if length is not None:
            reason = (
                "SPAN is allowed only in a SIMILARITY JOIN; aggregates and rankings over time need "
                "a RANGE"
            )
            raise at(length, reason, "[RANGE duration]")
        return self.call(lambda: Rows(**self.arguments(*OPERATOR_WORDS))), self.ordered()

    def value(self, word: Word) -> Any:
        """Return the value of a word; SLIDE is a number of rows here."""
        option = self.get(word.word)
        if option is None or word.argument != "slide":
            return super().value(word)
        (measure,) = option.measures
        if measure.units:
            raise at(measure, "SLIDE in [ROWS ...] must be a number of rows", "SLIDE n")
        return measure.value

    def join_window(self) -> JoinWindow:
        if (slide := self.get("SLIDE")) is not None:
            reason = (
                "SLIDE is allowed only for aggregates; the window of a join moves with every "
                "tuple: leave SLIDE out"
            )
            raise at(slide, reason)
        if self.get("ROWS") is None:
            for word in ("CONFIDENCE", "MAX_TUPLES", "LOCKSTEP"):
                if (option := self.get(word)) is not None:
                    raise at(option, f"{word} needs a ROWS window", "ROWS n")
        else:  # also checks the bound
            self.call(lambda: Rows(**self.arguments(*OPERATOR_WORDS, "SPAN")))
        return self.call(lambda: JoinWindow(**self.arguments(*OPERATOR_WORDS)))


class DeltaOptions(TableOptions):
    """`sf.Delta`: the newest tuples, bounded by an attribute's change."""

    words = (
        Word("DELTA", "number ON name", "delta"),
        *words_of(Delta, "threshold", "max_tuples"),
        ORDER,
        FORGET,
        NAMED,
        *SAMPLING,
    )
    kind = "value"

    def window(self) -> tuple[BracketWindow | None, list[str]]:
        return self.join_window(), self.ordered()

    def join_window(self) -> Delta:
        option = self.get("DELTA")
        assert option is not None
        known = self.table.attributes or self.table.df.columns
        on = resolve_column(option.names[0], known, self.table_name)
        arguments: dict[str, Any] = self.arguments(*OPERATOR_WORDS)
        return self.call(lambda: Delta(on=on, **arguments))


class EarlierOptions(TableOptions):
    """`sf.earlier_values`: the values known from each key's earlier rows."""

    words = (
        Word("EARLIER", "names", "attributes"),
        *words_of(earlier_values, "order", "key", "forget_after", "name"),
    )

    def rows(self, *, answered: bool) -> PlannedFrame:
        arguments = self.arguments()
        df = self.call(lambda: earlier_values(self.table.df, **arguments))
        named, attributes = arguments.pop("name", ""), list_names(arguments["attributes"])
        lines = [
            *argument_lines(arguments),
            ("columns", "earlier_ATTR, the newest known value before a row, and age_ATTR"),
            ("parallel", per_key(arguments.get("key"))),
            ("state", f"{16 * len(attributes)} bytes per key"),
        ]
        title = f"earlier values of {', '.join(attributes)}"
        return PlannedFrame(df, Step(title, lines, {"": self.table.step}, named=named))


BRACKETS = (TimeOptions, RowsOptions, DeltaOptions, EarlierOptions)
"""All bracket classes; the first is the default if no word identifies one."""
BRACKET_WORDS = tuple(word.word for bracket in BRACKETS for word in bracket.words)


def bracket_of(relation: Relation, frame: PlannedFrame | None = None) -> TableOptions | None:
    """Return the construct in a relation's bracket, or None. Raises SqlError for clashing words."""
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
            hint = f"apply one in a subquery first, FROM (SELECT * FROM s [{one} ...]) [{two} ...]"
            hint = hint if order[0].kind in ("", "time") else "keep one of the two"
            last = max(asking.values(), key=START) if len(asking) > 1 else option
            reason = f"{option.word} is a word of [{other.words[0].word} ...]"
            raise at(last, f"{reason} and not allowed in [{first} ...]: {hint}")
    return bracket(node.options, node, relation, frame)
