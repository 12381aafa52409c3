"""Many top-k queries over one window of uncertain tuples, for frames."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, in_memory, public_function, run
from sfumato.operators.ranking.semantics import Semantics as Semantics
from sfumato.queries import Top
from sfumato.tables.ranking.table_top_k import top_k_job
from sfumato.windows import Range, Rows


@public_function('sf.top_k(df, 3, by="speed", window=sf.Range("5 minutes"), order="ts")', "df")
def top_k(
    df: Any,
    queries: Top | int | Sequence[Top | int],
    *,
    by: str,
    window: Range | Rows,
    order: ColumnName,
    key: ColumnNames | None = None,
    exclusive: ColumnName | None = None,
    rescale: bool = False,
    semantics: str = "pk_topk",
    probability: float | None = None,
    alpha: float | None = None,
    weights: Sequence[float] | None = None,
    existence: ColumnName | None = None,
    group: ColumnName | None = None,
    plan: str = "dp",
    processing_time: bool = False,
    ascending: bool | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Answer many top-k queries over one window: the most probable top-k tuples for each k.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    queries
        One sf.Top or a list; their names must differ. A number k stands for sf.Top(k).
    by
        The score: an expression over attributes and certain columns; may end in `asc` or `desc`.
    window
        sf.Range: at each instant, the tuples of the last `length`. sf.Rows: the newest tuples.
    order, key
        Event time (timestamp or whole microseconds), and column(s); each key has one ranking.
    exclusive
        Column; at most one of the tuples with the same value exists. NULL: independent tuples.
    rescale
        Divide probabilities of exclusive tuples by their sum in the window if the sum exceeds 1.
    semantics
        "pk_topk", "pt_k", "u_topk", "u_kranks", "expected_rank", "prf" or "prfe".
    probability, alpha, weights
        For "pt_k" the minimum probability, for "prfe" the base, for "prf" the ranks' weights.
    existence
        Column with the probability of each row, for a frame without alternatives.
    group
        Column; rank groups by the expected number of their tuples among the k best ("pk_topk").
    plan
        "dp" (minimal sum of k), "time" (minimal time), "greedy" (at most twice "dp"), or "none".
    processing_time
        After the window's `idle_timeout` without rows, event time follows the system clock.
    ascending
        Whether the smallest score ranks first, if `by` has neither `asc` nor `desc`.
    forget_after
        Time to live of a key ("1 day"), after which it starts with an empty window.
    name
        Name of the metrics, instead of the number N in ``sfumato_top_k_N``.

    Returns
    -------
    The key columns, `query`, `k`, `time`, `rank`, `score`, `probability`, `row` and `answered`.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    Cost: one shuffle by key, one computation per instant and key. State: the tuples of a window.
    More: page reference/functions/top_k of the documentation.

    References
    ----------
    Chen et al. (2013), sections 1 to 9. IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> best = sf.top_k(uncertain, 2, by="celsius", window=sf.Range("20 seconds"), order="arrival")
    >>> [(row["rank"], row.row.id, round(row.probability, 2)) for row in best.collect()]
    [(1, 3, 1.0), (2, 4, 0.94)]
    """
    columns = {"order": order, "key": key, "existence": existence}
    columns |= {"exclusive": exclusive, "group": group}
    ranked_by = Semantics(semantics, probability, alpha, weights)  # type: ignore[arg-type]
    how = ranked_by, plan, forget_after, rescale, processing_time
    job = top_k_job(frame_of(df), queries, by, ascending, window, *how, name, **columns)
    config: Any = job.config
    answers = run(job)
    if in_memory(job.inputs[0].frame):
        return answers
    from sfumato.spark.runtime.run import count_answers

    return count_answers(answers, [query for query, *_ in config.queries])
