"""Aggregate requests, and their distributions over independent tuples.

Open to the operators of windows and ranking.
"""
