"""`[ROWS 500 CONFIDENCE 95%]`, `[DELTA 5 ON temperature]`: windows over arrivals."""

from collections.abc import Sequence
from typing import Any

from sfumato.sql.plan.bracket import FORGET, NAMED, OF_OPERATORS, Bracket, Window
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import column
from sfumato.sql.text.words import Word
from sfumato.windows import Delta, JoinWindow, Rows

BOUND = Word("MAX_TUPLES", "number", "max_tuples")
ORDER = Word("ORDER", "names", "", default="arrival")


class RowsWindow(Bracket):
    """`sf.Rows`: the newest tuples that hold so many existing ones; SPAN: of a join, those not
    older than so much."""

    words = (
        Word("ROWS", "number", "rows"),
        Word("SPAN", "duration", "span"),
        Word("CONFIDENCE", "fraction", "confidence"),
        BOUND,
        ORDER,
        FORGET,
        NAMED,
    )
    kind = "count"

    @property
    def asked_by(self) -> Sequence[str]:
        return ("ROWS", "SPAN")

    def window(self, given: Given) -> tuple[Window | None, list[str]]:
        span = given.get("SPAN")
        if span is not None:
            reason = "SPAN is of the windows of a SIMILARITY JOIN; an aggregate or a ranking over "
            raise at(given.text, span, reason + "time has extents", expected=("[RANGE duration]",))
        return given.call(lambda: Rows(**given.arguments(*OF_OPERATORS))), ordered(given)


class DeltaWindow(Bracket):
    """`sf.Delta`: the newest tuples, as long as an attribute has not moved too far."""

    words = (
        Word("DELTA", "number ON name", "delta"),
        Word("THRESHOLD", "fraction", "threshold"),
        BOUND,
        ORDER,
        FORGET,
        NAMED,
    )
    kind = "value"

    def window(self, given: Given) -> tuple[Window | None, list[str]]:
        frame, option = given.frame, given.get("DELTA")
        assert frame is not None
        assert option is not None
        known = frame.attributes or frame.df.columns
        on = column(option.names[0], known, given.of, given.text)
        arguments: dict[str, Any] = given.arguments(*OF_OPERATORS)
        return given.call(lambda: Delta(on=on, **arguments)), ordered(given)


def join_window(given: Given) -> JoinWindow:
    """The window of a join's side, of a bracket's words. Raises SqlError."""
    if given.get("ROWS") is None:
        for word in ("CONFIDENCE", BOUND.word):
            if (option := given.get(word)) is not None:
                raise at(given.text, option, f"{word} is of a window of ROWS", expected=("ROWS n",))
    else:
        given.call(lambda: Rows(**given.arguments(*OF_OPERATORS, "SPAN")))  # checks the bound, too
    return given.call(lambda: JoinWindow(**given.arguments(*OF_OPERATORS)))


def ordered(given: Given) -> list[str]:
    """The columns that the rows go by."""
    columns = given.columns("ORDER", "arrival")
    return [columns] if isinstance(columns, str) else list(columns)
