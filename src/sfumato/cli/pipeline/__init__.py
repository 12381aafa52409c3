"""The pipeline file: tables and keys (`model`), and reading (`parse`).

`checks` finds problems before Spark starts; `frames` creates the frames of the sources.
"""
