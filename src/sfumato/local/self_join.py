"""The similarity join of one table with itself: `sfumato.self_join` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.controlled import marks_late, never_behind
from sfumato.local.model.forgetting import forget_after_of
from sfumato.local.model.frame import frame_of
from sfumato.local.model.join_side import Side
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run
from sfumato.local.similarity_join import shown_of
from sfumato.operators.arguments import flag
from sfumato.operators.joins.join_window import Window, pair_of, require_one
from sfumato.tables.joins.arguments import joined_attributes
from sfumato.tables.joins.join import SIDES
from sfumato.tables.joins.metric import distance_of, finite
from sfumato.tables.joins.self_join import SelfJoinTableConfig
from sfumato.tables.joins.sharing import tasks_of
from sfumato.tables.reading.types import is_time


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
    attributes = joined_attributes(on, order)
    if tasks is not None:
        tasks_of(tasks)  # one process does the work, but a query that moves to Spark is checked
    require_one(window)
    frame = frame_of(df)
    windows = pair_of(window)
    limit, distance = distance_of(within, attributes, metric)
    sides = [Side(frame, side, attributes, order, key, alone=True) for side in SIDES]
    left = sides[0]
    left.timed = windows[0].span is not None
    if left.timed:
        kinds = [frame.type(column) for column in left.orders]
        if len(kinds) != 1 or not is_time(kinds[0]):
            raise TypeError(
                "`order` must be one timestamp, or whole microseconds, where `window` goes by "
                f"time; got {', '.join(map(str, kinds))}"
            )
    late = marks_late(frame.schema, left.orders)
    chosen: dict[str, Any] = {"alternatives": flag("alternatives", alternatives)}
    if forget_after is not None:
        chosen["forget_after"] = forget_after_of(frame, left.orders[0], left.keys, forget_after)
    config = SelfJoinTableConfig(
        within=limit,
        probability=finite("probability", probability),
        windows=(windows[0], windows[1]),
        output=output,
        orders=len(left.orders),
        keys=len(left.keys),
        strategy=strategy,
        metric=distance,
        on=tuple(f"on{i}" for i in range(len(attributes))),
        marks_late=late,
        one_controller=never_behind(frame.schema, left.orders, []),
        **chosen,
    )
    given = [Input(frame, left.reading(late))]
    return run(
        Job("self_join", "self_join", name), given, config, shown_of(sides, output, alternatives)
    )
