"""Aggregates over windows of uncertain tuples as a function of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, run
from sfumato.limits import why_not_placed
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.windows.query import WindowQuery, extents_per_row
from sfumato.tables.windows.results import quantile_name as quantile_name
from sfumato.tables.windows.wanted import wanted as wanted
from sfumato.windows import Delta, Range, Rows, window_of


@public(
    'sf.window_aggregate(df, {"mean": "avg(x)"}, window=sf.Range("1 minute"), order="ts")',
    "df",
)
def window_aggregate(
    df: Any,
    aggregates: Mapping[str, str],
    *,
    window: Rows | Range | Delta,
    order: str | Sequence[str],
    key: str | Sequence[str] | None = None,
    distribution: int | None = None,
    existence: str | None = None,
    quantiles: Sequence[float] = (),
    members: bool = False,
    seed: int = 0,
    samples: int = 1000,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Aggregates over a window of uncertain tuples, as numbers with their uncertainty.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
    aggregates : result name to text: "count(*)", "sum(x)", "avg(x)", "min(x)", "max(x)",
        "quantile(x, 0.9)", "stddev(x)", "var(x)" (of the sample, as Spark's) or "boundary_sum(x)"
        (the sum of the held tuples' mean values), where x is an expression over attributes
        and certain columns: any of Spark SQL; in memory columns, fields of structs (m.mean),
        numbers, + - * /, conditions and parentheses. NULL values are skipped, as in SQL
    window : sf.Rows (the newest existing tuples), sf.Delta (as long as an attribute has not moved
        too far) or sf.Range (extents of event time)
    order : Rows and Delta: the column(s) of the order of arrival. Range: the event time, a
        timestamp or whole microseconds. An attribute of the alternatives is an uncertain event
        time: of each tuple an extent holds the alternatives whose time lies in it (`late`, and the
        metrics' rows, then count a tuple once for each extent that it may be in). On a stream put
        sf.reorder before, by the earliest time that a tuple may have
    key : one window for each value of these columns
    distribution : results are distributions of at most so many values; beyond, neighbours are
        merged where that moves the least probability the least far
    existence : column with the probability of each row of a frame without alternatives; by default
        `existence`, where there is such a column, else every row exists
    quantiles : shares whose quantiles each result has too, as fields q05, q50, ...
    members : Range only: instead of one row an extent and key, every row of the extent, with the
        extent's results
    seed, samples : of results that are sampled because they have too many possible values
    forget_after : a key whose next row comes later than this after its last one, "1 day", begins
        anew with an empty window, after the extents that were open came out; its state goes soon
        after that. By the first column of `order`; of a number it is one, in its unit. Keys of a
        Range that share their controller with others need none: they go once their extents are out
    name : of the metrics, instead of the number N

    Rows and Delta give a row for each one that arrives: its certain columns, `held` (tuples in the
    window, w') and the results, of the window it has entered. After sf.reorder, in order of its
    event time, rows marked late enter no such window: they are only counted, so that no pace of
    sources and no cut changes an answer.

    Range gives, per extent and key, the key columns, `window` (start, end), `held`, `punctuation`
    (that completed it), `late` (rows of the key that lie in the extent but came too late for it,
    and before it was emitted) and the results. After sf.reorder, whose event time `order` must be
    and whose columns `late` and `punctuation` must be there, extents
    are complete by its punctuations, and a late row is part of every extent that contains it and
    ends after its own punctuation; `key` must contain the key of the controller. Otherwise rows are
    taken to come in order of event time for each key. On a static frame, and after
    `window.idle_timeout` without rows, the open extents come out too.

    A result is a struct<mean, stddev, existence> (given that it is defined: with `existence` there
    is something to average) with quantiles and, where these are sampled, `error`: with probability
    0.99 the distribution function is right to within it. With `distribution` it is an array of
    struct<prob, NAME>; NAME is the result's name, or for a result called `alternatives` the
    attribute's, so that another operator can take it; `accuracy` then has for each result `moved`,
    the mean distance by which merging moved probability (the Wasserstein distance), and `error`.
    Means and standard deviations are exact, quantiles and distributions while possible values are
    few.

    Rows with invalid probabilities, with values that are infinite or beyond 1e140 on either side
    (the sums of their squares would overflow), or without order take no part; the observed metrics
    ``sfumato_window_N_input`` count them (`invalid`). ``sfumato_window_N`` counts rows, invalid
    (event times beyond 2**60 microseconds), late (in no extent any more; or marked late), outside
    (between extents), out_of_order (also rows in order that a punctuation had excluded) and
    overflow (evicted by `max_tuples`). Of a union of two reordered frames the query fails.

    Cost: one shuffle by key (after a controller without key: one task). State: the tuples held.
    Raises ValueError or TypeError for wrong arguments. Source: A, sections 4, 7.3 and 8.1; C,
    section 6.

    >>> window = sf.Rows(2)
    >>> means = sf.window_aggregate(readings, {"m": "avg(celsius)"}, window=window, order="arrival")
    >>> [(row.id, row.held, row.m.mean) for row in means.orderBy("id").collect()]
    [(1, 1, 20.0), (2, 2, 20.5), (3, 2, 22.0), (4, 2, 22.5)]
    """
    laws: dict[str, Any] = {"quantiles": quantiles, "seed": seed, "samples": samples}
    laws |= {"members": members, "forget_after": forget_after, "name": name}
    return aggregated(df, aggregates, window, order, key, existence, distribution, **laws)


def aggregated(
    df: Any,
    aggregates: Mapping[str, str],
    window: Rows | Range | Delta,
    order: str | Sequence[str],
    key: str | Sequence[str] | None,
    existence: str | None,
    distribution: int | None,
    *,
    members: bool = False,
    name: str | None = None,
    **laws: Any,
) -> Any:
    """`window_aggregate`; with `whole`, a result is one struct that has everything asked for.

    Its distribution is then the field `alternatives`, of struct<prob, value>, beside `moved`.
    laws : the other arguments that `WindowQuery.settings` takes
    """
    frame, window, placed = frame_of(df), window_of(window), None
    meant = order if isinstance(order, str) or len(order) != 1 else order[0]
    own = frame
    if isinstance(window, Range) and frame.is_uncertain_time(meant):
        if members:
            raise ValueError("`members` of extents have certain event times: `order` is uncertain")
        placed = window
        frame, order, window = own.by_extent(str(meant), window)
    uncertain = placed is not None
    asked = (wanted(aggregates), window, order, key, existence, distribution)
    query = WindowQuery(frame, *asked, by_extent=uncertain)
    settings = query.settings(members, **laws)
    found = run(
        Job(
            "window_aggregate",
            "window",
            name,
            [window_input(query, members, placed)],
            settings,
            query.outputs(settings),
            idle_timeout=query.window.timeout if isinstance(query.window, Range) else None,
            order=() if isinstance(query.window, Range) else query.orders,
        )
    )
    return found if placed is None else own.with_true_extents(found, placed)


def window_input(query: WindowQuery, members: bool = False, placed: Range | None = None) -> Input:
    """A frame as the operator of a window reads it; placed : the extents that are meant, where the
    rows are those of `by_extent`."""
    why = "" if placed is None else why_not_placed(extents_per_row(placed))
    about = {"values": query.expressions}
    reading = query.reading(members, why)
    return Input(query.frame, reading, about, query.computed, bucket=query.scope)
