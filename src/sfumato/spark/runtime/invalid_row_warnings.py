"""Warnings about the first invalid rows of a streaming query."""

from __future__ import annotations

import warnings
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from sfumato.reports import METRIC_PREFIX, by_connect, listen, observed
from sfumato.tables.reading.user_warnings import InvalidRowsWarning

# "false": no warnings. This is the default of Spark Connect, where they require polling the server
# for reports during the lifetime of the client.
WARN_INVALID_SETTING = "spark.sfumato.warnInvalid"
INPUTS = ("input", "left", "right")  # the sides of an operator that are its inputs
FIND = (
    "sf.split_invalid(df) finds the rows with invalid alternatives or existence; with the "
    "operator's value columns, key= and order= those with a missing value, key or order too"
)
_LISTENING = "_sfumato_listener"  # attribute of a session with a listener


def warn_of_invalid_rows(spark: SparkSession) -> None:
    """Make a session's streaming queries warn about invalid rows from now on; idempotent."""
    default = "false" if by_connect(spark) else "true"
    if hasattr(spark, _LISTENING) or spark.conf.get(WARN_INVALID_SETTING, default) == "false":
        return
    setattr(spark, _LISTENING, listen(spark, InvalidRows()))


class InvalidRows(StreamingQueryListener):
    """Listener that warns once per operator input in each run of a query."""

    def __init__(self) -> None:
        self.told: set[tuple[str, str]] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for metric, counts in observed(event.progress).items():
            rejected, invalid = counts.get("rejected"), counts.get("invalid")
            if rejected:
                text = above_one(metric, rejected)
            elif invalid and counts.get("side") in INPUTS:
                text = said(metric, counts["rows"], invalid, counts.get("reason"))
            else:
                continue
            of = (str(event.progress.runId), metric)
            if of not in self.told:
                self.told.add(of)
                warnings.warn(text, InvalidRowsWarning, stacklevel=1)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.told = {of for of in self.told if of[0] != str(event.runId)}


def above_one(metric: str, rejected: int) -> str:
    """Return the warning about rows of a micro-batch whose rule has more than probability 1."""
    return (
        f"{metric.removeprefix(METRIC_PREFIX)}: {rejected} rows were skipped, because the "
        "probabilities of their rule sum to more than 1 in a window; further rows are only "
        f"counted, by the metric {metric} (`rejected`). Give rescale=True (SQL: RULES column "
        "RESCALE) to scale "
        "them instead; sf.split_invalid(df, exclusive=..., order=...) finds them in a static frame"
    )


def said(metric: str, rows: int, invalid: int, why: str | None = None) -> str:
    """Return the warning about invalid rows of a micro-batch. why : the most common reason"""
    commonest = "" if why is None else f" (the commonest reason: {why})"
    return (
        f"{metric.removeprefix(METRIC_PREFIX)}: {invalid} of {rows} rows ({invalid / rows:.1%}) of "
        f"a micro-batch were skipped as invalid{commonest}; further rows are only counted, by the "
        f"metric {metric}. {FIND}"
    )
