"""The similarity join of two uncertain tables: `sfumato.similarity_join` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import frame_of
from sfumato.local.model.imputation import Imputation
from sfumato.local.model.join_side import Side, pairs_type
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run, struct_of
from sfumato.operators.joins.join_window import Window
from sfumato.tables.joins.join import ALTERNATIVES
from sfumato.tables.joins.query import JoinQuery
from sfumato.tables.joins.sharing import tasks_of
from sfumato.tables.reading.naming import Shown
from sfumato.tables.reading.shared_rows import PAIRS, SHARED


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
    asked = (on, within, probability, window, order, key, strategy, output, alternatives, metric)
    imputation = None if impute is None else Imputation.of(impute)
    query = JoinQuery(*asked, forget_after, tasks_here(tasks), imputation)
    sides = query.sides(Side, frame_of(left, "left"), frame_of(right, "right"))
    config = query.config(sides, idle_timeout)
    columns = shown_of(sides, output, alternatives)
    aligned = config.aligned is not None
    given = [Input(side.frame, side.reading(aligned or side.marks_late)) for side in sides]
    return run(Job("similarity_join", "join", name), given, config, columns)


SAID = {SHARED: PAIRS}  # metadata of probabilities


def shown_of(sides: Sequence[Side], output: str, alternatives: bool = True) -> list[Shown]:
    """The columns of the result."""
    columns = [
        Shown((side.name,), pa.field(side.name, struct_of(side.passed, side.frame)))
        for side in sides
    ]
    columns.append(Shown(("probability",), pa.field("probability", pa.float64(), metadata=SAID)))
    if alternatives:
        pairs = pairs_type(*(side.fields for side in sides))
        columns.append(Shown((ALTERNATIVES,), pa.field(ALTERNATIVES, pairs, metadata=SAID)))
    if output == "changes":
        columns.append(Shown(("change",), pa.field("change", pa.string())))
    return columns


def tasks_here(tasks: int | None) -> int:
    """How many tasks do the work: one process; but a query that moves to Spark is checked."""
    if tasks is not None:
        tasks_of(tasks)
    return 1
