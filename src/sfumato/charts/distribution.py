"""Pictures of results: a distribution as a histogram, a window's results as bands over time."""

import math
from collections import Counter
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import numpy as np

from sfumato.charts.results import bands_of, distribution_of, fields_of
from sfumato.charts.style import altair, number_text, styled, theme_of, time_axis

WIDTH, HEIGHT = 560, 260
MOST_BARS = 60  # values drawn one by one; more are put into as many bins
MOST_APART = 8  # values that are narrow bars, however far they are from each other
MOST_KEYS = 8


def distribution_chart(law: Any, *, title: str | None = None, theme: str = "light") -> Any:
    """An Altair chart of one distribution: how probable each value is.

    law : structs <prob, VALUE>, as `alternatives` give them, or a struct with the field
        `distribution`, as `sf.window_aggregate` gives it

    The area of a bar is a probability. Up to eight values, and values at equal distances,
    have bars of one width, one for each value. Values at other distances, as merging leaves them,
    have a bar from one to the next, with half the probability of each. Above 60 values are put into
    60 bins of equal width.
    If the probabilities sum to less than 1, the subtitle says with which there is nothing.
    Raises TypeError for anything else.
    """
    alt, colours = altair(), theme_of(theme)
    found = distribution_of(law)
    if found is None:
        raise TypeError(f"`law` must be structs with a field `prob` and a value; got {law!r:.80}")
    values, prob, name = found
    exists = min(float(prob.sum()), 1.0)
    mean = float((values * prob).sum() / prob.sum())
    spread = float(np.sqrt(((values - mean) ** 2 * prob).sum() / prob.sum()))
    bars = _bars(values, prob)
    first, last = bars[0]["low"], bars[-1]["high"]
    gap = (0.02 if len(values) > 1 else 1.0) * (last - first)
    y = _heights(alt, bars, name)
    drawn = (
        alt.Chart(alt.Data(values=bars), width=WIDTH, height=HEIGHT)
        .mark_rect(color=colours.main, opacity=0.85)
        .encode(
            x=alt.X(
                "low:Q", title=name,
                scale=alt.Scale(domain=[first - gap, last + gap], nice=False),
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
    said = f"mean {number_text(mean)} (dashed), standard deviation {number_text(spread, 3)}; "
    said += f"{len(values):,} value{'' if len(values) == 1 else 's'}"
    under = [said]
    if exists < 1.0 - 1e-9:
        under.append(f"there is one with probability {exists:.4g}; with {1 - exists:.2g} nothing")
    return styled(drawn + rule, title or f"How probable each {name} is", *under, theme=theme)


def _bars(values: np.ndarray, prob: np.ndarray) -> list[dict[str, Any]]:
    """Return the bars of ascending values: from `low` to `high`, as high as `density`.

    The area of a bar is its probability.
    """
    if len(values) > MOST_BARS:
        edges = np.linspace(values[0], values[-1], MOST_BARS + 1)
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, MOST_BARS - 1)
        mass = np.bincount(place, prob, MOST_BARS)
        texts = [f"{number_text(a, 5)} to {number_text(b, 5)}" for a, b in pairwise(edges.tolist())]
        return _of_edges(edges[:-1], edges[1:], mass, texts)
    texts = [number_text(v, 6) for v in values.tolist()]
    gaps = np.diff(values)
    if not len(gaps):
        return _of_edges(values - 0.5, values + 0.5, prob, texts)
    equal, span = bool(np.ptp(gaps) <= 1e-6 * gaps.max()), float(gaps.sum())
    if len(values) <= MOST_APART:
        half = 0.5 * max(min(0.8 * float(gaps.min()), 0.08 * span), 0.004 * span)
        return _of_edges(values - half, values + half, prob, texts)
    if equal:
        half = 0.5 * float(gaps.mean())
        return _of_edges(values - half, values + half, prob, texts)
    # Where a value stands for several, these lie around it: half of them on either side.
    ends = np.minimum(0.5 * gaps[[0, -1]], np.median(gaps))
    edges = np.concatenate([[values[0] - ends[0]], values, [values[-1] + ends[1]]])
    mass = 0.5 * (np.append(prob, 0.0) + np.append(0.0, prob))
    texts = [f"{number_text(a, 5)} to {number_text(b, 5)}" for a, b in pairwise(edges.tolist())]
    return _of_edges(edges[:-1], edges[1:], mass, texts)


def _of_edges(
    low: np.ndarray, high: np.ndarray, mass: np.ndarray, texts: list[str]
) -> list[dict[str, Any]]:
    ends = zip(low.tolist(), high.tolist(), mass.tolist(), texts, strict=True)
    return [
        {"low": a, "high": b, "prob": p, "density": p / (b - a), "at": text}
        for a, b, p, text in ends
    ]


def _heights(alt: Any, bars: list[dict[str, Any]], name: str) -> Any:
    """Return the vertical axis: probabilities where all bars have one width, else densities."""
    widths = np.array([bar["high"] - bar["low"] for bar in bars])
    if np.ptp(widths) > 1e-6 * widths.max():
        title = f"probability per unit of {name}"
        return alt.Y("density:Q", title=title, axis=alt.Axis(tickCount=6))
    width = float(widths.mean())
    top = max(bar["prob"] for bar in bars)
    step = 10.0 ** math.floor(math.log10(top))
    step *= next(f for f in (0.2, 0.5, 1.0, 2.0) if top / (step * f) <= 6)
    ticks = [i * step / width for i in range(math.ceil(top / step * 0.999999) + 1)]
    decimals = max(0, -math.floor(math.log10(100 * step) + 1e-9))
    label = f"format(datum.value * {width!r}, '.{decimals}%')"
    axis = alt.Axis(values=ticks, labelExpr=label)
    scale = alt.Scale(domain=[0, ticks[-1]], nice=False)
    return alt.Y("density:Q", title="probability", axis=axis, scale=scale)


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
    rows = _parted(rows, _window_ends(columns) if x is None else None)
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
    base = alt.Chart(alt.Data(values=rows), width=WIDTH, height=HEIGHT).encode(
        x=along, detail="part:N"
    )
    up = alt.Y("mean:Q", title=result, scale=alt.Scale(zero=False))
    bands = [("q05", "q95", 0.18), ("q25", "q75", 0.3), ("low", "high", 0.25)]
    layers = [
        base.mark_area(opacity=opacity).encode(
            y=alt.Y(f"{low}:Q", title=result, scale=alt.Scale(zero=False)),
            y2=f"{high}:Q",
            color=colour,
        )
        for low, high, opacity in bands
        if _has_band(rows, low, high)
    ]
    parts = Counter(row["part"] for row in rows)
    alone = min(parts.values()) == 1  # a line of one point is not seen
    line = base.mark_line(strokeWidth=2, point=alone or len(rows) <= 60).encode(
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


def _has_band(rows: list[dict[str, Any]], low: str, high: str) -> bool:
    """Return whether all rows have a range, and some one that is more than a line."""
    known = all(row.get(low) is not None and row.get(high) is not None for row in rows)
    return known and any(row[high] > row[low] for row in rows)


def _parted(rows: list[dict[str, Any]], ends: list[Any] | None) -> list[dict[str, Any]]:
    """Return the rows with a result, with the number of the `part` of the line that each is in.

    A line ends where a row has no result, and where windows are missing: no band is drawn over
    what is not there.

    ends : of the windows of the rows, if they are drawn over these
    """
    last: dict[str, Any] = {}  # by key: the end of its last window
    steps = []
    for row, end in zip(rows, ends or (), strict=False):
        if row["key"] in last and end > last[row["key"]]:
            steps.append(end - last[row["key"]])
        last[row["key"]] = end
    longest = None if not steps else 1.5 * min(steps)
    found, part = [], dict[str, int]()
    last, numbers = {}, count()
    for i, row in enumerate(rows):
        key = row["key"]
        if row.get("mean") is None:
            part.pop(key, None)
            continue
        if longest is not None and ends is not None:
            if key in last and ends[i] - last[key] > longest:
                part.pop(key, None)
            last[key] = ends[i]
        if key not in part:
            part[key] = next(numbers)
        found.append({**row, "part": part[key]})
    return found


def _window_ends(columns: dict[str, list[Any]]) -> list[Any] | None:
    """Return the ends of the windows of the rows; None where they have no windows in order."""
    fields = [fields_of(cell) for cell in columns.get("window", [])]
    ends = [None if field is None else field.get("end") for field in fields]
    return None if not ends or any(end is None for end in ends) else ends


def _said(rows: list[dict[str, Any]]) -> str:
    if _has_band(rows, "q05", "q95"):
        inner = "50% and " if _has_band(rows, "q25", "q75") else ""
        return f"mean, and the ranges that hold {inner}90% of the possible worlds"
    if _has_band(rows, "low", "high"):
        return "mean, and one standard deviation on either side"
    if all(row.get("low") == row["mean"] == row.get("high") for row in rows):
        return "mean; the results are certain"
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
