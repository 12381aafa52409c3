"""Contents and aggregates of windows: count windows, extents, sessions, attribute-delta windows.

`count/front_stack` explains how the moments of a count window are maintained.
May be imported by the window operators; joins and rankings use these operators.
"""
