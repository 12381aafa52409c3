"""The similarity join of several streams: each pair of them."""

from collections.abc import Mapping
from functools import reduce
from itertools import combinations
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.imputation import Imputation
from sfumato.spark.similarity_join import similarity_join
from sfumato.tables.joins.streams import STREAMS, check_alike, check_streams


def join_streams(
    streams: Mapping[str, DataFrame], *, name: str | None = None, **options: Any
) -> DataFrame:
    """Pairs of tuples of different streams that are close with at least the wanted probability.

    streams : {name: frame}, two or more, with the same columns of the same types
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
    check_streams(streams, "DataFrame")
    check_alike({stream: SparkFrame(df) for stream, df in streams.items()})
    if options.get("impute") is not None:
        options["impute"] = Imputation.of(options["impute"])  # read once for all pairs
    joined = []
    for (one, left), (other, right) in combinations(streams.items(), 2):
        names = [F.lit(n).alias(column) for n, column in zip((one, other), STREAMS, strict=True)]
        if name is not None:
            options["name"] = f"{name}_{one}_{other}"
        joined.append(similarity_join(left, right, **options).select(*names, "*"))
    return reduce(lambda a, b: a.union(b), joined)
