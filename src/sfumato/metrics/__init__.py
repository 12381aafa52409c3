"""Totals and state of running queries, from Spark's reports.

The public names are `SessionFigures`, `FiguresListener`, `served` and `instrument`; they are loaded
on first use. `progress` reads reports, `figures` adds them up per query, `names` defines the
metrics, and `exporters` publishes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.metrics.exporters import instrument, served
    from sfumato.metrics.figures import FiguresListener, SessionFigures

__all__ = ["FiguresListener", "SessionFigures", "instrument", "served"]


def __getattr__(name: str) -> Any:
    """Load a public name. Only `figures` needs Spark, so modules are loaded on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "exporters" if name in ("instrument", "served") else "figures"
    return getattr(import_module(f"{__name__}.{home}"), name)
