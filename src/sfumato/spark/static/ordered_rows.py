"""The rows of static frames in the order in which an operator takes them: sorted by Spark, which
spills to disk what memory cannot hold; those of several sides among each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.crossing.chunks import BUCKET
from sfumato.spark.crossing.columns_once import Once, marked, put_together
from sfumato.spark.crossing.even_partitions import evenly
from sfumato.spark.static.sort_keys import placed, sort_keys

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import ChainConfig
    from sfumato.tables.operator import TableConfig

SIDE = "__side"


@dataclass(frozen=True)
class Part:
    """How the table of a side lies in the rows of all.

    columns : there, and what they are called in the side's own frame    layout : see `Once`
    """

    columns: Mapping[str, str]
    layout: str

    def of(self, rows: pa.Table) -> pa.Table:
        """The table of rows of this side."""
        own = rows.select(list(self.columns)).rename_columns(list(self.columns.values()))
        return put_together(marked(own, self.layout))


def in_order(
    frames: Sequence[DataFrame],
    sides: Sequence[Once],
    config: TableConfig | ChainConfig,
    buckets: int,
    partitions: int,
) -> tuple[DataFrame, list[Part]]:
    """The rows, each bucket's in one partition and in order, and how the sides lie in them.

    The number of partitions is given, so that Spark does not join small ones later: rows say
    nothing about what an operator has to do with them.
    """
    together = [BUCKET] if buckets > partitions else []  # else each partition is of one bucket
    parts = [Part(*of) for of in zip(_shared(frames), [one.layout for one in sides], strict=True)]
    if len(frames) == 1:
        rows = evenly(placed(frames[0]), partitions)
        rows = rows.sortWithinPartitions(*together, *sort_keys(sides[0], config.arrival()))
        return rows.select(BUCKET, *_cells(parts[0])), parts
    known = [
        (placed(frame), sort_keys(once, config.arrival(side)))
        for side, (frame, once) in enumerate(zip(frames, sides, strict=True))
    ]
    most = max(len(keys) for _, keys in known)
    each = [
        _side(i, *of, part, most) for i, (of, part) in enumerate(zip(known, parts, strict=True))
    ]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), each)
    *columns, tie, place = _sorts(most)
    rows = evenly(rows, partitions)
    rows = rows.sortWithinPartitions(*together, *columns, SIDE, tie, place)
    return rows.select(
        BUCKET, SIDE, *dict.fromkeys(c for part in parts for c in part.columns)
    ), parts


def _shared(frames: Sequence[DataFrame]) -> list[dict[str, str]]:
    """For each frame, columns for its own: those of equal types of several frames are the same."""
    numbers: dict[str, int] = {}  # of the types
    found = []
    for frame in frames:
        count, columns = Counter[str](), dict[str, str]()
        for field in frame.schema.fields:
            if field.name != BUCKET:
                kind = field.dataType.json()
                number = numbers.setdefault(kind, len(numbers))
                columns[f"__column{number}_{count[kind]}"] = field.name
                count[kind] += 1
        found.append(columns)
    return found


def _cells(part: Part) -> list[Column]:
    return [F.col(name).alias(shared) for shared, name in part.columns.items()]


def _side(side: int, rows: DataFrame, keys: Sequence[Column], part: Part, most: int) -> DataFrame:
    """The columns of a side, with bucket, side and `most` columns to sort by."""
    *columns, tie, place = keys
    filled = [*columns, *[F.lit(None).cast("long")] * (most - len(keys)), tie, place]
    return rows.select(
        BUCKET,
        F.lit(side).alias(SIDE),
        *_cells(part),
        *(key.alias(name) for key, name in zip(filled, _sorts(most), strict=True)),
    )


def _sorts(number: int) -> list[str]:
    return [f"__sort{i}" for i in range(number)]
