"""Steps of a plan, and their EXPLAIN text: parameters, state and guarantees of each operator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from sfumato.api.window_aggregate import DEFAULT_LEVEL
from sfumato.duration import spelled
from sfumato.spark.model.estimates import (
    Timetable,
    expected_tuples,
    join_confidence,
    join_sharing,
    timetables,
)
from sfumato.spark.model.frame import SparkFrame
from sfumato.windows import Delta, JoinWindow, Range, Rows

Lines = list[tuple[str, str]]
"""Lines of a plan: a heading and its text."""
INDENT = "    "
ESTIMATOR = "conformal"  # default of `sf.reorder` for a drop ratio
OVER_TIME = ("time_avg", "integral")
SIDES = ("left", "right")
EXISTENCES = (1.0, 0.9, 0.5)  # existences for which EXPLAIN shows window sizes
TYPICAL = 0.9  # existence for which EXPLAIN shows state sizes
RUNS_SHOWN = 8  # runs of a timetable that EXPLAIN shows


@dataclass(frozen=True)
class Step:
    """One operation on rows.

    title : the operation in one line
    lines : its parameters, state and guarantees; lines without text are omitted
    inputs : its input steps by name; "" for a single input
    facts : values for charts and later steps, such as the drop ratio
    runs : the operators that run with it in one Spark step, if any
    named : the metrics name of its operator, if the text gives one
    """

    title: str
    lines: Lines = field(default_factory=list)
    inputs: Mapping[str, Step] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    runs: str = field(default="", compare=False)
    named: str = field(default="", compare=False)

    def walk(self) -> Iterator[Step]:
        yield self
        for step in self.inputs.values():
            yield from step.walk()


def table_step(name: str, streaming: bool, columns: Sequence[tuple[str, str]] = ()) -> Step:
    """Return the step of a table or view. columns : names and Spark types"""
    listed = ", ".join(f"{column} {kind}" for column, kind in columns)
    kind = "stream" if streaming else "static table"
    return Step(f"{kind} {name} ({listed})", facts={"table": name})


class Explanation(str):
    """The text of a plan, which prompts and notebooks display line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def explain_step(step: Step) -> str:
    """Return the plan as text, each operation above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    yield step.title
    known = [("named", step.named and f"{step.named}, in metrics"), ("runs", step.runs)]
    lines = [line for line in [*step.lines, *known] if line[1]]
    width = max((len(name) for name, _ in lines), default=0)
    yield from (f"{INDENT}{name.ljust(width)}  {value}" for name, value in lines)
    for name, below in step.inputs.items():
        margin = INDENT
        if name:
            yield f"{INDENT}{name}:"
            margin += INDENT
        yield from (margin + line for line in _lines(below))


# ---- words of EXPLAIN ----------------------------------------------------------------------------


def list_names(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def per_key(key: str | Sequence[str] | None, without: str = "one, in one task") -> str:
    """Describe one item per value of the key; without a key, return `without`."""
    return f"one per value of ({', '.join(list_names(key))}), in parallel" if key else without


def argument_lines(arguments: Mapping[str, Any]) -> Lines:
    """Return a function's arguments as lines, without None."""
    return [(name, _written(value)) for name, value in arguments.items() if value is not None]


def _written(value: Any) -> str:
    if isinstance(value, timedelta):
        return spelled(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_written(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_written, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_percent(ratio: float) -> str:
    return f"{ratio * 100:.6g}%"


def format_bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def one_line(text: str) -> str:
    return " ".join(text.split())


# ---- lines of the operators ----------------------------------------------------------------------


def reorder_lines(given: dict[str, Any], extent: Range | None, each: int) -> Lines:
    """Return a reordering's lines for EXPLAIN. each : bytes per row"""
    ratio, key = given.get("drop_ratio"), given.get("key")
    known = {"estimator": ESTIMATOR} if ratio is not None else {}
    shown = dict(given)
    late = "the share of late rows is measured, not bounded"
    total = given.get("max_buffer_total")
    if ratio is not None and "max_buffer" not in given and total is None:
        conformal = given.get("estimator", ESTIMATOR) == "conformal"
        assumed = "for any delays" if conformal else "if gaps and delays are as assumed"
        late = f"{format_percent(ratio)} of the rows are late in the long run, {assumed}"
    state = f"the rows after the punctuation, about {each} bytes each; unbounded without BSIZE"
    bounds = [given[name] for name in ("slack", "max_buffer") if name in given]
    if bounds or total is not None:
        rows, per = (total, "") if total is not None else (min(bounds), " per key" if key else "")
        count = f"{rows} row{'s' * (rows != 1)}{per}"
        state = f"at most {count}, about {format_bytes(rows * each)} at {each} bytes per row"
    if ids := list_names(given.get("unique")):
        least = f", for at least {_written(given['remember'])}" if given.get("remember") else ""
        state += f"; the {', '.join(ids)} of these rows{least}"
    parallel = per_key(key)
    if total is not None:  # all keys share the buffer
        parallel = parallel.replace("in parallel", "in one task")
    if given.get("early"):
        shown["early"] = "each row is also emitted on arrival, for early answers"
    lines = argument_lines({"event_time": None, "arrival": None} | known | shown)
    if extent is not None:
        empty = f" EMPTY {extent.empty}" if extent.empty else ""
        offset = f" OFFSET {spelled(extent.offset_us)}" if extent.offset_us else ""
        zone = f" ZONE '{extent.zone}'" if extent.zone else ""
        length, slide = _lengths(extent)
        lines.append(("extents", f"RANGE {length} SLIDE {slide}{offset}{zone}{empty}"))
    return [
        *lines,
        ("parallel", parallel),
        ("state", state),
        ("guarantee", "each row once, in order of event time, or immediately with late = true"),
        ("invalid", "rows without valid times are emitted with late = true"),
        ("late rows", late),
    ]


def _lengths(extent: Range) -> tuple[str, str]:
    """Return the length and slide of extents, as text."""
    if extent.calendar_unit is None:
        return spelled(extent.length_us), spelled(extent.slide_us)
    return str(extent.length), str(extent.slide or extent.length)


def window_lines(
    window: Rows | Range | Delta, aggregates: tuple[str, ...], members: bool, how: Mapping[str, Any]
) -> Lines:
    """Return the lines for aggregates. members : whether rows are selected;  how : arguments"""
    if isinstance(window, Range):
        length, slide = _lengths(window)
        several, shared = math.ceil(window.grid[0] / window.grid[1]), how.get("shared")
        offset = f", offset by {spelled(window.offset_us)}" if window.offset_us else ""
        offset += f", in the time zone {window.zone}" if window.zone else ""
        and_rows = ", with its rows" if members else ""
        stored = f"a tuple is in {several} extent{'s' * (several > 1)} and stored once"
        if any(text.partition("(")[0] in OVER_TIME for text in aggregates):
            stored += "; also the newest earlier value per group, which holds until the next value"
        revised, corrected = "", ""
        if (early := how.get("early")) is not None:
            at_level = format_percent(how.get("level", DEFAULT_LEVEL))
            revised = (
                f"revisions of open extents, whenever the punctuation passes a multiple of "
                f"{spelled(early)}, with intervals for the final answer at level {at_level}"
            )
        if (version := how.get("version")) is not None:
            corrected = (
                f"per {', '.join(list_names(how.get('unique')))}, the row with the largest "
                f"{version} that arrives before the extent is complete"
            )
        return [
            ("window", f"extents of {length} every {slide}{offset}{and_rows}"),
            ("answers", "each extent once, when the punctuation has passed its end"),
            ("early", revised),
            ("versions", corrected),
            ("shared", f"rows with the same {shared} take the same alternative" if shared else ""),
            ("state", f"the tuples of {length} and the buffer; {stored}"),
        ]
    answers = ("answers", "one per arriving tuple")
    if isinstance(window, Delta):
        return [
            ("window", _describe_delta(window.on, window.delta, window.threshold)),
            answers,
            ("state", "the tuples since the values last differed too much"),
        ]
    if window.slide is not None:
        answers = ("answers", f"one per {window.slide} arriving tuples of a group")
    # `sum(x)`, `avg(x)` and `count(*)` each aggregate one expression.
    operands = len({text.partition("(")[2] for text in aggregates} - {"*)"})
    held, size = _describe_held(window.rows, window.confidence, operands)
    return [
        ("window", _describe_window(window)),
        ("tuples held", held),
        answers,
        ("state", f"{size} per group"),
    ]


def ranking_lines(
    window: Range | Rows,
    timetable: Sequence[tuple[str, int, int]],
    least: Sequence[float | None],
    given: Mapping[str, Any],
    existence: str,
) -> Lines:
    """Return the lines of TOP queries.

    timetable : their names, k and intervals;  least : their probabilities;  given : arguments
    """
    held = (
        f"the last {spelled(window.length_us)}"
        if isinstance(window, Range)
        else _describe_window(window)
    )
    shared, alone = timetables(timetable, given["plan"])
    cycle = spelled(shared.cycle)
    cost, most = (table.cost_per_unit * 3_600_000_000 for table in (shared, alone))
    queries = [
        f"{name} (k = {k}, every {spelled(every)}"
        + (")" if p is None else f", with probability {format_percent(p)} or more)")
        for (name, k, every), p in zip(timetable, least, strict=True)
    ]
    other = ("window", "key", "existence", "name")
    listed = {name: value for name, value in given.items() if name not in other}
    return [
        ("queries", "; ".join(queries)),
        *argument_lines({**listed, "by": one_line(given["by"])}),
        ("existence", existence),
        ("window", held),
        ("timetable", f"a cycle of {cycle}: {_runs(shared, timetable)}"),
        ("cost", f"{cost:.6g} (sum of k) per hour; {most:.6g} without sharing (NS)"),
        ("saving", f"{most / cost:.3g} times"),
        ("parallel", per_key(given["key"])),
        ("state", "the tuples of one window, with their rows"),
        ("guarantee", "no query waits longer than its FREQUENCY; probabilities are exact to 1e-12"),
    ]


def _runs(table: Timetable, queries: Sequence[tuple[str, int, int]]) -> str:
    runs: list[str] = []
    for time, group in table.until(0, table.cycle):
        if len(runs) == RUNS_SHOWN:
            runs.append("...")
            break
        names = ", ".join(queries[i][0] for i in table.answers(group))
        runs.append(f"at {spelled(time)} {names}")
    return "; ".join(runs)


def join_lines(
    given: dict[str, Any],
    windows: tuple[JoinWindow, JoinWindow],
    dfs: Sequence[DataFrame],
    existence: str,
    imputed: Lines | None,
) -> Lines:
    """Return the lines of a similarity join. imputed : the lines of its IMPUTE, if any"""
    key, probability = given["key"], given["probability"]
    tasks = per_key(key, f"one per side, in {_describe_tasks(given, windows, imputed)}")
    arguments = {n: value for n, value in given.items() if n not in ("name", "tasks")}
    lines = [
        *argument_lines({"on": None, **arguments}),
        *(imputed or []),
        ("windows", tasks),
        ("pace", _describe_pace(dfs, given)),
        ("existence", existence),
    ]
    tuples: dict[str, str] = {}
    for side, window in zip(SIDES, windows, strict=True):
        ages = f"the tuples of the last {spelled(window.span_us)}" if window.span_us else ""
        rows = _describe_window(window) if window.rows is not None else ""
        rows += ", once all tuples with the same time have arrived" if window.lockstep else ""
        if window.delta is not None:
            rows = _describe_delta(given["on"][window.on], window.delta, window.threshold)
        if windows[0] != windows[1] or side == SIDES[0]:
            heading = "window" if windows[0] == windows[1] else f"{side} window"
            lines.append((heading, ", of ".join(filter(None, (rows, ages))) or "all tuples"))
        if imputed is None and window.rows is not None:
            level = join_confidence(window.confidence, probability)
            why = f" = min({window.confidence:g}, 1 - {probability:g})"
            held, size = _describe_held(window.rows, level, len(given["on"]), why)
            most = window.max_tuples
            bound = "" if most is None else f"; at most {most} tuples, the evicted ones are counted"
            tuples[f"{held}; {size}, and the rows{bound}"] = "tuples held"
    lines += [(heading, said) for said, heading in tuples.items()]
    if imputed is not None:
        promise = (
            "the same pairs as if every row were imputed first; only rows within reach are imputed"
        )
        return [*lines, ("state", "the rows of both windows"), ("guarantee", promise)]
    exact = "exact: a pair is emitted if and only if it reaches the given probability"
    least = min(window.confidence for window in windows)
    if any(window.rows is not None for window in windows):
        exact += "; a pair with a tuple outside its window cannot reach it"
        if least + probability < 1:
            exact = (
                f"{exact.partition(';')[0]} among the held tuples; a tuple that has left "
                f"contributes at most {format_percent(1 - least)}"
            )
    return [*lines, ("guarantee", exact)]


def _describe_tasks(
    given: dict[str, Any], windows: tuple[JoinWindow, JoinWindow], imputed: Lines | None
) -> str:
    """Describe how many tasks share the work, and the reason."""
    asked = given.get("tasks")
    sharing = None if given["key"] or imputed is not None else join_sharing(windows)
    if asked is not None or sharing is None:
        return f"{asked} tasks that share the work" if asked and asked > 1 else "one task"
    tasks, alone, others, shared = sharing
    return (
        f"{'one task' if tasks == 1 else f'{tasks} tasks'} (estimated time per arrival: "
        f"{alone:.3g} us in one task, {shared:.3g} us in each of {others}; TASKS sets the number)"
    )


def _describe_pace(dfs: Sequence[DataFrame], given: dict[str, Any]) -> str:
    """Describe the effect of the sides' reading speeds; "" unless both sides are streams."""
    if not all(df.isStreaming for df in dfs):
        return ""
    order, key = given["order"], given["key"] or []
    if all(SparkFrame(df).controller(order, key) is not None for df in dfs):
        return "any: rows wait until both sides are complete up to their event time"
    return (
        "if the sides are two sources, the answers depend on how fast each source is read, and "
        "the rows are counted as unaligned; reorder both sides (WATTR in a subquery) and ORDER by "
        "event time"
    )


def _describe_window(window: Rows | JoinWindow) -> str:
    confidence = format_percent(window.confidence)
    return (
        f"the newest tuples that contain {window.rows} existing ones with confidence {confidence}"
    )


def _describe_delta(on: str, delta: float, threshold: float) -> str:
    return (
        f"the newest tuples for which {on} of the oldest and of any other differ by more than "
        f"{delta:g} with probability below {format_percent(threshold)}"
    )


def _describe_held(rows: int, level: float, attributes: int, why: str = "") -> tuple[str, str]:
    """Describe the number of tuples in a count window, and their size."""
    sizes = []
    for p in EXISTENCES:
        count = expected_tuples(rows, p, level)
        about = "no bound" if count is None else f"{count}" if p == 1 else f"about {count}"
        sizes.append(f"{p:g}: {about}")
    held = f"w' = least n with Pr(the n newest hold ≥ {rows}) ≥ {level:g}{why}"
    each, count = 10 * 8 * (attributes + 1), expected_tuples(rows, TYPICAL, level)
    tuples, total = "w'", ""
    if count is not None:
        tuples += f" = {count} (existence {TYPICAL:g})"
        total = f" = {format_bytes(count * each)}"
    size = f"with 10 alternatives and {tuples}: w' × {each} bytes{total}"
    return f"{held}; at existence {', '.join(sizes)}", size
