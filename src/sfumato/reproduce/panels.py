"""Charts of several panels, and stacked bars."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from sfumato.reproduce.drawing import HEIGHT, PALETTE, WIDTH, Titles

PANEL_WIDTH, PANEL_HEIGHT = 270, 210  # of one chart among several


def side_by_side(charts: list[tuple[str, Any]], title: str, columns: int = 3) -> Any:
    """Charts made by `lines` or `bars`, smaller, each under its own heading, with one legend."""
    parts = [
        chart.properties(title=heading, width=PANEL_WIDTH, height=PANEL_HEIGHT)
        for heading, chart in charts
    ]
    return alt.concat(*parts, columns=columns).properties(title=title)


def bars(
    rows: pd.DataFrame,
    x: str,
    y: str,
    part: str,
    parts: list[str],
    titles: Titles,
) -> Any:
    """A bar for each value of x, stacked from the given values of the column `part`, first lowest.

    The legend lists them as they are stacked.
    """
    place = {name: i for i, name in enumerate(parts)}
    ordered = rows.assign(place=rows[part].map(place))
    top = round(float(rows.groupby(x)[y].sum().max()), 6)  # shares add up to 100.00000000000001
    colour = alt.Scale(domain=parts[::-1], range=PALETTE[: len(parts)][::-1])
    return (
        alt.Chart(ordered)
        .mark_bar()
        .encode(
            x=alt.X(f"{x}:O", title=titles.x, axis=alt.Axis(labelAngle=0)),
            y=alt.Y(f"{y}:Q", title=titles.y, scale=alt.Scale(domain=[0, top])),
            color=alt.Color(f"{part}:N", title=titles.series, scale=colour),
            order=alt.Order("place:Q"),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
