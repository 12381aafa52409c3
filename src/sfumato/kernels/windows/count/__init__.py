"""Windows of the newest existing tuples: their bounds, and aggregates over them.

The state is kept from one arrival to the next, so that an arrival costs O(sqrt(w)).
Open to the operators of count windows.
"""
