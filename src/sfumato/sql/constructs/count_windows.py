"""`[ROWS 500 CONFIDENCE 95%]` and `[DELTA 5 ON temperature]`: windows over arrivals."""

from typing import Any

from sfumato.sql.plan.bracket import FORGET, Bracket, Window
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.sources import found, unknown_column
from sfumato.sql.text.words import Word
from sfumato.windows import Delta, Rows

BOUND = Word("MAX_TUPLES", "number", "max_tuples")
ORDER = Word("ORDER", "names", "", default="arrival")


class RowsWindow(Bracket):
    """`sf.Rows`: the newest tuples that hold so many existing ones."""

    words = (
        Word("ROWS", "number", "rows"),
        Word("CONFIDENCE", "fraction", "confidence"),
        BOUND,
        ORDER,
        FORGET,
    )
    kind = "count"

    def window(self, given: Given) -> tuple[Window | None, list[str]]:
        return rows_window(given), ordered(given)


class DeltaWindow(Bracket):
    """`sf.Delta`: the newest tuples, as long as an attribute has not moved too far."""

    words = (
        Word("DELTA", "number ON name", "delta"),
        Word("THRESHOLD", "fraction", "threshold"),
        BOUND,
        ORDER,
        FORGET,
    )
    kind = "value"

    def window(self, given: Given) -> tuple[Window | None, list[str]]:
        frame, option = given.frame, given.get("DELTA")
        assert frame is not None
        assert option is not None
        name = option.names[0]
        known = frame.attributes or frame.df.columns
        on = found(str(name), known)
        if on is None:
            raise unknown_column(name, known, given.of, given.text)
        arguments: dict[str, Any] = given.arguments("FORGET")
        return given.call(lambda: Delta(on=on, **arguments)), ordered(given)


def rows_window(given: Given) -> Rows:
    """The window of a bracket's words. Raises SqlError."""
    return given.call(lambda: Rows(**given.arguments("FORGET")))


def ordered(given: Given) -> list[str]:
    """The columns that the rows go by."""
    columns = given.columns("ORDER", "arrival")
    return [columns] if isinstance(columns, str) else list(columns)
