"""What a stream knew before each row: `sfumato.earlier_values` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.controlled import BY_US
from sfumato.local.model.forgetting import forget_after_of
from sfumato.local.model.frame import frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, passed, run
from sfumato.tables.imputation.earlier_values import EarlierValuesTableConfig
from sfumato.tables.operator import ROW
from sfumato.tables.reading.input import Cells, Doubles, Reading
from sfumato.tables.reading.naming import Shown
from sfumato.tables.reading.types import is_number, is_time


@same_kind
def earlier_values(
    df: Any,
    attributes: str | Sequence[str],
    *,
    order: str,
    key: str | Sequence[str] | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> pa.Table:
    """Each row beside what its key's earlier rows knew: determinants for an imputation.

    df : a pandas, Polars or Arrow table: the whole stream
    The other arguments, the columns and the counters are those of `sfumato.earlier_values` over a
    static frame. Raises ValueError or TypeError for wrong arguments.
    """
    frame = frame_of(df)
    wanted = frame.resolved("attributes", attributes)
    if not wanted:
        raise ValueError("`attributes` must name at least one column of numbers; got none")
    frame.require_numbers("attributes", wanted)
    order, keys = frame.one("order", order), frame.keys("key", key)
    kind = frame.type(order)
    if not is_time(kind) and not is_number(kind):
        raise TypeError(f"`order` must be a timestamp or a number; `{order}` is {kind}")
    columns = passed(frame.columns, frame, frame.columns, ROW)
    for i, attribute in enumerate(wanted):
        for fixed, shown in ((f"earlier{i}", "earlier"), (f"age{i}", "age")):
            title = f"{shown}_{attribute}"
            if title in frame.columns:
                raise ValueError(
                    f"the table has a column `{title}` already: rename or drop it first"
                )
            columns.append(Shown((fixed,), pa.field(title, pa.float64(), metadata=BY_US)))
    config = EarlierValuesTableConfig(
        attributes=len(wanted),
        keys=len(keys),
        forget_after=forget_after_of(frame, order, keys, forget_after),
    )
    values: list[tuple[str, Cells]] = [(f"value{i}", Doubles(a)) for i, a in enumerate(wanted)]
    reading = Reading(tuple(frame.columns), (order,), tuple(keys), tuple(values))
    job = Job("earlier_values", "earlier_values", name)
    return run(job, [Input(frame, reading)], config, columns)
