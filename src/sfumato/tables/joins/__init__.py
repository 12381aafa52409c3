"""Joins over Arrow tables: by similarity, of incomplete rows, by extent, and as-of."""
