"""Similarity join of one uncertain stream with itself as a DataFrame function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import DataFrame

from sfumato.operators.joins.join_window import Window, require_one
from sfumato.spark.model.entrance import public
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.join_side import Side
from sfumato.spark.runtime.lineage import Input
from sfumato.spark.runtime.run import metrics_name, run_operator
from sfumato.spark.similarity_join import answers_of
from sfumato.tables.joins.query import JoinQuery


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
    require_one(window)
    asked = (on, within, probability, window, order, key, strategy, output, alternatives, metric)
    query = JoinQuery(*asked, forget_after, tasks)
    sides = query.sides(Side, SparkFrame(df))
    config = query.config_alone(sides[0])
    config.make()  # raises here, on the driver, what the config has wrong
    answers, results = answers_of(sides, output, alternatives)
    read = [Input(df, sides[0].reading(config.marks_late))]
    metrics = metrics_name("self_join", name)
    return run_operator(read, config, answers, results, metrics=metrics)
