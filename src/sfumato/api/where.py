"""The filter operator: keep the alternatives that satisfy a condition."""

from __future__ import annotations

from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory


@public('sf.where(df, "celsius > 30")', "df")
def where(df: Any, condition: str, *, name: str | None = None) -> Any:
    """Keep the alternatives that satisfy `condition`, with their probabilities.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
    condition : any Spark SQL condition over the alternatives' attributes (by their plain names)
        and the frame's other columns; in memory of comparisons, AND, OR, NOT, IS NULL, + - * / and
        parentheses. Where both have a name, the attribute is meant
    name : of the metrics, instead of the number N
    A tuple left without alternatives disappears; one left with fewer exists with less
    probability. A comparison with NULL is not satisfied. Invalid rows are left out, whatever the
    condition keeps of them: rows whose probabilities are invalid, or where an attribute that the
    condition mentions is not finite, or NULL in all alternatives. The observed metrics
    ``sfumato_where_N_input`` count rows and invalid rows (`invalid`), and ``sf.split_invalid``
    of the frame upstream finds them. A frame without alternatives is filtered as by
    ``DataFrame.where``.

    Runs in the JVM, as a higher-order function. Source: A, section 3, filter f_c(U).
    Raises TypeError for a condition that is no text, ValueError for one that is not one expression
    or calls what reaches beyond the data (`reflect`, ...; unless the session's setting
    "sfumato.trustText" is "true"), and Spark's own errors for one it cannot read.

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
