"""Valid rows, and the others with the reason: nothing invalid passes, nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory
from sfumato.tables.reading.frame import Frame


def _engine(frame: Frame) -> Any:
    """Return the module that looks at the rows of a frame."""
    if in_memory(frame):
        from sfumato.memory import validity

        return validity
    from sfumato.spark.model import checked as of_spark

    return of_spark


@public("sf.checked(df)", "df")
def checked(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    rules: str | None = None,
    strict: bool = False,
) -> Any:
    """The rows with valid alternatives, or a valid `existence`, unchanged.

    Valid: at least one alternative; every prob finite, > 0 and ≤ 1; their sum ≤ 1 + 1e-9; every
    attribute present and, if a number, finite. A frame without alternatives: `existence`, where
    there is such a column, in [0, 1 + 1e-6], and the named value columns present and finite.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
    attributes : the attributes (or value columns) to look at; None: all attributes of the
        alternatives, no value column
    key, order : columns that must not be NULL, as `key` and `order` of the operator that reads the
        rows (windows and rankings group NULL keys as any other: leave `key` out for these)
    metric : "haversine" for rows that a join with this metric reads: `attributes` are its longitude
        and latitude, which must lie from -180 to 180 and from -90 to 90
    rules : of a static frame the column of rules of a ranking: the rows, by `order`, with which the
        probabilities of their rule (for each `key`) sum to more than 1 are invalid. A ranking
        leaves them out if its window holds the whole frame
    strict : raise at the first invalid row, when the frame runs, instead of leaving it out
    The rows left out are those of `rejected` with the same arguments.

    >>> sf.checked(readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")).count()
    3
    """
    if strict and rules is not None:
        raise ValueError(
            "`strict` looks at one row at a time, `rules` at several: give one of them"
        )
    frame = frame_of(df)
    return _engine(frame).valid_rows(frame, attributes, key, order, metric, rules, strict)


@public("sf.rejected(df)", "df")
def rejected(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    rules: str | None = None,
) -> Any:
    """The rows that `checked` leaves out, whole, with a column `reason`: text.

    An operator skips the rows with invalid alternatives or existence, and others that it cannot
    read: name its value columns of a frame without alternatives, its `key` (of a join) and its
    `order` to find these too. `metric` and `rules` are those of `checked`.

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.rejected(readings).collect()
    [Row(id=2, existence=1.5, reason='existence is not a number in [0, 1]')]
    """
    frame = frame_of(df)
    frame.require_free(["reason"])
    return _engine(frame).invalid_rows(frame, attributes, key, order, metric, rules)


@public("sf.split_invalid(df)", "df")
def split_invalid(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    rules: str | None = None,
) -> tuple[Any, Any]:
    """(valid, invalid): the rows that `checked` keeps, and those that `rejected` gives.

    Each row is in one of the two. The arguments are those of `checked`; on a stream both results
    are queries of their own once they are started.

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> valid, invalid = sf.split_invalid(readings)
    >>> valid.count(), invalid.count()
    (3, 1)
    """
    how: dict[str, Any] = {"key": key, "order": order, "metric": metric, "rules": rules}
    return checked(df, attributes, **how), rejected(df, attributes, **how)
