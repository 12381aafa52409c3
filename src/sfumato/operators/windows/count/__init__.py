"""Aggregates over windows of the newest existing tuples, with one answer per arrival.

The tables of windows use `CountWindowAggregate`; the other modules are its parts.
"""
