"""Pictures of results: one distribution as bars, the results of a window as bands over time."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from sfumato.charts.results import bands_of, distribution_of, fields_of
from sfumato.charts.style import altair, styled, theme_of, time_axis

WIDTH, HEIGHT = 560, 260
MOST_BARS = 60  # values drawn one by one; more are put into as many bins
MOST_KEYS = 8


def distribution_chart(law: Any, *, title: str | None = None, theme: str = "light") -> Any:
    """An Altair chart of one distribution: how probable each value is.

    law : structs <prob, VALUE>, as `distribution=m` of `sf.window_aggregate` or `alternatives` give
    them. Above 60 values are put into 60 bins of equal width. What the probabilities lack to 1 is
    said: with that probability there is nothing. Raises TypeError for anything else.
    """
    alt, colours = altair(), theme_of(theme)
    found = distribution_of(law)
    if found is None:
        raise TypeError(f"`law` must be structs with a field `prob` and a value; got {law!r:.80}")
    values, prob, name = found
    exists = min(float(prob.sum()), 1.0)
    mean = float((values * prob).sum() / prob.sum())
    spread = float(np.sqrt(((values - mean) ** 2 * prob).sum() / prob.sum()))
    below, bars, gap = _bars(values, prob)
    y = alt.Y("prob:Q", title="probability", axis=alt.Axis(format="%"))
    drawn = (
        alt.Chart(alt.Data(values=bars), width=WIDTH, height=HEIGHT)
        .mark_rect(color=colours.main, opacity=0.85)
        .encode(
            x=alt.X(
                "low:Q", title=name,
                scale=alt.Scale(domain=[below - gap, bars[-1]["high"] + gap], nice=False),
            ),
            x2="high:Q",
            y=y,
            y2=alt.Y2Datum(0),
            tooltip=[alt.Tooltip("at:N", title=name), alt.Tooltip("prob:Q", format=".4f")],
        )
    )  # fmt: skip
    rule = (
        alt.Chart(alt.Data(values=[{"mean": mean}]))
        .mark_rule(color=colours.second, strokeWidth=2, strokeDash=[5, 3])
        .encode(x="mean:Q")
    )
    said = f"mean {mean:.4g} (dashed), standard deviation {spread:.3g}; {len(values):,} values"
    under = [said]
    if exists < 1.0 - 1e-9:
        under.append(f"there is one with probability {exists:.4g}; with {1 - exists:.2g} nothing")
    return styled(drawn + rule, title or f"How probable each {name} is", *under, theme=theme)


def _bars(values: np.ndarray, prob: np.ndarray) -> tuple[float, list[dict[str, Any]], float]:
    """(where the first begins, the bars, a margin): one a value, or one a bin of many."""
    if len(values) > MOST_BARS:
        edges = np.linspace(values[0], values[-1], MOST_BARS + 1)
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, MOST_BARS - 1)
        mass = np.bincount(place, prob, MOST_BARS)
        ends = zip(edges[:-1], edges[1:], mass, strict=True)
        bars = [
            {"low": float(a), "high": float(b), "prob": float(p), "at": f"{a:.5g} to {b:.5g}"}
            for a, b, p in ends
        ]
        return float(edges[0]), bars, float(edges[1] - edges[0])
    gaps = np.diff(values)
    half = 0.4 * float(gaps.min()) if len(gaps) else 0.4
    if len(gaps):  # values close together among others far apart would have bars of no width
        half = max(half, 0.002 * float(values[-1] - values[0]))
    bars = [
        {"low": float(v - half), "high": float(v + half), "prob": float(p), "at": f"{v:.6g}"}
        for v, p in zip(values, prob, strict=True)
    ]
    return float(values[0] - half), bars, half


def results_chart(
    columns: dict[str, list[Any]],
    result: str,
    *,
    x: str | None = None,
    key: str | None = None,
    title: str | None = None,
    theme: str = "light",
) -> Any:
    """An Altair chart of a column of results, one a window, over time.

    columns : of the rows, by name    result : that of the results: structs or distributions
    x : the column to draw them over; by default the end of `window`, else the number of the row
    key : one line for each of its values, of which there may be eight
    Shown are the mean, the ranges of probability 50% and 90% where distributions or quantiles are
    there, else one standard deviation on either side; and below, where some may not be, how
    probable it is that there is a result.
    """
    alt, colours = altair(), theme_of(theme)
    for argument, name in (("result", result), ("x", x), ("key", key)):
        if name is not None and name not in columns:
            raise ValueError(f"`{argument}` must be one of {', '.join(columns)}; got {name!r}")
    places, kind, x_title = _places(columns, x)
    keys = [""] * len(places) if key is None else [str(each) for each in columns[key]]
    if len(set(keys)) > MOST_KEYS:
        raise ValueError(
            f"`key` must have at most {MOST_KEYS} values, to tell the lines apart; `{key}` has "
            f"{len(set(keys)):,}: filter the rows"
        )
    rows = [
        {"at": at, "key": k, **bands_of(value)}
        for at, k, value in zip(places, keys, columns[result], strict=True)
    ]
    rows = [row for row in rows if row.get("mean") is not None]
    if not rows:
        raise ValueError(f"`{result}` has no result that could be drawn")
    along = alt.X(
        f"at:{kind}",
        title=x_title,
        axis=time_axis([row["at"] for row in rows]) if kind == "T" else alt.Axis(),
        scale=alt.Scale(nice=False) if kind == "T" else alt.Scale(zero=False, nice=False),
    )
    scale = alt.Scale(range=list(colours.palette))
    legend = alt.Legend(symbolOpacity=1)
    colour = (
        alt.Color("key:N", title=key, scale=scale, legend=legend)
        if key
        else alt.value(colours.main)
    )
    base = alt.Chart(alt.Data(values=rows), width=WIDTH, height=HEIGHT).encode(x=along)
    up = alt.Y("mean:Q", title=result, scale=alt.Scale(zero=False))
    bands = [("q05", "q95", 0.18), ("q25", "q75", 0.3), ("low", "high", 0.25)]
    layers = [
        base.mark_area(opacity=opacity).encode(
            y=alt.Y(f"{low}:Q", title=result, scale=alt.Scale(zero=False)),
            y2=f"{high}:Q",
            color=colour,
        )
        for low, high, opacity in bands
        if all(low in row and high in row for row in rows)
    ]
    line = base.mark_line(strokeWidth=2, point=len(rows) <= 60).encode(
        y=up, color=colour, tooltip=["at:N", "mean:Q", "existence:Q"]
    )
    drawn = alt.layer(*layers, line)
    if any((row.get("existence") or 0.0) < 1.0 - 1e-9 for row in rows):
        share = alt.Y(
            "existence:Q", title="there is one", axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        )  # fmt: skip
        # One of certain results alone would be a line at 100%, which says nothing.
        below = base.properties(height=70).mark_line(interpolate="step-after", strokeWidth=2)
        drawn = alt.vconcat(drawn, below.encode(y=share, color=colour), spacing=14)
    return styled(drawn, title or f"{result}, window by window", _said(rows), theme=theme)


def _said(rows: list[dict[str, Any]]) -> str:
    if all("q05" in row and "q95" in row for row in rows):
        inner = "50% and " if all("q25" in row and "q75" in row for row in rows) else ""
        return f"mean, and the ranges that hold {inner}90% of the possible worlds"
    if all("low" in row for row in rows):
        return "mean, and one standard deviation on either side"
    return "mean"


def _places(columns: dict[str, list[Any]], x: str | None) -> tuple[list[Any], str, str]:
    """(where each row stands, Altair's type of it, what the axis is called)."""
    rows = len(next(iter(columns.values())))
    name, cells = x, columns[x] if x is not None else None
    if cells is None and "window" in columns:
        ends = [fields_of(cell) for cell in columns["window"]]
        if all(end is not None and "end" in end for end in ends):
            name, cells = "end of the window", [end["end"] for end in ends if end is not None]
    if cells is None or name is None:
        return list(range(1, rows + 1)), "Q", "row"
    if all(isinstance(cell, datetime) for cell in cells):
        aware = any(cell.tzinfo is not None for cell in cells)
        return [_as_shown(cell) for cell in cells], "T", f"{name} (UTC)" if aware else name
    if all(isinstance(cell, int | float | np.number) for cell in cells):
        return [float(cell) for cell in cells], "Q", name
    return [str(cell) for cell in cells], "N", name


def _as_shown(time: datetime) -> str:
    """A time as its digits are to be read, UTC where it has a zone."""
    return (time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)).isoformat()
