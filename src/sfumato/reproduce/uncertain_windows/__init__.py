"""Paper A: count windows over tuples that may not exist, and joins over them (A4 to A15)."""
