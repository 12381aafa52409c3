"""Paper E: joins of two streams whose objects lack attributes (E1 to E6)."""
