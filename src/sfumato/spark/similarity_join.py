"""The similarity join of two uncertain streams as a DataFrame function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StringType, StructType

from sfumato.operators.joins.join_window import Window
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.entrance import public
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.imputation import Imputation
from sfumato.spark.model.join_side import Side, pairs_type
from sfumato.spark.model.names import Result
from sfumato.spark.runtime.lineage import Input
from sfumato.spark.runtime.run import metrics_name, run_operator
from sfumato.tables.joins.query import JoinQuery
from sfumato.tables.reading.shared_rows import PAIRS, SHARED


@public(
    'sf.similarity_join(left, right, on="x", within=0.5, probability=0.8, '
    'window=sf.Rows(500), order="ts")',
    "left",
    "right",
)
def similarity_join(
    left: DataFrame,
    right: DataFrame,
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
) -> DataFrame:
    """Pairs of tuples of two streams that are close with at least the wanted probability.

    Each arriving tuple u is compared with the opposing window as it stands. The match with a
    tuple v of the window has the probability T · Σ Pr(u_k)·Pr(v_l) over the alternatives with
    dist(u_k, v_l) ≤ `within`, where T is the probability that v is among the `window.rows`
    newest existing tuples of its stream (1 in windows by time). Exact; the pair comes out iff it
    is ≥ `probability`.

    on : the attributes that span the distance (Euclidean), of the alternatives of both frames.
        A frame without alternatives is taken by its plain columns: each row one alternative,
        with probability `existence` where it has such a column, else 1
    within : greatest distance, inclusive (for numbers as written in decimals: 0.8 is within 0.1 of
        0.7), > 0, in the attributes' unit; or for each attribute the
        distance at which it alone reaches the limit, {"celsius": 0.5, "humidity": 2.0}: a match is
        sqrt(Σ (difference_i / within_i)²) ≤ 1, of values divided by these first
    probability : least probability of a pair, in (0, 1]; what misses 1 by at most 1e-12 is 1
    window : sf.Rows or sf.Range(length), for each side and key, or a pair for left and right. In a
        window by time are the tuples of the last `length` by `order`: one that is as old as that,
        or older, when a tuple of its key comes from either side is gone. Both bounds at once:
        sf.JoinWindow(rows=500, span="10 minutes")
    order : the column(s) of both frames that give the order of arrival; simultaneous tuples:
        left before right. For windows by time one timestamp (or whole microseconds). See below for
        streams
    key : column(s) of both frames that must be equal; each key has windows of its own
    strategy : "nested" (every pair), "index" (grid with object- and sample-level pruning), "sort"
        (one attribute only), or "auto"; the answers are the same
    output : "append": pairs as they are found; "changes": also, when a tuple leaves its window,
        its pairs again with change "-", so that the rows so far make up the current answer set
    alternatives : False leaves out the column of this name: where rows have a hundred, a pair
        has up to 10,000, which cost more than to find it
    metric : "euclidean", or "haversine": `on` = [longitude, latitude] in degrees, `within` in
        metres along the surface of a sphere with Earth's mean radius, 6,371,008.8 m. A row with a
        longitude beyond ±180 or a latitude beyond ±90 is invalid
    idle_timeout : for streams with punctuations: a side silent for so long ("10 seconds") holds the
        other back no longer; what it then brings too late takes no part and is counted as late
    impute : `sfumato.Imputation`, or its arguments as a dict: both frames have plain columns in
        which attributes are missing; they are imputed and joined at once, see below
    forget_after : a key whose next row, of either side, comes later than this after its last one,
        "1 day", begins anew with empty windows; its state goes soon after that. By the first column
        of `order`. Not with output="changes": the answers of a silent key stay current
    tasks : how many tasks share the work of a key's windows, or of the join without key: each gets
        all rows, keeps the samples of its part of both windows and compares arrivals with these.
        The answers are the same; those of a micro-batch come out task by task. None: as many as a
        model of the work says, one with a key (EXPLAIN of SQL shows it). A checkpoint goes on with
        the same number only. Not with `impute`
    name : of the metrics, instead of the number N

    Columns: `left`, `right` (structs of the certain columns), `probability`, `alternatives`
    (the matching pairs: prob, left_ATTR, right_ATTR; their probs sum to `probability`) and, with
    changes, `change` ("+" or "-").

    Two streams read at any pace: put `sf.reorder` before both, and give its event time as `order`.
    Rows then wait until the punctuations of both sides have passed them and are processed in order
    of event time, so that the answers are those of the static frames, whatever the paces, the
    micro-batches and the restarts; late rows take no part. Where a controller has a key, that key
    must be part of the join's `key`. Without punctuations on both sides rows are processed as they
    come: on streams `order` must not decrease, over both frames, from one micro-batch to the next.
    Two filters of one stream keep step by themselves; of two sources the answers depend on the pace
    at which they are read, and every row of theirs is counted as `unaligned`.

    Rows with invalid alternatives, without order or key, or beyond 2**60 microseconds of 1970 where
    `window` goes by time, are skipped: ``sf.rejected(df, on, key=..., order=...)`` gives them (of a
    frame with alternatives without `on`; with `metric` where that is "haversine"), and the observed
    metrics ``sfumato_join_N_left`` and ``..._right`` count them (`invalid`). ``sfumato_join_N``
    counts rows, late, unaligned, pairs, out_of_order (rows whose order is before an earlier
    micro-batch's; they are processed as they come) and overflow (tuples evicted by `max_tuples`).

    With `impute` the answers are those of ``sf.impute`` on both frames and then this function, but
    only rows that come within reach of another one are imputed in full. `on` are the attributes
    imputed, both frames have the determinants as well, and distances are of the values; those of
    values scaled as in the imputation are `within` as a dict, epsilon times each attribute's extent
    in the repository. Imputed rows exist for sure, so that a window by count holds its newest
    `window.rows` rows, whatever its confidence; `strategy` does not apply. Rows that cannot be
    imputed take no part: they are the rows of ``sf.rejected(sf.impute(...))``. ``sfumato_join_N``
    counts rows, late, unaligned, pairs, out_of_order, and what was done: complete, imputed and
    unimputable rows, completed (rows imputed in full) and refined (pairs whose alternatives were
    compared). The repository is read when this is called, as by ``sf.impute``; it is part of what
    the query is: a checkpoint written with another one is refused.

    Cost: one shuffle by key, of `tasks` copies of the rows; state: the windows' tuples (and with
    changes the current pairs), and the rows that wait for the other side.
    Raises ValueError or TypeError for wrong arguments. Source: A, sections 4-6 and 8.1; B, sections
    5-6; for `impute` E, sections 4 and 5.

    >>> pairs = sf.similarity_join(
    ...     uncertain,
    ...     uncertain,
    ...     on="celsius",
    ...     within=0.5,
    ...     probability=0.2,
    ...     window=sf.Rows(3),
    ...     order="arrival",
    ... )
    >>> sorted((row.left.id, row.right.id, round(row.probability, 2)) for row in pairs.collect())
    [(1, 1, 0.62), (2, 2, 0.62), (3, 3, 0.62), (4, 4, 0.62)]
    """
    asked = (on, within, probability, window, order, key, strategy, output, alternatives, metric)
    imputation = None if impute is None else Imputation.of(impute)
    query = JoinQuery(*asked, forget_after, tasks, imputation)
    sides = query.sides(Side, SparkFrame(left), SparkFrame(right))
    config = query.config(sides, idle_timeout)
    config.make()  # raises here, on the driver, what the config has wrong
    answers, results = answers_of(sides, output, alternatives)
    return run_operator(
        [
            Input(side.frame.df, side.reading(config.aligned is not None or side.marks_late))
            for side in sides
        ],
        config,
        answers,
        results,
        metrics=metrics_name("join", name),
        idle_timeout=None if config.idle_timeout is None else 1000 * config.idle_timeout,
    )


def answers_of(
    sides: Sequence[Side], output: str, alternatives: bool = True
) -> tuple[StructType, list[Result]]:
    """The columns that the operator gives, under fixed names, and those of the result."""
    answers = StructType()
    for side in sides:
        answers = answers.add(side.name, side.row.type)
    answers = answers.add("probability", DoubleType())
    results = [side.row.renamed(side.name) for side in sides]
    results.append(Result("probability", ("probability",), None, {SHARED: PAIRS}))
    if alternatives:
        fixed, named = (pairs_type(*(s.fields(fixed=of) for s in sides)) for of in (True, False))
        answers = answers.add(ALTERNATIVES, fixed)
        results.append(Result(ALTERNATIVES, (ALTERNATIVES,), named, {SHARED: PAIRS}))
    if output == "changes":
        answers = answers.add("change", StringType())
        results.append(Result("change", ("change",)))
    return answers, results
