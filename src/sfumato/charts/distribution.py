"""Chart of one distribution: a histogram whose areas are probabilities."""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.charts.style import altair, chart_of, number_text, styled, theme_of

MAX_BARS = 60  # values drawn one by one; more values are put into this many bins
MAX_NARROW_BARS = 8  # values drawn as narrow bars, however far apart they are


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dict, Spark row or Arrow struct scalar; None for other types."""
    value = value.as_py() if hasattr(value, "as_py") else value
    value = value.asDict() if hasattr(value, "asDict") else value
    return dict(value) if isinstance(value, Mapping) else None


def distribution_of(value: Any) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Return (values ascending, probabilities, attribute name); None for other types."""
    value = value.as_py() if hasattr(value, "as_py") else value
    value = (fields_of(value) or {}).get("distribution", value)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return None
    cells = [fields_of(one) for one in value]
    if not cells or any(cell is None or "prob" not in cell for cell in cells):
        return None
    names = [name for name in cells[0] or {} if name != "prob"]
    if len(names) != 1:
        raise ValueError(
            f"a picture is of one attribute; these alternatives have {', '.join(names)}: take one, "
            "as with transform(alternatives, a -> struct(a.prob, a.x))"
        )
    found = np.array([(cell[names[0]], cell["prob"]) for cell in cells if cell], np.float64)
    values, places = np.unique(found[:, 0], return_inverse=True)
    return values, np.bincount(places, found[:, 1], len(values)), names[0]


def distribution_chart(law: Any, *, title: str | None = None, theme: str = "light") -> Any:
    """Return an Altair chart of one distribution.

    law : structs <prob, VALUE>, as `alternatives` give them, or a struct with the field
        `distribution`, as `sf.window_aggregate` gives it

    The area of a bar is a probability. Up to eight values, and equally spaced values, get one bar
    each, all of equal width. Unequally spaced values (left by merging) get a bar between each pair
    of neighbours, with half the probability of each. More than 60 values are put into 60 bins of
    equal width. If the probabilities sum to less than 1, the subtitle gives the probability of no
    value. Raises TypeError for other types.
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
    along = alt.Scale(domain=[first - gap, last + gap], nice=False)
    drawn = (
        chart_of(bars)
        .mark_rect(color=colours.main, opacity=0.85)
        .encode(
            x=alt.X("low:Q", title=name, scale=along),
            x2="high:Q",
            y=_heights(bars, name),
            y2=alt.Y2Datum(0),
            tooltip=[alt.Tooltip("at:N", title=name), alt.Tooltip("prob:Q", format=".4f")],
        )
    )
    rule = (
        alt.Chart(alt.Data(values=[{"mean": mean}]))
        .mark_rule(color=colours.second, strokeWidth=2, strokeDash=[5, 3])
        .encode(x="mean:Q")
    )
    subtitle = [
        f"mean {number_text(mean)} (dashed), standard deviation {number_text(spread, 3)}; "
        f"{len(values):,} value{'' if len(values) == 1 else 's'}"
    ]
    if exists < 1.0 - 1e-9:
        subtitle.append(f"a value with probability {exists:.4g}; none with {1 - exists:.2g}")
    return styled(drawn + rule, title or f"How probable each {name} is", *subtitle, theme=theme)


def _bars(values: np.ndarray, prob: np.ndarray) -> list[dict[str, Any]]:
    """Return the bars of ascending values, each with `low`, `high` and `density`."""
    texts = [number_text(v, 6) for v in values.tolist()]
    gaps = np.diff(values)
    if len(values) > MAX_BARS:
        edges = np.linspace(values[0], values[-1], MAX_BARS + 1)
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, MAX_BARS - 1)
        prob = np.bincount(place, prob, MAX_BARS)
    elif len(values) <= MAX_NARROW_BARS or np.ptp(gaps) <= 1e-6 * gaps.max():
        half, span = 0.5, float(gaps.sum())
        if len(values) > MAX_NARROW_BARS:
            half = 0.5 * float(gaps.mean())
        elif len(gaps):
            half = 0.5 * max(min(0.8 * float(gaps.min()), 0.08 * span), 0.004 * span)
        return _boxes(values - half, values + half, prob, texts)
    else:
        # A value that stands for several lies in their middle: half of them are on either side.
        ends = np.minimum(0.5 * gaps[[0, -1]], np.median(gaps))
        edges = np.concatenate([[values[0] - ends[0]], values, [values[-1] + ends[1]]])
        prob = 0.5 * (np.append(prob, 0.0) + np.append(0.0, prob))
    texts = [f"{number_text(a, 5)} to {number_text(b, 5)}" for a, b in pairwise(edges.tolist())]
    return _boxes(edges[:-1], edges[1:], prob, texts)


def _boxes(
    low: np.ndarray, high: np.ndarray, mass: np.ndarray, texts: list[str]
) -> list[dict[str, Any]]:
    ends = zip(low.tolist(), high.tolist(), mass.tolist(), texts, strict=True)
    return [
        {"low": a, "high": b, "prob": p, "density": p / (b - a), "at": text}
        for a, b, p, text in ends
    ]


def _heights(bars: list[dict[str, Any]], name: str) -> Any:
    """Return the vertical axis: probabilities if all bars have equal width, else densities."""
    alt = altair()
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
