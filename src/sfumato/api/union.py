"""The union of two frames."""

from __future__ import annotations

from typing import Any

from sfumato.api.calls import engine_module, frame_of, public_function
from sfumato.tables.reading.job import check_union, remember_answers, union_metadata


@public_function("sf.union(indoor, outdoor)", "df", "other")
def union(df: Any, other: Any) -> Any:
    """Return the rows of two frames, and record which uncertain readings they have in common.

    Parameters
    ----------
    df, other
        Two Spark DataFrames, streaming or static, or two pandas, Polars or Arrow tables, with the
        same columns of the same types, in any order. The result has the type of `df`.

    Returns
    -------
    All rows of both frames, with the columns in the order of `df`.

    Raises
    ------
    ValueError
        For different columns, rows in order of event time (apply ``sf.reorder`` to the union), and
        different numbers of drawn worlds.
    TypeError
        For columns of different types.

    Notes
    -----
    If both frames are known to contain the same uncertain readings, later operators refuse the rows
    (unless they pass ``sf.assume_independent``): a frame and a part of it, two filters of the
    alternatives of one frame, or two windows over the same rows. The union of different frames is
    exact. A union by Spark or Arrow itself has only what is recorded for its first frame, and one
    by pandas or Polars has lost it.
    More: page reference/semantics/sharing of the documentation.
    Cost: none in addition to the union of the library.

    Examples
    --------
    >>> cool, warm = sf.where(uncertain, "celsius < 22"), sf.where(uncertain, "celsius > 25")
    >>> sf.union(cool, warm).count() == cool.count() + warm.count()
    True
    """
    first, second = frame_of(df), frame_of(other, "other")
    check_union(first, second)
    metadata = union_metadata(first, second)
    found = engine_module(first).union(first, second, metadata)
    remember_answers(found)
    return found
