"""Charts of rankings: the probabilities of ranks, and the timetable of queries."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.charts.style import decorate, import_altair, new_chart, number_text, theme_of
from sfumato.operators.ranking.timetable import Timetable, timetable
from sfumato.operators.ranking.top_k import rank_probabilities

MAX_TUPLES = 25
MIN_PROBABILITY = 0.0005  # below this a tuple is not drawn
CELL = 34
RANKING_WIDTH = 640
MAX_QUERIES, MAX_RUNS = 40, 120
PLAN_NAMES = {
    "dp": "DP, lowest cost",
    "time": "DP, shortest time",
    "greedy": "GA, greedy",
    "inco": "INCO, with the combination rule",
    "in": "IN, equal bounds together",
    "none": "NS, each query alone",
}


def rank_chart(
    *ranked: npt.ArrayLike,
    k: int,
    labels: Sequence[str] | None = None,
    what: str = "tuple",
    theme: str = "light",
    **options: Any,
) -> Any:
    """Return an Altair chart of Pr(rank = j), j = 1 ... k, and of their sum Pr_k.

    The chart shows at most 25 tuples, in descending order of Pr_k, without tuples whose Pr_k is
    below 0.0005.

    ranked, options : scores, prob, rules, tuples, ascending: as for `rank_probabilities`
    labels : one string per tuple; by default its number     what : the title of the tuple axis
    theme : "light" or "dark"
    Raises ImportError without Altair, and ValueError for arguments out of range.
    """
    alt, colours = import_altair(), theme_of(theme)
    chances = rank_probabilities(*ranked, k=k, **options)
    total = chances.sum(axis=1)
    if labels is not None and len(labels) != total.size:
        raise ValueError(
            f"`labels` must have one label per tuple ({total.size}); got {len(labels)}"
        )
    best = np.argsort(-total, kind="stable")[:MAX_TUPLES]
    best = best[total[best] >= MIN_PROBABILITY]
    texts = [str(labels[i]) if labels is not None else str(i) for i in best]
    names = {
        int(i): text if texts.count(text) == 1 else f"{text} (number {i})"
        for i, text in zip(best, texts, strict=True)
    }
    order = list(names.values())
    cells = [
        {"tuple": name, "rank": j + 1, "chance": float(chances[i, j])}
        for i, name in names.items()
        for j in range(k)
    ]
    sums = [{"tuple": name, "sum": float(total[i])} for i, name in names.items()]
    shades = alt.Scale(scheme="viridis", domainMin=0)
    heat = (
        new_chart(cells, alt.Step(24), max(CELL * k, 120))
        .mark_rect()
        .encode(
            x=alt.X("rank:O", title="rank", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("tuple:N", title=what, sort=order),
            color=alt.Color(
                "chance:Q", title="Pr(rank)", scale=shades, legend=alt.Legend(format=".2f")
            ),
            tooltip=["tuple:N", "rank:O", "chance:Q"],
        )
    )
    bars = new_chart(sums, alt.Step(24), 220).encode(
        x=alt.X("sum:Q", title=f"Pr(among the top {k})", scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("tuple:N", title=None, sort=order, axis=alt.Axis(labels=False, ticks=False)),
    )
    text = bars.mark_text(align="left", dx=4, fontSize=11, color=colours.ink).encode(
        text=alt.Text("sum:Q", format=".3f")
    )
    hidden = int(np.count_nonzero(total > 0.0)) - len(order)
    more = (
        f"{hidden:,} more tuples have a smaller chance"
        if hidden
        else "all tuples that have a chance"
    )
    return decorate(
        alt.hconcat(heat, bars.mark_bar(color=colours.main) + text, spacing=14),
        f"Who is among the top {k}, and at which rank",
        f"over all possible worlds; {more}",
        theme=theme,
    )


def timetable_chart(
    table: Timetable,
    names: Sequence[str] | None = None,
    *,
    unit: str = "unit",
    size: int = 1,
    against: Sequence[str] = ("none",),
    theme: str = "light",
) -> Any:
    """Return an Altair chart of a timetable.

    The upper part shows the instants at which each query is answered. The lower part shows the
    cumulative sum of k over the runs, for this plan and others. The chart covers at least one cycle
    or its first 120 runs, and at most the 40 most frequent queries.

    names : names of the queries, in order; by default q1, q2, ...
    unit, size : the unit of the time axis, and its length in the units of `every` ("minute" and
        60,000,000 for microseconds)
    against : plans to compare with, by their names in `timetable`     theme : "light" or "dark"
    Raises ImportError without Altair, and ValueError unless `names` has one name per query.
    """
    alt, colours = import_altair(), theme_of(theme)
    queries = table.queries
    names = [f"q{i + 1}" for i in range(len(queries))] if names is None else list(names)
    if len(names) != len(queries):
        raise ValueError(f"`names` must have one name per query ({len(queries)}); got {len(names)}")
    frequent = sorted(range(len(queries)), key=lambda i: (queries[i][1], -queries[i][0], i))
    labels = {
        i: f"{names[i]}: k = {queries[i][0]}, every {number_text(queries[i][1] / size, 6)}"
        for i in frequent[:MAX_QUERIES]
    }
    runs = list(islice(table.after(0), MAX_RUNS))
    end = max(table.cycle, 2 * max(every for _, every in queries))
    end = min(end, runs[-1][0])
    runs = [run for run in runs if run[0] <= end]
    answers = [
        {"time": time / size, "query": labels[i], "run": _cost(table, group)}
        for time, group in runs
        for i in table.answers(group)
        if i in labels
    ]
    within = alt.Scale(domain=[0, end / size], nice=False)
    time = alt.X("time:Q", title=f"time ({unit}s)", scale=within)
    ks = sorted({_cost(table, group) for _, group in runs})
    blues = alt.SchemeParams("blues", extent=list(colours.steps))
    shades = alt.Scale(scheme=blues, reverse=theme == "dark")
    legend = alt.Legend(format="d", values=ks if len(ks) <= 6 else [ks[0], ks[-1]])
    dots = (
        new_chart(answers, alt.Step(22), RANKING_WIDTH)
        .mark_circle(size=90, opacity=1)
        .encode(
            x=time,
            y=alt.Y("query:N", title=f"query (every, in {unit}s)", sort=list(labels.values())),
            color=alt.Color("run:Q", title="k of the run", scale=shades, legend=legend),
            tooltip=["query:N", "time:Q", "run:Q"],
        )
    )
    plans = [table.plan, *(plan for plan in against if plan != table.plan)]
    shown = [PLAN_NAMES[plan] for plan in plans]
    inks = alt.Scale(domain=shown, range=list(colours.palette))
    lines = (
        new_chart(_costs(table, plans, end, size), 180, RANKING_WIDTH)
        .mark_line(interpolate="step-after", strokeWidth=2.5)
        .encode(
            x=time,
            y=alt.Y("cost:Q", title="cost so far (sum of k)"),
            color=alt.Color("plan:N", title="plan", scale=inks),
            strokeDash=alt.StrokeDash("plan:N", title="plan", scale=alt.Scale(domain=shown)),
        )
    )
    saving = float(timetable(queries, "none").cost) / table.cost_per_unit
    compared = "as much as with each query alone"
    if saving >= 1.005:
        compared = f"1/{number_text(saving, 3)} of the cost with each query alone"
    return decorate(
        alt.vconcat(dots, lines).resolve_scale(color="independent", strokeDash="independent"),
        f"When {len(queries)} queries are answered"
        if len(queries) > 1
        else "When a query is answered",
        f"{number_text(table.cost_per_unit * size)} (sum of k) per {unit}, {compared}",
        theme=theme,
    )


def _cost(table: Timetable, group: int) -> int:
    return max(table.queries[i][0] for i in table.answers(group))


def _costs(table: Timetable, plans: Sequence[str], end: int, size: int) -> list[dict[str, Any]]:
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
