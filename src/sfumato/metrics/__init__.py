"""Totals and state of running queries, from Spark's reports, for any display.

Public are `SessionFigures`, `FiguresListener`, `served` and `instrument`, which are loaded on first
use. `progress` adds up reports, `figures` holds the metrics of all queries of a session, and
`names` defines the metrics. `exporters` writes them for Prometheus and OpenTelemetry and as JSON
lines, and serves them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.metrics.exporters import instrument, served
    from sfumato.metrics.figures import FiguresListener, SessionFigures

__all__ = ["FiguresListener", "SessionFigures", "instrument", "served"]


def __getattr__(name: str) -> Any:
    """Load a public name. `figures` needs Spark, which most modules of this folder do not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "exporters" if name in ("instrument", "served") else "figures"
    return getattr(import_module(f"{__name__}.{home}"), name)
