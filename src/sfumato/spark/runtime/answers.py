"""The number of answers to each of many queries, as a metric."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.runtime.lineage import made, remember

MOST_COUNTED = 100  # queries whose answers are counted one by one: each is a column of a metric


def count_answers(answers: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the answers of a ranking, with the number of each query's observed."""
    how = made(answers)
    assert how is not None
    if len(names) > MOST_COUNTED:
        return answers
    first = F.col("rank") == 1  # every answer has a first row
    each = [F.count_if(first & (F.col("query") == F.lit(name))).alias(name) for name in names]
    counted = answers.observe(f"{how.metrics}_answers", *each)
    remember(counted, how)
    return counted
