"""Valid rows of tables in memory, and the others with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.memory.alternatives import existence_of
from sfumato.memory.frame import ArrowFrame
from sfumato.tables.arrow import as_array
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.frame import names
from sfumato.tables.reading.tuples import Tuples
from sfumato.tables.reading.types import floats_of
from sfumato.tables.reading.validity import Reasons, add_of_rules, require_order, why_invalid

Names = str | Sequence[str] | None


def split_rows(
    frame: ArrowFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    exclusive: str | None,
    strict: bool,
) -> tuple[pa.Table, pa.Table]:
    """`split_invalid` of a table. Raises ValueError for the first invalid row if `strict`."""
    reasons = _reasons(frame, attributes, key, order, metric, exclusive)
    with_reason = frame.table.append_column("reason", reasons.column())
    invalid = with_reason.filter(pa.array(reasons.invalid))
    if not invalid.num_rows:
        return frame.table, invalid
    if strict:
        raise ValueError(f"invalid row: {invalid['reason'][0].as_py()}")
    return frame.table.filter(pa.array(~reasons.invalid)), invalid


def split(frame: ArrowFrame, mark: str) -> tuple[pa.Table, pa.Table]:
    """Return the rows where a column of truths is not true, and those where it is."""
    marked = pc.fill_null(frame.table.column(mark), False)
    return frame.table.filter(pc.invert(marked)), frame.table.filter(marked)


def _reasons(
    frame: ArrowFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    exclusive: str | None,
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
    if exclusive is not None:
        require_order(order)
        columns = [frame.one("exclusive", exclusive), *frame.resolved("key", key)]
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
