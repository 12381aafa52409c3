"""Aggregate requests, and distributions of aggregates over independent tuples.

The operators of windows and ranking may use these modules.
"""
