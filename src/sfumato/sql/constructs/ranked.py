"""What EXPLAIN says of top-k queries, and their timetable."""

from dataclasses import dataclass

from sfumato.spark.model.figures import Timetable, timetables
from sfumato.sql.constructs.imputation import Imputed
from sfumato.sql.constructs.reorder import Reordered
from sfumato.sql.explanation.wording import newest, one_line, per_key, span
from sfumato.sql.plan.nodes import Lines, Step, Where
from sfumato.windows import Range, Rows

RUNS_SHOWN = 8  # of a timetable


@dataclass(frozen=True)
class Ranked(Step):
    """`sf.top_k` over its input: all queries, as (name, k, every), and which of them is meant."""

    input: Step
    window: Range | Rows
    queries: tuple[tuple[str, int, int], ...]
    name: str
    by: str
    ascending: bool
    semantics: str
    rules: str | None
    rescale: bool
    existence: str
    streams: str | None
    plan: str
    order: tuple[str, ...]
    key: tuple[str, ...]

    def title(self) -> str:
        return f"top-k answers of {self.name}"

    def lines(self) -> Lines:
        named = "; ".join(f"{n} (k = {k}, every {span(f)})" for n, k, f in self.queries)
        window = self.window
        extent = isinstance(window, Range)
        controlled = extent and is_controlled(self.input)
        streams = self.streams is not None
        shared, alone = timetables(self.queries, self.plan)
        hour = 3_600_000_000
        cost, most = shared.cost_per_unit * hour, alone.cost_per_unit * hour
        return [
            ("queries", named),
            (
                "ranked by",
                f"{one_line(self.by)}, {'lowest' if self.ascending else 'highest'} first",
            ),
            ("answers", self.semantics),
            ("rules", self._rules()),
            ("existence", self.existence),
            *([("streams", f"ranked by the sums of their tuples' Pr_k: {self.streams}")] * streams),
            (
                "window",
                f"the last {span(window.length_us)} before an instant"
                if isinstance(window, Range)
                else newest(window),
            ),
            (
                "answered",
                "once the punctuation has reached the instant"
                if controlled
                else "once a row of that time or a later one came",
            ),
            ("timetable", f"a cycle of {span(shared.cycle)}: {self._runs(shared)}"),
            ("cost", f"{cost:.6g} (sum of k) an hour; {most:.6g} without sharing (NS)"),
            ("saving", f"{most / cost:.3g} times"),
            ("order", ", ".join(self.order)),
            ("rankings", per_key(self.key, "one, in one task")),
            ("state", "the tuples of one window, with their rows"),
            ("guarantee", "no query waits longer than its FREQUENCY; probabilities to 1e-12"),
        ]

    def _rules(self) -> str:
        if self.rules is None:
            return "none: tuples are independent"
        return f"{self.rules}; scaled where they sum to more than 1" if self.rescale else self.rules

    def _runs(self, table: Timetable) -> str:
        runs: list[str] = []
        for time, group in table.until(0, table.cycle):
            if len(runs) == RUNS_SHOWN:
                runs.append("...")
                break
            names = ", ".join(self.queries[i][0] for i in table.answers(group))
            runs.append(f"at {span(time)} {names}")
        return "; ".join(runs)


def is_controlled(step: Step) -> bool:
    """Whether rows come by a disorder controller's punctuations."""
    while isinstance(step, Where | Imputed):
        step = step.input
    return isinstance(step, Reordered)
