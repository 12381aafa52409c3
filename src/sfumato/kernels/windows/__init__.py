"""Where windows begin and what they hold: count windows, extents, attribute-delta windows.

The `*_state` files say how each moving aggregate is kept.
Open to the operators of windows; joins and rankings go through these.
"""
