"""Joins over Arrow tables: similar rows, incomplete rows, extent by extent.

Open: the operators, their configurations, `similarity_query` and `extent_join_job`.
"""
