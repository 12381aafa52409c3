"""Aggregates over windows of uncertain tuples: `sfumato.window_aggregate` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.limits import why_not_placed
from sfumato.local.model.frame import frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run
from sfumato.local.model.uncertain_time import by_extent, true_extents
from sfumato.local.model.window_plan import WindowPlan
from sfumato.tables.windows.query import extents_per_row
from sfumato.tables.windows.wanted import wanted
from sfumato.windows import Delta, Range, Rows, window_of


@same_kind
def window_aggregate(
    df: Any,
    aggregates: Mapping[str, str],
    *,
    window: Rows | Range | Delta,
    order: str | Sequence[str],
    key: str | Sequence[str] | None = None,
    distribution: int | None = None,
    existence: str | None = None,
    quantiles: Sequence[float] = (),
    members: bool = False,
    seed: int = 0,
    samples: int = 1000,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> pa.Table:
    """Aggregates over a window of uncertain tuples, as numbers with their uncertainty.

    df : a pandas, Polars or Arrow table: the whole stream
    aggregates : as for `sfumato.window_aggregate`; the expressions are made of attributes, columns,
        fields of structs (m.mean), numbers, + - * /, conditions and parentheses
    The other arguments, the columns and the counters are those of `sfumato.window_aggregate` over a
    static frame. Raises ValueError or TypeError for wrong arguments, and what cannot be computed.
    """
    extents = window = window_of(window)
    frame = frame_of(df)
    uncertain = isinstance(window, Range) and frame.is_uncertain_time(order)
    if isinstance(extents, Range) and uncertain:
        if members:
            raise ValueError("`members` of extents have certain event times: `order` is uncertain")
        frame, order, window = by_extent(frame, str(order), extents)
    asked = (wanted(aggregates), window, order, key, existence, distribution)
    plan = WindowPlan(frame, *asked, by_extent=uncertain)
    settings = plan.settings(members, forget_after, quantiles, seed=seed, samples=samples)
    why = ""
    if isinstance(extents, Range) and uncertain:
        why = why_not_placed(extents_per_row(extents))
    given = Input(frame, plan.reading(members, why))
    job = Job("window_aggregate", "window", name)
    found = run(job, [given], settings, plan.columns(settings))
    return true_extents(found, extents) if isinstance(extents, Range) and uncertain else found
