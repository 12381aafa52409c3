"""Charts of running queries (their micro-batches) and of uncertain count windows."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sfumato.charts.style import decorate, import_altair, new_chart, theme_of, time_axis
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.reports import late_of, metrics_of, parts_of


def progress_chart(query: Any, *, title: str | None = None, theme: str = "light") -> Any:
    """Return a chart of a query's rows per second, above its shares of late and invalid rows.

    query : a StreamingQuery, or its `recentProgress`
    Raises ValueError if the query has had no micro-batch yet.
    """
    alt, colours = import_altair(), theme_of(theme)
    rates, shares = [], []
    for report in getattr(query, "recentProgress", query):
        durations = _get(report, "durationMs") or {}
        if "addBatch" not in durations:
            continue  # no rows were read
        rows = _get(report, "numInputRows") or 0
        seconds = max(durations.get("triggerExecution", 0) / 1000, 1e-3)
        when = str(_get(report, "timestamp")).removesuffix("Z")
        place = {"at": when, "batch": _get(report, "batchId")}
        rates.append({**place, "rate": rows / seconds, "rows": rows})
        shares += [{**place, "share": share, "what": what} for what, share in _shares(report)]
    if not rates:
        raise ValueError("the query has not finished a micro-batch yet: there is nothing to draw")
    ends = [rates[0]["at"], rates[-1]["at"]]
    scale = alt.Scale(domain=ends) if len(rates) > 1 else alt.Scale()
    along = alt.X("at:T", title="time (UTC)", axis=time_axis(ends), scale=scale)
    drawn = (
        new_chart(rates, 150)
        .mark_line(color=colours.main, strokeWidth=2, point=alt.OverlayMarkDef(color=colours.main))
        .encode(
            x=along,
            y=alt.Y("rate:Q", title="rows per second"),
            tooltip=["batch:Q", "rows:Q", alt.Tooltip("rate:Q", format=",.0f")],
        )
    )
    if shares:
        percent = alt.Axis(format="%", tickCount=5)
        inks = alt.Scale(range=list(colours.palette))
        below = (
            new_chart(shares, 150)
            .mark_line(strokeWidth=2, point=True)
            .encode(
                x=along,
                y=alt.Y("share:Q", title="share of the rows", axis=percent),
                color=alt.Color("what:N", title=None, scale=inks),
                tooltip=["batch:Q", "what:N", alt.Tooltip("share:Q", format=".3%")],
            )
        )
        drawn = alt.vconcat(drawn, below, spacing=14).resolve_scale(color="independent")
    total = sum(rate["rows"] for rate in rates)
    name = getattr(query, "name", None)
    heading = title or (f"Query {name}" if name else "What the query does")
    about = f"the latest {len(rates):,} micro-batches, {total:,} rows read"
    return decorate(drawn, heading, about, theme=theme)


def _shares(report: Any) -> Iterator[tuple[str, float]]:
    """Yield ("late in reorder_1", share of its rows) for each operator with such a counter."""
    for part, counts in parts_of(metrics_of(report)).items():
        if part.side:
            continue
        late, rows = late_of(part.kind, counts)
        if rows and "late" in counts:
            yield f"late in {part.operator}", late / rows
        if counts.get("invalid"):
            yield f"invalid in {part.operator}", counts["invalid"] / counts["rows"]


def _get(report: Any, name: str) -> Any:
    return report.get(name) if isinstance(report, Mapping) else getattr(report, name)


def membership_chart(
    window: UncertainWindow, *, title: str | None = None, theme: str = "light"
) -> Any:
    """Return a chart of an uncertain count window. Raises ValueError for an empty window.

    The chart shows the probability that each tuple exists, and the probability T_j that tuple j, if
    it exists, is among the window's newest existing tuples.
    """
    alt, colours = import_altair(), theme_of(theme)
    if not window.held:
        raise ValueError("the window is still empty: there is nothing to draw")
    inside = np.asarray(window.in_window(window.indices))
    rows = [
        {"tuple": int(j), "exists": float(p), "inside": float(t), "both": float(p * t)}
        for j, p, t in zip(window.indices, window.existence, inside, strict=True)
    ]
    first, last = rows[0]["tuple"], rows[-1]["tuple"]
    along = alt.Scale(domain=[first - 0.5, last + 0.5], nice=False, zero=False)
    names = ["exists", "exists and is in the window"]
    inks = alt.Scale(domain=names, range=[colours.faint, colours.main])
    bars = [
        {"low": r["tuple"] - 0.42, "high": r["tuple"] + 0.42, "share": r[of], "what": name, **r}
        for name, of in zip(names, ("exists", "both"), strict=True)
        for r in rows
    ]
    whole = alt.Axis(tickMinStep=1, format="d")
    base = new_chart(bars, 240)
    drawn = base.mark_rect().encode(
        x=alt.X("low:Q", title="tuple of the stream, oldest left", scale=along, axis=whole),
        x2="high:Q",
        y=alt.Y("share:Q", title="probability", scale=alt.Scale(domain=[0, 1])),
        y2=alt.Y2Datum(0),
        color=alt.Color("what:N", title=None, scale=inks, legend=alt.Legend(orient="top")),
        opacity=alt.condition(f"datum.what == '{names[0]}'", alt.value(0.35), alt.value(0.9)),
        tooltip=["tuple:Q", "exists:Q", "inside:Q", "both:Q"],
    )
    line = base.mark_line(color=colours.second, strokeWidth=2).encode(
        x=alt.X("tuple:Q", scale=along), y=alt.Y("inside:Q")
    )
    certain = int(np.count_nonzero(inside >= 1.0 - 1e-12))
    about = (
        f"{len(rows):,} tuples are held, so that {window.rows:,} exist with probability "
        f"{window.config.confidence:g}; {certain:,} are certainly in the window if they exist"
    )
    under = (
        f"tuples {first:,} to {last:,}; line: probability of being in the window, given that the "
        "tuple exists"
    )
    return decorate(drawn + line, title or "Who is in the window", about, under, theme=theme)
