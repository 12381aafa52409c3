"""The rows of a repository that Spark holds in which dependencies are looked for."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import column
from sfumato.spark.model.repository import arrow_of
from sfumato.tables.imputation.query import warn_of_gaps, with_values

Extents = dict[str, tuple[float, float]]  # minimum, and maximum less that


def complete_rows(
    frame: SparkFrame, asked: Sequence[str], max_rows: int, seed: int
) -> tuple[pa.Table, Extents] | None:
    """Return some rows in which all columns have finite numbers, and the columns' extents over all
    such rows; None where there are too few rows or columns."""
    rows = frame.df.select(*(column(name).cast("double").alias(name) for name in asked))
    # NaN counts as greater than every number in Spark.
    finite = {name: F.abs(column(name)) < float("inf") for name in asked}
    counted = rows.agg(F.count(F.lit(1)), *(F.count_if(each) for each in finite.values())).first()
    assert counted is not None
    total, known = counted[0], dict(zip(asked, counted[1:], strict=True))
    wanted = with_values(asked, known)
    rows = rows.select(*map(column, wanted))
    for name in wanted:
        rows = rows.where(finite[name])
    if len(wanted) < 2:
        warn_of_gaps(wanted, known, total, 0)
        return None
    ends = rows.agg(
        F.count(F.lit(1)).alias("complete"),
        *(F.min(column(name)).alias(f"low{i}") for i, name in enumerate(wanted)),
        *(F.max(column(name)).alias(f"high{i}") for i, name in enumerate(wanted)),
    ).first()
    assert ends is not None
    warn_of_gaps(wanted, known, total, ends["complete"])
    if ends["complete"] < 2:
        return None
    extents = {
        name: (ends[f"low{i}"], (ends[f"high{i}"] - ends[f"low{i}"]) or 1.0)
        for i, name in enumerate(wanted)
    }
    hashed = F.xxhash64(F.lit(seed), *(column(name) for name in wanted))
    return arrow_of(rows.orderBy(hashed).limit(max_rows), wanted), extents
