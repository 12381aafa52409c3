"""Aggregates over count windows: `CountWindowAggregate` and its parts."""
