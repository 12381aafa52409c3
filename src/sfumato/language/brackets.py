"""Constructs in brackets after a table, `s [RANGE 300 SECONDS WATTR ts]`: windows and more."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.earlier_values import earlier_values
from sfumato.api.reorder import reorder
from sfumato.language import syntax
from sfumato.language.errors import at
from sfumato.language.options import Options, words_of
from sfumato.language.parse import Word
from sfumato.language.steps import Lines, Step, names_in, per_key, percent, size, span
from sfumato.language.syntax import Relation
from sfumato.language.tables import PlannedFrame, column, found, name_of
from sfumato.spark.model.figures import row_bytes
from sfumato.windows import Delta, JoinWindow, Range, Rows

Window: TypeAlias = Rows | Range | Delta
FORGET, NAMED = words_of(reorder, "forget_after", "name")
OF_OPERATORS = (FORGET.word, NAMED.word)
"""Words of a bracket that say nothing of its window."""
BOUND = words_of(Rows, "max_tuples")[0]
ORDER = replace(words_of(earlier_values, "order")[0], argument="")  # read with the window
WAIT_WORDS = {"drop_ratio", "slack", "max_delay", "estimator", "max_buffer"}
"""Arguments that say how far to stay behind; without one of them nothing is held back."""
CONTROL_WORDS = WAIT_WORDS | {"source"}
"""Arguments that ask for disorder control; without one of them rows are taken to come in order."""
ESTIMATOR = "conformal"  # of `sf.reorder`, where a drop ratio names none
ESTIMATOR_TEXTS = {
    "normal": "for exponential gaps and normal delays",
    "conformal": "conformal feedback, no assumption on the delays",
}


class TableBracket(ABC):
    """A construct in brackets after a table, `s [ROWS 500 CONFIDENCE 95%]`.

    words : those it takes; the first asks for it
    kind : "time", "count" or "value" for a window, "" for none
    """

    words: Sequence[Word]
    kind = ""

    @property
    def word(self) -> str:
        """The word that asks for it."""
        return self.words[0].word

    @property
    def asked_by(self) -> Sequence[str]:
        """All words that ask for it."""
        return (self.word,)

    def frame(self, given: Options, *, answered: bool) -> PlannedFrame:
        """Return what the rows become; `given.frame` as it is where they stay the same.

        answered : whether an aggregate, a ranking or a join follows, which takes rows in order
        """
        assert given.frame is not None
        return given.frame

    def window(self, given: Options) -> tuple[Window | None, list[str]]:
        """Return the window over the frame, and the columns that order it."""
        return None, []


class TimeBracket(TableBracket):
    """`sf.reorder`, and where there is a RANGE, `sf.Range` over its rows."""

    words = (
        *words_of(Range, "length", "slide"),
        *words_of(reorder, "event_time", "arrival", "key", "source", "slack", "drop_ratio"),
        *words_of(reorder, "max_delay"),
        Word("MAX", "", "estimator", constant="max"),
        *words_of(reorder, "estimator", "max_buffer", "idle_timeout", "forget_after", "name"),
    )
    kind = "time"

    def frame(self, given: Options, *, answered: bool) -> PlannedFrame:
        """Return the rows in order; as they are if what follows takes them in order by itself.

        A controller without slack would hold rows of one event time until a later one comes.
        """
        frame = given.frame
        assert frame is not None
        extent = given.call(lambda: self._extent(given))
        if _uncertain_time(given) is not None:
            self._check_uncertain(given, extent, answered)
            return frame
        of_answers = answered and given.get("KEY") is None  # without controllers of keys
        arguments = given.arguments("RANGE", "SLIDE", *([FORGET.word] if of_answers else []))
        controlled = bool(CONTROL_WORDS & arguments.keys())
        if answered and extent is not None and not controlled:
            return frame
        if not WAIT_WORDS & arguments.keys():
            arguments["slack"] = 0
        name = arguments.pop("name", None)
        known, asked = frame.ordered, repr(sorted(arguments.items()))
        if asked not in known:  # several windows over one table share its controller, and its name
            rows = frame
            if "arrival" not in arguments:
                rows, arguments["arrival"] = self._arrival(given, arguments, controlled)
            df = given.call(lambda: reorder(rows.df, name=name, **arguments))
            known[asked] = rows, arguments, df, name or ""
        frame, arguments, df, named = known[asked]
        lines = _reorder_lines(arguments, extent, row_bytes(df))
        key, ratio = names_in(arguments.get("key")), arguments.get("drop_ratio")
        facts = {"controlled": True, "key": key, "drop_ratio": ratio}
        step = Step("reorder by event time", lines, {"": frame.step}, facts, named=named)
        return PlannedFrame(df, step)

    def window(self, given: Options) -> tuple[Window | None, list[str]]:
        extent = given.call(lambda: self._extent(given))
        if extent is None:
            return None, []
        attribute = _uncertain_time(given)
        return extent, [attribute or str(given.columns("WATTR", "event_time"))]

    def _check_uncertain(self, given: Options, extent: Range | None, answered: bool) -> None:
        """Raise SqlError for an uncertain event time where a certain one is needed."""
        wattr = given.get("WATTR")
        assert wattr is not None
        name = wattr.names[0].parts[0]
        if extent is None or not answered:
            reason = f"{name} is an uncertain event time, which only aggregates over a RANGE take"
            raise at(given.text, wattr.place, reason, expected=("SELECT AVG(x)",))
        own = {"RANGE", "SLIDE", "WATTR", *OF_OPERATORS}
        other = next((o for o in given.options if o.word not in own), None)
        if other is not None:
            earliest = f"SELECT *, array_min(alternatives.{name}) AS earliest FROM {given.of}"
            reason = (
                f"{name} is an uncertain event time, and {other.word} is about a certain one: "
                f"reorder by the earliest in a subquery first, ({earliest}) [WATTR earliest "
                f"{other.word} ...]"
            )
            raise at(given.text, other, reason)

    def _extent(self, given: Options) -> Range | None:
        slide = given.get("SLIDE")
        if given.get("RANGE") is None:
            if slide is not None:
                raise at(given.text, slide, "SLIDE needs the RANGE of the extents that slide")
            return None
        names = ("length", "slide", "idle_timeout")
        return Range(**{w.argument: given.value(w) for w in self.words if w.argument in names})

    def _arrival(
        self, given: Options, arguments: dict[str, Any], controlled: bool
    ) -> tuple[PlannedFrame, str]:
        """Return a column `arrival`: the table's, or the time of a row's micro-batch."""
        frame = given.frame
        assert frame is not None
        own = found("arrival", frame.df.columns)
        if own is not None:
            return frame, own
        if frame.df.isStreaming:
            step = frame.step
            if "table" in step.facts:
                step = replace(
                    step, title=f"{step.title}; arrival added: when Spark received the row"
                )
            return PlannedFrame(
                frame.df.withColumn("arrival", F.current_timestamp()), step
            ), "arrival"
        if not controlled:
            return frame, str(arguments["event_time"])  # all are there, and in order
        reason = "the table has no column `arrival`: say when its rows arrived"
        raise at(given.text, given.node, reason, expected=("ARRIVAL column",))


def _uncertain_time(given: Options) -> str | None:
    """Return the attribute of the alternatives that WATTR names, if there is no such column."""
    wattr, frame = given.get("WATTR"), given.frame
    if wattr is None or frame is None or len(wattr.names) != 1:
        return None
    parts = wattr.names[0].parts
    if len(parts) != 1 or found(parts[0], frame.df.columns) is not None:
        return None
    return found(parts[0], frame.attributes)


class RowsBracket(TableBracket):
    """`sf.Rows`: the newest tuples that hold so many existing ones; with SPAN, of a join, those
    that are not older."""

    words = (
        *words_of(Rows, "rows"),
        *words_of(JoinWindow, "span"),
        *words_of(Rows, "confidence", "max_tuples"),
        ORDER,
        FORGET,
        NAMED,
    )
    kind = "count"

    @property
    def asked_by(self) -> Sequence[str]:
        return ("ROWS", "SPAN")

    def window(self, given: Options) -> tuple[Window | None, list[str]]:
        length = given.get("SPAN")
        if length is not None:
            reason = "SPAN is of the windows of a SIMILARITY JOIN; an aggregate or a ranking over "
            reason += "time has extents"
            raise at(given.text, length, reason, expected=("[RANGE duration]",))
        return given.call(lambda: Rows(**given.arguments(*OF_OPERATORS))), _ordered(given)


class DeltaBracket(TableBracket):
    """`sf.Delta`: the newest tuples, as long as an attribute has not moved too far."""

    words = (
        Word("DELTA", "number ON name", "delta"),
        *words_of(Delta, "threshold", "max_tuples"),
        ORDER,
        FORGET,
        NAMED,
    )
    kind = "value"

    def window(self, given: Options) -> tuple[Window | None, list[str]]:
        frame, option = given.frame, given.get("DELTA")
        assert frame is not None
        assert option is not None
        known = frame.attributes or frame.df.columns
        on = column(option.names[0], known, given.of, given.text)
        arguments: dict[str, Any] = given.arguments(*OF_OPERATORS)
        return given.call(lambda: Delta(on=on, **arguments)), _ordered(given)


class EarlierBracket(TableBracket):
    """`sf.earlier_values`: what each key's earlier rows knew."""

    words = (
        Word("EARLIER", "names", "attributes"),
        *words_of(earlier_values, "order", "key", "forget_after", "name"),
    )

    def frame(self, given: Options, *, answered: bool) -> PlannedFrame:
        frame = given.frame
        assert frame is not None
        arguments = given.arguments()
        df = given.call(lambda: earlier_values(frame.df, **arguments))
        attributes, after = names_in(arguments["attributes"]), arguments.get("forget_after")
        forgotten = "" if after is None else f", forgotten after {span(after)} without a row of it"
        lines = [
            ("columns", "earlier_ATTR, the newest known value before a row, and age_ATTR"),
            ("order", arguments["order"]),
            ("keys", per_key(arguments.get("key"), "one, in one task")),
            ("state", f"{16 * len(attributes)} bytes a key{forgotten}"),
        ]
        title, named = f"earlier values of {', '.join(attributes)}", arguments.get("name", "")
        return PlannedFrame(df, Step(title, lines, {"": frame.step}, named=named))


def join_window(given: Options) -> JoinWindow:
    """Return the window of a join's side, of a bracket's words. Raises SqlError."""
    if given.get("ROWS") is None:
        for word in ("CONFIDENCE", BOUND.word):
            if (option := given.get(word)) is not None:
                raise at(given.text, option, f"{word} is of a window of ROWS", expected=("ROWS n",))
    else:
        given.call(lambda: Rows(**given.arguments(*OF_OPERATORS, "SPAN")))  # checks the bound, too
    return given.call(lambda: JoinWindow(**given.arguments(*OF_OPERATORS)))


def _ordered(given: Options) -> list[str]:
    """Return the columns that order the rows."""
    return names_in(given.columns("ORDER", "arrival"))


# ---- which construct a bracket is ----------------------------------------------------------------

BRACKETS: tuple[TableBracket, ...] = (
    TimeBracket(),
    RowsBracket(),
    DeltaBracket(),
    EarlierBracket(),
)
"""All of them. The first is meant where no word asks for another."""
BRACKET_WORDS = tuple(word.word for bracket in BRACKETS for word in bracket.words)


def bracket_of(
    relation: Relation, text: str, frame: PlannedFrame | None = None
) -> tuple[TableBracket, Options] | None:
    """Return the construct of a relation's bracket, and its words; None without a bracket.

    Raises SqlError for words that do not belong together.
    """
    node = relation.bracket
    if node is None:
        return None
    bracket = _asked(node, text)
    return bracket, Options(node.options, bracket.words, node, text, name_of(relation), frame)


def _asked(node: syntax.Bracket, text: str) -> TableBracket:
    """Return the construct that a bracket is. Raises SqlError for words of several."""
    asked = [b for b in BRACKETS if any(map(node.get, b.asked_by))]
    if len(asked) > 1:
        words = {word for b in asked[:2] for word in b.asked_by}
        later = max((o for o in node.options if o.word in words), key=lambda o: o.start)
        raise at(text, later, _exclusive(*asked[:2]))
    bracket = asked[0] if asked else BRACKETS[0]
    own = {word.word for word in bracket.words}
    for option in node.options:
        if option.word not in own:
            raise at(text, option, _misplaced(option.word, bracket))
    return bracket


def _misplaced(word: str, bracket: TableBracket) -> str:
    home = next(b for b in BRACKETS if word in [w.word for w in b.words])
    if not bracket.kind:
        hint = f"FROM (SELECT * FROM s [{bracket.word} ...]) [{home.word} ...]"
        return f"{word} belongs to a window: take {bracket.word} in a subquery first, {hint}"
    if home is BRACKETS[0]:
        hint = "reorder in a subquery first, FROM (SELECT * FROM s [WATTR ...]) "
        hint += f"[{bracket.word} ...]"
        return f"{word} orders by time and has no meaning in a {bracket.word} window: {hint}"
    return f"{word} belongs to a {home.word} window, and this one has no {home.word}"


def _exclusive(one: TableBracket, other: TableBracket) -> str:
    plain = next((b for b in (one, other) if not b.kind), None)
    if plain is None:
        words = f"{one.word} and {other.word}"
        return f"a window is by time, by count or by a value: {words} exclude each other"
    subquery = f"FROM (SELECT * FROM s [{plain.word} ...]) [...]"
    return f"{plain.word} is no window: take it in a subquery first, {subquery}"


# ---- EXPLAIN of a controller ---------------------------------------------------------------------


def _reorder_lines(given: dict[str, Any], extent: Range | None, each: int) -> Lines:
    """Return what EXPLAIN says of a reordering; each : bytes per row."""
    key = names_in(given.get("key"))
    controllers = per_key(key, "one, in one task")
    if "source" in given:
        sources = ", ".join(names_in(given["source"]))
        controllers += f"; of each, one a source ({sources}): rows wait for the slowest"
    lines = [
        ("event time", given["event_time"]),
        ("arrival", given["arrival"]),
        ("controllers", controllers),
        ("punctuation", _punctuation(given)),
    ]
    if extent is not None:
        length, slide = span(extent.length_us), span(extent.slide_us)
        lines.append(("extents", f"RANGE {length} SLIDE {slide}; each row comes out once"))
    if "idle_timeout" in given:
        idle = span(given["idle_timeout"])
        lines.append(("idle", f"rows held come out after {idle} without arrivals"))
    if "forget_after" in given:
        after = span(given["forget_after"])
        lines.append(("forgotten", f"a key, after {after} without a row of it"))
    bounds = [given[name] for name in ("slack", "max_buffer") if name in given]
    state = f"the rows after the punctuation, about {each} bytes each, and no bound (BSIZE)"
    if bounds:
        rows, a_key = min(bounds), " a key" if key else ""
        state = f"at most {rows} rows{a_key}, about {size(rows * each)} at {each} bytes a row"
    once = "every row comes out once, in order of its event time or marked late"
    return [
        *lines,
        ("late rows", "emitted immediately with late = true, rows without valid times too"),
        ("state", state),
        ("guarantee", f"{once}; {_late(given)}"),
    ]


def _punctuation(given: dict[str, Any]) -> str:
    if "drop_ratio" in given:
        estimator = given.get("estimator", ESTIMATOR)
        measure = f"{estimator}: {ESTIMATOR_TEXTS[estimator]}"
        return f"DRATIO {percent(given['drop_ratio'])}, estimator {measure}"
    if "max_delay" in given:
        return f"MAX_DELAY {span(given['max_delay'])} behind the newest event time"
    if given.get("estimator") == "max":
        return "MAX, as late as the largest difference of delays seen"
    slack = given.get("slack")
    if slack is None and "max_buffer" in given:
        return f"BSIZE {given['max_buffer']}, rows come out only when the buffer is full"
    if slack:
        return f"SLACK {slack}, the smallest event time leaves a buffer of {slack} rows"
    return "none: rows are taken to come in order"


def _late(given: dict[str, Any]) -> str:
    ratio = given.get("drop_ratio")
    if ratio is None or "max_buffer" in given:
        return "the share of late rows is measured, not bounded"
    if given.get("estimator", ESTIMATOR) == "conformal":
        return f"late in the long run {percent(ratio)}, whatever the delays"
    return f"late at most {percent(ratio)} if gaps and delays are as assumed"
