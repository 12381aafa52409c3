"""Rows on their way to Python: the columns that operators read, as they are, and the bucket.

Nothing else is computed by Spark: what the columns mean is read from them in Python, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from sfumato.spark.crossing.even_partitions import BUCKET
from sfumato.spark.model.names import without_constraints


@dataclass(frozen=True)
class RawRows:
    """The rows of one frame under names that no user chose.

    frame : BUCKET, an int column, and the others
    columns : what the columns are called here, by their names in the user's frame
    kinds : their types, by their names here
    """

    frame: DataFrame
    columns: Mapping[str, str]
    kinds: Mapping[str, DataType]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a user's frame: columns by name, each with its type; see `raw_rows`.

    key : the columns whose values decide the bucket
    """

    frame: DataFrame
    columns: Mapping[str, tuple[Column, DataType]]
    key: Sequence[Column]


def raw_rows(wanted: Sequence[Wanted], buckets: int) -> list[RawRows]:
    """Return the rows of frames with columns of short names.

    Columns of one type have the same names in all frames, so that rows of several frames can be
    sorted together in few columns. Names are given, and ties computed, where Spark derives nothing
    from it.
    """
    numbers: dict[str, int] = {}  # of the types
    found = []
    for of in wanted:
        names, count = dict[str, str](), Counter[int]()
        for name, (_, kind) in of.columns.items():
            number = numbers.setdefault(kind.json(), len(numbers))
            names[name] = f"c{number}_{count[number]}"
            count[number] += 1
        cells = [column.alias(names[name]) for name, (column, _) in of.columns.items()]
        rows = of.frame.select(*cells, _bucket(of.key, buckets).alias(BUCKET))
        frame = without_constraints(rows)
        kinds = {names[name]: kind for name, (_, kind) in of.columns.items()}
        found.append(RawRows(frame, names, kinds))
    return found


def _bucket(keys: Sequence[Column], buckets: int) -> Column:
    return F.pmod(F.xxhash64(*keys), F.lit(buckets)).cast("int") if keys else F.lit(0)
