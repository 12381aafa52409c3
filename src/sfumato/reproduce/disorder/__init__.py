"""Paper C: how long to wait for late tuples (C7 and C8)."""
