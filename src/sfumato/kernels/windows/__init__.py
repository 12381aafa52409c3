"""Where windows begin and what they hold: count windows, extents, attribute-delta windows.

`count/front_stack` says how the moments of a count window are kept.
Open to the operators of windows; joins and rankings go through these.
"""
