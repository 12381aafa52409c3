"""The pipeline file: what it may say (`keys`), its values (`model`), how it is read (`parse`).

`checks` finds what is wrong before Spark starts, `frames` makes frames of its sources.
"""
