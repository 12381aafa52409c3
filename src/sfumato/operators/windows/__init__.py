"""Aggregates over count windows, extents and attribute-delta windows.

`uncertain_window` determines the contents of a window; `count` and the delta window move with
every arrival. Public: UncertainWindow, and the three `*_aggregate` operators.
"""
