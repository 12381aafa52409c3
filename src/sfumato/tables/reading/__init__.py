"""Rows of users' tables as operators read them: what the adapter for Spark says in SQL, for Arrow.

Open: `frame` (what a frame's schema says), `input` (what an operator reads of a table),
`expressions` and their `parse`, `types`.
"""
