"""Valid rows, and the others with the reason: nothing invalid passes, nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.local.model.frame import ArrowFrame, frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.measures import existence_of
from sfumato.tables.arrow import as_array
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.names import names
from sfumato.tables.reading.tuples import Tuples
from sfumato.tables.reading.types import floats_of
from sfumato.tables.reading.validity import Reasons, add_of_rules, require_order, why_invalid


@same_kind
def checked(
    df: Any,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    rules: str | None = None,
    strict: bool = False,
) -> pa.Table:
    """The rows with valid alternatives, or a valid `existence`, unchanged: see `sfumato.checked`.

    key, order : columns that must not be NULL
    metric, rules : as for `sfumato.checked`
    strict : raise ValueError for the first invalid row, instead of leaving it out
    """
    frame = frame_of(df)
    if strict and rules is not None:
        raise ValueError(
            "`strict` looks at one row at a time, `rules` at several: give one of them"
        )
    reasons = _reasons(frame, attributes, key, order, metric, rules)
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
    rules: str | None = None,
) -> pa.Table:
    """The rows that `checked` leaves out, whole, with a column `reason`: see `sfumato.rejected`."""
    frame = frame_of(df)
    frame.require_free(["reason"])
    reasons = _reasons(frame, attributes, key, order, metric, rules)
    with_reason = frame.table.append_column("reason", reasons.column())
    return with_reason.filter(pa.array(reasons.invalid))


def _reasons(
    frame: ArrowFrame,
    attributes: str | Sequence[str] | None,
    key: str | Sequence[str] | None,
    order: str | Sequence[str] | None,
    metric: str,
    rules: str | None,
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
    if rules is not None:
        require_order(order)
        columns = [frame.one("rules", rules), *frame.resolved("key", key)]
        named = zip(*(frame.table.column(name).to_pylist() for name in columns), strict=True)
        add_of_rules(
            reasons,
            _existences(Tuples(frame.table)),
            [None if cells[0] is None else cells for cells in named],
            _order_of(frame.table, frame.resolved("order", order)),
        )
    return reasons


def _existences(tuples: Tuples) -> np.ndarray:
    """float64[n]; NaN of rows that are invalid."""
    if tuples.uncertain:
        return existence_of(tuples)
    given = "existence" if "existence" in tuples.table.column_names else None
    return floats_of(tuples.prob(given).flatten())


def _order_of(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """int64[n]: the rows by some columns, equal ones as they stand."""
    keys = table.select(columns).append_column("", pa.array(np.arange(table.num_rows)))
    sorted_by = [(name, "ascending") for name in [*columns, ""]]
    found: np.ndarray = pc.sort_indices(keys, sort_keys=sorted_by).to_numpy()
    return found
