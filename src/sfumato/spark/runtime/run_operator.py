"""Run an operator over tables on frames: fixed names, ties, buckets, state, metrics, and back."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.runtime import bucket_state, chunks
from sfumato.spark.runtime.names import Passed, column
from sfumato.tables.operator import ROW, TIE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sfumato.tables.operator import TableConfig

BUCKETS_A_PARTITION = 4  # enough to even out the work, few enough to share accesses to the state
INVALID = "__invalid"
_NUMBERS: defaultdict[str, itertools.count[int]] = defaultdict(lambda: itertools.count(1))


@dataclass(frozen=True)
class Input:
    """One frame as an operator reads it.

    passed : the columns that come out again    order, key : names of columns
    values : what else the operator reads, by its fixed name
    bucket : numbers of the keys that decide which rows share an operator; None: all
    invalid : the rows that take no part, and are counted beside the operator; None: every row does
    """

    frame: DataFrame
    passed: Passed
    order: Sequence[str] = ()
    key: Sequence[str] = ()
    values: Mapping[str, Column] = field(default_factory=dict)
    bucket: Sequence[int] | None = None
    invalid: Column | None = None

    def projected(self, metrics: str) -> DataFrame:
        """The columns under fixed names; without the invalid rows, which `metrics` counts."""
        columns = [self.passed.struct.alias(ROW)]
        columns += [c.alias(name) for name, c in self.values.items()]
        columns += [column(name).alias(f"order{i}") for i, name in enumerate(self.order)]
        columns += [column(name).alias(f"key{i}") for i, name in enumerate(self.key)]
        columns.append(tie(self.frame).alias(TIE))
        if self.invalid is None:
            return self.frame.select(*columns)
        rows = self.frame.select(*columns, self.invalid.alias(INVALID)).observe(
            metrics,
            F.count(F.lit(1)).alias("rows"),
            F.coalesce(F.sum(F.col(INVALID).cast("long")), F.lit(0)).alias("invalid"),
        )
        return rows.where(~F.col(INVALID)).drop(INVALID)

    def packed(self, side: int, buckets: int, metrics: str) -> DataFrame:
        """Chunks of its rows."""
        keys = range(len(self.key)) if self.bucket is None else self.bucket
        bucket = F.lit(0)
        if keys:
            hashed = F.xxhash64(*(F.col(f"key{i}") for i in keys))
            bucket = F.pmod(hashed, F.lit(buckets)).cast("int")
        return chunks.pack(self.projected(metrics).withColumn(chunks.BUCKET, bucket), side)


def run_operator(
    inputs: Sequence[Input],
    config: TableConfig,
    answers: StructType,
    columns: Sequence[Column],
    *,
    metrics: str,
    idle_timeout: int | None = None,
) -> DataFrame:
    """The answers of an operator to one or several frames.

    answers : the columns the operator gives, under fixed names
    columns : the columns of the result, made of those
    metrics : name of the observed metrics; those of an input end in its name
    idle_timeout : milliseconds without rows after which the operator is told so; streams only

    Raises, on the driver, what the config has wrong. Starts nothing.
    """
    config.make()
    frame = inputs[0].frame
    buckets = BUCKETS_A_PARTITION * int(
        frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200
    )
    sides = ["input"] if len(inputs) == 1 else ["left", "right"]
    packed = [
        one.packed(side, buckets, f"{metrics}_{name}")
        for side, (one, name) in enumerate(zip(inputs, sides, strict=True))
    ]
    out = bucket_state.run(reduce(lambda a, b: a.union(b), packed), config, metrics, idle_timeout)
    return chunks.unpack(out, answers).select(*columns)


def metrics_name(operator: str) -> str:
    """The name of an operator's observed metrics: sfumato_OPERATOR_N."""
    return f"sfumato_{operator}_{next(_NUMBERS[operator])}"


def tie(df: DataFrame) -> Column:
    """What tells rows apart: a 64-bit hash of all columns that can be hashed."""
    hashable = [
        column(field.name)
        for field in df.schema.fields
        if not re.search(r"\b(map<|variant)", field.dataType.simpleString())
    ]
    return F.xxhash64(*hashable) if hashable else F.lit(0).cast("long")
