"""Aggregate requests, and distributions of aggregates.

The operators of windows, joins and ranking may use these modules.
"""
