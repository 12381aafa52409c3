"""Chains of operators over rows that share tuples: drawn worlds, or assumed independence."""

from __future__ import annotations

from typing import Any

from sfumato.api.calls import ColumnNames, engine_module, frame_of, public_function
from sfumato.tables.reading.frame import EXISTENCE
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import REPEATED_KEY, SHARED_KEY
from sfumato.tables.reading.worlds import Draw, Merge


@public_function('sf.draw_worlds(df, 1000, source="thermometers", id="id")', "df")
def draw_worlds(df: Any, n: int, *, source: str, id: ColumnNames, name: str | None = None) -> Any:
    """Draw possible worlds: one certain row per tuple and world in which the tuple exists.

    Any chain of operators is correct within a world, even if its rows share tuples.
    ``sf.merge_worlds`` counts the answers over all worlds.

    Parameters
    ----------
    df
        A Spark DataFrame, streaming or static, or a pandas, Polars or Arrow table, with
        alternatives or a column `existence`. The result has the same type.
    n
        Number of worlds, at most 1,000,000. The error of an answer is proportional to 1/√n.
    source
        Name of the set of tuples, such as the topic. A tuple with the same source and id takes the
        same alternative in every call, even in another query. Different tuples need different
        sources or ids.
    id
        Column(s) that identify a tuple. The width of an integer type does not matter.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    The certain columns of the frame, a column per attribute, and `world`, from 0 to n - 1.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for rows that share tuples, and for filtered or pruned alternatives:
        draw the readings, then filter the drawn rows.

    Notes
    -----
    Operators require `world` in their `key`. Joined pairs of drawn rows have the column `world` and
    no alternatives. Draws depend only on source, id and world, so they are the same for any split
    into micro-batches, after a restart, and in memory.
    The metrics ``sfumato_draw_worlds_N_input`` count rows and invalid rows (`invalid`: wrong
    probabilities, a missing value or id), which are left out.
    Cost: each row becomes up to n rows; no state is kept.
    More: page reference/functions/draw_worlds of the documentation.

    References
    ----------
    Jampani et al. (2008), MCDB: a Monte Carlo approach to managing uncertain data, SIGMOD.

    Examples
    --------
    >>> drawn = sf.draw_worlds(uncertain, 100, source="readings", id="id")
    >>> warm = drawn.where("celsius > 21")
    >>> found = sf.merge_worlds(warm, key="id")
    >>> [(row.id, row.existence) for row in found.orderBy("id").collect()]
    [(2, 0.37), (3, 1.0), (4, 1.0)]
    """
    frame = frame_of(df)
    draw = Draw.of(frame, n, source, id)
    return engine_module(frame).draw_worlds(frame, draw, name)


@public_function('sf.merge_worlds(answers, key=["window"], columns=["n"])', "df")
def merge_worlds(
    df: Any, *, key: ColumnNames, columns: ColumnNames | None = None, n: int | None = None
) -> Any:
    """Count answers over the drawn worlds: their probability, and the distribution of values.

    Parameters
    ----------
    df
        Answers of operators over rows from ``sf.draw_worlds``, as a static Spark DataFrame, or a
        pandas, Polars or Arrow table. The result has the same type.
    key
        Columns that identify an answer within a world, such as `window`, or `id` for a ranking.
    columns
        Value columns, whose joint distribution is returned; None for only the probability of the
        answer.
    n
        Number of worlds; only needed if the frame no longer has it, for example after it was
        written to a file.

    Returns
    -------
    One row per answer: the columns of `key`, a probability and `error`. With `columns`, the
    probability is in the uncertain tuple `alternatives`; otherwise, it is `existence`.

    With probability 99%, the returned probability of an answer, and of a value up to any limit, is
    off by at most `error`, sqrt(ln(200) / 2n): 0.05 for 1,000 worlds, 0.016 for 10,000.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for a stream, and if a world has several answers with the same `key`
        (on Spark, when the query runs).

    Notes
    -----
    A stream cannot be merged, because the worlds' answers may arrive at different times: write them
    with a sink, and merge the table. The same `error` applies to answers that a stream has not yet
    emitted in all worlds. Merged answers share tuples, so operators reject them.
    Cost: two shuffles by `key` on Spark; at most `n` answers per key.
    More: page reference/functions/merge_worlds of the documentation.

    References
    ----------
    Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of
    Probability 18.

    Examples
    --------
    >>> drawn = sf.draw_worlds(uncertain, 100, source="readings", id="id")
    >>> warmest = sf.top_k(
    ...     drawn, 1, by="celsius", window=sf.Range("1 hour"), order="arrival", key="world"
    ... )
    >>> found = sf.merge_worlds(warmest.select("time", "row.id", "world"), key=["time", "id"])
    >>> [(row.id, row.existence, round(row.error, 2)) for row in found.orderBy("id").collect()]
    [(3, 0.96, 0.16), (4, 0.04, 0.16)]
    """
    frame = frame_of(df)
    merge = Merge.of(frame, key, columns, n)
    return engine_module(frame).merge_worlds(frame, merge)


@public_function("sf.assume_independent(pairs)", "df")
def assume_independent(df: Any) -> Any:
    """Treat rows that may share tuples as independent, which makes results approximate.

    Parameters
    ----------
    df
        A Spark DataFrame, streaming or static, or a pandas, Polars or Arrow table: pairs from a
        join, answers of a ranking or of overlapping windows, rows of ``sf.impute`` with `order`;
        or one of two frames that contain the same readings. The result has the same type.

    Returns
    -------
    The same rows, which operators accept. ``sf.explain`` and EXPLAIN show the assumption.

    Raises
    ------
    ValueError
        For certain rows.

    Notes
    -----
    The error of the results is unknown. A tuple that exists with probability 0.5 and is in three
    pairs gives 0 or 3 pairs with probability 0.5 each; three independent pairs give 0 or 3 with
    probability 0.125 each. ``sf.draw_worlds`` leads to correct answers with a known error.
    Cost: none; only the columns' metadata changes.

    Examples
    --------
    >>> pairs = sf.self_join(
    ...     uncertain, on="celsius", within=1.0, probability=0.4, window=sf.Rows(3), order="arrival"
    ... )
    >>> sf.assume_independent(pairs).count() == pairs.count()
    True
    """
    frame = frame_of(df)
    marks = SHARED_KEY, REPEATED_KEY
    columns = [n for n in frame.columns if any(frame.metadata(n).get(mark) for mark in marks)]
    if not columns and not frame.certain:
        columns = [ALTERNATIVES if frame.uncertain else EXISTENCE]
    if not columns:
        raise ValueError(
            "assume_independent is needed only for uncertain rows, and the "
            f"{frame.noun} has neither `alternatives` nor `existence`: leave the call out"
        )
    return engine_module(frame).assume_independent(frame, columns)
