"""The end of a stream as an additional source: one marker per bucket in the last run.

Operators hold rows until later rows release them, but Spark does not report a stream's last
micro-batch. A query that may end also reads this source: with the option `ends`, it has markers in
one micro-batch of a run with ``availableNow``. Options are not part of a checkpoint, so a query can
run first without markers, and then once with markers. A repeated micro-batch has the same markers.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from sfumato.spark.crossing.chunks import BUCKET, CHUNK_SCHEMA, place
from sfumato.spark.state.operator_owners import END

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:  # pragma: no cover - only on an older Spark
    raise ImportError(
        "sf.ops.run_to_end needs PySpark 4.2 or later, in which Python sources support availableNow"
    ) from error


def end_marks(spark: SparkSession, buckets: int, ends: bool) -> DataFrame:
    """Return a stream of empty chunks, one per bucket; without `ends`, it has no chunks."""
    spark.dataSource.register(EndOfStream)
    reader = spark.readStream.format(EndOfStream.name()).option("buckets", buckets)
    return reader.option("ends", str(ends).lower()).load()  # Connect would send "True"


class EndOfStream(DataSource):
    """Data source "sfumato_end": one marker for each of `buckets` buckets if `ends` is "true"."""

    @classmethod
    def name(cls) -> str:
        return "sfumato_end"

    def schema(self) -> str:
        return CHUNK_SCHEMA

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return EndReader(int(self.options["buckets"]), self.options["ends"] == "true")


class EndReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader whose offsets count the ends so far: ``{"ends": n}``."""

    def __init__(self, buckets: int, ends: bool) -> None:
        self.buckets, self.ends = buckets, ends
        self.due = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"ends": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.due = self.ends

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        due, self.due = self.due, False
        return {"ends": start["ends"] + due}

    def partitions(self, start: object, end: object) -> Sequence[InputPartition]:
        return [InputPartition(0)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        markers = {
            BUCKET: pa.array([place(i) for i in range(self.buckets)], pa.int32()),
            "side": pa.array(np.full(self.buckets, END), pa.int32()),
            "chunk": pa.array([b""] * self.buckets, pa.binary()),
        }
        yield pa.record_batch(markers)
