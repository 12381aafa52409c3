"""Static frames through an operator in one pass, a batch at a time: memory is that of its state and
one batch, however long the frames are.

Spark puts the rows of a bucket together and sorts them (`ordered_rows`). The operator gets them in
batches, as a stream would give them (`feed`), and its answers go out as they come, as rows
(`answer_batches`); then the next bucket of the partition begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.crossing.chunks import BUCKET
from sfumato.spark.crossing.figures import Figures
from sfumato.spark.crossing.raw_rows import RawRows
from sfumato.spark.static.answer_batches import ANSWERS, answer_batches, answer_type
from sfumato.spark.static.feed import answers
from sfumato.spark.static.ordered_rows import in_order
from sfumato.spark.static.read_ahead import read_ahead

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.reading.chain import ChainConfig

ROWS_SETTING = "spark.sfumato.batchRows"  # how many rows an operator gets at once, at most
ROWS = 65_536
AHEAD = 8  # of Spark's batches, each of 10,000 rows unless a setting of its says otherwise


def run_whole(
    sides: Sequence[RawRows], config: ChainConfig, buckets: int, given: StructType
) -> DataFrame:
    """Lists of answers to static frames, counters and gauges.

    given : the columns of an answer
    """
    if config.tasks > 1:
        buckets *= config.tasks
        sides = [replace(of, frame=_for_all(of.frame, config.tasks)) for of in sides]
    first = sides[0].frame
    rows = in_order(sides, config, buckets, _partitions(first, buckets))
    most, figures = _batch_rows(first), Figures.of(config)
    columns = [[*side.kinds] for side in sides]

    def fed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = answers(read_ahead(batches, AHEAD), config, columns, most)
        return answer_batches(found, given, figures)

    return rows.mapInArrow(fed, answer_type(given, figures))


def answers_alone(out: DataFrame) -> DataFrame:
    """The answers of `run_whole`, as rows of their columns."""
    return out.select(F.inline(ANSWERS))


def _for_all(frame: DataFrame, tasks: int) -> DataFrame:
    """The rows of bucket i in so many buckets, from i * tasks on."""
    first = F.col(BUCKET) * F.lit(tasks)
    return frame.withColumn(BUCKET, F.explode(F.sequence(first, first + F.lit(tasks - 1))))


def _batch_rows(frame: DataFrame) -> int:
    given = frame.sparkSession.conf.get(ROWS_SETTING, str(ROWS)) or ""
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(
            f"`{ROWS_SETTING}` must be a whole number of at least 1; got {given!r}: "
            f"leave it out for {ROWS:,}"
        )
    return int(given)


def _partitions(frame: DataFrame, buckets: int) -> int:
    """As many as Spark's shuffles have, but no more than there are buckets."""
    given = frame.sparkSession.conf.get("spark.sql.shuffle.partitions", None) or ""
    return min(int(given), buckets) if given.isdecimal() else buckets
