"""Joins of uncertain tuples: the tuple store, its grid, regions, and four join algorithms.

Each join algorithm has its own file; `match_probability` is the only definition of a match.
May be imported by the operators of joins.
"""
