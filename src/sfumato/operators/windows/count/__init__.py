"""Aggregates over windows of the newest existing tuples, one answer an arrival.

Open to the tables of windows: `CountWindowAggregate`; the rest is its parts.
"""
