"""A frame of Spark over which expressions are computed."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sfumato.spark.model.expressions import SparkExpressions
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.uncertain_time import by_extent, true_extents
from sfumato.tables.reading.queried_frame import QueriedFrame
from sfumato.windows import Range


class QueriedSparkFrame(SparkFrame, QueriedFrame):
    """A frame of Spark whose expressions and uncertain event times are known."""

    @property
    def expressions(self) -> SparkExpressions:
        return SparkExpressions(self)

    def by_extent(self, order: str, window: Range) -> tuple[QueriedSparkFrame, str, Range]:
        rows, at, extents = by_extent(self, order, window)
        return QueriedSparkFrame(rows), at, extents

    def with_true_extents(self, answers: DataFrame, window: Range) -> DataFrame:
        return true_extents(answers, window)
