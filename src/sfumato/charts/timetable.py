"""A picture of a timetable: which query is answered when, and what all that costs."""

from collections.abc import Sequence
from typing import Any

from sfumato.charts.style import altair, number_text, styled, theme_of
from sfumato.operators.ranking.timetable import Timetable, first_runs, timetable

WIDTH = 640
MOST_QUERIES, MOST_RUNS = 40, 120
PLAN_NAMES = {
    "dp": "DP, least cost",
    "greedy": "GA, greedy",
    "inco": "INCO, with the combination rule",
    "in": "IN, equal bounds together",
    "none": "NS, each query alone",
}


def timetable_chart(
    table: Timetable,
    names: Sequence[str] | None = None,
    *,
    unit: str = "unit",
    size: int = 1,
    against: Sequence[str] = ("none",),
    theme: str = "light",
) -> Any:
    """An Altair chart of a timetable: above, the instants at which each query is answered; below,
    the sum of k over the runs so far, also under other plans.

    names : of the queries, in their order; by default q1, q2, ...
    unit, size : the unit of the time axis, and how long it is in the units of `every` ("minute"
        and 60,000,000 for microseconds)
    against : plans to compare with, as `timetable` names them;  theme : "light" or "dark"
    At least a cycle is shown, or its first 120 runs, and of many queries the 40 most frequent.
    Raises ImportError without Altair, ValueError for names that are not as many as the queries.
    """
    alt, colours = altair(), theme_of(theme)
    asked = table.queries
    names = [f"q{i + 1}" for i in range(len(asked))] if names is None else list(names)
    if len(names) != len(asked):
        raise ValueError(f"`names` must be {len(asked)}, as there are queries; got {len(names)}")
    order = sorted(range(len(asked)), key=lambda i: (asked[i][1], -asked[i][0], i))[:MOST_QUERIES]
    labels = {
        i: f"{names[i]}: k = {asked[i][0]}, every {number_text(asked[i][1] / size, 6)}"
        for i in order
    }
    runs, end = _shown(table)
    answers = [
        {"time": time / size, "query": labels[i], "run": _cost(table, group)}
        for time, group in runs
        for i in table.answers(group)
        if i in labels
    ]
    within = alt.Scale(domain=[0, end / size], nice=False)
    time = alt.X("time:Q", title=f"time ({unit}s)", scale=within)
    ks = sorted({_cost(table, group) for _, group in runs})
    blues = alt.SchemeParams("blues", extent=list(colours.steps))  # nothing lost on the page
    cost = alt.Color(
        "run:Q",
        title="k of the run",
        scale=alt.Scale(scheme=blues, reverse=theme == "dark"),
        legend=alt.Legend(format="d", values=ks if len(ks) <= 6 else [ks[0], ks[-1]]),
    )
    dots = (
        alt.Chart(alt.Data(values=answers), width=WIDTH, height=alt.Step(22))
        .mark_circle(size=90, opacity=1)
        .encode(
            x=time,
            y=alt.Y(
                "query:N",
                title=f"query (every, in {unit}s)",
                sort=list(labels.values()),
            ),
            color=cost,
            tooltip=["query:N", "time:Q", "run:Q"],
        )
    )
    plans = [table.plan, *(plan for plan in against if plan != table.plan)]
    shown = [PLAN_NAMES[plan] for plan in plans]
    lines = (
        alt.Chart(alt.Data(values=_costs(table, plans, end, size)), width=WIDTH, height=180)
        .mark_line(interpolate="step-after", strokeWidth=2.5)
        .encode(
            x=time,
            y=alt.Y("cost:Q", title="cost so far (sum of k)"),
            color=alt.Color(
                "plan:N", title="plan", scale=alt.Scale(domain=shown, range=list(colours.palette))
            ),
            strokeDash=alt.StrokeDash("plan:N", title="plan", scale=alt.Scale(domain=shown)),
        )
    )
    alone = float(timetable(asked, "none").cost)
    saving = alone / table.cost_per_unit
    both = alt.vconcat(dots, lines).resolve_scale(color="independent", strokeDash="independent")
    return styled(
        both,
        f"When {len(asked)} queries are answered" if len(asked) > 1 else "When a query is answered",
        f"{number_text(table.cost_per_unit * size)} (sum of k) per {unit}, {_compared(saving)}",
        theme=theme,
    )


def _compared(saving: float) -> str:
    """Describe a cost next to that of each query alone."""
    if saving < 1.005:
        return "as much as with each query alone"
    return f"{number_text(saving, 3)} times less than with each query alone"


def _shown(table: Timetable) -> tuple[list[tuple[int, int]], int]:
    """The runs of one cycle, or the first of them, and where the picture ends."""
    runs = first_runs(table, MOST_RUNS)
    end = max(table.cycle, 2 * max(every for _, every in table.queries))
    end = min(end, runs[-1][0])
    return [run for run in runs if run[0] <= end], end


def _cost(table: Timetable, group: int) -> int:
    return max(table.queries[i][0] for i in table.answers(group))


def _costs(table: Timetable, plans: Sequence[str], end: int, size: int) -> list[dict[str, Any]]:
    """Sums of k over the runs, at each of them."""
    rows = []
    for plan in plans:
        other = table if plan == table.plan else timetable(table.queries, plan)
        total, name = 0, PLAN_NAMES[plan]
        rows.append({"time": 0.0, "cost": 0, "plan": name})
        for time, group in other.until(0, end):
            total += _cost(other, group)
            rows.append({"time": time / size, "cost": total, "plan": name})
        rows.append({"time": end / size, "cost": total, "plan": name})
    return rows
