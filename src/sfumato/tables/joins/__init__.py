"""Joins over Arrow tables: similar, incomplete, extent by extent.

Open: the configurations and their table operators; what users ask for (`query`, `extent_query`).
"""
