"""What EXPLAIN says of a similarity join."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from sfumato.spark.model.figures import join_confidence, join_sharing
from sfumato.spark.model.frame import SparkFrame
from sfumato.sql.constructs.imputation import Imputed, imputation_lines
from sfumato.sql.explanation.wording import held, newest, per_key, percent, span, typical_bytes
from sfumato.sql.plan.nodes import Lines, Step
from sfumato.windows import JoinWindow


@dataclass(frozen=True)
class Joined(Step):
    """`sf.similarity_join` over two inputs; with `imputation`, of incomplete rows."""

    left: Step
    right: Step
    windows: tuple[JoinWindow, JoinWindow]
    arguments: Mapping[str, Any]
    imputation: Imputed | None
    pace: str  # what the paces at which two streams are read change; empty for other frames
    existence: str

    def title(self) -> str:
        if self.imputation is None:
            return "similarity join of two uncertain windows"
        return "similarity join of two incomplete windows, imputed as they meet"

    def lines(self) -> Lines:
        key = self.arguments["key"]
        lines = [
            ("pairs", self._pairs()),
            ("order", ", ".join(self.arguments["order"])),
            ("windows", per_key(key, f"one a side, in {self._tasks()}")),
            *([("pace", self.pace)] if self.pace else []),
            ("existence", self.existence),
        ]
        if self.imputation is None:
            return lines + self._uncertain()
        a_key = f" of each side{' and key' if key else ''}"
        return [
            *lines,
            *self._windows(lambda window: f"the newest {window.rows} rows{a_key}"),
            *imputation_lines(self.imputation),
            ("state", "the rows of both windows, and their numbers; not the repository"),
            (
                "guarantee",
                "the pairs of imputing every row first; rows in no reach are not imputed",
            ),
        ]

    def _tasks(self) -> str:
        """How many tasks share the work, and what that rests on."""
        given, keys = self.arguments.get("tasks"), self.arguments["key"] or []
        if given is not None:
            return "one task" if given == 1 else f"{given} tasks that share the work"
        sharing = None if keys or self.imputation else join_sharing(self.windows)
        if sharing is None:
            return "one task"
        tasks, alone, others, shared = sharing
        said = "one task" if tasks == 1 else f"{tasks} tasks"
        return (
            f"{said} (an arrival is reckoned at {alone:.3g} us in one, {shared:.3g} us each in "
            f"{others}; TASKS says otherwise: with many alternatives more pay)"
        )

    def _windows(self, by_count: Callable[[JoinWindow], str]) -> Lines:
        """What each side's window holds; once, where both hold the same."""
        said = [_bounded(window, by_count(window)) for window in self.windows]
        if said[0] == said[1]:
            return [("window", said[0])]
        return [("left window", said[0]), ("right window", said[1])]

    def _pairs(self) -> str:
        leaving = "; a pair that leaves its window comes out again with change -"
        changes = leaving if self.arguments.get("output") == "changes" else ""
        probability = self.arguments["probability"]
        return f"{self._distance()} with probability at least {probability:g}{changes}"

    def _distance(self) -> str:
        on, within = self.arguments["on"], self.arguments["within"]
        if isinstance(within, Mapping):
            terms = " + ".join(f"({name} / {limit:g})²" for name, limit in within.items())
            return f"differences with {terms} at most 1"
        if self.arguments.get("metric", "euclidean") == "haversine":
            return f"distance on the sphere of ({', '.join(on)}) within {within:g} m"
        return f"distance of ({', '.join(on)}) within {within:g}"

    def _uncertain(self) -> Lines:
        strategy = self.arguments.get("strategy", "auto")
        chosen = "auto: index, or a scan where that is cheaper" if strategy == "auto" else strategy
        return [
            *self._windows(newest),
            *(("tuples held", line) for line in self._held()),
            ("strategy", f"{chosen}; the answers are the same for all"),
            ("state", self._state()),
            ("guarantee", self._exact()),
        ]

    def _held(self) -> list[str]:
        """How many tuples windows of rows hold, each said once."""
        probability, lines = self.arguments["probability"], []
        for window in self.windows:
            if window.rows is None:
                continue
            level = join_confidence(window.confidence, probability)
            most = window.max_tuples
            bound = "" if most is None else f"; at most {most}, the rest counted"
            lines.append(
                f"w' = least n with Pr(the n newest hold ≥ {window.rows}) ≥ {level:g} = min("
                f"{window.confidence:g}, 1 - {probability:g}); {held(window.rows, level)}{bound}"
            )
        return list(dict.fromkeys(lines))

    def _state(self) -> str:
        alternative = 8 * (len(self.arguments["on"]) + 1)
        each = f"alternatives × {alternative} bytes + row"
        a_key = " a key" if self.arguments["key"] else ""
        window = self.windows[0]
        if window.rows is None or window != self.windows[1]:
            return f"the tuples of both windows, ({each}) each{a_key}"
        level = join_confidence(window.confidence, self.arguments["probability"])
        tuples, total = typical_bytes(window.rows, level, 2 * 10 * alternative)
        return (
            f"2 × w' × ({each}){a_key}; with 10 "
            f"alternatives and {tuples}: 2 × w' × {10 * alternative} bytes{total} + rows"
        )

    def _exact(self) -> str:
        pairs = "exact: a pair comes out if and only if it reaches its probability"
        least = min(window.confidence for window in self.windows)
        counted = [window for window in self.windows if window.rows is not None]
        if not counted:
            return pairs
        if least + self.arguments["probability"] >= 1:
            return f"{pairs}; none that has left its window could"
        missed = percent(1 - least)
        return f"{pairs} among the tuples held; one that has left counts with at most {missed}"


def _bounded(window: JoinWindow, by_count: str) -> str:
    """What a window holds; by_count : as it would be without a span."""
    if window.span_us is None:
        return "all tuples" if window.rows is None else by_count
    age = f"the tuples of the last {span(window.span_us)}"
    return age if window.rows is None else f"{by_count}, of {age}"


def pace_of(frames: Sequence[DataFrame], arguments: Mapping[str, Any]) -> str:
    """What EXPLAIN says of the paces at which the sides are read."""
    if not all(frame.isStreaming for frame in frames):
        return ""
    order, keys = arguments["order"], arguments["key"] or []
    if all(SparkFrame(frame).controller(order, keys) is not None for frame in frames):
        return "any: rows wait until both sides are complete up to their event time"
    return (
        "the answers depend on it if the sides are two sources: their rows are counted as "
        "unaligned; a controller before both sides (WATTR in a subquery), and ORDER by its event "
        "time, ends it"
    )
