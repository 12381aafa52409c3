"""Similarity joins of uncertain streams: of two, of one with itself, and of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import reduce
from itertools import combinations
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory, run
from sfumato.api.imputation import Imputation
from sfumato.operators.joins.arrivals import Window, require_one
from sfumato.tables.joins.query import JoinQuery
from sfumato.tables.joins.sharing import tasks_of
from sfumato.tables.joins.streams import STREAMS, check_alike, check_streams
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.job import Input, Job


@public(
    'sf.similarity_join(left, right, on="x", within=0.5, probability=0.8, '
    'window=sf.Rows(500), order="ts")',
    "left",
    "right",
)
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
) -> Any:
    """Pairs of tuples of two streams that are close with at least the wanted probability.

    left, right : DataFrames of Spark, streaming or static; or pandas, Polars or Arrow tables, the
        whole streams. The result is of the kind of `left`
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
    window : sf.Rows(500) or a window by time, sf.Range("10 minutes") or "10 minutes", for each side
        and key, or a pair for left and right. In a window by time are the tuples of the last
        `length` by `order`: one that is as old as that, or older, when a tuple of its key comes
        from either side is gone. Both bounds at once: sf.Rows(500, within="10 minutes")
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
        The answers are the same; those of a micro-batch come out task by task. In memory one
        process does the work. None: as many as a
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
    `window` goes by time, are skipped: ``sf.split_invalid(df, on, key=..., order=...)``
    finds them (of a frame with alternatives without `on`; with `metric` where that is "haversine"),
    and the observed metrics ``sfumato_join_N_left`` and ``..._right`` count them (`invalid`).
    ``sfumato_join_N`` counts rows, late, unaligned, pairs, out_of_order (rows whose order is before
    an earlier micro-batch's; they are processed as they come) and overflow (tuples evicted by
    `max_tuples`).

    With `impute` the answers are those of ``sf.impute`` on both frames and then this function. `on`
    are the attributes imputed, both frames have the determinants as well, and distances are of the
    values; those of values scaled as in the imputation are `within` as a dict, epsilon times each
    attribute's extent in the repository. Imputed rows exist for sure, so that a window by count
    holds its newest `window.rows` rows, whatever its confidence; `strategy` does not apply. Rows
    that cannot be imputed take no part: they are the invalid rows of
    ``sf.split_invalid(sf.impute(...))``.
    ``sfumato_join_N`` counts rows, late, unaligned, pairs, out_of_order, and what was done:
    complete, imputed and unimputable rows, completed (rows imputed) and refined (pairs whose
    alternatives were compared). The repository is read when this is called, as by ``sf.impute``; it
    is part of what the query is: a checkpoint written with another one is refused.

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
    frames = frame_of(left, "left"), frame_of(right, "right")
    query = JoinQuery(*asked, forget_after, _tasks(frames[0], tasks), imputation)
    sides = query.sides(*frames)
    config = query.config(sides, idle_timeout)
    aligned = config.aligned is not None
    given = [Input(side.frame, side.reading(aligned or side.marks_late)) for side in sides]
    idle = None if config.idle_timeout is None else 1000 * config.idle_timeout
    job = Job("similarity_join", "join", name, given, config, query.outputs(sides), idle)
    return run(job)


@public(
    'sf.self_join(df, on="x", within=0.5, probability=0.8, window=sf.Range("10 minutes"), '
    'order="ts")',
    "df",
)
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
) -> Any:
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
    frame = frame_of(df)
    query = JoinQuery(*asked, forget_after, _tasks(frame, tasks))
    sides = query.sides(frame)
    config = query.config_alone(sides[0])
    given = [Input(sides[0].frame, sides[0].reading(config.marks_late))]
    return run(Job("self_join", "self_join", name, given, config, query.outputs(sides)))


@public(
    'sf.join_streams({"a": a, "b": b}, on="x", within=0.5, probability=0.8, '
    'window=sf.Rows(500), order="ts")',
    "streams",
)
def join_streams(streams: Mapping[str, Any], *, name: str | None = None, **options: Any) -> Any:
    """Pairs of tuples of different streams that are close with at least the wanted probability.

    streams : {name: frame}, two or more, of Spark or in memory, with the same columns of the same
        types
    name : of the metrics: each pair's are those of a join called NAME_left_right
    options : the keyword arguments of ``sf.similarity_join``, `impute` among them

    Every two streams are joined by ``sf.similarity_join``, the one named first on the left; never
    a stream with itself. Each stream has windows of its own, of the same kind. Columns: those of
    ``sf.similarity_join``, and before them `left_stream` and `right_stream`, the names.

    Cost: n (n - 1) / 2 joins of two streams, in one query: each row is shuffled and held n - 1
    times. `operators.joins.incomplete_join` joins
    incomplete streams in one pass, each row held once, for those without Spark.
    Raises ValueError or TypeError for wrong arguments. Source: E, section 5.2 (n streams).

    >>> streams = {of: uncertain.where(f"sensor = '{of}'") for of in "ab"}
    >>> window = {"window": sf.Rows(3), "order": "arrival"}
    >>> pairs = sf.join_streams(streams, on="celsius", within=1.0, probability=0.4, **window)
    >>> [(row.left_stream, row.right_stream, round(row.probability, 2)) for row in pairs.collect()]
    [('a', 'b', 0.62), ('a', 'b', 0.62)]
    """
    check_streams(streams, "frame")
    frames = {stream: frame_of(given, stream) for stream, given in streams.items()}
    check_alike(frames)
    if options.get("impute") is not None:
        options["impute"] = Imputation.of(options["impute"])  # read once for all pairs
    parts = []
    for (one, left), (other, right) in combinations(streams.items(), 2):
        called = None if name is None else f"{name}_{one}_{other}"
        part = similarity_join(left, right, name=called, **options)
        parts.append((part, dict(zip(STREAMS, (one, other), strict=True))))
    if in_memory(next(iter(frames.values()))):
        from sfumato.memory.counters import union

        return union(parts)
    from sfumato.spark.model.names import with_texts

    return reduce(lambda a, b: a.union(b), [with_texts(part, texts) for part, texts in parts])


def _tasks(frame: Frame, tasks: int | None) -> int | None:
    """Return how many tasks do the work: in memory one process, but a query that moves to Spark is
    checked."""
    if not in_memory(frame):
        return tasks
    if tasks is not None:
        tasks_of(tasks)
    return 1
