"""What all charts share: palette, sizes, lines and points with intervals, and saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from sfumato.charts.save import KINDS
from sfumato.charts.save import save as write
from sfumato.charts.style import PALETTE as COLOURS

PALETTE = list(COLOURS)
WIDTH, HEIGHT = 420, 280
MOST_TICKS = 6


class Titles(NamedTuple):
    """What stands at the axes, with units, and above the legend."""

    x: str
    y: str
    series: str


def lines(
    rows: pd.DataFrame,
    x: str,
    y: str,
    series: str,
    titles: Titles,
    *,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
    interval: tuple[str, str] | None = None,
    order: list[str] | None = None,
) -> Any:
    """A line with points for each value of the column `series`, told apart by colour and shape.

    `interval` names the columns of a 95% interval's ends, drawn as bars. On a logarithmic axis
    values of zero or below cannot be shown: leave them out before. `order`: of the series, which
    then keep their colours where some are not among the rows.
    """
    axis = alt.X(f"{x}:Q", title=titles.x, scale=_scale(log_x), axis=_ticks(rows[x], log_x))
    base = alt.Chart(rows).encode(x=axis, color=_colours(series, titles, order))
    up = alt.Y(f"{y}:Q", title=titles.y, scale=_scale(log_y))
    shape = alt.Shape(f"{series}:N", legend=None)
    points = base.mark_point(filled=True, size=45, opacity=1).encode(y=up, shape=shape)
    return _framed([base.mark_line().encode(y=up), points, *_bars(base, interval)], title)


def dots(
    rows: pd.DataFrame,
    x: str,
    y: str,
    series: str,
    titles: Titles,
    *,
    title: str,
    log_y: bool = False,
    interval: tuple[str, str] | None = None,
) -> Any:
    """Points over named things on the x axis, told apart by colour and shape; else as `lines`."""
    angle = -45 if rows[x].nunique() > 8 else 0
    # In one legend with the colours, which layers would draw as two.
    shape = alt.Shape(f"{series}:N", title=titles.series)
    if interval is not None:
        shape = alt.Shape(f"{series}:N", legend=None)
    axis = alt.X(f"{x}:N", title=titles.x, sort=None, axis=alt.Axis(labelAngle=angle))
    base = alt.Chart(rows).encode(x=axis, color=_colours(series, titles))
    up = alt.Y(f"{y}:Q", title=titles.y, scale=_scale(log_y))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(y=up, shape=shape)
    return _framed([points, *_bars(base, interval)], title)


def microseconds(rows: pd.DataFrame, seconds: str) -> pd.DataFrame:
    """A column of seconds and its 95% interval once more as `us`, `low` and `high`."""
    named = {"us": seconds, "low": "low_seconds", "high": "high_seconds"}
    return rows.assign(**{name: rows[of] * 1e6 for name, of in named.items()})


def save(chart: Any, folder: Path, name: str) -> None:
    """Write NAME.html, which opens without a network, NAME.svg and NAME.png into the folder."""
    for kind in KINDS:
        write(chart, folder / f"{name}{kind}")


def _colours(series: str, titles: Titles, order: list[str] | None = None) -> alt.Color:
    scale = alt.Scale(range=PALETTE) if order is None else alt.Scale(domain=order, range=PALETTE)
    legend = alt.Legend(labelLimit=320)
    return alt.Color(f"{series}:N", title=titles.series, scale=scale, legend=legend)


def _bars(base: Any, interval: tuple[str, str] | None) -> list[Any]:
    if interval is None:
        return []
    low, high = interval
    return [base.mark_rule().encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q"))]


def _framed(layers: list[Any], title: str) -> Any:
    return alt.layer(*layers).properties(title=title, width=WIDTH, height=HEIGHT)


def _ticks(values: pd.Series, log: bool) -> alt.Axis:
    """At the values measured, where these are few."""
    known = sorted(values.unique().tolist())
    if log or len(known) > MOST_TICKS:
        return alt.Axis()
    # A format alone would be given as many digits as the ticks' steps need, were they equal.
    told = "format(datum.value, ',~r')"
    return alt.Axis(values=known, labelExpr=told, labelOverlap="greedy", labelSeparation=6)


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log") if log else alt.Scale(zero=False)
