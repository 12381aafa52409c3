"""`sf.ops.watch`: a session's streaming queries on a page in the browser."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sfumato.metrics.session_metrics import MetricsListener, SessionMetrics
from sfumato.reports import add_listener


class Watch:
    """A page that shows a session's queries at `url`, until `stop()` is called."""

    def __init__(self, spark: SparkSession, port: int) -> None:
        from sfumato.live.server import Server

        if not hasattr(spark, "streams"):
            raise TypeError(f"`spark` must be a SparkSession; got {type(spark).__name__}")
        self.metrics = SessionMetrics()
        self._server = Server(self.metrics, {}, port)
        self.url = self._server.url
        self._stop_listening = add_listener(spark, MetricsListener(self.metrics))

    def stop(self) -> None:
        """Stop serving the page; the queries continue to run."""
        self._stop_listening()
        self._server.stop()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<sfumato watch: {self.url}>"


def watch(spark: SparkSession, port: int = 0) -> Watch:
    """Serve a live page of the session's streaming queries: rows, lateness, waiting times, state.

    Parameters
    ----------
    spark
        The session.
    port
        Loopback port; 0 for a free port.

    Returns
    -------
    A `Watch`: `url` is the address of the page, and `stop()` ends it. It is also a context manager.

    Raises
    ------
    TypeError
        If `spark` is not a Spark session.
    ValueError
        For a port that is not an integer from 0 to 65535.
    OSError
        For a port in use.
    ImportError
        Without the extra `watch`.

    Notes
    -----
    The page shows queries that start after the call, and running queries after their next report.
    It listens to Spark's reports and changes no query. The page is accessible only from this
    machine, at an address with a secret token, and needs no network.
    Cost: one thread that serves the page and reads the reports that Spark creates anyway.

    Examples
    --------
        page = sf.ops.watch(spark)
        print(page.url)
        page.stop()
    """
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ValueError(f"`port` must be an integer from 0 to 65535; got {port!r}")
    try:
        return Watch(spark, port)
    except ImportError as error:
        why = f"sf.ops.watch needs more packages: pip install 'sfumato[watch]' ({error})"
        raise ImportError(why) from error
