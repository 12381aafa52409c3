"""The filter operator: keep the alternatives that satisfy a condition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.alternatives import ALTERNATIVES
from sfumato.spark.columns import attributes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORD = re.compile(r"\w+")


def where(df: DataFrame, condition: str) -> DataFrame:
    """Keep the alternatives that satisfy `condition`, with their probabilities.

    condition : any Spark SQL condition over the alternatives' attributes (by their plain names)
        and the frame's other columns. Where both have a name, the attribute is meant.
    A tuple left without alternatives disappears; one left with fewer exists with less
    probability. A comparison with NULL is not satisfied. A frame without alternatives is
    filtered as by ``DataFrame.where``.

    Runs in the JVM, as a higher-order function. Source: A, section 3, filter f_c(U).
    Raises TypeError for a condition that is no text; Spark's own errors for one it cannot read.
    """
    if not isinstance(condition, str):
        raise TypeError(f"`condition` must be Spark SQL text; got {type(condition).__name__}")
    words = set(WORD.findall(condition.lower()))
    used = [name for name in attributes_of(df) if set(WORD.findall(name.lower())) <= words]
    if not used:
        return df.where(condition)
    # Spark itself resolves the names: each attribute is a lambda variable bound to its value by
    # `exists` over an array of one, so that the condition is parsed as it stands. The line break
    # ends a trailing comment.
    bound = f"({condition}\n)"
    for name in used:
        bound = f"exists(array(`:a`.{_quoted(name)}), {_quoted(name)} -> {bound})"
    kept = F.expr(f"filter({_quoted(ALTERNATIVES)}, `:a` -> {bound})")
    return df.withColumn(ALTERNATIVES, kept).where(F.size(ALTERNATIVES) > 0)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
