"""The join of two windowed streams, extent by extent, as a function of frames."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, run
from sfumato.tables.joins.extent_query import ExtentJoinQuery
from sfumato.tables.reading.job import Input, Job


@public('sf.extent_join(left, right, key="road")', "left", "right")
def extent_join(
    left: Any,
    right: Any,
    *,
    key: str | Sequence[str] | None = None,
    on: str | Sequence[str] | None = None,
    within: float | None = None,
    probability: float | None = None,
    forget_after: str | timedelta | None = None,
    name: str | None = None,
) -> Any:
    """Pairs of rows of two windowed streams whose extents end at the same time.

    left, right : answers of sf.window_aggregate over sf.Range, with their column `window`; their
        lengths may differ, and extents with equal ends are joined. Tables
        in memory are the results as they are: what says that they are extents is in the metadata
        of `window`
    key : column(s) of both frames that must be equal. The disorder controller before a frame must
        have had no key, or one that is part of `key`
    on, within, probability : as for sf.similarity_join: the rows' alternatives must be within the
        distance with at least the probability (both rows are in their extents for sure)
    forget_after : where the controllers before have a key: once both frames, in whatever keys, have
        gone on by so much, "1 day", since a controller's last rows, those that still wait for the
        other frame go unmatched, and the controller is forgotten. Longer than any key lags, or
        whether a row still meets them depends on when they went
    name : of the metrics, instead of the number N

    Columns: `window` (of the left row), `left` and `right` (structs of all columns of the rows)
    and, with `on`, `probability` and `alternatives` (the matching pairs). Any other condition is a
    filter on these: ``.where("left.speed > right.speed")``. A pair comes out once, in the
    micro-batch in which both rows are there: neither stream overtakes the other, for the rows of
    the one that is ahead wait. The observed metrics ``sfumato_extents_N`` count rows, pairs and
    unmatched (rows whose extent the other side has gone past, or that still wait when the frames
    end, without a row of the same extent and key).

    Cost: one shuffle by key; state: the rows of extents that only one side has completed.
    Raises ValueError or TypeError for wrong arguments. Source: C, section 6 (figure 6).

    >>> common = {"window": "5 seconds", "order": "made", "key": "sensor"}
    >>> highest = sf.window_aggregate(readings, {"m": "max(celsius)"}, **common)
    >>> counted = sf.window_aggregate(readings, {"n": "count(*)"}, **common)
    >>> both = sf.extent_join(highest, counted, key="sensor").orderBy("window.end", "left.sensor")
    >>> [(row.left.m, row.right.n) for row in both.collect()]
    [(22.0, 2), (21.0, 1), (23.0, 1)]
    """
    frames = [frame_of(left, "left"), frame_of(right, "right")]
    query = ExtentJoinQuery(frames, key, on, within, probability)
    given = [Input(of, query.reading(side), light=True) for side, of in query.frames.items()]
    config = query.config(forget_after)
    return run(Job("extent_join", "extents", name, given, config, query.outputs))
