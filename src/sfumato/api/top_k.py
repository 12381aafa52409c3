"""Many top-k queries over one window of uncertain tuples as a function of frames."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory, run
from sfumato.api.window_aggregate import window_input
from sfumato.operators.ranking.semantics import semantics_of
from sfumato.queries import Top
from sfumato.tables.ranking.query import Columns, RankingQuery
from sfumato.tables.reading.job import Job
from sfumato.windows import Range, Rows


@public('sf.top_k(df, 3, by="speed", window=sf.Range("5 minutes"), order="ts")', "df")
def top_k(
    df: Any,
    queries: Top | int | Sequence[Top | int],
    *,
    by: str,
    window: Range | Rows,
    order: str,
    key: str | Sequence[str] | None = None,
    exclusive: str | None = None,
    rescale: bool = False,
    semantics: str = "pk_topk",
    probability: float | None = None,
    alpha: float | None = None,
    weights: Sequence[float] | None = None,
    existence: str | None = None,
    group: str | None = None,
    plan: str = "dp",
    ascending: bool | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """The most probable top-k tuples of a window, for many k at once, each in time.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
    queries : sf.Top, one or a list; their names must differ. A number k stands for sf.Top(k)
    by : expression over attributes and certain columns (see `window_aggregate`), a tuple's score;
        `asc` or `desc`
        behind it says which end ranks first (without: the greatest score). With alternatives,
        each of them is ranked by its own score, and the tuple is their rule
    window : sf.Range: at instant t its `length` back from t, t left out (with `every` None, a query
        is answered every `slide`; slides are not aligned). sf.Rows: the newest tuples that hold
        `rows` existing ones with its confidence (tuples of one rule are taken as independent for
        this); every query then needs its `every`
    order : the event time, a timestamp or whole microseconds
    key : one ranking for each value of these columns
    exclusive : column; of tuples with the same value at most one exists (NULL: independent of all):
        they are the tuples of one rule. Their probabilities sum to at most 1; where those in a
        window sum to more, the later arrivals are left out for good, counted and warned of, or see
        `rescale`
    rescale : instead, divide the probabilities of such a rule's tuples in the window by their sum
    semantics : "pk_topk" (also "global_topk"), "pt_k" with `probability` as the least Pr_k,
        "u_topk" (vectors of tuples, whatever alternatives they have), "u_kranks",
        "expected_rank", "prf" with `weights` of ranks 1, 2, ...,
        "prfe" with `alpha` (see `Semantics`)
    existence : column with the probability of each row of a frame without alternatives; by default
        `existence`, where there is such a column, else every row exists
    group : column; groups of tuples, as the streams of stations, are ranked instead, by the sum of
        their tuples' Pr_k ("pk_topk" only)
    plan : "dp" (least cost), "greedy" (at most twice that), or "none" (each query on its own)
    ascending : whether the least score ranks first, where `by` does not say
    forget_after : a key whose next row comes later than this after its last one, "1 day", begins
        anew: its queries are answered once more, as at the end of a frame, then it has an empty
        window and a timetable of its own; its state goes soon after that. Where keys share a
        controller it is for sf.Range, at least as long as the window is
    name : of the metrics, instead of the number N

    A query is answered at instants of event time at most `every` apart; the timetable shares one
    computation among all queries that are due, and counts for each key from its first row's time,
    rounded down to a multiple of the greatest common divisor of all `every`. Empty windows have
    no answer.

    Rows of answers: the key columns, `query`, `k`, `time` (the instant, of the order's type),
    `rank` from 1 (tuples that are equal to 12 digits are in order of expected score, then of
    arrival), `score` (of the most probable alternative), `probability`
    (Pr_k; of the vector, of that rank, or the expected rank or weighed sum,
    whichever the semantics rank by), `row`, a struct of the tuple's certain columns, and
    `answered`: the event time that was known when the answer was given, so that answered - time
    is its latency. With `group`, `row` is NULL and `stream` the group.

    After sf.reorder, whose columns `late` and `punctuation` must be there, an instant is answered
    once a row shows that the punctuation has reached it, late rows take no part, and `key` must
    contain the key of the controller. Otherwise rows are taken in order of `order`, an instant is
    answered once a row of that time or a later one came, and an older row than those before it
    counts as out_of_order and takes part in the instants still to come. When a static frame ends,
    and after `window.idle_timeout` without rows, each query is answered once more, at its first
    instant after the newest row (`answered` is NULL then, for no row called for it); rows before
    such an instant that come later are late.

    Rows with invalid probabilities, without order or without a finite score take no part; the
    observed metrics ``sfumato_top_k_N_input`` count them (`invalid`), a stream warns of them, and
    `sf.split_invalid` finds those of a static frame, which does not warn. ``sfumato_top_k_N``
    counts rows, invalid (whose time lies beyond 2**60 microseconds of 1970), late, out_of_order,
    rejected (left out for good because their rule has more than probability 1 in a window; the
    later arrivals: a stream warns of them, and ``sf.split_invalid(df, exclusive=..., order=...)``
    finds those of a static frame, if a window holds all of it), overflow (evicted by `max_tuples`),
    executions, cost (their k in all), answers (rows), answered (answers to a query at an instant),
    late_answers (those whose latency is above their `every`) and latency (its sum, in microseconds
    of event time).
    ``sfumato_top_k_N_answers`` counts the answers to each query, of up to 100, by name.

    A stopped streaming query may go on from its checkpoint with other `queries` (names, k or
    `every`): they take effect as of its last micro-batch, and no bound is missed.

    Cost: one shuffle by key (after a controller without key: one task); a ranking and a kernel run
    for the greatest k due an instant and key. State: the tuples of a window and their rows.
    Raises ValueError or TypeError for wrong arguments.  Source: D, sections 1-9.

    >>> best = sf.top_k(uncertain, 2, by="celsius", window=sf.Range("20 seconds"), order="arrival")
    >>> [(row["rank"], row.row.id, round(row.probability, 2)) for row in best.collect()]
    [(1, 3, 1.0), (2, 4, 0.94)]
    """
    columns = Columns(order, key, existence, exclusive, group)
    ranking = RankingQuery.asked(frame_of(df), queries, by, ascending, window, columns)
    ranked_by = semantics_of(semantics, probability, alpha, weights)
    config = ranking.config(ranked_by, plan, forget_after, rescale)
    idle = config.window.idle_timeout_us if isinstance(config.window, Range) else None
    given = [window_input(ranking)]
    answers = run(Job("top_k", "top_k", name, given, config, ranking.answers(), idle_timeout=idle))
    if in_memory(ranking.frame):
        return answers
    from sfumato.spark.runtime.answers import count_answers

    return count_answers(answers, list(ranking.queries))
