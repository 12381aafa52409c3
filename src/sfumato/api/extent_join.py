"""Join of two windowed streams, extent by extent, for frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnNames, frame_of, public, run
from sfumato.tables.joins.table_extent_join import extent_join_job


@public('sf.extent_join(left, right, key="road")', "left", "right")
def extent_join(
    left: Any,
    right: Any,
    *,
    key: ColumnNames | None = None,
    on: ColumnNames | None = None,
    within: float | None = None,
    probability: float | None = None,
    forget_after: str | timedelta | None = None,
    name: str | None = None,
) -> Any:
    """Pair rows of two windowed streams whose extents end at the same time.

    Parameters
    ----------
    left, right
        Results of sf.window_aggregate over sf.Range, with their column `window`. The lengths of
        their extents may differ; extents with equal ends are joined. Give tables in memory as they
        are: the metadata of `window` says that they are extents.
    key
        Column(s) of both frames, by name or as Column objects (see `reorder`), that must be equal.
        The disorder controller upstream of a frame must have no key, or a key that is part of
        `key`.
    on, within, probability
        As for sf.similarity_join: the rows' alternatives must be within the distance with at least
        the probability (both rows are in their extents for sure).
    forget_after
        Time to live where the controllers upstream have a key. Once both frames, in any keys, have
        advanced by this, "1 day", since a controller's last rows, the rows of it that still wait
        for the other frame are unmatched, and the controller's state is deleted. Choose a time
        longer than the lag of any key; otherwise whether a row is still matched depends on when the
        state was deleted.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    A row per pair: `window` (of the left row), `left` and `right` (structs of all columns of the
    rows) and, with `on`, `probability` and `alternatives` (the matching pairs). Any other condition
    is a filter on these: ``.where("left.speed > right.speed")``. A pair is emitted once, in the
    micro-batch in which both rows have arrived. Rows of the stream that is ahead wait for the other
    stream.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments.

    Notes
    -----
    The observed metrics ``sfumato_extents_N`` count rows, pairs and unmatched (rows without a row
    of the same extent and key whose extent the other side has passed, or that still wait when the
    frames end).
    Cost: one shuffle by key. State: the rows of extents that only one side has completed.
    References: Kim et al. (2006), section 6 (figure 6).

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
    return run(extent_join_job(*frames, key, on, within, probability, forget_after, name))
