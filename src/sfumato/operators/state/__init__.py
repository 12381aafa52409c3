"""The state of operators: declarations, snapshots and batches of uncertain tuples."""
