"""The public functions, for both Spark DataFrames and tables in memory.

Each function checks its arguments, describes the rows that the operator reads, and runs the
operator with the engine of its frame. Layers above import these modules; users import `sfumato`.
"""
