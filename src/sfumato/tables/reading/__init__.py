"""Rows of users' tables as operators read them, and results under users' names.

Open: `frame` (the schema of a frame), `rows` (what an operator reads of a table), `expressions`,
`types`, `results`, `job` and `chain`.
"""
