"""The same functions over tables in memory: pandas, Polars and Arrow, without Spark.

Open to `api`.
"""
