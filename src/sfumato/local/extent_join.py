"""The join of two windowed streams, extent by extent: `sfumato.extent_join` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.duration import microseconds
from sfumato.local.model.controlled import says_order
from sfumato.local.model.frame import Frame, frame_of
from sfumato.local.model.join_side import pairs_type
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run, struct_of
from sfumato.tables.forgetting import check_keys
from sfumato.tables.joins.extent_join import ExtentJoinTableConfig
from sfumato.tables.joins.join import ALTERNATIVES, SIDES
from sfumato.tables.reading.input import Alternatives, Cells, Column, Reading
from sfumato.tables.reading.names import names
from sfumato.tables.reading.naming import Shown
from sfumato.tables.scope import joined_scope


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
    attributes = names("on", on)
    similar = [value is not None for value in (on, within, probability)]
    if any(similar) and not all(similar):
        raise ValueError("`on`, `within` and `probability` go together: give all three or none")
    given = zip((left, right), SIDES, strict=True)
    sides = {side: _windowed(frame_of(one, side), side, attributes) for one, side in given}
    keys = {side: f.keys(f"key of the {side} table", key) for side, f in sides.items()}
    forgotten = None
    if forget_after is not None:
        check_keys(keys["left"])
        forgotten = float(microseconds("forget_after", forget_after))
    scopes = {side: says_order(frame.schema, "window") or [] for side, frame in sides.items()}
    config = ExtentJoinTableConfig(
        keys=len(keys["left"]),
        scope=joined_scope(keys["left"], scopes["left"], scopes["right"]),
        on=tuple(attributes),
        within=within,
        probability=probability,
        forget_after=forgotten,
    )
    values: list[tuple[str, Cells]] = [("window", Column("window"))]
    values += [(ALTERNATIVES, Alternatives())] if attributes else []
    inputs = [
        Input(frame, Reading(tuple(frame.columns), (), tuple(keys[side]), tuple(values)))
        for side, frame in sides.items()
    ]
    columns = [Shown(("window",), sides["left"].schema.field("window"))]
    for side, frame in sides.items():
        columns.append(Shown((side,), pa.field(side, struct_of(frame.columns, frame))))
    if attributes:
        pairs = pairs_type(*(_fields(frame, side) for side, frame in sides.items()))
        columns.append(Shown((ALTERNATIVES,), pa.field(ALTERNATIVES, pairs)))
        columns.append(Shown(("probability",), pa.field("probability", pa.float64())))
    return run(Job("extent_join", "extents", name), inputs, config, columns)


def _windowed(frame: Frame, side: str, attributes: list[str]) -> Frame:
    """The frame, checked. Raises ValueError for one without extents, or that lacks attributes."""
    if says_order(frame.schema, "window") is None:
        raise ValueError(
            f"the {side} table has no column `window` of extents: make it with "
            "window_aggregate(..., window=sf.Range(...))"
        )
    lacking = [a for a in attributes if a not in frame.attributes]
    if lacking:
        raise ValueError(
            f"`on` names {lacking}, which the alternatives of the {side} table lack; they "
            f"have {frame.attributes}"
        )
    return frame


def _fields(frame: Frame, side: str) -> list[pa.Field]:
    """Of a side's attributes in an answer's alternatives."""
    return [pa.field(f"{side}_{a}", frame.attribute_type(a)) for a in frame.attributes]
