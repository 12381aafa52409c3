"""The join of two windowed streams, extent by extent: `sfumato.extent_join` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import ArrowFrame, frame_of
from sfumato.local.model.join_side import pairs_type
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run, struct_of
from sfumato.tables.joins.extent_query import ExtentJoinQuery
from sfumato.tables.joins.join import ALTERNATIVES
from sfumato.tables.reading.naming import Shown
from sfumato.tables.reading.shared_rows import PAIRS, SHARED


@same_kind
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
) -> pa.Table:
    """Pairs of rows of two windowed streams whose extents end at the same time.

    left, right : results of `sfumato.local.window_aggregate` over sf.Range, as Arrow tables (what
        says that they are extents is in the metadata of `window`)
    The other arguments, the columns and the counters are those of `sfumato.extent_join` over static
    frames. Raises ValueError or TypeError for wrong arguments.
    """
    frames = [frame_of(left, "left"), frame_of(right, "right")]
    query = ExtentJoinQuery(frames, key, on, within, probability)
    inputs = [Input(frame, query.reading(side)) for side, frame in query.frames.items()]
    columns = [Shown(("window",), frames[0].schema.field("window"))]
    for side, frame in query.frames.items():
        columns.append(Shown((side,), pa.field(side, struct_of(frame.columns, frame))))
    if query.attributes:
        pairs = pairs_type(*(_fields(frame, side) for side, frame in query.frames.items()))
        kinds = {ALTERNATIVES: pairs, "probability": pa.float64()}
        for name, kind in kinds.items():
            columns.append(Shown((name,), pa.field(name, kind, metadata={SHARED: PAIRS})))
    job = Job("extent_join", "extents", name)
    return run(job, inputs, query.config(forget_after), columns)


def _fields(frame: ArrowFrame, side: str) -> list[pa.Field]:
    """Of a side's attributes in an answer's alternatives."""
    return [pa.field(f"{side}_{a}", frame.attribute_type(a)) for a in frame.attributes]
