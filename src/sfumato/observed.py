"""What the operators of a query counted in a micro-batch, as Spark reports it."""

from typing import Any


def observed(report: Any) -> dict[str, dict[str, Any]]:
    """Metric -> figure -> value, of one of a query's progress reports, as an object or a mapping.

    A client of Spark Connect that asks a query for its progress gets the values beside a schema,
    not by name.
    """
    with_name = hasattr(report, "observedMetrics")
    found = report.observedMetrics if with_name else report.get("observedMetrics")
    return {metric: _by_name(row) for metric, row in (found or {}).items()}


def _by_name(row: Any) -> dict[str, Any]:
    figures = dict(row.asDict() if hasattr(row, "asDict") else row)
    if figures.keys() == {"values", "schema"} and isinstance(figures["values"], list):
        names = [field["name"] for field in figures["schema"]["fields"]]
        return dict(zip(names, figures["values"], strict=True))
    return figures
