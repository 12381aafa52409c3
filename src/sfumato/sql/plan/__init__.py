"""From syntax tree to frames: what a query asks for, checked, and put together.

Open to `sql` and, for pipelines, to `cli`.
"""
