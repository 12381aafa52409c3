"""Shared drawing tools: palette, lines and points with intervals, bars, panels, and saving."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from sfumato.charts.style import PALETTE as COLOURS

PALETTE = list(COLOURS)
WIDTH, HEIGHT = 420, 280
MOST_TICKS = 6
PANEL_WIDTH, PANEL_HEIGHT = 270, 210  # size of one chart among several


class Titles(NamedTuple):
    """Titles of the axes, with units, and of the legend."""

    x: str
    y: str
    series: str


@dataclass(frozen=True)
class Lines:
    """A line with points for each value of the column `series`, distinguished by colour and shape.

    x, y, series : columns of the drawn rows
    named : x has names: points without lines
    log_x, log_y : logarithmic axes, on which values of zero or below cannot be shown
    microseconds : y is in seconds, and shown in microseconds
    interval : 95% intervals are drawn as bars, if the rows have columns `low` and `high` (or
        `low_seconds`, `Y_low` and so on)
    order : order of the series, which keep their colours even if some are not among the rows
    wanted : a value of y at which a dashed line is drawn
    """

    x: str
    y: str
    series: str
    titles: Titles
    named: bool = False
    log_x: bool = False
    log_y: bool = False
    microseconds: bool = False
    interval: bool = True
    order: list[str] | None = None
    wanted: float | None = None

    def __call__(self, rows: pd.DataFrame) -> Any:
        """Return the chart of some rows, without a title."""
        ends = ["low_seconds", "high_seconds"] if self.microseconds else ["low", "high"]
        if f"{self.y}_low" in rows:
            ends = [f"{self.y}_low", f"{self.y}_high"]
        if self.microseconds:
            rows = rows.assign(**{name: rows[name] * 1e6 for name in [self.y, *ends]})
        base = alt.Chart(rows).encode(x=self._axis(rows[self.x]), color=self._colours())
        up = alt.Y(f"{self.y}:Q", title=self.titles.y, scale=_scale(self.log_y))
        shape = alt.Shape(f"{self.series}:N", legend=None)
        points = base.mark_point(filled=True, size=70 if self.named else 45, opacity=1)
        layers = [] if self.named else [base.mark_line().encode(y=up)]
        if self.wanted is not None:
            rule = alt.Chart(rows).mark_rule(strokeDash=[4, 3])
            layers.insert(0, rule.encode(y=alt.datum(self.wanted)))
        layers.append(points.encode(y=up, shape=shape))
        if self.interval and ends[0] in rows:
            low, high = (f"{end}:Q" for end in ends)
            layers.append(base.mark_rule().encode(y=alt.Y(low), y2=alt.Y2(high)))
        return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)

    def _axis(self, values: pd.Series) -> alt.X:
        if self.named:
            turned = alt.Axis(labelAngle=-45 if values.nunique() > 8 else 0)
            return alt.X(f"{self.x}:N", title=self.titles.x, sort=None, axis=turned)
        ticks = _ticks(values, self.log_x)
        return alt.X(f"{self.x}:Q", title=self.titles.x, scale=_scale(self.log_x), axis=ticks)

    def _colours(self) -> alt.Color:
        scale = alt.Scale(range=PALETTE, domain=self.order or alt.Undefined)
        legend = alt.Legend(labelLimit=320)
        return alt.Color(f"{self.series}:N", title=self.titles.series, scale=scale, legend=legend)


def each(rows: pd.DataFrame, column: str, draw: Lines) -> list[tuple[str, Any]]:
    """Return a chart for each value of a column, with that value as its heading."""
    return [(str(value), draw(own)) for value, own in rows.groupby(column, sort=False)]


def side_by_side(charts: list[tuple[str, Any]], columns: int = 3) -> Any:
    """Combine smaller charts made by `Lines` or `bars`, each with a heading, with one legend."""
    parts = [
        chart.properties(title=heading, width=PANEL_WIDTH, height=PANEL_HEIGHT)
        for heading, chart in charts
    ]
    return alt.concat(*parts, columns=columns)


def bars(rows: pd.DataFrame, x: str, y: str, part: str, parts: list[str], titles: Titles) -> Any:
    """Draw a bar for each value of x, stacked from the values `parts` of the column `part`.

    The first part is lowest; the legend lists the parts in the stacked order.
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


def _ticks(values: pd.Series, log: bool) -> alt.Axis:
    """Place ticks at the measured values if there are few."""
    known = sorted(values.unique().tolist())
    if log or len(known) > MOST_TICKS:
        return alt.Axis()
    # With a format alone, labels would get the number of digits that equal steps between the ticks
    # would need.
    label = "format(datum.value, ',~r')"
    return alt.Axis(values=known, labelExpr=label, labelOverlap="greedy", labelSeparation=6)


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log") if log else alt.Scale(zero=False)
