"""Aggregates over count windows, extents and attribute-delta windows.

`uncertain_window` says who is inside; `count` and the delta window move on with every arrival.
Open: UncertainWindow, and the three `*_aggregate` operators.
"""
