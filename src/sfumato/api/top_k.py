"""Many top-k queries over one window of uncertain tuples, for frames."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, in_memory, public, run
from sfumato.api.window_aggregate import window_input
from sfumato.operators.ranking.semantics import semantics_of
from sfumato.queries import Top
from sfumato.tables.ranking.top_k_query import RankingColumns, RankingQuery
from sfumato.tables.reading.job import Job
from sfumato.windows import Range, Rows


@public('sf.top_k(df, 3, by="speed", window=sf.Range("5 minutes"), order="ts")', "df")
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
    ascending: bool | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Answer many top-k queries over one window: the most probable top-k tuples for each k, in
    time.

    Parameters
    ----------
    df
        A DataFrame of Spark, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The result is of the same kind.
    queries
        sf.Top, one or a list; their names must differ. A number k stands for sf.Top(k).
    by
        A tuple's score: an expression over attributes and certain columns (see `window_aggregate`),
        optionally followed by `asc` or `desc` for the end that ranks first (default: the greatest
        score). With alternatives, each of them is ranked by its own score, and the tuple is their
        rule.
    window
        sf.Range: at instant t the tuples of its `length` before t, without t itself. A query whose
        `every` is None is answered every `slide`; slides are not aligned. sf.Rows: the newest
        tuples that hold `rows` existing ones with its confidence (tuples of one rule are taken as
        independent for this); every query then needs its `every`.
    order
        Event time, a timestamp or whole microseconds; a name or a Column (see `reorder`), like the
        other columns.
    key
        Column(s); one ranking per value.
    exclusive
        Column; of the tuples with the same value at most one exists (NULL: independent of all).
        They are the tuples of one rule. Their probabilities sum to at most 1; where those in a
        window sum to more, the later arrivals are excluded permanently, counted and warned of. Or
        see `rescale`.
    rescale
        Instead, divide the probabilities of the tuples of such a rule in the window by their sum.
    semantics
        "pk_topk" (also "global_topk"), "pt_k" with `probability` as the least Pr_k, "u_topk"
        (vectors of tuples, whatever alternatives they have), "u_kranks", "expected_rank", "prf"
        with `weights` of ranks 1, 2, ..., "prfe" with `alpha` (see `Semantics`).
    existence
        Column with the probability of each row of a frame without alternatives; default:
        `existence`, where there is such a column, else every row exists.
    group
        Column; rank groups of tuples, for example streams of stations, by the sum of their tuples'
        Pr_k ("pk_topk" only).
    plan
        "dp" (least cost), "greedy" (at most twice that), or "none" (each query separately).
    ascending
        Whether the least score ranks first, where `by` does not say.
    forget_after
        Time to live of a key, "1 day": if its next row comes later than this after its last one,
        its queries are answered once more, as at the end of a frame, and it starts with an empty
        window and a new timetable. The state is deleted soon afterwards. Where keys share a
        controller: for sf.Range only, and at least as long as the window.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    A row per answer and rank: the key columns, `query`, `k`, `time` (the instant, of the order's
    type), `rank` from 1 (tuples that are equal to 12 digits are in order of expected score, then of
    arrival), `score` (of the most probable alternative), `probability` (what the semantics rank by:
    Pr_k, the probability of the vector or of that rank, the expected rank or the weighted sum),
    `row`, a struct of the tuple's certain columns, and `answered`, the event time known when the
    answer was emitted: answered - time is its latency. With `group`, `row` is NULL and `stream` is
    the group.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments.

    Notes
    -----
    A query is answered at instants of event time at most `every` apart. The timetable shares one
    computation among all queries that are due. Per key it starts at its first row's time, rounded
    down to a multiple of the greatest common divisor of all `every`. Empty windows have no answer.

    Downstream of sf.reorder, whose columns `late` and `punctuation` must be there, an instant is
    answered once a row shows that the punctuation has reached it, late rows are skipped, and `key`
    must contain the key of the controller. Otherwise rows are read in order of `order`, and an
    instant is answered once a row of that time or later has come. A row older than those before it
    counts as out_of_order and is included in the instants still to come. When a static frame ends,
    and after `window.idle_timeout` without rows, each query is answered once more, at its first
    instant after the newest row; `answered` is then NULL, as no row triggered it. Rows before such
    an instant that come later are late.

    Rows with invalid probabilities, without order or without a finite score are skipped. The
    observed metrics ``sfumato_top_k_N_input`` count them (`invalid`) and a stream warns of them; a
    static frame does not warn, `sf.split_invalid` finds them. ``sfumato_top_k_N`` counts rows,
    invalid (whose time lies beyond 2**60 microseconds of 1970), late, out_of_order, rejected (the
    later arrivals that are excluded permanently because their rule has more than probability 1 in a
    window: a stream warns of them, and ``sf.split_invalid(df, exclusive=..., order=...)`` finds
    the ones of a static frame that fits in one window), overflow (evicted by `max_tuples`),
    executions, cost (the sum of their k), answers (rows), answered (answers to a query at an
    instant), late_answers (those whose latency is above their `every`) and latency (its sum, in
    microseconds of event time). ``sfumato_top_k_N_answers`` counts the answers to each query, of up
    to 100, by name.

    A stopped streaming query may continue from its checkpoint with other `queries` (names, k or
    `every`): they take effect as of its last micro-batch, and no bound is missed.

    Cost: one shuffle by key (downstream of a controller without key: one task); one ranking and one
    kernel call, for the greatest k due, per instant and key. State: the tuples of a window and
    their rows.
    References: Chen et al. (2013), sections 1-9: see the page of papers.

    Examples
    --------
    >>> best = sf.top_k(uncertain, 2, by="celsius", window=sf.Range("20 seconds"), order="arrival")
    >>> [(row["rank"], row.row.id, round(row.probability, 2)) for row in best.collect()]
    [(1, 3, 1.0), (2, 4, 0.94)]
    """
    columns = RankingColumns(order, key, existence, exclusive, group)
    ranking = RankingQuery.asked(frame_of(df), queries, by, ascending, window, columns)
    ranked_by = semantics_of(semantics, probability, alpha, weights)
    config = ranking.config(ranked_by, plan, forget_after, rescale)
    idle = config.window.idle_timeout_us if isinstance(config.window, Range) else None
    given = [window_input(ranking)]
    answers = run(Job("top_k", "top_k", name, given, config, ranking.answers(), idle_timeout=idle))
    if in_memory(ranking.frame):
        return answers
    from sfumato.spark.runtime.run import count_answers

    return count_answers(answers, list(ranking.queries))
