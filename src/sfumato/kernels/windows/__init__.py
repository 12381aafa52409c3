"""Begins and contents of windows: count windows, extents, attribute-delta windows.

`count/front_stack` explains how the moments of a count window are maintained.
May be imported by the operators of windows; joins and rankings use these operators.
"""
