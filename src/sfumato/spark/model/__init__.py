"""Spark frames and columns: alternatives, expressions, repositories, untrusted text.

`frame` reads a user's frame, `outside_text` checks text before Spark gets it, `declared_frame`
handles frames that Spark has not analysed.
"""
