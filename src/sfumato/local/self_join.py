"""The similarity join of one table with itself: `sfumato.self_join` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import frame_of
from sfumato.local.model.join_side import Side
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run
from sfumato.local.similarity_join import shown_of, tasks_here
from sfumato.operators.joins.join_window import Window, require_one
from sfumato.tables.joins.query import JoinQuery


@same_kind
def self_join(
    df: Any,
    *,
    on: str | Sequence[str],
    within: float | Mapping[str, float],
    probability: float,
    window: Window,
    order: str | Sequence[str],
    key: str | Sequence[str] | None = None,
    strategy: str = "auto",
    output: str = "append",
    alternatives: bool = True,
    metric: str = "euclidean",
    forget_after: str | timedelta | float | None = None,
    tasks: int | None = None,
    name: str | None = None,
) -> pa.Table:
    """Pairs of tuples of one stream that are close with at least the wanted probability.

    df : a pandas, Polars or Arrow table: the whole stream
    tasks : of Spark; here one process does the work
    The other arguments, the columns and the counters are those of `sfumato.self_join` over a static
    frame. Raises ValueError or TypeError for wrong arguments.
    """
    require_one(window)
    asked = (on, within, probability, window, order, key, strategy, output, alternatives, metric)
    query = JoinQuery(*asked, forget_after, tasks_here(tasks))
    sides = query.sides(Side, frame_of(df))
    config = query.config_alone(sides[0])
    read = [Input(sides[0].frame, sides[0].reading(config.marks_late))]
    columns = shown_of(sides, output, alternatives)
    return run(Job("self_join", "self_join", name), read, config, columns)
