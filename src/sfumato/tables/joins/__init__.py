"""Joins over Arrow tables: by similarity, of incomplete rows, by extent, and as-of.

Contents: the operators, their configs, and the arguments of the public functions.
"""
