"""Revisions of early answers in Spark tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.columns import column
from sfumato.spark.model.frame import SparkFrame
from sfumato.sql_tokens import quote_name
from sfumato.tables.reading.user_warnings import SAME_REVISION

NEWER = "__newer"  # the rows to be merged


def newest_rows(frame: SparkFrame, by: Sequence[str]) -> DataFrame:
    """Implement `newest_revisions` for a Spark frame. by : key columns and the window"""
    df = frame.df
    rows, revision = F.struct(*map(column, df.columns)), column("revision")
    twice = F.count_distinct(revision) < F.count(revision)
    newest = F.when(twice, F.raise_error(F.lit(SAME_REVISION))).otherwise(F.max_by(rows, revision))
    return df.groupBy(*map(column, by)).agg(newest.alias(NEWER)).select(f"{NEWER}.*")


def merge_newer(rows: DataFrame, table: str, keys: Sequence[str]) -> None:
    """Merge rows into a table with one row per key and window, but replace only older revisions."""
    same = [f"{table}.{name} <=> {NEWER}.{name}" for name in map(quote_name, [*keys, "window"])]
    newer = f"{table}.revision < {NEWER}.revision"
    merge = rows.alias(NEWER).mergeInto(table, F.expr(" AND ".join(same)))
    merge.whenMatched(F.expr(newer)).updateAll().whenNotMatched().insertAll().merge()
