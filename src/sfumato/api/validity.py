"""Valid rows, and the others with the reason: nothing invalid passes, nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory


@public("sf.split_invalid(df)", "df")
def split_invalid(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    exclusive: str | None = None,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(valid, invalid): the rows that operators read, unchanged, and those that they leave out.

    Valid: at least one alternative; every prob finite, > 0 and ≤ 1; their sum ≤ 1 + 1e-9; every
    attribute present and, if a number, finite. A frame without alternatives: `existence`, where
    there is such a column, in [0, 1 + 1e-6], and the named value columns present and finite.
    Each row is in one of the two results. The invalid rows are whole, with one more column
    `reason`: text. On a stream both results are separate queries once they are started.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The results are of the same kind
    attributes : the attributes (or value columns) to look at; None: all attributes of the
        alternatives, no value column
    key, order : columns that must not be NULL, as `key` and `order` of the operator that reads the
        rows (windows and rankings group NULL keys as any other: leave `key` out for these)
    metric : "haversine" for rows that a join with this metric reads: `attributes` are its longitude
        and latitude, which must lie from -180 to 180 and from -90 to 90
    exclusive : of a static frame the column of this name of a ranking: the rows, by `order`, with
        which the probabilities of rows that exclude each other (for each `key`) sum to more than 1
        are invalid. A ranking leaves them out if its window holds the whole frame
    strict : raise at the first invalid row, when the valid rows are read, instead of leaving it out

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> valid, invalid = sf.split_invalid(readings)
    >>> valid.count(), invalid.collect()
    (3, [Row(id=2, existence=1.5, reason='existence is not a number in [0, 1]')])
    """
    if strict and exclusive is not None:
        raise ValueError(
            "`strict` looks at one row at a time, `exclusive` at several: give one of them"
        )
    frame = frame_of(df)
    frame.require_free(["reason"])
    engine: Any
    if in_memory(frame):
        from sfumato.memory import validity as engine
    else:
        from sfumato.spark.model import checked as engine
    found: tuple[Any, Any] = engine.split_rows(
        frame, attributes, key, order, metric, exclusive, strict
    )
    return found


def checked(df: Any, *attributes: Any, **how: Any) -> Any:
    """Return the valid rows of `split_invalid`; `how` : its other arguments.

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.ops.checked(readings).count()
    3
    """
    return split_invalid(df, *attributes, **how)[0]


def rejected(df: Any, *attributes: Any, **how: Any) -> Any:
    """Return the invalid rows of `split_invalid`, with their `reason`; `how` : other arguments.

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.ops.rejected(readings).select("id").collect()
    [Row(id=2)]
    """
    return split_invalid(df, *attributes, **how)[1]
