"""Frames and columns of Spark: alternatives, expressions, validity, repositories, texts of users.

Open to `api` and to `sql`.
"""
