"""Spark frames and columns: alternatives, expressions, repositories, untrusted SQL."""
