"""The similarity join of two uncertain tables: `sfumato.similarity_join` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.forgetting import forget_after_of
from sfumato.local.model.frame import frame_of
from sfumato.local.model.imputation import Imputation
from sfumato.local.model.join_side import IncompleteSide, Side, pairs_type
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run, struct_of
from sfumato.operators.arguments import flag
from sfumato.operators.joins.join_window import Window, pair_of
from sfumato.tables.joins.arguments import aligned, check_imputation, joined_attributes
from sfumato.tables.joins.incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.join import ALTERNATIVES, SIDES, JoinTableConfig
from sfumato.tables.joins.metric import distance_of, finite
from sfumato.tables.joins.sharing import tasks_of
from sfumato.tables.joins.similarity_join import SimilarityJoinTableConfig
from sfumato.tables.reading.names import names
from sfumato.tables.reading.naming import Shown
from sfumato.tables.reading.types import is_time
from sfumato.windows import JoinWindow


@same_kind
def similarity_join(
    left: Any,
    right: Any,
    *,
    on: str | Sequence[str],
    within: float | Mapping[str, float],
    probability: float,
    window: Window | Sequence[Window],
    order: str | Sequence[str],
    key: str | Sequence[str] | None = None,
    strategy: str = "auto",
    output: str = "append",
    alternatives: bool = True,
    metric: str = "euclidean",
    idle_timeout: str | timedelta | None = None,
    impute: Imputation | Mapping[str, Any] | None = None,
    forget_after: str | timedelta | float | None = None,
    tasks: int | None = None,
    name: str | None = None,
) -> pa.Table:
    """Pairs of tuples of two streams that are close with at least the wanted probability.

    left, right : pandas, Polars or Arrow tables: the whole streams
    impute : `sfumato.local.Imputation`, or its arguments as a dict
    tasks : of Spark; here one process does the work
    The other arguments, the columns and the counters are those of `sfumato.similarity_join` over
    static frames. Raises ValueError or TypeError for wrong arguments.
    """
    attributes = joined_attributes(on, order)
    if tasks is not None:
        tasks_of(tasks)  # one process does the work, but a query that moves to Spark is checked
    windows = pair_of(window)
    limit, distance = distance_of(within, attributes, metric)
    frames = [frame_of(given, side) for given, side in zip((left, right), SIDES, strict=True)]
    chosen: dict[str, Any] = {
        "within": limit,
        "probability": finite("probability", probability),
        "windows": windows,
        "output": output,
        "alternatives": flag("alternatives", alternatives),
        "orders": len(names("order", order)),
        "keys": len(names("key", key)),
    }
    if forget_after is not None:
        by = frames[0].resolved("order", order)[0]
        chosen["forget_after"] = forget_after_of(frames[0], by, names("key", key), forget_after)
    config: JoinTableConfig
    sides: Sequence[Side]
    if impute is None:
        sides = [
            Side(frame, side, attributes, order, key)
            for frame, side in zip(frames, SIDES, strict=True)
        ]
        chosen |= _alignment(sides, windows, idle_timeout)
        on_names = tuple(f"on{i}" for i in range(len(attributes)))
        config = SimilarityJoinTableConfig(
            strategy=strategy, metric=distance, on=on_names, **chosen
        )
    else:
        imputation = Imputation.of(impute)
        check_imputation(imputation, attributes, strategy, distance)
        imputed = imputation.settings.names
        sides = [
            IncompleteSide(frame, side, attributes, order, key, imputed)
            for frame, side in zip(frames, SIDES, strict=True)
        ]
        chosen |= _alignment(sides, windows, idle_timeout)
        data = imputation.imputer.to_bytes()
        config = IncompleteJoinTableConfig(imputer=data, on=tuple(attributes), **chosen)
    columns = shown_of(sides, output, alternatives)
    given = [Input(side.frame, side.reading(config.aligned is not None)) for side in sides]
    return run(Job("similarity_join", "join", name), given, config, columns)


def shown_of(sides: Sequence[Side], output: str, alternatives: bool = True) -> list[Shown]:
    """The columns of the result."""
    columns = [
        Shown((side.name,), pa.field(side.name, struct_of(side.passed, side.frame)))
        for side in sides
    ]
    columns.append(Shown(("probability",), pa.field("probability", pa.float64())))
    if alternatives:
        pairs = pairs_type(*(side.fields for side in sides))
        columns.append(Shown((ALTERNATIVES,), pa.field(ALTERNATIVES, pairs)))
    if output == "changes":
        columns.append(Shown(("change",), pa.field("change", pa.string())))
    return columns


def _alignment(
    sides: Sequence[Side], windows: Sequence[JoinWindow], idle_timeout: Any
) -> dict[str, Any]:
    """Of the config: whether rows are taken in order of event time, and what else concerns it."""
    timed = any(window.span is not None for window in windows)
    for side in sides:
        side.timed = timed
        kinds = [side.frame.type(name) for name in side.orders]
        if timed and not (len(kinds) == 1 and is_time(kinds[0])):
            raise TypeError(
                "`order` must be one timestamp, or whole microseconds, where `window` goes by "
                f"time; the {side.name} table has {', '.join(map(str, kinds))}"
            )
    found = aligned([side.controlled_by for side in sides], idle_timeout, "reorder")
    if found is None:
        return {}
    return {**found, "one_controller": all(side.never_behind for side in sides)}
