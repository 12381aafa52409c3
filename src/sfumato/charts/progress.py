"""A picture of a running query: rows a second, and the share of late rows, micro-batch by batch."""

import re
from collections.abc import Mapping
from typing import Any

from sfumato.charts.style import altair, styled, theme_of, time_axis
from sfumato.observed import observed, operator_name

WIDTH, HEIGHT = 560, 150
COUNTED = re.compile(r"sfumato_(?!rows_out)\w+(?<!_answers)(?<!_input)(?<!_left)(?<!_right)")


def progress_chart(query: Any, *, title: str | None = None, theme: str = "light") -> Any:
    """An Altair chart of what a query has done lately: above, rows read a second in each of its
    latest micro-batches; below, which share of the rows each operator found late or invalid.

    query : a StreamingQuery, or its `recentProgress`
    Draw it again to see what came since. Raises ValueError for a query without a micro-batch yet.
    """
    alt, colours = altair(), theme_of(theme)
    reports = getattr(query, "recentProgress", query)
    rates, shares = [], []
    for report in reports:
        durations = _get(report, "durationMs") or {}
        if "addBatch" not in durations:
            continue  # it only looked for rows
        read, at = (
            _get(report, "numInputRows") or 0,
            str(_get(report, "timestamp")).removesuffix("Z"),
        )
        seconds = max(durations.get("triggerExecution", 0) / 1000, 1e-3)
        batch = _get(report, "batchId")
        rates.append({"at": at, "batch": batch, "rate": read / seconds, "rows": read})
        shares += [
            {"at": at, "batch": batch, "share": share, "what": what}
            for what, share in _shares(observed(report))
        ]
    if not rates:
        raise ValueError("the query has finished no micro-batch yet: there is nothing to draw")
    ends = [rates[0]["at"], rates[-1]["at"]]
    axis = time_axis(ends)
    scale = alt.Scale(domain=ends) if len(rates) > 1 else alt.Scale()
    along = alt.X("at:T", title="time (UTC)", axis=axis, scale=scale)
    above = (
        alt.Chart(alt.Data(values=rates), width=WIDTH, height=HEIGHT)
        .mark_line(color=colours.main, strokeWidth=2, point=alt.OverlayMarkDef(color=colours.main))
        .encode(
            x=along,
            y=alt.Y("rate:Q", title="rows per second"),
            tooltip=["batch:Q", "rows:Q", alt.Tooltip("rate:Q", format=",.0f")],
        )
    )
    drawn = above
    if shares:
        inks = alt.Scale(range=list(colours.palette))
        below = (
            alt.Chart(alt.Data(values=shares), width=WIDTH, height=HEIGHT)
            .mark_line(strokeWidth=2, point=True)
            .encode(
                x=along,
                y=alt.Y(
                    "share:Q", title="share of the rows", axis=alt.Axis(format="%", tickCount=5)
                ),
                color=alt.Color("what:N", title=None, scale=inks),
                tooltip=["batch:Q", "what:N", alt.Tooltip("share:Q", format=".3%")],
            )
        )
        drawn = alt.vconcat(above, below, spacing=14).resolve_scale(color="independent")
    total = sum(rate["rows"] for rate in rates)
    about = f"the latest {len(rates):,} micro-batches, {total:,} rows read"
    name = getattr(query, "name", None)
    heading = title or (f"Query {name}" if name else "What the query does")
    return styled(drawn, heading, about, theme=theme)


def _shares(figures: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, float]]:
    """("late in reorder_1", share of its rows) of each operator that counts it."""
    found = []
    for metric, counts in figures.items():
        if not COUNTED.fullmatch(metric):
            continue
        rows = counts.get("rows") or 0
        for counter in ("late", "invalid"):
            some = counts.get(counter)
            if rows and some is not None and (some or counter == "late"):
                found.append((f"{counter} in {operator_name(metric)}", some / rows))
    return found


def _get(report: Any, name: str) -> Any:
    return report.get(name) if isinstance(report, Mapping) else getattr(report, name)
