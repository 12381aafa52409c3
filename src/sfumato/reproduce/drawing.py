"""What all charts share: palette, sizes, lines with intervals, and saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from sfumato.charts.save import KINDS
from sfumato.charts.save import save as write
from sfumato.charts.style import PALETTE as COLOURS

PALETTE = list(COLOURS)
WIDTH, HEIGHT = 420, 280


def lines(
    rows: pd.DataFrame,
    x: str,
    y: str,
    series: str,
    *,
    x_title: str,
    y_title: str,
    series_title: str,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
    interval: tuple[str, str] | None = None,
) -> Any:
    """A line with points for each value of the column `series`, told apart by colour and shape.

    Axis titles carry the units. `interval` names the columns of a 95% interval's ends, drawn as
    bars. On a logarithmic axis values of zero or below cannot be shown: leave them out before.
    """
    base = alt.Chart(rows).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=_scale(log_x)),
        color=alt.Color(f"{series}:N", title=series_title, scale=alt.Scale(range=PALETTE)),
    )
    y_axis = alt.Y(f"{y}:Q", title=y_title, scale=_scale(log_y))
    layers = [
        base.mark_line().encode(y=y_axis),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            y=y_axis, shape=alt.Shape(f"{series}:N", legend=None)
        ),
    ]
    if interval is not None:
        low, high = interval
        layers.append(base.mark_rule().encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q")))
    return alt.layer(*layers).properties(title=title, width=WIDTH, height=HEIGHT)


def dots(
    rows: pd.DataFrame,
    x: str,
    y: str,
    series: str,
    *,
    x_title: str,
    y_title: str,
    series_title: str,
    title: str,
    log_y: bool = False,
    interval: tuple[str, str] | None = None,
) -> Any:
    """Points over named things on the x axis, told apart by colour and shape; else as `lines`."""
    angle = -45 if rows[x].nunique() > 8 else 0
    shapes = alt.Shape(f"{series}:N", title=series_title)  # in one legend with the colours,
    if interval is not None:
        shapes = alt.Shape(f"{series}:N", legend=None)  # which layers would draw as two
    base = alt.Chart(rows).encode(
        x=alt.X(f"{x}:N", title=x_title, sort=None, axis=alt.Axis(labelAngle=angle)),
        color=alt.Color(f"{series}:N", title=series_title, scale=alt.Scale(range=PALETTE)),
    )
    layers = [
        base.mark_point(filled=True, size=70, opacity=1).encode(
            y=alt.Y(f"{y}:Q", title=y_title, scale=_scale(log_y)),
            shape=shapes,
        )
    ]
    if interval is not None:
        low, high = interval
        layers.append(base.mark_rule().encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q")))
    return alt.layer(*layers).properties(title=title, width=WIDTH, height=HEIGHT)


def save(chart: Any, folder: Path, name: str) -> None:
    """Write NAME.html, which opens without a network, NAME.svg and NAME.png into the folder."""
    for kind in KINDS:
        write(chart, folder / f"{name}{kind}")


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log") if log else alt.Scale(zero=False)
