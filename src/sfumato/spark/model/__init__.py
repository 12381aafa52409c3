"""Spark frames and columns: alternatives, expressions, repositories, untrusted SQL.

`frame` reads a user's frame, `untrusted_sql` checks SQL before Spark receives it, `declared_frame`
handles frames that Spark has not analysed.
"""
