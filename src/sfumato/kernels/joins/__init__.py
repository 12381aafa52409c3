"""Joins of uncertain tuples: the tuple store, the selection of candidates, and the joins.

`match_probability` is the only definition of a match.
May be imported by the operators of joins.
"""
