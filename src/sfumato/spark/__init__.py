"""Operators over frames of Spark; nothing about answers is decided here.

`model` describes frames and columns, `runtime` runs operators on them, `replay` plays files.
Open to `api`, `sql` and `cli`; users import the names from the package.
"""
