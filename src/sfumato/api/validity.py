"""Separation of valid from invalid rows, with the reason."""

from __future__ import annotations

from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, engine_module, frame_of, public_function


@public_function("sf.split_invalid(df)", "df")
def split_invalid(
    df: Any,
    attributes: ColumnNames | None = None,
    *,
    key: ColumnNames | None = None,
    order: ColumnNames | None = None,
    metric: str = "euclidean",
    within: ColumnName | None = None,
    exclusive: ColumnName | None = None,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Split a frame into (valid, invalid): the rows that operators read, and the rows they skip.

    Parameters
    ----------
    df
        A Spark DataFrame, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The results have the same type.
    attributes
        Attributes (or value columns) to check, by name or as Column objects (see `reorder`). None:
        all attributes of the alternatives, no value column.
    key, order
        Columns that must not be NULL: `key` and `order` of the operator that reads the rows.
        Windows and rankings treat NULL as a key: leave out `key` for these operators.
    metric
        "haversine" for rows that a join with this metric reads: `attributes` are its longitude and
        latitude, which must lie from -180 to 180 and from -90 to 90.
    within
        Radius column, as `within` of a join: its values must be finite and at least 0.
    exclusive
        Static frames only: the column given to a ranking as `exclusive`. Per `key`, in the order of
        `order`, a row is invalid if it raises the sum of the probabilities of rows that exclude
        each other above 1. A ranking skips the same rows if its window holds the whole frame.
    strict
        Raise an error at the first invalid row, when the valid rows are read.

    Returns
    -------
    Two frames; each row is in one of them. The valid rows are unchanged. The invalid rows have an
    additional string column, `reason`. On a stream the results become two separate queries.

    A row is valid if it has at least one alternative; every prob is finite, > 0 and ≤ 1; their sum
    is ≤ 1 + 1e-9; and every attribute is present and, if a number, finite. In a frame without
    alternatives, a column `existence` must lie in [0, 1 + 1e-6], and the given value columns must
    be present and finite.

    Raises
    ------
    ValueError
        For `strict` together with `exclusive`.

    Notes
    -----
    Cost: one pass over the rows for each frame that is read. Only `exclusive` needs a shuffle.

    Examples
    --------
    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> valid, invalid = sf.split_invalid(readings)
    >>> valid.count(), invalid.collect()
    (3, [Row(id=2, existence=1.5, reason='existence is not a number in [0, 1]')])
    """
    return _split(df, attributes, key, order, metric, within, exclusive, strict)


@public_function("sf.ops.checked(df)", "df")
def checked(
    df: Any,
    attributes: ColumnNames | None = None,
    *,
    key: ColumnNames | None = None,
    order: ColumnNames | None = None,
    metric: str = "euclidean",
    within: ColumnName | None = None,
    exclusive: ColumnName | None = None,
    strict: bool = False,
) -> Any:
    """Return the valid rows, for SQL and pipelines, where a step returns one table.

    Parameters
    ----------
    df, attributes, key, order, metric, within, exclusive, strict
        As in `sf.split_invalid`.

    Returns
    -------
    The first frame of `sf.split_invalid`.

    Raises
    ------
    ValueError
        As in `sf.split_invalid`.

    Notes
    -----
    Cost: one pass over the rows, without state. `exclusive` sorts them.

    Examples
    --------
    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.ops.checked(readings).count()
    3
    """
    return _split(df, attributes, key, order, metric, within, exclusive, strict)[0]


@public_function("sf.ops.rejected(df)", "df")
def rejected(
    df: Any,
    attributes: ColumnNames | None = None,
    *,
    key: ColumnNames | None = None,
    order: ColumnNames | None = None,
    metric: str = "euclidean",
    within: ColumnName | None = None,
    exclusive: ColumnName | None = None,
) -> Any:
    """Return the invalid rows with their reasons, for SQL and pipelines.

    Parameters
    ----------
    df, attributes, key, order, metric, within, exclusive
        As in `sf.split_invalid`.

    Returns
    -------
    The second frame of `sf.split_invalid`: whole rows, with a column `reason`.

    Raises
    ------
    ValueError
        For a frame that already has a column `reason`.

    Notes
    -----
    Cost: one pass over the rows, without state. `exclusive` sorts them.

    Examples
    --------
    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.ops.rejected(readings).select("id").collect()
    [Row(id=2)]
    """
    return _split(df, attributes, key, order, metric, within, exclusive, False)[1]


def _split(df: Any, *given: Any) -> tuple[Any, Any]:
    """Return the result of `split_invalid`, whose other arguments are `given` in order."""
    *_, exclusive, strict = given
    if strict and exclusive is not None:
        raise ValueError(
            "`strict` and `exclusive` cannot be combined: `strict` checks rows one by one, "
            "`exclusive` checks several together. Give one of them"
        )
    frame = frame_of(df)
    frame.require_free(["reason"])
    found: tuple[Any, Any] = engine_module(frame).split_rows(frame, *given)
    return found
