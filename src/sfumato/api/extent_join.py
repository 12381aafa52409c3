"""Join of two windowed streams by extent, for frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnNames, frame_of, public_function, run
from sfumato.tables.joins.table_extent_join import extent_join_job


@public_function('sf.extent_join(left, right, key="road")', "left", "right")
def extent_join(
    left: Any,
    right: Any,
    *,
    key: ColumnNames | None = None,
    on: ColumnNames | None = None,
    within: float | None = None,
    probability: float | None = None,
    how: str = "inner",
    one_to_one: bool = False,
    nulls_equal: bool = True,
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | None = None,
    name: str | None = None,
) -> Any:
    """Pair rows of two windowed streams whose extents end at the same time.

    Parameters
    ----------
    left, right
        Results of sf.window_aggregate over sf.Range, with their column `window`.
    key
        Column(s) of both frames whose values must be equal.
    on, within, probability
        As for sf.similarity_join, for the rows' alternatives.
    how
        "inner", or "left", "right", "full": also emit the rows of a side that have no partner.
    one_to_one
        Put each row in at most one pair: choose pairs by descending probability. Needs `on` and
        how="inner".
    nulls_equal
        Whether NULL keys are equal to each other; if not, rows with a NULL key have no partner.
    idle_timeout
        Longest wait of a row for a side that has no rows at all. The row is then emitted as
        unmatched, if `how` includes its side; rows of the other side for its extent are then late.
    forget_after
        Time to live of a key, if the controllers upstream have keys.
    name
        Name of the metrics, instead of the number N in ``sfumato_extents_N``.

    Returns
    -------
    One row per pair: `window`, `left` and `right` (structs of all columns) and, with `on`,
    `probability` and `alternatives` (the matching pairs).

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    Cost: one shuffle by key. State: the rows of extents that only one side has completed.
    More: page reference/functions/extent_join of the documentation.

    References
    ----------
    Kim et al. (2006), section 6, figure 6. https://doi.org/10.1109/CIT.2006.33

    Examples
    --------
    >>> common = {"window": "5 seconds", "order": "made", "key": "sensor"}
    >>> highest = sf.window_aggregate(readings, {"m": "max(celsius)"}, **common)
    >>> counted = sf.window_aggregate(readings, {"n": "count(*)"}, **common)
    >>> both = sf.extent_join(highest, counted, key="sensor").orderBy("window.end", "left.sensor")
    >>> [(row.left.m, row.right.n) for row in both.collect()]
    [(22.0, 2), (21.0, 1), (23.0, 1)]
    """
    frames = frame_of(left, "left"), frame_of(right, "right")
    options: dict[str, Any] = {"how": how, "one_to_one": one_to_one, "nulls_equal": nulls_equal}
    options["idle_timeout"] = idle_timeout
    return run(
        extent_join_job(*frames, key, on, within, probability, forget_after, name, **options)
    )
