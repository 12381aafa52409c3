"""What EXPLAIN says of aggregates over windows."""

import math
from dataclasses import dataclass

from sfumato.sql.explanation.wording import held, newest, per_key, percent, span, typical_bytes
from sfumato.sql.plan.bracket import Window
from sfumato.sql.plan.nodes import Lines, Step
from sfumato.windows import Range, Rows


@dataclass(frozen=True)
class Aggregated(Step):
    """`sf.window_aggregate` over its input."""

    input: Step
    window: Window
    aggregates: tuple[str, ...]
    order: tuple[str, ...]
    key: tuple[str, ...]
    members: bool
    existence: str

    def title(self) -> str:
        return f"aggregates over windows: {', '.join(self.aggregates)}"

    def lines(self) -> Lines:
        window = self.window
        if isinstance(window, Range):
            said = self._extents(window)
        elif isinstance(window, Rows):
            said = self._rows(window)
        else:
            broken = f"differs by more than {window.delta:g} from another's"
            below = f"with probability below {percent(window.threshold)}"
            said = [
                ("window", f"the newest tuples, while the oldest's {window.on} {broken} {below}"),
                ("answers", "one for each tuple that arrives"),
                ("state", "the tuples held: as many as the values stay close for"),
            ]
        return [
            *said,
            ("existence", self.existence),
            ("order", ", ".join(self.order)),
            ("groups", per_key(self.key, "one, in one task")),
            (
                "guarantee",
                "means and standard deviations exact over the tuples held; quantiles and "
                "distributions while values are few, else sampled with a stated error",
            ),
        ]

    def _extents(self, window: Range) -> Lines:
        overlap = window.length_us / window.slide_us
        kind = "overlap" if overlap > 1 else "tumble" if overlap == 1 else "leave gaps"
        rows = ", with its rows" if self.members else ""
        return [
            (
                "window",
                f"extents of {span(window.length_us)} every {span(window.slide_us)}: they {kind}",
            ),
            ("answers", f"each extent once, when the punctuation has passed it{rows}"),
            (
                "state",
                f"the tuples of {span(window.length_us)} and the buffer; a tuple is in "
                f"{math.ceil(overlap)} extent{'s' * (overlap > 1)} and stored once",
            ),
        ]

    def _rows(self, window: Rows) -> Lines:
        level = window.confidence
        needed = f"Pr(the n newest hold ≥ {window.rows}) ≥ {level:g}"
        # Of `sum(x)`, `avg(x)` and `count(*)` one thing is aggregated.
        operands = len({text.partition("(")[2] for text in self.aggregates} - {"*)"})
        each = 10 * 8 * (1 + operands)
        tuples, total = typical_bytes(window.rows, level, each)
        return [
            ("window", newest(window)),
            ("tuples held", f"w' = least n with {needed}; {held(window.rows, level)}"),
            ("answers", "one for each tuple that arrives"),
            (
                "state",
                f"stored, with 10 alternatives and {tuples}: w' × {each} bytes{total} a group; "
                "in a worker's memory about 1 kB a tuple more for each aggregate",
            ),
        ]
