"""What a stream knew before each row: `sfumato.earlier_values` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import BY_US, frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, passed, run
from sfumato.tables.imputation.query import EarlierValuesQuery
from sfumato.tables.operator import ROW
from sfumato.tables.reading.naming import Shown


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
    query = EarlierValuesQuery(frame, attributes, order, key)
    columns = passed(frame.columns, frame, frame.columns, ROW)
    for fixed, title in query.added.items():
        columns.append(Shown((fixed,), pa.field(title, pa.float64(), metadata=BY_US)))
    job = Job("earlier_values", "earlier_values", name)
    return run(job, [Input(frame, query.reading)], query.config(forget_after), columns)
