"""What `explain` says of reordering, of extents and of aggregates over windows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sfumato.sql.explain.wording import about, expected_tuples, per_key, percent, size, span
from sfumato.sql.plan.nodes import Aggregated, Disorder, ExtentJoin
from sfumato.windows import Range, Rows

MEASURES = {
    "normal": "C's measure, for exponential gaps and normal delays",
    "conformal": "conformal feedback, no assumption on the delays",
}


def reordering(plan: Disorder, row_bytes: int) -> list[tuple[str, str]]:
    """The rows about `sf.reorder`."""
    rows = [
        ("event time", plan.event_time),
        ("arrival", plan.arrival or "arrival"),
        ("controllers", per_key(plan.key, "one, in one task")),
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


def extent_join(step: ExtentJoin) -> list[tuple[str, str]]:
    """The rows about `sf.extent_join`."""
    return [
        ("pairs", "rows whose extents end at the same time, once both are complete"),
        ("keys", per_key(step.key, "none, in one task")),
        ("state", "the rows of extents that only one side has completed"),
    ]


def aggregates(step: Aggregated) -> Iterator[tuple[str, str]]:
    """The rows about `sf.window_aggregate`."""
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
        ten = 10 * 8 * (1 + _operands(step))
        total = "" if held is None else f" = {size(held * ten)}"
        yield (
            "state",
            (
                f"stored, with 10 alternatives and {of}: w' × {ten} bytes{total} a group; in a "
                "worker's memory about 1 kB a tuple more for each aggregate"
            ),
        )
    else:
        broken = f"differs by more than {window.delta:g} from another's"
        below = f"with probability below {percent(window.threshold)}"
        yield "window", f"the newest tuples, while the oldest's {window.on} {broken} {below}"
        yield "answers", "one for each tuple that arrives"
        yield "state", "the tuples held: as many as the values stay close for"
    yield "order", ", ".join(step.order)
    yield "groups", per_key(step.key, "one, in one task")
    yield (
        "guarantee",
        (
            "means and standard deviations exact over the tuples held; quantiles and distributions "
            "while values are few, else sampled with a stated error"
        ),
    )


def _operands(step: Aggregated) -> int:
    """How many different things are aggregated: of `sum(x)`, `avg(x)` and `count(*)` one."""
    return len({text.partition("(")[2] for text in step.aggregates} - {"*)"})


def _tuples_of(window: Rows) -> str:
    level = window.confidence
    sizes = ", ".join(f"{p:g}: {about(window.rows, p, level)}" for p in (1.0, 0.9, 0.5))
    needed = f"Pr(the n newest hold ≥ {window.rows}) ≥ {level:g}"
    return f"w' = least n with {needed}; at existence {sizes}"
