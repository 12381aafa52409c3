"""Tables of readings, for tests of the language on Spark."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from sql_readings import readings


@pytest.fixture(scope="module")
def tables(spark):
    """Return the session with streams of readings `s` and `r`, and tables `plain` and `scored`."""
    views = {
        "s": readings(spark),
        "r": readings(spark).withColumn("id", F.col("id") + 100),
        "plain": spark.range(5),
        "scored": spark.sql("SELECT 1 AS id, 0.5D AS existence, 4D AS v, array(7, 8) AS arr"),
    }
    for name, df in views.items():
        df.createOrReplaceTempView(name)
    yield spark
    for name in views:
        spark.catalog.dropTempView(name)
