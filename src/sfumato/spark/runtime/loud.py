"""Rows that take no part are told of: a warning when a query first has some.

Spark tells of them when a micro-batch, or an action on static frames, is done: two listeners of the
session, of which the one for static frames is an interface of Java's that Python implements.
"""

from __future__ import annotations

import warnings
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from sfumato.tables.reading.invalid_rows import InvalidRowsWarning

SETTING = "spark.sfumato.warnInvalid"  # "false": nothing is said
SIDES = ("_input", "_left", "_right")  # ends of the metrics of an operator's inputs
PREFIX = "sfumato_"
_LISTENING = "_sfumato_listener"  # attribute of a session that has one


def warn_of_invalid_rows(spark: SparkSession) -> None:
    """Let the session's queries warn of invalid rows, from now on; once for a session.

    Not those of Spark Connect.
    """
    connected = ".connect." in type(spark).__module__  # its listeners keep a client from ending
    if connected or hasattr(spark, _LISTENING) or spark.conf.get(SETTING, "true") == "false":
        return
    listener = InvalidRows()
    spark.streams.addListener(listener)  # this also lets Java call Python
    manager: Any = spark
    manager._jsparkSession.listenerManager().register(InvalidStaticRows())
    setattr(spark, _LISTENING, listener)


class InvalidRows(StreamingQueryListener):
    """Warns once for each input of an operator of a run of a query."""

    def __init__(self) -> None:
        self.told: set[tuple[str, str]] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        for metric, row in progress.observedMetrics.items():
            of = (str(progress.runId), metric)
            if not (metric.startswith(PREFIX) and metric.endswith(SIDES)) or of in self.told:
                continue
            counts = row.asDict()
            rows, invalid = counts.get("rows") or 0, counts.get("invalid") or 0
            if invalid:
                self.told.add(of)
                why = counts.get("reason")
                warnings.warn(said(metric, rows, invalid, why), InvalidRowsWarning, stacklevel=1)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.told = {of for of in self.told if of[0] != str(event.runId)}


class InvalidStaticRows:
    """Warns once for each input of an operator over static frames."""

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)

    def __init__(self) -> None:
        self.told: set[str] = set()

    def onSuccess(self, action: str, execution: Any, nanoseconds: int) -> None:  # noqa: N802
        if execution.getClass().getSimpleName() == "IncrementalExecution":
            return  # a micro-batch, of which the other listener is told
        observed = execution.observedMetrics()
        names = observed.keysIterator()
        while names.hasNext():
            metric = names.next()
            if not (metric.startswith(PREFIX) and metric.endswith(SIDES)) or metric in self.told:
                continue
            row = observed.apply(metric)
            known = list(row.schema().fieldNames())
            counts = {name: row.get(i) for i, name in enumerate(known)}
            if counts.get("invalid"):
                self.told.add(metric)
                rows, invalid = int(counts["rows"]), int(counts["invalid"])
                text = said(metric, rows, invalid, counts["reason"], "rows of a static frame")
                warnings.warn(text, InvalidRowsWarning, stacklevel=1)

    def onFailure(self, action: str, execution: Any, error: Any) -> None:  # noqa: N802
        pass


def said(
    metric: str,
    rows: int,
    invalid: int,
    why: str | None = None,
    of: str = "rows of a micro-batch",
) -> str:
    """What is said of rows of which some are invalid; `why`: most of them."""
    commonest = "" if why is None else f" (the commonest reason: {why})"
    return (
        f"{metric.removeprefix(PREFIX)}: {invalid} of {rows} {of} ({invalid / rows:.1%}) took no "
        f"part, because they are invalid{commonest}: sf.rejected(df) gives them with their "
        f"reasons; later ones are counted by the metric {metric} and not told of again"
    )
