"""Separate valid rows of tables in memory from invalid rows with their reasons."""

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
from sfumato.tables.reading.validity import add_of_rules, require_order, why_invalid

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
    """Implement `split_invalid` for a table. If `strict`, raises ValueError for an invalid row."""
    wanted = names("attributes", attributes)
    frame.require_tuples()
    if not frame.uncertain:
        wanted = frame.resolved("attributes", wanted)
    bounds, table = bounds_of(metric, wanted), frame.table
    reasons = why_invalid(table, None if attributes is None else wanted, bounds=bounds)
    named = {"key": frame.resolved("key", key), "order": frame.resolved("order", order)}
    for argument, columns in named.items():
        for name in columns:
            missing = as_array(table.column(name)).is_null().to_numpy(zero_copy_only=False)
            reasons.add(missing, f"{argument} is NULL")
    if exclusive is not None:
        require_order(order)
        rule = [frame.one("exclusive", exclusive), *named["key"]]
        cells = zip(*(table.column(name).to_pylist() for name in rule), strict=True)
        rules = [None if of[0] is None else of for of in cells]
        numbered = table.append_column("", pa.array(np.arange(table.num_rows)))  # a stable sort
        by = [(name, "ascending") for name in [*named["order"], ""]]
        places = pc.sort_indices(numbered, sort_keys=by).to_numpy()
        add_of_rules(reasons, _existences(Tuples(table)), rules, places)
    invalid = table.append_column("reason", reasons.column()).filter(pa.array(reasons.invalid))
    if strict and invalid.num_rows:
        raise ValueError(f"invalid row: {invalid['reason'][0].as_py()}")
    return table.filter(pa.array(~reasons.invalid)) if invalid.num_rows else table, invalid


def split(frame: ArrowFrame, mark: str) -> tuple[pa.Table, pa.Table]:
    """Return the rows where a boolean column is not true, and the rows where it is true."""
    marked = pc.fill_null(frame.table.column(mark), False)
    return frame.table.filter(pc.invert(marked)), frame.table.filter(marked)


def _existences(tuples: Tuples) -> np.ndarray:
    """Return float64[n]: the existence of each row; NaN for invalid rows."""
    if tuples.uncertain:
        return existence_of(tuples)
    given = "existence" if "existence" in tuples.table.column_names else None
    return floats_of(tuples.prob(given).flatten())
