"""What the operators of a query counted in a micro-batch, as Spark reports it."""

import re
from typing import Any

PREFIX = "sfumato_"
SIDE = re.compile(r"_(left|right|input)$")  # metrics of what goes into an operator
KINDS = "reorder|join|self_join|extents|window|top_k|impute|earlier_values|where"
IN_STEP = re.compile(rf"__in_({KINDS})_\w+$")  # of one that runs in one step with a later one


def observed(report: Any) -> dict[str, dict[str, Any]]:
    """Metric -> figure -> value, of one of a query's progress reports, as an object or a mapping.

    A client of Spark Connect that asks a query for its progress gets the values beside a schema,
    not by name.
    """
    with_name = hasattr(report, "observedMetrics")
    found = report.observedMetrics if with_name else report.get("observedMetrics")
    return {metric: _by_name(row) for metric, row in (found or {}).items()}


def operator_name(metric: str) -> str:
    """Return the name of an observed metric's operator: `reorder_intake`."""
    return IN_STEP.sub("", SIDE.sub("", metric.removeprefix(PREFIX)))


def _by_name(row: Any) -> dict[str, Any]:
    figures = dict(row.asDict() if hasattr(row, "asDict") else row)
    if figures.keys() == {"values", "schema"} and isinstance(figures["values"], list):
        names = [field["name"] for field in figures["schema"]["fields"]]
        return dict(zip(names, figures["values"], strict=True))
    return figures
