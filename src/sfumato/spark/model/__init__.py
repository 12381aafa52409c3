"""Spark frames and columns: alternatives, expressions, repositories, untrusted SQL.

`frame` reads a user's frame, `outside_text` checks SQL before Spark gets it, `declared_frame`
handles frames that Spark has not analysed.
"""
