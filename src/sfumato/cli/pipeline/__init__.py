"""Pipeline files: their tables and keys, parsing, checks before Spark starts, and frames.

`model` defines the tables and keys, `environment` fills in and hides variables, `parse` reads
files, `permissions` and `checks` refuse pipelines, and `frames` reads sources.
"""
