"""What a stream knew before each row, as a DataFrame function."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    DoubleType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.model.columns import bucket_count, names, require, with_bucket, with_tie
from sfumato.spark.model.imputation import require_numbers
from sfumato.spark.runtime import bucket_state, chunks
from sfumato.tables.imputation.earlier_values import (
    TIE,
    EarlierValuesSettings,
    age_name,
    earlier_name,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRICS = itertools.count(1)


def earlier_values(
    df: DataFrame,
    attributes: str | Sequence[str],
    *,
    order: str,
    key: str | Sequence[str] | None = None,
) -> DataFrame:
    """Each row beside what its key's earlier rows knew: determinants for an imputation.

    attributes : column(s) of numbers, in which NULL (NaN, infinite) is a missing value
    order : the column by which rows follow each other, a timestamp or a number; simultaneous rows
        are in an order of their contents. On streams it must not decrease from one micro-batch to
        the next (``sf.reorder`` sees to that, but for late rows): a row that comes after later
        ones sees what is known by then, with a negative age, and replaces nothing
    key : the column(s) that tell one sensor, device or stream from another

    Columns: all of `df`, and for each attribute `earlier_ATTR`, its newest known value among the
    rows before, and `age_ATTR`, how old that is: in seconds where `order` is a timestamp, else in
    its unit. Both are NULL before the first known value, and in rows without order or key, which
    are not remembered either. One row out for each row in. The observed metrics
    ``sfumato_earlier_values_N`` count rows, invalid (no order or no key) and out_of_order.

    A sensor that read 20.5 a minute ago reads about that now; how far that holds is a dependency:
    "earlier_temperature, age_temperature -> temperature : 0.01, 0.1 -> 0.02". The repository needs
    these columns as well: it is the same function of a static frame with the stream's past, gaps
    included, of which ``sf.impute`` uses the complete rows.

    Cost: one shuffle by key; state: 2 numbers an attribute and key.
    Raises ValueError or TypeError for wrong arguments. Source: this project.
    """
    wanted, keys = names("attributes", attributes), names("key", key)
    if not wanted:
        raise ValueError("`attributes` must name at least one column of numbers; got none")
    require_numbers(df, "attributes", wanted)
    if not isinstance(order, str):
        raise TypeError(f"`order` must be the name of one column; got {order!r}")
    require(df, "order", [order])
    require(df, "key", keys)
    kind = df.schema[order].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | NumericType):
        raise TypeError(
            f"`order` must be a timestamp or a number; `{order}` is {kind.simpleString()}"
        )
    output = StructType(list(df.schema.fields))
    for attribute in wanted:
        for name in (earlier_name(attribute), age_name(attribute)):
            if name in df.columns:
                raise ValueError(
                    f"the frame has a column `{name}` already: rename or drop it first"
                )
            output = output.add(name, DoubleType())
    settings = EarlierValuesSettings(
        attributes=tuple(wanted),
        order=order,
        keys=tuple(keys),
        columns=df.schema.simpleString(),
        buckets=bucket_count(df, keys),
    )
    packed = chunks.pack(with_bucket(with_tie(df, TIE), keys, settings.buckets), side=0)
    metrics_name = f"sfumato_earlier_values_{next(METRICS)}"
    return chunks.unpack(bucket_state.run(packed, settings, metrics_name), output)
