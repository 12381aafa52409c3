"""The public functions over tables in memory: pandas, Polars and Arrow, without Spark.

`frame` reads a user's table, `run` applies an operator, `kinds` converts the result back.
`api` calls these functions; no other package uses them.
"""
