"""Similarity joins, joins of incomplete rows, extent joins and as-of joins over Arrow tables.

Contents: the operators, their configs, and the arguments of the public functions.
"""
