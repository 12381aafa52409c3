"""Reports of a session's streaming queries, as Spark sends them; no query is changed."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from sfumato.metrics.figures import Figures


class FiguresListener(StreamingQueryListener):
    """Takes reports into figures, by the query's name, or by its id where it has none.

    names : other names for queries, by their name in Spark
    """

    def __init__(self, figures: Figures, names: Mapping[str, str] | None = None) -> None:
        self.figures, self.names = figures, names or {}
        self._known: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.figures.started(self._named(event))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.figures.take(self._named(event.progress), [event.progress])

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        name = self._known.get(str(event.id), str(event.id)[:8])
        self.figures.ended(name, event.exception)

    def _named(self, event: Any) -> str:
        given = event.name or str(event.id)[:8]
        return self._known.setdefault(str(event.id), self.names.get(given, given))
