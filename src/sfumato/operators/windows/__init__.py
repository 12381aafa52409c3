"""Aggregates over count windows, extents, sessions and attribute-delta windows.

Public: UncertainWindow, EarlyAnswers and the `*Aggregate` operators.
"""
