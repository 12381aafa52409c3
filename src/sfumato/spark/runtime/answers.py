"""Observe the number of answers to each query of a ranking."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.reports import ANSWERS, IDENTITY
from sfumato.spark.runtime.lineage import made, remember

MOST_COUNTED = 100  # queries whose answers are counted one by one: each is a column of a metric


def count_answers(answers: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the answers of a ranking, with the number of each query's observed."""
    how = made(answers)
    assert how is not None
    if len(names) > MOST_COUNTED:
        return answers
    first = F.col("rank") == 1  # every answer has a first row
    shown = {name: f"{name}_" if name in IDENTITY else name for name in names}
    each = [F.count_if(first & (F.col("query") == name)).alias(shown[name]) for name in names]
    whose = how.metrics.identity(ANSWERS)
    counted = answers.observe(f"{how.metrics}_{ANSWERS}", *whose, *each)
    remember(counted, how)
    return counted
