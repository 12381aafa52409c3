"""What operators keep and how it is saved: snapshots and batches of uncertain tuples.

Open to all operators and tables.
"""
