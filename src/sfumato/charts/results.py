"""Chart of window results over time, with probability bands."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import numpy as np

from sfumato.charts.distribution import distribution_of, fields_of
from sfumato.charts.style import altair, chart_of, styled, theme_of, time_axis

BAND_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # quantiles that bound the bands
QUANTILE = re.compile(r"q(\d\d+)")
MAX_KEYS = 8


def results_chart(
    columns: dict[str, list[Any]],
    result: str,
    *,
    x: str | None = None,
    key: str | None = None,
    title: str | None = None,
    theme: str = "light",
) -> Any:
    """Return an Altair chart of a column of results, one per window, over time.

    columns : the rows' columns by name     result : the column of results: structs or distributions
    x : the column of the horizontal axis; by default the end of `window`, else the row number
    key : a column with at most eight values, each drawn as one line

    Shows the mean, and the 50% and 90% probability ranges if there are distributions or quantiles,
    else one standard deviation on either side. If some results may not exist, a second chart below
    shows the probability of existence.
    """
    alt, colours = altair(), theme_of(theme)
    for argument, name in (("result", result), ("x", x), ("key", key)):
        if name is not None and name not in columns:
            raise ValueError(f"`{argument}` must be one of {', '.join(columns)}; got {name!r}")
    places, kind, x_title = _places(columns, x)
    keys = [""] * len(places) if key is None else [str(each) for each in columns[key]]
    if len(set(keys)) > MAX_KEYS:
        raise ValueError(
            f"`key` must have at most {MAX_KEYS} values, to tell the lines apart; `{key}` has "
            f"{len(set(keys)):,}: filter the rows"
        )
    rows = [
        {"at": at, "key": k, **bands_of(value)}
        for at, k, value in zip(places, keys, columns[result], strict=True)
    ]
    rows = _with_parts(rows, _window_ends(columns) if x is None else None)
    if not rows:
        raise ValueError(f"`{result}` has no result that could be drawn")
    is_time = kind == "T"
    along = alt.X(
        f"at:{kind}",
        title=x_title,
        axis=time_axis([row["at"] for row in rows]) if is_time else alt.Axis(),
        scale=alt.Scale(nice=False) if is_time else alt.Scale(zero=False, nice=False),
    )
    scale, legend = alt.Scale(range=list(colours.palette)), alt.Legend(symbolOpacity=1)
    coloured = alt.Color("key:N", title=key, scale=scale, legend=legend)
    colour = coloured if key else alt.value(colours.main)
    base = chart_of(rows).encode(x=along, detail="part:N")

    def up(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=result, scale=alt.Scale(zero=False))

    bands = [("q05", "q95", 0.18), ("q25", "q75", 0.3), ("low", "high", 0.25)]
    layers = [
        base.mark_area(opacity=opacity).encode(y=up(low), y2=f"{high}:Q", color=colour)
        for low, high, opacity in bands
        if _has_band(rows, low, high)
    ]
    parts = Counter(row["part"] for row in rows)
    alone = min(parts.values()) == 1  # a line of one point cannot be seen
    line = base.mark_line(strokeWidth=2, point=alone or len(rows) <= 60).encode(
        y=up("mean"), color=colour, tooltip=["at:N", "mean:Q", "existence:Q"]
    )
    drawn = alt.layer(*layers, line)
    if any((row.get("existence") or 0.0) < 1.0 - 1e-9 for row in rows):
        unit, percent = alt.Scale(domain=[0, 1]), alt.Axis(format="%")
        share = alt.Y("existence:Q", title="there is one", axis=percent, scale=unit)
        # Without this condition, the chart of certain results would be a line at 100%.
        below = base.properties(height=70).mark_line(interpolate="step-after", strokeWidth=2)
        drawn = alt.vconcat(drawn, below.encode(y=share, color=colour), spacing=14)
    return styled(drawn, title or f"{result}, window by window", _subtitle(rows), theme=theme)


def columns_of(table: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a pandas, Polars or Arrow table or a list of rows, else None."""
    if type(table).__module__.startswith("pyspark.sql") and hasattr(table, "schema"):
        raise TypeError("a picture is of rows that are here: give df.toArrow() or df.collect()")
    if hasattr(table, "to_pydict"):
        return dict(table.to_pydict())
    if hasattr(table, "__arrow_c_stream__"):
        import pyarrow as pa

        return dict(pa.table(table).to_pydict())
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        return dict(table.to_dict("list"))
    if isinstance(table, Sequence) and table and all(fields_of(row) is not None for row in table):
        rows = [fields_of(row) or {} for row in table]
        return {name: [row.get(name) for row in rows] for name in rows[0]}
    return None


def bands_of(value: Any) -> dict[str, float | None]:
    """Return the values drawn for one result: the known quantiles, mean and existence."""
    value = value.as_py() if hasattr(value, "as_py") else value
    if value is None:
        return {}
    if isinstance(value, int | float | np.number):
        number = float(value)
        return {"mean": number, "low": number, "high": number, "existence": 1.0}
    found = distribution_of(value)
    if found is not None:
        values, prob, _ = found
        steps = np.cumsum(prob)
        places = [int(np.searchsorted(steps, q * steps[-1] - 1e-12)) for q in BAND_SHARES]
        names = [f"q{round(100 * q):02d}" for q in BAND_SHARES]
        quantiles = {n: float(values[p]) for n, p in zip(names, places, strict=True)}
        mean, exists = float((values * prob).sum() / prob.sum()), min(float(prob.sum()), 1.0)
        return {**quantiles, "mean": mean, "existence": exists}
    fields = fields_of(value)
    if fields is None or "mean" not in fields:
        raise TypeError(
            "a result is a number, a struct<mean, stddev, existence, ...> or a distribution; got "
            f"{value!r:.80}"
        )
    shown = {name: fields[name] for name in fields if QUANTILE.fullmatch(name)}
    mean, spread = fields["mean"], fields.get("stddev")
    if not shown and mean is not None and spread is not None:
        shown = {"low": mean - spread, "high": mean + spread}
    return {"mean": mean, "existence": fields.get("existence", 1.0), **shown}


def _has_band(rows: list[dict[str, Any]], low: str, high: str) -> bool:
    """Return whether all rows have this range, and some range has a positive width."""
    known = all(row.get(low) is not None and row.get(high) is not None for row in rows)
    return known and any(row[high] > row[low] for row in rows)


def _with_parts(rows: list[dict[str, Any]], ends: list[Any] | None) -> list[dict[str, Any]]:
    """Return the rows that have a result, each with the number of its line segment (`part`)."""
    last: dict[str, Any] = {}  # key -> end of its last window
    steps = []
    for row, end in zip(rows, ends or (), strict=False):
        if row["key"] in last and end > last[row["key"]]:
            steps.append(end - last[row["key"]])
        last[row["key"]] = end
    longest = 1.5 * min(steps) if steps else None
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
    """Return the window ends of the rows; None if some row has no window."""
    fields = [fields_of(cell) for cell in columns.get("window", [])]
    ends = [None if field is None else field.get("end") for field in fields]
    return None if not ends or any(end is None for end in ends) else ends


def _subtitle(rows: list[dict[str, Any]]) -> str:
    if _has_band(rows, "q05", "q95"):
        inner = "50% and " if _has_band(rows, "q25", "q75") else ""
        return f"mean, and the ranges that hold {inner}90% of the possible worlds"
    if _has_band(rows, "low", "high"):
        return "mean, and one standard deviation on either side"
    if all(row.get("low") == row["mean"] == row.get("high") for row in rows):
        return "mean; the results are certain"
    return "mean"


def _places(columns: dict[str, list[Any]], x: str | None) -> tuple[list[Any], str, str]:
    """Return the rows' positions on the axis, their Altair type, and the axis title."""
    name, cells = x, None if x is None else columns[x]
    if cells is None and (ends := _window_ends(columns)) is not None:
        name, cells = "end of the window", ends
    if cells is None or name is None:
        return list(range(1, len(next(iter(columns.values()))) + 1)), "Q", "row"
    if all(isinstance(cell, datetime) for cell in cells):
        aware = any(cell.tzinfo is not None for cell in cells)
        return [_as_shown(cell) for cell in cells], "T", f"{name} (UTC)" if aware else name
    if all(isinstance(cell, int | float | np.number) for cell in cells):
        return [float(cell) for cell in cells], "Q", name
    return [str(cell) for cell in cells], "N", name


def _as_shown(time: datetime) -> str:
    """Return a time as displayed: in UTC if it has a zone."""
    return (time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)).isoformat()
