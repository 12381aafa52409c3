"""A session's streaming queries are listened to, the same way with and without Spark Connect.

A client of Spark Connect asks for reports instead of having them sent. Its own listeners hold a
lock while they wait for a thread that may need it: to remove the last one, or to stop the session,
can wait for ever (SPARK-59623), and a client with a listener does not end by itself.
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

EVERY = 0.5  # seconds between two questions to the server


def by_connect(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect."""
    return ".connect." in type(spark).__module__


def listen(spark: SparkSession, listener: StreamingQueryListener) -> Callable[[], None]:
    """Send the session's reports to a listener from now on; returns what ends that.

    Under Spark Connect reports come up to EVERY seconds late, `onQueryIdle` is never called, and a
    query that starts and ends between two questions goes unseen.
    """
    if by_connect(spark):
        return Questions(spark, listener).stop
    spark.streams.addListener(listener)
    return lambda: spark.streams.removeListener(listener)


@dataclass(slots=True)
class Run:
    """A run of a query that has been seen, and the time of its last report."""

    query: Any
    reported: str = ""

    def news(self) -> list[Any]:
        """Its reports since the last ones, oldest first."""
        last = self.query.lastProgress  # most often not new, and far shorter than the recent ones
        if last is None or last.timestamp <= self.reported:
            return []
        found = [r for r in self.query.recentProgress if r.timestamp > self.reported]
        self.reported = found[-1].timestamp if found else last.timestamp
        return found


class Questions:
    """Asks a session for its queries and their reports, in a thread that keeps no process alive."""

    def __init__(self, spark: Any, listener: Any) -> None:
        self._spark, self._listener = spark, listener
        self._runs: dict[str, Run] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._ask, name="sfumato-reports", daemon=True).start()

    def stop(self) -> None:
        """Ask no more; a question under way may still be answered."""
        self._ended.set()

    def _ask(self) -> None:
        while not self._ended.is_set():
            try:
                self._once()
            except Exception as error:  # whatever a lost server or a stopped session raises
                self._ended.wait(EVERY)  # a session that stops says so at the end
                over = self._ended.is_set() or not threading.main_thread().is_alive()
                if not (over or self._spark.is_stopped):
                    said = f"sfumato no longer listens to this session's queries: {error}"
                    warnings.warn(said, stacklevel=1)
                return
            self._ended.wait(EVERY)

    def _once(self) -> None:
        active = {query.runId: query for query in self._spark.streams.active}
        for run_id, query in active.items():
            if run_id not in self._runs:
                self._runs[run_id] = Run(query)
                self._listener.onQueryStarted(query)
        for run_id, run in list(self._runs.items()):
            for report in run.news():
                self._listener.onQueryProgress(SimpleNamespace(progress=report))
            if run_id not in active:
                self._listener.onQueryTerminated(self._end_of(run_id, run.query))
                del self._runs[run_id]

    @staticmethod
    def _end_of(run_id: str, query: Any) -> Any:
        error = query.exception()
        exception = None if error is None else str(error)
        return SimpleNamespace(id=query.id, runId=run_id, exception=exception)
