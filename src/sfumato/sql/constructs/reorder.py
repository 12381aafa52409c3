"""`[RANGE 300 SECONDS SLIDE 30 SECONDS WATTR ts DRATIO 1%]`: rows in event-time order, extents."""

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.reorder import reorder
from sfumato.spark.model.figures import row_bytes
from sfumato.sql.explanation.wording import listed, per_key, percent, size, span
from sfumato.sql.plan.bracket import FORGET, NAMED, OF_OPERATORS, Bracket, Window
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import Lines, Step, Table, at
from sfumato.sql.plan.sources import Frame, found
from sfumato.sql.text.words import Word
from sfumato.windows import Range

NOT_OF_REORDER = ("RANGE", "SLIDE")
WAYS = {"drop_ratio", "slack", "max_delay", "estimator", "max_buffer"}
"""Arguments that say how far to stay behind; without one of them nothing is held back."""
CONTROLS = WAYS | {"source"}
"""Arguments that ask for disorder control; without one of them rows are taken to come in order."""
ESTIMATOR = "conformal"  # of `sf.reorder`, where a drop ratio names none
MEASURES = {
    "normal": "for exponential gaps and normal delays",
    "conformal": "conformal feedback, no assumption on the delays",
}


def uncertain_time(given: Given) -> str | None:
    """The attribute of the alternatives that WATTR names, where there is no such column."""
    wattr, frame = given.get("WATTR"), given.frame
    if wattr is None or frame is None or len(wattr.names) != 1:
        return None
    parts = wattr.names[0].parts
    if len(parts) != 1 or found(parts[0], frame.df.columns) is not None:
        return None
    return found(parts[0], frame.attributes)


class Reorder(Bracket):
    """`sf.reorder`, and where there is a RANGE, `sf.Range` over its rows."""

    words = (
        Word("RANGE", "duration", "length"),
        Word("SLIDE", "duration", "slide"),
        Word("WATTR", "name", "event_time", default="event_time"),
        Word("ARRIVAL", "name", "arrival"),
        Word("KEY", "names", "key"),
        Word("SOURCE", "names", "source"),
        Word("SLACK", "number", "slack"),
        Word("DRATIO", "fraction", "drop_ratio"),
        Word("MAX_DELAY", "duration", "max_delay"),
        Word("MAX", "", "estimator", constant="max"),
        Word("ESTIMATOR", "choice", "estimator"),
        Word("BSIZE", "number", "max_buffer"),
        Word("IDLE", "duration", "idle_timeout"),
        FORGET,
        NAMED,
    )
    kind = "time"

    def frame(self, given: Given, *, answered: bool) -> Frame:
        """The rows in order; as they are if what follows takes them in order by itself.

        A controller without slack would hold rows of one event time until a later one comes.
        """
        frame = given.frame
        assert frame is not None
        extent = given.call(lambda: self._extent(given))
        if uncertain_time(given) is not None:
            self._check_uncertain(given, extent, answered)
            return frame
        of_answers = answered and given.get("KEY") is None  # without controllers of keys
        arguments = given.arguments(*NOT_OF_REORDER, *([FORGET.word] if of_answers else []))
        controlled = is_controlled(arguments)
        if answered and extent is not None and not controlled:
            return frame
        if not WAYS & arguments.keys():
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
        of = tuple(arguments.items())
        return Frame(df, Reordered(frame.step, of, extent, row_bytes(df), named=named))

    def window(self, given: Given) -> tuple[Window | None, list[str]]:
        extent = given.call(lambda: self._extent(given))
        if extent is None:
            return None, []
        attribute = uncertain_time(given)
        return extent, [attribute or str(given.columns("WATTR", "event_time"))]

    def _check_uncertain(self, given: Given, extent: Range | None, answered: bool) -> None:
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

    def _extent(self, given: Given) -> Range | None:
        slide = given.get("SLIDE")
        if given.get("RANGE") is None:
            if slide is not None:
                raise at(given.text, slide, "SLIDE needs the RANGE of the extents that slide")
            return None
        names = ("length", "slide", "idle_timeout")
        return Range(
            **{word.argument: given.value(word) for word in self.words if word.argument in names}
        )

    def _arrival(
        self, given: Given, arguments: dict[str, Any], controlled: bool
    ) -> tuple[Frame, str]:
        """A column `arrival`: the table's, or the time of the micro-batch that brought a row."""
        frame = given.frame
        assert frame is not None
        own = found("arrival", frame.df.columns)
        if own is not None:
            return frame, own
        if frame.df.isStreaming:
            step = frame.step
            step = replace(step, received=True) if isinstance(step, Table) else step
            return Frame(frame.df.withColumn("arrival", F.current_timestamp()), step), "arrival"
        if not controlled:
            return frame, str(arguments["event_time"])  # all are there, and in order
        reason = "the table has no column `arrival`: say when its rows arrived"
        raise at(given.text, given.node, reason, expected=("ARRIVAL column",))


def is_controlled(arguments: dict[str, Any]) -> bool:
    """Whether a word of a time window asks for disorder control."""
    return bool(CONTROLS & arguments.keys())


@dataclass(frozen=True)
class Reordered(Step):
    """`sf.reorder` over its input, and the extents its rows are for."""

    input: Step
    arguments: tuple[tuple[str, Any], ...]
    extent: Range | None
    row_bytes: int

    def title(self) -> str:
        return "reorder by event time"

    @property
    def key(self) -> list[str]:
        """The columns that have a controller for each value."""
        key = dict(self.arguments).get("key") or []
        return [key] if isinstance(key, str) else list(key)

    def lines(self) -> Lines:
        given = dict(self.arguments)
        rows = [
            ("event time", given["event_time"]),
            ("arrival", given["arrival"]),
            ("controllers", self._controllers(given)),
            ("punctuation", self._controlled(given)),
        ]
        if self.extent is not None:
            length, slide = span(self.extent.length_us), span(self.extent.slide_us)
            rows.append(("extents", f"RANGE {length} SLIDE {slide}; each row comes out once"))
        if "idle_timeout" in given:
            idle = span(given["idle_timeout"])
            rows.append(("idle", f"rows held come out after {idle} without arrivals"))
        if "forget_after" in given:
            after = span(given["forget_after"])
            rows.append(("forgotten", f"a key, after {after} without a row of it"))
        late = "emitted immediately with late = true, rows without valid times too"
        state, promised = self._held(given), self._promised(given)
        return [*rows, ("late rows", late), ("state", state), ("guarantee", promised)]

    def _controllers(self, given: dict[str, Any]) -> str:
        scope = per_key(self.key, "one, in one task")
        if "source" not in given:
            return scope
        sources = ", ".join(listed(given["source"]))
        return f"{scope}; of each, one a source ({sources}): rows wait for the slowest"

    def _controlled(self, given: dict[str, Any]) -> str:
        if "drop_ratio" in given:
            estimator = given.get("estimator", ESTIMATOR)
            measure = f"{estimator}: {MEASURES[estimator]}"
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

    def _held(self, given: dict[str, Any]) -> str:
        each = self.row_bytes
        bounds = [given[name] for name in ("slack", "max_buffer") if name in given]
        if not bounds:
            return f"the rows after the punctuation, about {each} bytes each, and no bound (BSIZE)"
        rows, a_key = min(bounds), " a key" if self.key else ""
        return f"at most {rows} rows{a_key}, about {size(rows * each)} at {each} bytes a row"

    def _promised(self, given: dict[str, Any]) -> str:
        once = "every row comes out once, in order of its event time or marked late"
        ratio = given.get("drop_ratio")
        if ratio is None or "max_buffer" in given:
            late = "the share of late rows is measured, not bounded"
        elif given.get("estimator", ESTIMATOR) == "conformal":
            late = f"late in the long run {percent(ratio)}, whatever the delays"
        else:
            late = f"late at most {percent(ratio)} if gaps and delays are as assumed"
        return f"{once}; {late}"
