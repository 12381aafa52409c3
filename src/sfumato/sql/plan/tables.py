"""The session's tables and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sfumato.sql.plan.nodes import Table, at
from sfumato.sql.plan.sources import Frame
from sfumato.sql.text.errors import SqlError, near
from sfumato.sql.text.syntax import Name, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables:
    """Looks tables up, each once; for the queries of one text.

    given : frames by name, that go before the session's tables
    """

    def __init__(self, spark: SparkSession, text: str, given: Mapping[str, DataFrame]) -> None:
        self.spark, self.text = spark, text
        self._given = {name.lower(): df for name, df in given.items()}
        self._frames: dict[tuple[str, ...], Frame | None] = {}

    def frame(self, name: Name) -> Frame | None:
        """The table or view of that name, or None if the session has none."""
        if name.parts not in self._frames:
            self._frames[name.parts] = self._look_up(name)
        return self._frames[name.parts]

    def _look_up(self, name: Name) -> Frame | None:
        from pyspark.errors import AnalysisException

        try:
            df = self._given[name.parts[0].lower()] if self.is_given(name) else None
            if df is None:
                df = self.spark.table(".".join(quoted(part) for part in name.parts))
            columns = tuple((f.name, f.dataType.simpleString()) for f in df.schema.fields)
        except AnalysisException:
            return None
        return Frame(df, Table(str(name), df.isStreaming, columns))

    def is_given(self, name: Name) -> bool:
        """Whether a name means a frame that came with the text."""
        return len(name.parts) == 1 and name.parts[0].lower() in self._given

    def is_uncertain(self, name: Name) -> bool:
        """Whether a table has uncertain attributes."""
        frame = self.frame(name)
        return frame is not None and bool(frame.attributes)

    def unknown(self, name: Name, also: Iterable[str] = ()) -> SqlError:
        """The error about a stream that neither the query (`also`) nor the session has."""
        known = [*also, *self._given, *(table.name for table in self.spark.catalog.listTables())]
        likely = near(name.parts[-1], known)
        reason = f"there is no stream, table or view {name}"
        return at(self.text, name, reason, expected=known, suggestion=likely)
