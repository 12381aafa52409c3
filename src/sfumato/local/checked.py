"""Valid rows, and the others with the reason: nothing invalid passes, nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import ArrowFrame, frame_of
from sfumato.local.model.kind import same_kind
from sfumato.tables.arrow import as_array
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.names import names
from sfumato.tables.reading.validity import Reasons, why_invalid


@same_kind
def checked(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    strict: bool = False,
) -> pa.Table:
    """The rows with valid alternatives, or a valid `existence`, unchanged: see `sfumato.checked`.

    key, order : columns that must not be NULL
    metric : as for `sfumato.checked`
    strict : raise ValueError for the first invalid row, instead of leaving it out
    """
    frame = frame_of(df)
    reasons = _reasons(frame, attributes, key, order, metric)
    if not reasons.invalid.any():
        return frame.table
    if strict:
        first = reasons.column().drop_null()[0].as_py()
        raise ValueError(f"invalid row: {first}")
    return frame.table.filter(pa.array(~reasons.invalid))


@same_kind
def rejected(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
) -> pa.Table:
    """The rows that `checked` leaves out, whole, with a column `reason`: see `sfumato.rejected`."""
    frame = frame_of(df)
    frame.require_free(["reason"])
    reasons = _reasons(frame, attributes, key, order, metric)
    with_reason = frame.table.append_column("reason", reasons.column())
    return with_reason.filter(pa.array(reasons.invalid))


def _reasons(
    frame: ArrowFrame,
    attributes: str | Sequence[str] | None,
    key: str | Sequence[str] | None,
    order: str | Sequence[str] | None,
    metric: str,
) -> Reasons:
    wanted = names("attributes", attributes)
    frame.require_tuples()
    if not frame.uncertain:
        wanted = frame.resolved("attributes", wanted)
    bounds = bounds_of(metric, wanted)
    reasons = why_invalid(frame.table, None if attributes is None else wanted, bounds=bounds)
    for argument, given in (("key", key), ("order", order)):
        for name in frame.resolved(argument, given):
            column = as_array(frame.table.column(name))
            reasons.add(column.is_null().to_numpy(zero_copy_only=False), f"{argument} is NULL")
    return reasons
