"""Aggregate requests, and distributions of aggregates, for operators of windows and ranking."""
