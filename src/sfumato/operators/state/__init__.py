"""The state of operators: declarations, snapshots and batches of uncertain tuples.

Open to all operators and tables.
"""
