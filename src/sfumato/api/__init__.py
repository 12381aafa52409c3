"""The public functions, once, for Spark DataFrames and for tables in memory.

Each checks its arguments, describes the rows that the operator reads, and runs the operator with
the engine of its frame. Layers above import these modules; users import `sfumato`.
"""
