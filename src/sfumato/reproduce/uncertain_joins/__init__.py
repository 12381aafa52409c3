"""Paper B: joins of two streams of objects known by samples (B7 to B11)."""
