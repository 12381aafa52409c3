"""What a stream knew before each row, as a DataFrame function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    DoubleType,
    NumericType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.model.columns import names, require
from sfumato.spark.model.imputation import require_numbers
from sfumato.spark.runtime.names import Passed, column, renamed
from sfumato.spark.runtime.run_operator import Input, metrics_name, run_operator
from sfumato.tables.imputation.earlier_values import EarlierValuesTableConfig
from sfumato.tables.operator import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    passed, columns, answers = Passed(df, df.columns), [], StructType()
    for i, attribute in enumerate(wanted):
        for fixed in (f"earlier{i}", f"age{i}"):
            name = f"{fixed.rstrip('0123456789')}_{attribute}"
            if name in df.columns:
                raise ValueError(
                    f"the frame has a column `{name}` already: rename or drop it first"
                )
            answers = answers.add(fixed, DoubleType())
            columns.append(renamed(fixed, name))
    config = EarlierValuesTableConfig(
        attributes=len(wanted), keys=len(keys), columns=(df.schema.simpleString(),)
    )
    values = {f"value{i}": column(a).cast("double") for i, a in enumerate(wanted)}
    return run_operator(
        [Input(df, passed, [order], keys, values)],
        config,
        StructType([StructField(ROW, passed.type), *answers]),
        [*passed.columns(), *columns],
        metrics=metrics_name("earlier_values"),
    )
