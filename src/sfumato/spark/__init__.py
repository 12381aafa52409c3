"""The public functions from DataFrame to DataFrame, one a file; nothing is decided here.

`model` reads frames, `runtime` runs operators on them, `replay` plays files as streams.
Open to `sql` and `cli`; users import the names from the package.
"""
