"""The filter operator: keep the alternatives that satisfy a condition."""

from __future__ import annotations

from typing import Any

from sfumato.api.calls import frame_of, in_memory, public


@public('sf.where(df, "celsius > 30")', "df")
def where(df: Any, condition: str, *, name: str | None = None) -> Any:
    """Keep the alternatives that satisfy a condition, with their probabilities.

    Parameters
    ----------
    df
        A DataFrame of Spark, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The result is of the same kind.
    condition
        Any Spark SQL condition over the alternatives' attributes (by their plain names) and the
        frame's other columns; in memory: comparisons, AND, OR, NOT, IS NULL, + - * / and
        parentheses. If an attribute and a column share a name, the attribute is used.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    The frame without the tuples of which no alternative satisfies the condition. A tuple that keeps
    some of its alternatives exists with less probability. A comparison with NULL is not satisfied.
    A frame without alternatives is filtered as by ``DataFrame.where``.

    Raises
    ------
    TypeError
        For a condition that is not text.
    ValueError
        For a condition that is not a single expression, or that calls functions that reach beyond
        the data (`reflect`, ...), unless the session's setting "sfumato.trustText" is "true". A
        condition that Spark cannot read raises Spark's own error.

    Notes
    -----
    Invalid rows are skipped, whatever the condition keeps of them: rows whose probabilities are
    invalid, or where an attribute in the condition is not finite, or NULL in all alternatives. The
    observed metrics ``sfumato_where_N_input`` count rows and invalid rows (`invalid`), and
    ``sf.split_invalid`` of the frame upstream finds them.
    On Spark the filter runs in the JVM, as a higher-order function.
    References: Dallachiesa et al. (2015), section 3, filter f_c(U): see the page of papers.

    Examples
    --------
    >>> warm = sf.where(uncertain, "celsius > 21")
    >>> [(row.id, row.p) for row in warm.select("id", sf.existence().alias("p")).collect()]
    [(2, 0.5), (3, 1.0), (4, 1.0)]
    """
    if not isinstance(condition, str):
        kind = type(condition).__name__
        raise TypeError(f"`condition` must be text, like 'celsius > 30'; got {kind}")
    frame = frame_of(df)
    if in_memory(frame):
        from sfumato.memory.where import filtered

        return filtered(frame, condition, name)
    from sfumato.spark.runtime.where import where as of_spark

    return of_spark(df, condition, name)
