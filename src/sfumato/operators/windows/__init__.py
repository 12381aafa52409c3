"""Aggregates over count windows, extents, sessions and attribute-delta windows."""
