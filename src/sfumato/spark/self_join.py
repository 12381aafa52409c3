"""Similarity join of one uncertain stream with itself as a DataFrame function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from sfumato.operators.arguments import flag
from sfumato.operators.joins.join_window import Window, pair_of, require_one
from sfumato.spark.model.columns import is_time, names, resolved
from sfumato.spark.model.controlled import marks_late, never_behind
from sfumato.spark.model.entrance import public
from sfumato.spark.model.forgetting import forget_after_of
from sfumato.spark.model.join_side import Side
from sfumato.spark.runtime.run_operator import metrics_name, run_operator
from sfumato.spark.similarity_join import answers_of, input_of
from sfumato.tables.joins.arguments import joined_attributes
from sfumato.tables.joins.join import SIDES
from sfumato.tables.joins.metric import distance_of, finite
from sfumato.tables.joins.self_join import SelfJoinTableConfig
from sfumato.tables.joins.sharing import tasks_for, tasks_of


@public(
    'sf.self_join(df, on="x", within=0.5, probability=0.8, window=sf.Range("10 minutes"), '
    'order="ts")',
    "df",
)
def self_join(
    df: DataFrame,
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
) -> DataFrame:
    """Pairs of tuples of one stream that are close with at least the wanted probability.

    Each arriving tuple is matched with those before it that the window holds, as by
    ``sf.similarity_join``: every pair comes out once, `left` the tuple that arrives and `right` an
    earlier one, and none is of a tuple with itself. The arguments, the other columns and the
    metrics ``sfumato_self_join_N`` are those of ``sf.similarity_join``. After sf.reorder, with its
    event time as `order`, late rows take no part and are counted.

    Cost: twice that of a join of two streams of half the rows each; one shuffle by `key`, of
    `tasks` copies of the rows, and the stream is read once. State: the rows of the window once,
    the points of their alternatives twice.
    Raises ValueError or TypeError for wrong arguments.

    >>> pairs = sf.self_join(
    ...     uncertain, on="celsius", within=1.0, probability=0.4, window=sf.Rows(3), order="arrival"
    ... )
    >>> sorted((row.left.id, row.right.id, round(row.probability, 2)) for row in pairs.collect())
    [(2, 1, 0.62), (4, 2, 0.62), (4, 3, 0.62)]
    """
    attributes = joined_attributes(on, order)
    require_one(window)
    windows = pair_of(window)
    limit, distance = distance_of(within, attributes, metric)
    sides = [Side(df, side, attributes, order, key, alone=True) for side in SIDES]
    left = sides[0]
    left.timed = windows[0].span is not None
    if left.timed:
        kinds = [df.schema[column].dataType for column in left.orders]
        if len(kinds) != 1 or not is_time(kinds[0]):
            raise TypeError(
                "`order` must be one timestamp, or whole microseconds, where `window` goes by "
                f"time; got {', '.join(kind.simpleString() for kind in kinds)}"
            )
    late = marks_late(df.schema, left.orders)
    chosen: dict[str, Any] = {"alternatives": flag("alternatives", alternatives)}
    chosen["tasks"] = tasks_for(windows, len(left.keys)) if tasks is None else tasks_of(tasks)
    if forget_after is not None:
        by = resolved(df, "order", order)[0]
        chosen["forget_after"] = forget_after_of(df, by, names("key", key), forget_after)
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
        one_controller=never_behind(df.schema, left.orders, []),
        **chosen,
    )
    config.make()  # raises here, on the driver, what the config has wrong
    answers, columns = answers_of(sides, output, alternatives)
    metrics = metrics_name("self_join", name)
    return run_operator([input_of(left, late)], config, answers, columns, metrics=metrics)
