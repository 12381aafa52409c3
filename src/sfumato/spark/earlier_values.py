"""What a stream knew before each row, as a DataFrame function."""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StructType

from sfumato.spark.model.entrance import public
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import Passed, Result
from sfumato.spark.runtime.lineage import Input
from sfumato.spark.runtime.run import metrics_name, run_operator
from sfumato.tables.imputation.query import EarlierValuesQuery
from sfumato.tables.operator import ROW
from sfumato.tables.reading.frame import ADDED


@public('sf.earlier_values(df, ["celsius"], order="ts", key="sensor")', "df")
def earlier_values(
    df: DataFrame,
    attributes: str | Sequence[str],
    *,
    order: str,
    key: str | Sequence[str] | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> DataFrame:
    """Each row beside what its key's earlier rows knew: determinants for an imputation.

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
    query = EarlierValuesQuery(SparkFrame(df), attributes, order, key)
    config, added = query.config(forget_after), query.added
    config.make()  # raises here, on the driver, what the config has wrong
    passed, about = Passed(df.schema, df.columns), {"attributes": query.attributes}
    answers = StructType().add(ROW, passed.type)
    for fixed in added:
        answers = answers.add(fixed, DoubleType())
    results = [Result(name, (fixed,), None, {ADDED: "true"}) for fixed, name in added.items()]
    return run_operator(
        [Input(df, query.reading, about)],
        config,
        answers,
        [*passed.results(ROW), *results],
        metrics=metrics_name("earlier_values", name),
        order=[query.order],
    )
