"""What a stream knew before each row, as a function of frames."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, run
from sfumato.tables.imputation.query import EarlierValuesQuery
from sfumato.tables.reading.job import Input, Job


@public('sf.earlier_values(df, ["celsius"], order="ts", key="sensor")', "df")
def earlier_values(
    df: Any,
    attributes: str | Sequence[str],
    *,
    order: str,
    key: str | Sequence[str] | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Each row beside what its key's earlier rows knew: determinants for an imputation.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
    attributes : column(s) of numbers, in which NULL (NaN, infinite) is a missing value
    order : the column by which rows follow each other, a timestamp or a number; simultaneous rows
        are in an order of their contents. On streams it must not decrease from one micro-batch to
        the next (``sf.reorder`` sees to that): a row that comes after later ones sees what is known
        by then, with a negative age, and replaces no newer value
    key : the column(s) that tell one sensor, device or stream from another
    forget_after : a key whose next row comes later than this after its last one, "1 day", begins
        anew; its state goes soon after that. Where `order` is a number, a number in its unit
    name : of the metrics, instead of the number N

    Columns: all of `df`, and for each attribute `earlier_ATTR`, its newest known value among the
    rows before, and `age_ATTR`, how old that is: in seconds where `order` is a timestamp, else in
    its unit. Both are NULL before the first known value, and in rows without order or key, which
    are not remembered either. One row out for each row in. The observed metrics
    ``sfumato_earlier_values_N`` count rows, invalid (no order or no key) and out_of_order.

    After sf.reorder, `order` must be its event time, and its columns `late`, `punctuation` and
    arrival must be there. A late row takes its place after the rows that its punctuation had
    released: these did not know it, in a static frame neither. `key` must contain the key of the
    controller.

    A sensor that read 20.5 a minute ago reads about that now; how far that holds is a dependency:
    "earlier_temperature, age_temperature -> temperature : 0.01, 0.1 -> 0.02". The repository needs
    these columns as well: it is the same function of a static frame with the stream's past, gaps
    included, of which ``sf.impute`` uses the complete rows.

    Cost: one shuffle by key; state: 2 numbers an attribute and key.
    Raises ValueError or TypeError for wrong arguments. Source: this project.

    >>> known = sf.earlier_values(readings, "celsius", order="arrival", key="sensor")
    >>> [(row.id, row.earlier_celsius) for row in known.orderBy("id").collect()]
    [(1, None), (2, None), (3, 20.0), (4, 23.0)]
    """
    query = EarlierValuesQuery(frame_of(df), attributes, order, key)
    given = [Input(query.frame, query.reading, {"attributes": query.attributes})]
    config = query.config(forget_after)
    return run(
        Job(
            "earlier_values",
            "earlier_values",
            name,
            given,
            config,
            query.outputs,
            order=[query.order],
        )
    )
