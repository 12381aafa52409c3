"""The implementation of public functions for pandas, Polars and Arrow tables, without Spark.

`frame` converts a user's table to Arrow and results back, and `run` applies an operator.
"""
