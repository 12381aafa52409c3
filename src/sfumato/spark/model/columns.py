"""What a frame's schema says: which columns are uncertain, and what names an operator may use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.runtime.chunks import BUCKET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDERABLE = (NumericType, TimestampType, TimestampNTZType, DateType, BooleanType)


def attributes_of(df: DataFrame) -> list[str]:
    """Names of the attributes of the frame's alternatives; none where it has no alternatives.

    Raises TypeError when the column `alternatives` is not an array of structs with a `prob`.
    """
    if ALTERNATIVES not in df.columns:
        return []
    kind = df.schema[ALTERNATIVES].dataType
    if not (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and "prob" in kind.elementType.names
    ):
        raise TypeError(
            f"column `{ALTERNATIVES}` must be array<struct<prob: double, ATTR: double, ...>>; "
            f"got {kind.simpleString()}: make it with sf.alternatives or sf.samples"
        )
    return [name for name in kind.elementType.names if name != "prob"]


def names(argument: str, given: str | Sequence[str] | None) -> list[str]:
    """The column names an argument gives: none, one, or a list of distinct ones."""
    if given is None:
        return []
    listed = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not all(isinstance(name, str) for name in listed):
        raise TypeError(
            f"`{argument}` must be a column name, as text, or a list of them; got {given!r:.80}"
        )
    if len(set(listed)) != len(listed):
        raise ValueError(f"`{argument}` names a column twice: {listed}")
    return listed


def require(df: DataFrame, argument: str, wanted: Sequence[str]) -> None:
    """Raise ValueError, with the likely name, for a column that the frame lacks."""
    for name in wanted:
        if name not in df.columns:
            near = get_close_matches(name, df.columns, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise ValueError(
                f"`{argument}` names a column `{name}` that the frame lacks; "
                f"it has {', '.join(df.columns)}{hint}"
            )


def with_tie(df: DataFrame, name: str) -> DataFrame:
    """The frame with a column that tells rows apart: a 64-bit hash of all that can be hashed."""
    hashable = [
        F.col(f"`{field.name}`")
        for field in df.schema.fields
        if not re.search(r"\b(map<|variant)", field.dataType.simpleString())
    ]
    return df.withColumn(name, F.xxhash64(*hashable) if hashable else F.lit(0).cast("long"))


def bucket_count(df: DataFrame, keys: Sequence[str]) -> int:
    """Into how many buckets the keys are hashed; without keys one.

    Four for each shuffle partition: enough to even out the work, few enough that many small keys
    share one access to Spark's state. Spark pins a checkpoint's partitions, so this is pinned too.
    """
    if not keys:
        return 1
    return 4 * int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)


def with_bucket(df: DataFrame, keys: Sequence[str], buckets: int) -> DataFrame:
    """The frame with the bucket of each row's key."""
    bucket = F.lit(0)
    if keys:
        hashed = F.xxhash64(*(F.col(f"`{key}`") for key in keys))
        bucket = F.pmod(hashed, F.lit(buckets)).cast("int")
    return df.withColumn(BUCKET, bucket)
