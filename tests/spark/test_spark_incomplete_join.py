"""Joins of incomplete streams on Spark: errors."""

import pytest

import sfumato as sf

pytestmark = pytest.mark.spark

SCHEMA = "id long, a double, b double, c double"
JOIN = {"on": ["b", "c"], "within": 0.3, "probability": 0.3, "order": "id", "window": sf.Rows(15)}


def test_frames_that_are_uncertain_already_are_told_to_impute_first(spark):
    df = spark.createDataFrame([], SCHEMA)
    history = spark.createDataFrame([(1.0, 2.0, 3.0)], "a double, b double, c double")
    dependencies = ["a -> b : 0.1 -> 0.3", "a -> c : 0.1 -> 0.3"]
    how = {"repository": history, "dependencies": dependencies, "attributes": ["b", "c"]}
    for column in ("existence", "alternatives"):
        with pytest.raises(ValueError, match=f"right frame has a column `{column}`"):
            sf.similarity_join(df, df.withColumn(column, df.a), **JOIN, impute=how)
    with pytest.raises(
        ValueError, match="`impute` names a column `a` that is not in the left frame"
    ):
        sf.similarity_join(df.drop("a"), df, **JOIN, impute=how)
