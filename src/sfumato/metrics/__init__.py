"""Totals and state of running queries, from Spark's reports.

`progress` reads reports, `figures` adds them up per query, `names` defines the metrics, and
`exporters` publishes them.
"""

from sfumato.metrics.exporters import instrument, served
from sfumato.metrics.figures import FiguresListener, SessionFigures

__all__ = ["FiguresListener", "SessionFigures", "instrument", "served"]
