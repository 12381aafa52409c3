"""Pipeline files: their tables and keys, parsing, checks before Spark starts, and frames."""
