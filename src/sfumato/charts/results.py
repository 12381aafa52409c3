"""Charts of distributions and window results, and `chart`, which chooses the kind of chart."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.charts.rankings import timetable_chart
from sfumato.charts.streams import membership_chart, progress_chart
from sfumato.charts.style import (
    decorate,
    import_altair,
    new_chart,
    number_text,
    theme_of,
    time_axis,
)
from sfumato.operators.ranking.timetable import Timetable
from sfumato.operators.windows.uncertain_window import UncertainWindow

MAX_BARS = 60  # values drawn one by one; more values are put into this many bins
MAX_NARROW_BARS = 8  # values drawn as narrow bars at any distance


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
            f"a chart shows one attribute, but these alternatives have {', '.join(names)}: select "
            "one, for example with transform(alternatives, a -> struct(a.prob, a.x))"
        )
    found = np.array([(cell[names[0]], cell["prob"]) for cell in cells if cell], np.float64)
    values, places = np.unique(found[:, 0], return_inverse=True)
    return values, np.bincount(places, found[:, 1], len(values)), names[0]


def distribution_chart(distribution: Any, *, title: str | None = None, theme: str = "light") -> Any:
    """Return a chart of one distribution, in which the area of a bar is a probability.

    Raises TypeError unless `distribution` is a list of structs <prob, VALUE>, as in `alternatives`,
    or a struct with such a field `distribution`.
    """
    alt, colours = import_altair(), theme_of(theme)
    found = distribution_of(distribution)
    if found is None:
        raise TypeError(
            "`distribution` must be a list of structs with a field `prob` and a value; got "
            f"{distribution!r:.80}"
        )
    values, prob, name = found
    exists = min(float(prob.sum()), 1.0)
    mean = float((values * prob).sum() / prob.sum())
    spread = float(np.sqrt(((values - mean) ** 2 * prob).sum() / prob.sum()))
    bars = _bars(values, prob)
    first, last = bars[0]["low"], bars[-1]["high"]
    gap = (0.02 if len(values) > 1 else 1.0) * (last - first)
    along = alt.Scale(domain=[first - gap, last + gap], nice=False)
    drawn = (
        new_chart(bars)
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
        subtitle.append(f"a value with probability {exists:.4g}; no value with {1 - exists:.2g}")
    return decorate(drawn + rule, title or f"How probable each {name} is", *subtitle, theme=theme)


def _bars(values: np.ndarray, prob: np.ndarray) -> list[dict[str, Any]]:
    """Return the bars of ascending values, each with `low`, `high` and `density`.

    Up to eight values, and equally spaced values, get one bar each. Unequally spaced values (left
    by merging) get a bar between each pair of neighbours, with half the probability of each.
    """
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
        # A value merged from several lies in their middle: half their probability is on each side.
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
    """Return the vertical axis: probabilities if the bars have equal width, otherwise densities."""
    alt = import_altair()
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


BAND_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # quantiles that bound the bands
QUANTILE_FIELD = re.compile(r"q(\d\d+)")
MAX_KEYS = 8
# pandas reads Spark's nested timestamps as integers in nanoseconds, above this number after 1973.
LEAST_NANOSECONDS = 10**17


def results_chart(
    columns: dict[str, list[Any]],
    result: str,
    *,
    x: str | None = None,
    key: str | None = None,
    title: str | None = None,
    theme: str = "light",
) -> Any:
    """Return a chart of a result column, one result per window, over time; see `chart`.

    It shows the mean, with the 50% and 90% probability ranges if there are distributions or
    quantiles, otherwise with one standard deviation on either side. If some results may not exist,
    a second chart below shows the probability of existence.
    """
    alt, colours = import_altair(), theme_of(theme)
    for argument, name in (("result", result), ("x", x), ("key", key)):
        if name is not None and name not in columns:
            raise ValueError(f"`{argument}` must be one of {', '.join(columns)}; got {name!r}")
    places, kind, x_title = _places(columns, x)
    if key is None and (needed := _telling_column(columns, result, places)) is not None:
        raise ValueError(
            f"`key` must be given, because several rows have the same {x_title}: write "
            f'key="{needed}" for one line per value, or filter the rows of one {needed}'
        )
    keys = [""] * len(places) if key is None else [str(each) for each in columns[key]]
    if len(set(keys)) > MAX_KEYS:
        raise ValueError(
            f"`key` must have at most {MAX_KEYS} values, so that the lines can be told apart; "
            f"`{key}` has {len(set(keys)):,}: filter the rows"
        )
    rows = [
        {"at": at, "key": k, **bands_of(value)}
        for at, k, value in zip(places, keys, columns[result], strict=True)
    ]
    rows = _with_parts(rows, _window_ends(columns) if x is None else None)
    if not rows:
        raise ValueError(f"`{result}` has no values to draw")
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
    base = new_chart(rows).encode(x=along, detail="part:N")

    def up(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=result, scale=alt.Scale(zero=False))

    bands = [("q05", "q95", 0.18), ("q25", "q75", 0.3), ("low", "high", 0.25)]
    layers = [
        base.mark_area(opacity=opacity).encode(y=up(low), y2=f"{high}:Q", color=colour)
        for low, high, opacity in bands
        if _has_band(rows, low, high)
    ]
    parts = Counter(row["part"] for row in rows)
    alone = min(parts.values()) == 1  # a line of one point would be invisible
    line = base.mark_line(strokeWidth=2, point=alone or len(rows) <= 60).encode(
        y=up("mean"), color=colour, tooltip=["at:N", "mean:Q", "existence:Q"]
    )
    drawn = alt.layer(*layers, line)
    if any((row.get("existence") or 0.0) < 1.0 - 1e-9 for row in rows):
        unit, percent = alt.Scale(domain=[0, 1]), alt.Axis(format="%")
        share = alt.Y("existence:Q", title="a value exists", axis=percent, scale=unit)
        below = base.properties(height=70).mark_line(interpolate="step-after", strokeWidth=2)
        drawn = alt.vconcat(drawn, below.encode(y=share, color=colour), spacing=14)
    return decorate(drawn, title or f"{result}, window by window", _subtitle(rows), theme=theme)


def columns_of(table: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a pandas, Polars or Arrow table or a list of rows, or None."""
    if type(table).__module__.startswith("pyspark.sql") and hasattr(table, "schema"):
        raise TypeError("a chart needs rows in memory: pass df.toArrow() or df.collect()")
    if hasattr(table, "__arrow_c_stream__"):
        return dict(pa.table(table).to_pydict())
    rows = [fields_of(row) for row in table] if isinstance(table, Sequence) else []
    known = [row for row in rows if row is not None]
    if not rows or len(known) < len(rows):
        return None
    return {name: [row.get(name) for row in known] for name in known[0]}


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
            "a result must be a number, a struct<mean, stddev, existence, ...> or a distribution; "
            f"got {value!r:.80}"
        )
    shown = {name: fields[name] for name in fields if QUANTILE_FIELD.fullmatch(name)}
    mean, spread = fields["mean"], fields.get("stddev")
    if not shown and mean is not None and spread is not None:
        shown = {"low": mean - spread, "high": mean + spread}
    return {"mean": mean, "existence": fields.get("existence", 1.0), **shown}


def _telling_column(columns: dict[str, list[Any]], result: str, places: list[Any]) -> str | None:
    """Return the first column of names or of few numbers whose values distinguish the rows at each
    place; None if there is none, or if the places differ."""
    if len(set(places)) == len(places):
        return None
    for name, cells in columns.items():
        if name == result or not all(isinstance(cell, str | int | None) for cell in cells):
            continue
        few = any(isinstance(cell, str) for cell in cells) or len(set(cells)) <= MAX_KEYS
        if few and len({*zip(places, cells, strict=True)}) == len(places):
            return name
    return None


def _has_band(rows: list[dict[str, Any]], low: str, high: str) -> bool:
    """Return whether all rows have this range, and some range has a positive width."""
    known = all(row.get(low) is not None and row.get(high) is not None for row in rows)
    return known and any(row[high] > row[low] for row in rows)


def _with_parts(rows: list[dict[str, Any]], ends: list[Any] | None) -> list[dict[str, Any]]:
    """Return the rows that have a result, each with the number of its line segment (`part`)."""
    last: dict[str, Any] = {}  # key -> end of its last window
    steps: list[Any] = [None] * len(rows)  # from the end of the key's window before
    for i, end in enumerate(ends or ()):
        key = rows[i]["key"]
        if key in last and end > last[key]:
            steps[i] = end - last[key]
        last[key] = end
    longest = 1.5 * min((step for step in steps if step is not None), default=math.inf)
    found, part, numbers = [], dict[str, int](), count()
    for row, step in zip(rows, steps, strict=True):
        key, exists = row["key"], row.get("mean") is not None
        if not exists or (step is not None and step > longest):
            part.pop(key, None)
        if exists:
            part[key] = part[key] if key in part else next(numbers)
            found.append({**row, "part": part[key]})
    return found


def _window_ends(columns: dict[str, list[Any]]) -> list[Any] | None:
    """Return the rows' window ends; None if a row has no window."""
    fields = [fields_of(cell) for cell in columns.get("window", [])]
    ends = [None if field is None else field.get("end") for field in fields]
    if not ends or any(end is None for end in ends):
        return None
    if all(isinstance(end, int | np.integer) and end >= LEAST_NANOSECONDS for end in ends):
        return np.array(ends, "M8[ns]").astype("M8[us]").tolist()
    return ends


def _subtitle(rows: list[dict[str, Any]]) -> str:
    if _has_band(rows, "q05", "q95"):
        inner = "50% and " if _has_band(rows, "q25", "q75") else ""
        return f"mean, and the ranges that hold {inner}90% of the possible worlds"
    if _has_band(rows, "low", "high"):
        return "mean, and one standard deviation on either side"
    if all(row.get("low") == row["mean"] == row.get("high") for row in rows):
        return "values without uncertainty"
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
        return [_display_time(cell) for cell in cells], "T", f"{name} (UTC)" if aware else name
    if all(isinstance(cell, int | float | np.number) for cell in cells):
        return [float(cell) for cell in cells], "Q", name
    return [str(cell) for cell in cells], "N", name


def _display_time(time: datetime) -> str:
    """Return a time as displayed: in UTC if it has a zone."""
    return (time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)).isoformat()


def chart(
    what: Any,
    result: str | None = None,
    *,
    x: str | None = None,
    key: str | None = None,
    title: str | None = None,
    theme: str = "light",
    **options: Any,
) -> Any:
    """Draw a result, a window, a timetable or a running query as an Altair chart.

    Parameters
    ----------
    what
        A distribution: alternatives, or a result of `sf.window_aggregate` with ``distribution=m``.
        Rows with a result column: an Arrow, pandas or Polars table, or collected rows.
        An `UncertainWindow`: for each held tuple, the probability that it exists and is inside.
        A `Timetable`: when each query is answered, and the cost.
        A running StreamingQuery: rows per second and the share of late rows, per micro-batch.
    result
        For rows: the result column, with numbers, structs or distributions. For structs the chart
        shows their `quantiles` as a band, or the mean ± stddev if there are none.
    x
        For rows: the column of the horizontal axis; None for the end of `window`.
    key
        For rows: a column whose values get one line each. Required if several rows are at the same
        place of the axis.
    title
        Title that replaces the default title.
    theme
        "light" or "dark", to match the surrounding page.
    options
        For a `Timetable`: `unit`, such as "minute", and `against`, the plans to compare with.

    Returns
    -------
    The chart. A notebook displays it; `sfumato.charts.save(chart, "picture.png")` writes it as a
    page or an image. No Spark job is started.

    Raises
    ------
    ImportError
        Without Altair (`pip install 'sfumato[charts]'`).
    TypeError
        For any other type of `what`.

    Notes
    -----
    Cost: the rows are in memory; a chart has one mark per row.

    Examples
    --------
        sf.chart(means.toArrow(), "celsius", key="sensor", title="Mean temperature")
    """
    plain: dict[str, Any] = {"title": title, "theme": theme}
    if isinstance(what, Timetable):
        return timetable_chart(what, theme=theme, **options)
    if options:
        raise TypeError(f"{', '.join(options)} is allowed only when a timetable is drawn")
    if isinstance(what, UncertainWindow):
        return membership_chart(what, **plain)
    if hasattr(what, "recentProgress"):
        return progress_chart(what, **plain)
    if result is None and distribution_of(what) is not None:
        return distribution_chart(what, **plain)
    columns = columns_of(what)
    if columns is None:
        raise TypeError(
            "`what` must be a distribution, a table of results, an UncertainWindow, a Timetable or "
            f"a running query; got {type(what).__name__}"
        )
    if result is None:
        raise TypeError(
            f"`result` must name the result column to draw, one of {', '.join(columns)}, as in "
            'sf.chart(table, "total")'
        )
    return results_chart(columns, result, x=x, key=key, **plain)
