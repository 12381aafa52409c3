"""Pairs of uncertain tuples that match: the store of tuples, regions, and three strategies.

A strategy is one file; `match_probability` is the one definition of a match.
Open to the operators of joins.
"""
