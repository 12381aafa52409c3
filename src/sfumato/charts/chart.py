"""`sf.chart`: choose and draw the chart that fits its argument."""

from typing import Any

from sfumato.charts.distribution import distribution_chart, distribution_of
from sfumato.charts.rankings import timetable_chart
from sfumato.charts.results import columns_of, results_chart
from sfumato.charts.streams import membership_chart, progress_chart
from sfumato.operators.ranking.timetable import Timetable
from sfumato.operators.windows.uncertain_window import UncertainWindow


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
    what : one of
        a distribution: structs <prob, VALUE>, as `alternatives` give them, or a result of
            `sf.window_aggregate` with `distribution=m`
        rows with a column of results: an Arrow, pandas or Polars table, or collected rows; results
            are structs (mean, stddev, quantiles), numbers or distributions
        an `UncertainWindow`: for each tuple held, the probabilities that it exists and is in the
        window a `Timetable`: when each query is answered, and the cost (`options`: as for
        `sfumato.charts.timetable_chart`) a running StreamingQuery: rows per second and the share of
        late rows, per micro-batch
    result, x, key : for rows: the column of results, the column of the horizontal axis (by default
        the end of `window`), and a column whose values get one line each
    title : replaces the default one
    theme : "light" or "dark", to match the surrounding page

    Returns
    -------
    The chart. A notebook displays it; `sfumato.charts.save(chart, "picture.png")` writes it as a
    page or an image. No Spark job is started.

    Raises
    ------
    ImportError without Altair (`pip install 'sfumato[charts]'`), TypeError for anything else.
    """
    plain: dict[str, Any] = {"title": title, "theme": theme}
    if isinstance(what, Timetable):
        return timetable_chart(what, theme=theme, **options)
    if options:
        raise TypeError(f"{', '.join(options)} belongs to the picture of a timetable")
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
            f"`result` must name the column of results to draw, one of {', '.join(columns)}: "
            'sf.chart(table, "total")'
        )
    return results_chart(columns, result, x=x, key=key, **plain)
