"""Windows of the newest existing tuples: their bounds, and aggregates over them.

State is kept between arrivals, so that an arrival costs O(sqrt(w)).
May be imported by the operators of count windows.
"""
