"""Warnings about invalid rows, when a streaming query first has some."""

from __future__ import annotations

import warnings
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from sfumato.reports import METRIC_PREFIX, by_connect, listen, observed
from sfumato.tables.reading.user_warnings import InvalidRowsWarning

# "false": nothing is said; the default of Spark Connect, where it takes asking the server for
# reports for as long as the client lives.
WARN_INVALID_SETTING = "spark.sfumato.warnInvalid"
INPUTS = ("input", "left", "right")  # the sides of an operator that are its inputs
FIND = (
    "sf.split_invalid(df) finds the rows with invalid alternatives or existence; with the "
    "operator's value columns, key= and order= those with a missing value, key or order too"
)
_LISTENING = "_sfumato_listener"  # attribute of a session that has one


def warn_of_invalid_rows(spark: SparkSession) -> None:
    """Let the session's streaming queries warn of invalid rows, from now on; once for a session."""
    default = "false" if by_connect(spark) else "true"
    if hasattr(spark, _LISTENING) or spark.conf.get(WARN_INVALID_SETTING, default) == "false":
        return
    setattr(spark, _LISTENING, listen(spark, InvalidRows()))


class InvalidRows(StreamingQueryListener):
    """Warns once for each input of an operator of a run of a query."""

    def __init__(self) -> None:
        self.told: set[tuple[str, str]] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        for metric, counts in observed(progress).items():
            of = (str(progress.runId), metric)
            if counts.get("rejected") and of not in self.told:
                self.told.add(of)
                warnings.warn(
                    above_one(metric, counts["rejected"]), InvalidRowsWarning, stacklevel=1
                )
            if counts.get("side") not in INPUTS or of in self.told:
                continue
            rows, invalid = counts.get("rows") or 0, counts.get("invalid") or 0
            if invalid:
                self.told.add(of)
                why = counts.get("reason")
                warnings.warn(said(metric, rows, invalid, why), InvalidRowsWarning, stacklevel=1)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.told = {of for of in self.told if of[0] != str(event.runId)}


def above_one(metric: str, rejected: int) -> str:
    """Build the warning about a micro-batch with rows whose rule has more than probability 1."""
    return (
        f"{metric.removeprefix(METRIC_PREFIX)}: {rejected} rows were skipped, because the "
        "probabilities of their rule sum to more than 1 in a window; further rows are only "
        f"counted, by the metric {metric} (`rejected`). Give rescale=True (SQL: RULES column "
        "RESCALE) to scale "
        "them instead; sf.split_invalid(df, exclusive=..., order=...) finds them in a static frame"
    )


def said(metric: str, rows: int, invalid: int, why: str | None = None) -> str:
    """Build the warning about a micro-batch with invalid rows; `why`: the reason of most."""
    commonest = "" if why is None else f" (the commonest reason: {why})"
    return (
        f"{metric.removeprefix(METRIC_PREFIX)}: {invalid} of {rows} rows ({invalid / rows:.1%}) of "
        f"a micro-batch were skipped as invalid{commonest}; further rows are only counted, by the "
        f"metric {metric}. {FIND}"
    )
