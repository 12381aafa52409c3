"""Continuous queries on Spark over uncertain, incomplete and out-of-order streams."""
