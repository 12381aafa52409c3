"""What a plan will do, in words: operators, keys, windows, state, and what is guaranteed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import TYPE_CHECKING

from sfumato.sql.plan import (
    Aggregated,
    Disorder,
    Earlier,
    ExtentJoin,
    ImputeArguments,
    Imputed,
    JoinStep,
    Ranked,
    Remembered,
    Reorder,
    Select,
    Step,
    Table,
    Where,
)
from sfumato.windows import Range, Rows

if TYPE_CHECKING:
    from sfumato.spark.top_k import Timetable

INDENT = "    "
RUNS_SHOWN = 8  # of a timetable
MEASURES = {
    "normal": "C's measure, for exponential gaps and normal delays",
    "conformal": "conformal feedback, no assumption on the delays",
}


def explained(step: Step) -> str:
    """The plan as text, an operator above its inputs."""
    return "\n".join(_lines(step))


def _lines(step: Step) -> Iterator[str]:
    if isinstance(step, Select):
        yield from _select(step)
    elif isinstance(step, Where):
        yield f"filter on alternatives: {_one_line(step.condition)}"
        yield from _indented(step.input)
    elif isinstance(step, Reorder):
        yield "reorder by event time"
        yield from _table(_reorder(step.arguments, step.row_bytes))
        yield from _indented(step.input)
    elif isinstance(step, Aggregated):
        yield f"aggregates over windows: {', '.join(step.aggregates)}"
        yield from _table(list(_window(step)))
        yield from _indented(step.input)
    elif isinstance(step, ExtentJoin):
        yield "join of two windowed streams, extent by extent"
        yield from _table(_extents(step))
        for side, name in ((step.left, "left"), (step.right, "right")):
            yield f"{INDENT}{name}:"
            yield from (INDENT + line for line in _indented(side))
    elif isinstance(step, Imputed):
        yield f"impute {', '.join(step.arguments.attributes)}"
        yield from _table(_imputation(step.arguments))
        yield from _indented(step.input)
    elif isinstance(step, Remembered):
        yield f"earlier values of {', '.join(step.arguments.attributes)}"
        yield from _table(_remembered(step.arguments))
        yield from _indented(step.input)
    elif isinstance(step, Ranked):
        yield f"top-k answers of {step.name}"
        yield from _table(list(_ranking(step)))
        yield from _indented(step.input)
    elif isinstance(step, JoinStep):
        fused = step.imputation
        kind = "uncertain windows" if fused is None else "incomplete windows, imputed as they meet"
        yield f"similarity join of two {kind}"
        yield from _table(_join(step) if fused is None else _incomplete_join(step, fused))
        for side, name in ((step.left, "left"), (step.right, "right")):
            yield f"{INDENT}{name}:"
            yield from (INDENT + line for line in _indented(side))
    else:
        yield _described(step)


def _indented(step: Step) -> Iterator[str]:
    return (INDENT + line for line in _lines(step))


def _select(step: Select) -> Iterator[str]:
    yield f"Spark SQL{'' if step.inputs else ', as it stands'}: {_one_line(step.text)}"
    for i, part in enumerate(step.inputs):
        yield f"{INDENT}{{d{i}}}:"
        yield from (INDENT + line for line in _indented(part))


def _described(table: Table) -> str:
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
    added = "; arrival added: when Spark received the row" if table.received else ""
    return f"{'stream' if table.streaming else 'static table'} {table.name} ({columns}){added}"


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    return (f"{INDENT}{name.ljust(width)}  {value}" for name, value in rows)


# ---- reorder -------------------------------------------------------------------------------------


def _reorder(plan: Disorder, row_bytes: int) -> list[tuple[str, str]]:
    rows = [
        ("event time", plan.event_time),
        ("arrival", plan.arrival or "arrival"),
        ("controllers", _per_key(plan.key, "one, in one task")),
        ("punctuation", _controlled(plan)),
    ]
    if plan.extent is not None:
        length, slide = (span(t) for t in (plan.extent.length, plan.extent.slide))
        rows.append(("extents", f"RANGE {length} SLIDE {slide}; each row comes out once"))
    if plan.idle_timeout is not None:
        idle = span(int(plan.idle_timeout.split()[0]))
        rows.append(("idle", f"rows held come out after {idle} without arrivals"))
    rows.append(("state", _held(plan, row_bytes)))
    rows.append(("guarantee", _promised(plan)))
    return rows


def _controlled(plan: Disorder) -> str:
    if plan.drop_ratio is not None:
        measure = f"{plan.estimator}: {MEASURES[plan.estimator]}"
        return f"DRATIO {percent(plan.drop_ratio)}, estimator {measure}"
    if plan.estimator == "max":
        return "MAX, as late as the largest difference of delays seen"
    if plan.slack:
        return f"SLACK {plan.slack}, the smallest event time leaves a buffer of {plan.slack} rows"
    return "none: rows are taken to come in order"


def _held(plan: Disorder, row_bytes: int) -> str:
    bounds = [n for n in (plan.slack, plan.max_buffer) if n is not None]
    if not bounds:
        return f"the rows after the punctuation, about {row_bytes} bytes each, and no bound (BSIZE)"
    rows = min(bounds)
    a_key = " a key" if plan.key else ""
    return f"at most {rows} rows{a_key}, about {size(rows * row_bytes)} at {row_bytes} bytes a row"


def _promised(plan: Disorder) -> str:
    once = "every row comes out once, in order of its event time or marked late"
    if plan.drop_ratio is None or plan.max_buffer is not None:
        late = "the share of late rows is measured, not bounded"
    elif plan.estimator == "conformal":
        late = f"late in the long run {percent(plan.drop_ratio)}, whatever the delays"
    else:
        late = f"late at most {percent(plan.drop_ratio)} if gaps and delays are as assumed"
    return f"{once}; {late}"


# ---- extents -------------------------------------------------------------------------------------


def _extents(step: ExtentJoin) -> list[tuple[str, str]]:
    return [
        ("pairs", "rows whose extents end at the same time, once both are complete"),
        ("keys", _per_key(step.key, "none, in one task")),
        ("state", "the rows of extents that only one side has completed"),
    ]


# ---- aggregates ----------------------------------------------------------------------------------


def _window(step: Aggregated) -> Iterator[tuple[str, str]]:
    window = step.window
    if isinstance(window, Range):
        overlap = window.span / window.every
        kind = "overlap" if overlap > 1 else "tumble" if overlap == 1 else "leave gaps"
        yield "window", f"extents of {span(window.span)} every {span(window.every)}: they {kind}"
        yield (
            "answers",
            "each extent once, when the punctuation has passed it"
            + (", with its rows" if step.members else ""),
        )
        yield (
            "state",
            (
                f"the tuples of {span(window.span)} and the buffer; a tuple is in "
                f"{math.ceil(overlap)} extent{'s' * (overlap > 1)} and stored once"
            ),
        )
    elif isinstance(window, Rows):
        yield (
            "window",
            (
                f"the newest tuples that hold {window.rows} existing ones with confidence "
                f"{percent(window.confidence)}"
            ),
        )
        yield "tuples held", _tuples_of(window)
        yield "answers", "one for each tuple that arrives"
        held = expected_tuples(window.rows, 0.9, window.confidence)
        of = "w'" if held is None else f"w' = {held} (existence 0.9)"
        ten = 16 * 10
        total = "" if held is None else f" = {size(held * ten)}"
        yield "state", f"with 10 alternatives and {of}: w' × {ten} bytes{total} a group"
    else:
        broken = f"differs by more than {window.delta:g} from another's"
        below = f"with probability below {percent(window.threshold)}"
        yield "window", f"the newest tuples, while the oldest's {window.on} {broken} {below}"
        yield "answers", "one for each tuple that arrives"
        yield "state", "the tuples held: as many as the values stay close for"
    yield "order", ", ".join(step.order)
    yield "groups", _per_key(step.key, "one, in one task")
    yield (
        "guarantee",
        (
            "means and standard deviations exact over the tuples held; quantiles and distributions "
            "while values are few, else sampled with a stated error"
        ),
    )


def _tuples_of(window: Rows) -> str:
    level = window.confidence
    sizes = ", ".join(f"{p:g}: {_count(window.rows, p, level)}" for p in (1.0, 0.9, 0.5))
    needed = f"Pr(the n newest hold ≥ {window.rows}) ≥ {level:g}"
    return f"w' = least n with {needed}; at existence {sizes}"


# ---- imputation ----------------------------------------------------------------------------------


def _without_donors(arguments: ImputeArguments) -> str:
    if arguments.fallback == "reject":
        return "the row is unimputable"
    return "the attribute's distribution in the repository"


def _imputation(arguments: ImputeArguments) -> list[tuple[str, str]]:
    most, scaling = arguments.max_alternatives, arguments.scaling
    return [
        ("repository", f"{arguments.repository}, read when the query is made"),
        ("by", "; ".join(arguments.dependencies)),
        ("without donors", _without_donors(arguments)),
        *([("together", "missing attributes from the same rows")] if arguments.joint else []),
        *((("alternatives", f"at most {most}, near values merged"),) if most else ()),
        *(("scaling", f"({name} - {shift:g}) / {span:g}") for name, shift, span in scaling),
        ("state", "none; every worker keeps the prepared repository"),
    ]


def _remembered(arguments: Earlier) -> list[tuple[str, str]]:
    each = 16 * len(arguments.attributes)
    return [
        ("columns", "earlier_ATTR, the newest known value before a row, and age_ATTR"),
        ("order", str(arguments.order)),
        ("keys", _per_key(arguments.key, "one, in one task")),
        ("state", f"{each} bytes a key"),
    ]


def _incomplete_join(step: JoinStep, imputation: ImputeArguments) -> list[tuple[str, str]]:
    rows = step.window.rows
    keep = {"pairs", "order", "windows", "keys"}
    held = f"the newest {rows} rows of each side{' and key' if step.key else ''}"
    return [
        *((name, value) for name, value in _join(step) if name in keep),
        ("window", held),
        *((name, value) for name, value in _imputation(imputation) if name != "state"),
        ("state", f"{held}, and their numbers; not the repository"),
        ("guarantee", "the pairs of imputing every row first; rows in no reach are not imputed"),
    ]


# ---- ranking -------------------------------------------------------------------------------------


def _ranking(step: Ranked) -> Iterator[tuple[str, str]]:
    from sfumato.spark.top_k import timetables

    yield "queries", "; ".join(f"{n} (k = {k}, every {span(f)})" for n, k, f in step.queries)
    yield "ranked by", f"{_one_line(step.by)}, {'lowest' if step.ascending else 'highest'} first"
    yield "answers", step.semantics
    yield "rules", step.rules or "none: tuples are independent"
    window = step.window
    if isinstance(window, Range):
        yield "window", f"the last {span(window.span)} before an instant"
    else:
        level = percent(window.confidence)
        yield (
            "window",
            f"the newest tuples that hold {window.rows} existing ones with confidence {level}",
        )
    below = step.input.input if isinstance(step.input, Where) else step.input
    if isinstance(window, Range) and isinstance(below, Reorder):
        yield "answered", "once the punctuation has reached the instant"
    else:
        yield "answered", "once a row of that time or a later one came"
    shared, alone = timetables(step.queries, "dp")
    runs = _runs(step, shared)
    yield "timetable", f"a cycle of {span(shared.cycle)}: {runs}"
    hour = 3_600_000_000
    cost, most = shared.cost_per_unit * hour, alone.cost_per_unit * hour
    yield "cost", f"{cost:.6g} (sum of k) an hour; {most:.6g} without sharing (NS)"
    yield "saving", f"{most / cost:.3g} times"
    yield "order", ", ".join(step.order)
    yield "rankings", _per_key(step.key, "one, in one task")
    yield "state", "the tuples of one window, with their rows"
    yield "guarantee", "no query waits longer than its FREQUENCY; probabilities to 1e-12"


def _runs(step: Ranked, table: Timetable) -> str:
    listed: list[str] = []
    for time, group in table.until(0, table.cycle):
        if len(listed) == RUNS_SHOWN:
            listed.append("...")
            break
        names = ", ".join(step.queries[i][0] for i in table.answers(group))
        listed.append(f"at {span(time)} {names}")
    return "; ".join(listed)


# ---- join ----------------------------------------------------------------------------------------


def _join(step: JoinStep) -> list[tuple[str, str]]:
    plan, window = step.arguments, step.window
    attributes = ", ".join(plan.on)
    changes = "; a pair that leaves its window comes out again with change -"
    return [
        (
            "pairs",
            f"distance of ({attributes}) within {plan.within:g} with probability at least "
            f"{plan.probability:g}{changes if plan.output == 'changes' else ''}",
        ),
        ("order", ", ".join(step.order)),
        ("windows", _per_key(step.key, "one a side, in one task")),
        (
            "window",
            f"the newest tuples that hold {window.rows} existing ones with confidence "
            f"{percent(window.confidence)}",
        ),
        ("tuples held", _tuples_held(window, plan.probability)),
        ("strategy", _strategy(plan.strategy)),
        ("state", _join_state(step)),
        ("guarantee", _exact(window.confidence, plan.probability)),
    ]


def _exact(confidence: float, probability: float) -> str:
    pairs = "exact: a pair comes out if and only if it reaches its probability"
    if confidence + probability >= 1:
        return f"{pairs}; none that has left its window could"
    missed = percent(1 - confidence)
    return f"{pairs} among the tuples held; one that has left counts with at most {missed}"


def _level(confidence: float, probability: float) -> float:
    """The confidence that a join needs of its window: A, Algorithm 2 (uncert-evict-beta)."""
    return min(confidence, 1 - probability)


def _tuples_held(window: Rows, probability: float) -> str:
    level = _level(window.confidence, probability)
    sizes = ", ".join(f"{p:g}: {_count(window.rows, p, level)}" for p in (1.0, 0.9, 0.5))
    bound = "" if window.max_tuples is None else f"; at most {window.max_tuples}, the rest counted"
    return (
        f"w' = least n with Pr(the n newest hold ≥ {window.rows}) ≥ {level:g} = min("
        f"{window.confidence:g}, 1 - {probability:g}); at existence {sizes}{bound}"
    )


def _count(rows: int, existence: float, level: float) -> str:
    held = expected_tuples(rows, existence, level)
    return "no bound" if held is None else f"{held}" if existence == 1 else f"about {held}"


def _strategy(strategy: str) -> str:
    chosen = "auto: index, or a scan where that is cheaper" if strategy == "auto" else strategy
    return f"{chosen}; the answers are the same for all"


def _join_state(step: JoinStep) -> str:
    window, dimensions = step.window, len(step.arguments.on)
    level = _level(window.confidence, step.arguments.probability)
    held = expected_tuples(window.rows, 0.9, level)
    tuples = "w'" if held is None else f"w' = {held} (existence 0.9)"
    ten = 8 * 10 * (dimensions + 1)
    total = "" if held is None else f" = {size(2 * held * ten)}"
    a_key = " a key" if step.key else ""
    return (
        f"2 × w' × (alternatives × {8 * (dimensions + 1)} bytes + row){a_key}; with 10 "
        f"alternatives and {tuples}: 2 × w' × {ten} bytes{total} + rows"
    )


def expected_tuples(rows: int, existence: float, confidence: float) -> int | None:
    """About how many tuples hold `rows` existing ones, if each exists with that probability.

    The least n with Pr(Binomial(n, existence) ≥ rows) ≥ confidence by the normal approximation
    with continuity correction; exact for existence 1; None where no n is enough. O(1).
    """
    if existence == 1 or confidence <= 0:
        return rows
    if confidence >= 1:
        return None
    spread = NormalDist().inv_cdf(confidence) * math.sqrt(existence * (1 - existence))
    root = (spread + math.sqrt(spread**2 + 4 * existence * (rows - 0.5))) / (2 * existence)
    return max(rows, math.ceil(root**2))


# ---- words ---------------------------------------------------------------------------------------


def _per_key(key: tuple[str, ...], without: str) -> str:
    return f"one a value of ({', '.join(key)}), in parallel" if key else without


def percent(ratio: float) -> str:
    """A ratio as users write it: 1%, 99.9%."""
    return f"{ratio * 100:.6g}%"


def span(microseconds: int) -> str:
    """A duration in the largest unit that it is a whole number of."""
    for unit, length in (("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if microseconds % length == 0:
            return f"{microseconds // length} {unit}"
    return f"{microseconds} µs"


def size(count: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def _one_line(text: str) -> str:
    return " ".join(text.split())
