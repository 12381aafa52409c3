"""Aggregates over count windows, extents and attribute-delta windows.

`uncertain_window` says who is inside; the `moving_*` files are brought up to date by every arrival.
Open: UncertainWindow, and the three `*_aggregate` operators.
"""
