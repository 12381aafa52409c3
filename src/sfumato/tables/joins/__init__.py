"""Joins over Arrow tables: similar rows, incomplete rows, and rows of equal extents.

Open: the operators, their configurations, `similarity_query` and `extent_join_job`.
"""
