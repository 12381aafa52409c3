"""Joins of uncertain tuples: the store of tuples, its grid, regions, and four joins.

Each join is one file; `match_probability` is the only definition of a match.
May be imported by the operators of joins.
"""
