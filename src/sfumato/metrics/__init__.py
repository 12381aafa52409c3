"""Totals and state of running queries, from Spark's reports.

`progress` reads reports, `session_metrics` adds them up per query, `names` defines the metrics, and
`exporters` publishes them.
"""

from sfumato.metrics.exporters import instrument, served
from sfumato.metrics.session_metrics import MetricsListener, SessionMetrics

__all__ = ["MetricsListener", "SessionMetrics", "instrument", "served"]
